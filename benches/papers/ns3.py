"""Experiments of the thesis on fast prototyping of network protocols with ns-3 (Porto 2015)."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import routing_planes
from common import BUILT, ROOT, TARGET, compile_c, remove, run_experiment

from .claims import Claim, Plot, Result, Row, Size, experiment, is_there, number, progress, ratio
from .programs import bench

NS3 = "/usr/include/ns3/fd-net-device.h"
WITH_NS3 = "Debian's libns3-dev has ns-3's emulation; without it that column is left out."


def routed() -> pathlib.Path:
    """The daemon, built if cargo is there."""
    named = os.environ.get("BELLJAR_ROUTED")
    path = pathlib.Path(named) if named else TARGET / "release" / "belljar-routed"
    if not path.exists():
        cargo = shutil.which("cargo", path=f"{os.environ['PATH']}:{pathlib.Path.home() / '.cargo/bin'}")
        if named or cargo is None:
            raise RuntimeError(f"{path} does not exist: cargo build --release -p belljar-routed builds it")
        print("  building belljar-routed", file=sys.stderr, flush=True)
        subprocess.run([cargo, "build", "--quiet", "--release", "-p", "belljar-routed", "--target-dir", TARGET], cwd=ROOT, check=True)
    return path


def _planes(planes: list[str], rates: list[int], size: Size, routers: list[int], sizes: list[int]) -> list[dict[str, Any]]:
    """Figures of routing_planes.py; its file is written while it runs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = pathlib.Path(folder, "planes.json")
        command = [sys.executable, ROOT / "benches" / "routing_planes.py", "--routers", *routers, "--planes", *planes, "--rates", *rates, "--sizes", *sizes,
                   "--runs", size.pick(1, 3, 5), "--seconds", size.pick(0.3, 1, 30), "--routed", routed(), "--json", out]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0 or not out.exists():
            raise RuntimeError(f"benches/routing_planes.py: {done.stderr.strip()}")
        return json.loads(out.read_text())


def _median(figures: list[dict[str, Any]], key: str, **of: Any) -> float:
    values = [figure[key] for figure in figures if all(figure[name] == value for name, value in of.items())]
    return statistics.median(values) if values else float("nan")


@experiment("ns3-planes", "tables A.1 to A.6", minutes=4, needs=("ip:iproute2",), root=True, full="30 s each, five runs.", differs="""
    The thesis's router is an Atom N270 at 100 Mbit/s Ethernet, which fills at 8 to 16 Mbit/s with ns-3. Sender, router and receiver are namespaces of this machine here, which share its cores, and rates are those at
    which each data plane is full; the ratios between planes are compared. """ + WITH_NS3)
def planes(size: Size) -> Result:
    """Forwarding of UDP by data planes in the kernel, in user space, and in ns-3's emulation."""
    ns3 = is_there(NS3)
    names = ["kernel", "tc-bpf", "af-xdp"] + (["ns-3"] if ns3 and size.name != "small" else [])
    figures = _planes(names, [0], size, [1], [160] if size.name == "small" else [160, 1470])
    mbit = {name: _median(figures, "mbit", plane=name, size=160, load="udp") for name in names}
    trips = {name: _median(figures, "rtt_us", plane=name) for name in names}
    progress(", ".join(f"{name} {value:.1f} Mbit/s" for name, value in mbit.items()))
    to_ns3 = lambda name: ratio(mbit[name], mbit.get("ns-3", 0.0))  # noqa: E731
    return Result(
        [*(Row(f"{name}: payload of UDP packets of 160 bytes, round trip", {"kernel": "68 Mbit/s of 71 offered", "af-xdp": "31.7 Mbit/s (user space)", "ns-3": "14.4 Mbit/s at most"}.get(name, ""),
               f"{number(value, 'Mbit/s')}, {number(trips[name], 'us')}") for name, value in mbit.items()),
         Row("kernel to ns-3", "4.8 times, at the link's limit", f"{to_ns3('kernel'):.1f} times"), Row("user space to ns-3", "2.2 times", f"{to_ns3('af-xdp'):.1f} times")],
        [Claim("the kernel forwards more than ns-3's emulation (4 times)", to_ns3("kernel") > 4 if "ns-3" in mbit else None, idle=True),
         Claim("a data plane in user space does, too (2 times)", to_ns3("af-xdp") > 2 if "ns-3" in mbit else None, idle=True),
         Claim("every data plane forwards", all(value > 0 for value in mbit.values()))],
        Plot("bytes of a packet's payload", "Mbit/s", [(name, of, _median(figures, "mbit", plane=name, size=of, load="udp"))
                                                      for name in names for of in sorted({figure["size"] for figure in figures if figure["load"] == "udp"})], log_y=True))


@experiment("ns3-olsr", "tables A.9 to A.11", minutes=3, needs=("ip:iproute2",), root=True, full="30 s each, five runs.", differs="""
    `belljar-routed` with the kernel's data plane is the *real routing* of the thesis; olsrd is measured where BELLJAR_OLSRD names one. Rates are those at which each is full. """ + WITH_NS3)
def olsr(size: Size) -> Result:
    """An OLSR router: static routes, belljar-routed with the kernel's data plane, and ns-3's emulation."""
    ns3 = is_there(NS3) and size.name != "small"
    names = ["kernel", "routed"] + (["ns-3"] if ns3 else []) + (["olsrd"] if os.environ.get("BELLJAR_OLSRD") else [])
    figures = _planes(names, [0], size, [1], [160])
    mbit = {name: _median(figures, "mbit", plane=name, load="udp") for name in names}
    progress(", ".join(f"{name} {value:.1f} Mbit/s" for name, value in mbit.items()))
    gain, price = ratio(mbit["routed"], mbit.get("ns-3", 0.0)), ratio(mbit["routed"], mbit["kernel"])
    return Result(
        [*(Row(f"{name}, payload of UDP packets of 160 bytes", {"routed": "67.6 Mbit/s (real routing)", "ns-3": "9.1 Mbit/s at most", "olsrd": "69.4 Mbit/s"}.get(name, ""), number(value, "Mbit/s"))
           for name, value in mbit.items()),
         Row("real routing to ns-3's emulation", "19 times at 71 Mbit/s, 7.5 times its best", f"{gain:.1f} times"), Row("routed to static routes", "", f"{price:.0%}")],
        [Claim("routing in the kernel forwards at least 7 times as much as ns-3's emulation", gain > 7 if ns3 else None, timed=True),
         Claim("the daemon costs the kernel's forwarding less than a fifth", price > 0.8, timed=True)])


@experiment("ns3-nodes", "tables A.12 to A.15", minutes=4, needs=("ip:iproute2",), root=True, full="1 to 32 nodes, 30 s each, five runs.", differs="""
    Nodes are network namespaces with veths, as in the thesis, each with `belljar-routed`. The thesis offers 16 Mbit/s; here the line is filled. """ + WITH_NS3)
def nodes(size: Size) -> Result:
    """Lines of OLSR nodes on one machine: throughput over their number."""
    ns3 = is_there(NS3) and size.name != "small"
    routers = size.pick([1, 2], [1, 2, 4, 8], [1, 2, 4, 8, 16, 24, 32])
    names = ["routed"] + (["ns-3"] if ns3 else [])
    figures = _planes(names, [0], size, routers, [160])
    of = {(name, count, load): _median(figures, "mbit", plane=name, routers=count, load=load) for name in names for count in routers for load in ("udp", "tcp")}
    theirs = {("udp", 8): "16 (all) and 1.7", ("tcp", 8): "94 and 10.4", ("udp", 32): "1.5 and 0.38", ("tcp", 32): "60 and 2.6"}
    rows = [Row(f"{count} nodes, {load.upper()}, Mbit/s: routed{' and ns-3' if ns3 else ''}", theirs.get((load, count), ""), " and ".join(number(of[name, count, load]) for name in names))
            for load in ("udp", "tcp") for count in routers]
    for row in rows:
        progress(f"{row.quantity}: {row.ours}")
    last = routers[-1]
    return Result(rows, [
        Claim("every line forwards", all(of["routed", count, load] > 0 for count in routers for load in ("udp", "tcp"))),
        Claim("with namespaces a line of 8 nodes forwards at least 8 times as much as in ns-3", ratio(of["routed", last, "udp"], of["ns-3", last, "udp"]) > 8 if ns3 else None, timed=True)],
        Plot("nodes", "UDP, Mbit/s", [(name, count, of[name, count, "udp"]) for name in names for count in routers], log_x=True, log_y=True))


class Bridged(routing_planes.Line):
    """A line whose routers are bridges: both stations are in one network."""

    def receiver(self) -> str:
        return "10.8.0.2"

    def connect(self, plane: str) -> None:
        """Gives the line its bridges: the kernel's, or those of belljar-routed in user space."""
        quiet, last = routing_planes.quiet, self.nodes - 1
        for n in range(self.nodes):
            for name in self.interfaces(n):
                quiet(*self.inside(n, "ip", "address", "flush", "dev", name))
        for n, name, address in ((0, "right", "10.8.0.1/24"), (last, "left", self.receiver() + "/24")):
            quiet(*self.inside(n, "ip", "address", "add", address, "dev", name))
        for n in range(1, last):
            if plane == "kernel":
                quiet(*self.inside(n, "ip", "link", "add", "bridge", "type", "bridge"))
                for name in self.interfaces(n):
                    quiet(*self.inside(n, "ip", "link", "set", name, "master", "bridge"))
                quiet(*self.inside(n, "ip", "link", "set", "bridge", "up"))
                continue
            options = []
            for name, is_station in (("left", n == 1), ("right", n == last - 1)):
                options += ["-c" if is_station else "-i", name]
                if not is_station:
                    # Room for the header between bridges.
                    quiet(*self.inside(n, "ip", "link", "set", name, "mtu", "1600"))
            self.start(n, routed(), "bridge", *options, "--control", BUILT / f"control{os.getpid()}-{n}")
        self.reachable()


def _simulated_bridges(mbit: float, seconds: float) -> tuple[int, int]:
    """Datagrams received and lost over two bridges by the same daemon, simulated, with links of 100 Mbit/s."""
    hosts: dict[str, Any] = {
        "s": {"interfaces": {"eth0": "10.8.0.1/24"}, "processes": [{"start_time": "8 s", "model": {
            "type": "constant_rate", "to": "10.8.0.2:5001", "rate": f"{mbit} Mbit", "datagram_size": "160 B", "duration": f"{seconds} s"}}]},
        "d": {"interfaces": {"eth0": "10.8.0.2/24"}, "processes": [{"model": {"type": "sink", "port": 5001, "protocol": "udp"}}]}}
    for n, options in ((1, ["-c", "eth0", "-i", "eth1"]), (2, ["-i", "eth0", "-c", "eth1"])):
        hosts[f"b{n}"] = {"interfaces": {"eth0": f"10.{n}.0.1/24", "eth1": f"10.{n + 1}.0.2/24"},
                          "processes": [{"path": str(routed()), "args": ["bridge", *options], "expected_final_state": "running"}]}
    for host in hosts.values():
        host["routes"] = []
    line = {"latency": "10 us", "rate": "100 Mbit"}
    links = [{"between": ["s:eth0", "b1:eth0"], **line}, {"between": ["b1:eth1", "b2:eth0"], **line, "mtu": 1600}, {"between": ["b2:eth1", "d:eth0"], **line}]
    results, _ = run_experiment(json.dumps({"general": {"stop_time": f"{9 + seconds} s"}, "hosts": hosts, "links": links}), "--no-progress")
    with open(results / "flows.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "sink"]
    remove(results)
    return sum(int(row["datagrams"]) for row in rows), sum(int(row["lost"]) for row in rows)


@experiment("ns3-bridge", "tables A.7 and A.8", minutes=2, needs=("ip:iproute2",), root=True, full="30 s each, five runs.", differs="""
    The thesis's WMRP is not published; `belljar-routed bridge` is a layer-2 protocol of our own that forwards in user space, too. It is compared with the kernel's bridge, since ns-3 has no such protocol, and runs
    simulated with the thesis's links of 100 Mbit/s. The thesis's router is full at 44 Mbit/s; here the processor is another, and the line has no rate.""")
def bridge(size: Size) -> Result:
    """A layer-2 routing protocol with its data plane in user space: UDP packets of 160 bytes over two bridges, in namespaces and simulated."""
    seconds, turns = size.pick(0.3, 1, 30), size.pick(1, 3, 5)
    traffic = compile_c(routing_planes.HERE / "traffic.c", "traffic")
    rates: dict[str, list[float]] = {"kernel": [], "user space": []}
    offered: dict[str, list[float]] = {"kernel": [], "user space": []}
    for _ in range(turns):
        for plane in rates:
            with Bridged(2) as line:
                line.connect(plane)
                rates[plane].append(routing_planes.measure(line, traffic, "udp", 160, 0, seconds)["mbit"])
                offered[plane].append(routing_planes.measure(line, traffic, "udp", 160, 70.8, seconds)["mbit"])
    most, at_rate = ({plane: statistics.median(values) for plane, values in of.items()} for of in (rates, offered))
    got, lost = _simulated_bridges(60, size.pick(0.05, 1, 30))
    progress(", ".join(f"{plane} {value:.1f} Mbit/s" for plane, value in most.items()) + f"; simulated {got} received, {lost} lost")
    return Result(
        [Row("user space: payload of UDP packets of 160 bytes, 70.8 Mbit/s offered", "43.8 Mbit/s (WMRP), 9.3 in ns-3's emulation", number(at_rate["user space"], "Mbit/s")),
         Row("kernel's bridge, 70.8 Mbit/s offered", "", number(at_rate["kernel"], "Mbit/s")),
         Row("at most: user space, kernel's bridge", "", ", ".join(number(most[plane], "Mbit/s") for plane in ("user space", "kernel"))),
         Row("simulated over links of 100 Mbit/s, 60 Mbit/s offered: received, lost", "", f"{got:,}, {lost:,}")],
        [Claim("the same daemon forwards in namespaces and simulated", min(most["user space"], at_rate["user space"]) > 0 and got > 0),
         Claim("the simulation loses nothing below the rate of the links", lost == 0),
         Claim("in user space the bridge forwards more than the thesis's (43.8 Mbit/s)", at_rate["user space"] > 43.8, timed=True)])


@experiment("ns3-code", "figures 5.3 and 5.6", minutes=1, full="the same.", differs="""
    In the thesis a protocol is written for ns-3, and the lines counted are those that it needs besides for a real network. Belljar's protocols are Linux programs in simulation too, so there are none. ns-3's own OLSR is counted
    where BELLJAR_NS3 names a checkout.""")
def code(size: Size) -> Result:
    """Lines of code that a protocol needs for a real network beside those for simulation."""
    checkout = os.environ.get("BELLJAR_NS3")
    got = bench("routing_code", *(["--ns3", checkout] if checkout else []))["protocols"]
    paper = {"OLSR": "1.4 % more (real routing)", "the bridge, with its data plane in user space": "11 % more (WMRP)"}
    return Result([Row(name, paper.get(name, ""), f"{of['lines']:,} lines, {of['more']} more ({of['more'] / of['lines']:.1%})") for name, of in got.items()],
                  [Claim("a protocol for a real network needs at most 1.4 % more code than for simulation", all(of["more"] / of["lines"] < 0.014 for of in got.values()))])


@experiment("ns3-convergence", "section 5.2 (the same protocol everywhere)", minutes=2, root=True, full="lines of 2 to 16 nodes, 20 seeds.", differs="""
    The thesis shows that one implementation forwards in simulation and on real machines. Here the same daemon runs in simulation and in namespaces, and the time until OLSR has converged is compared; the time on
    the real kernel varies by the moment at which each daemon starts.""")
def convergence(size: Size) -> Result:
    """Time until OLSR by belljar-routed has converged on lines, simulated."""
    lines, seeds = size.pick(([2, 3], 2), ([2, 4, 8], 10), ([2, 4, 8, 16], 20))
    rows = [row for row in bench("routing_convergence", "--lines", *lines, "--seeds", seeds, "--seconds", size.pick(12, 40, 60), "--routed", routed()) if row["daemon"] == "routed"]
    middle = {row["nodes"]: statistics.median(row["seconds"]) for row in rows}
    return Result([Row(f"{count} nodes, median of {seeds} seeds", "", number(value, "s")) for count, value in middle.items()],
                  [Claim("every line converges", all(len(row["seconds"]) == seeds for row in rows))],
                  Plot("nodes", "s until converged", [("simulated", count, value) for count, value in middle.items()]))
