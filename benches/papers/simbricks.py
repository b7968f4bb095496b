"""Experiments of Li, Li, Kaufmann: SimBricks: End-to-End Network System Evaluation with Modular Simulation, SIGCOMM 2022."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import types
from typing import Any

import pcie
import simulators
from common import CPU, ROOT, TARGET, belljar, compile_c, environment, measure, remove, results_folder, run_experiment

from .claims import Claim, Plot, Result, Row, Size, experiment, is_there, number, positive, progress, ratio
from .programs import bench

TRANSFER = ROOT / "benches" / "pcie" / "transfer.c"
MIDDLEBOX = ROOT / "adapters" / "cosim" / "middlebox.py"


def _host(address: str, *arguments: str, start: str = "100 us", **more: Any) -> dict[str, Any]:
    program = str(compile_c(TRANSFER, "transfer"))
    return {"interfaces": {"eth0": address}, "processes": [{"path": program, "args": list(arguments), "start_time": start}], **more}


def _captures(folder: pathlib.Path) -> dict[str, str]:
    """Digests of all captures and output of the hosts: times to the nanosecond and bytes."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((folder / "hosts").rglob("*")) if path.is_file()}


def _ends(size: int) -> dict[str, dict[str, Any]]:
    return {"a": _host("10.0.0.1/24", "send", str(size), "10.0.0.2"), "b": _host("10.0.0.2/24", "receive", str(size), start="0 s")}


def _whole(size: int, latency: str = "600 us") -> dict[str, Any]:
    return {"general": {"stop_time": "2 s"}, "host_option_defaults": {"pcap_enabled": True}, "hosts": _ends(size),
            "links": [{"between": ["a", "b"], "latency": latency, "rate": "1 Gbit"}]}


def _half(size: int, host: str, socket: pathlib.Path, other: str, role: str) -> dict[str, Any]:
    """One of two Belljars: the host, and a channel of 500 us to the other one."""
    return {"general": {"stop_time": "2 s"}, "host_option_defaults": {"pcap_enabled": True}, "hosts": {host: _ends(size)[host]},
            "simulators": {other: {"latency": "500 us", "ends": "with peer", "ports": {"p": {"role": role, "socket": str(socket)}}}},
            "links": [{"between": [f"{host}:eth0", f"{other}:p"], "latency": "50 us", "rate": "1 Gbit", "reverse": {"rate": "unlimited"}}]}


def _two(folder: pathlib.Path, size: int) -> dict[str, str]:
    """The captures of both hosts, each in a Belljar of its own."""
    socket = folder / "both.sock"
    running = []
    for host, other, role in (("b", "a", "listen"), ("a", "b", "connect")):
        file = folder / f"{host}.yaml"
        file.write_text(json.dumps(_half(size, host, socket, f"with-{other}", role)))
        running.append(subprocess.Popen([belljar(), "run", file, "-o", folder / f"{host}.data", "--no-progress"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=600) for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError(f"a part ended badly: {said}")
    return _captures(folder / "a.data") | _captures(folder / "b.data")


def _boxed(size: int, box: list[str], **more: Any) -> dict[str, Any]:
    """The two hosts with a middlebox in Python between them: 50 us of links, two times 200 us of channels, 150 us of delay."""
    exp = _whole(size)
    line = {"latency": "25 us", "rate": "1 Gbit", "reverse": {"rate": "unlimited"}}
    return exp | {"simulators": {"box": {"command": box, "latency": "200 us", **more}},
                  "links": [{"between": ["a", "box:left"], **line}, {"between": ["b", "box:right"], **line}]}


BOX = [sys.executable, str(MIDDLEBOX), "{left}", "{right}", "--delay", "150"]


@experiment("simbricks-accuracy", "section 7.5", minutes=1, full="10 MB.", differs="""
    The paper cuts a link of ns-3, and the PCIe connection of gem5's e1000. Here a link is cut between two Belljars, and by a simulator in between. The PCIe connection of our e1000 is inside one process
    (`nics`) and not cut.""")
def accuracy(size: Size) -> Result:
    """A TCP transfer over a link in one simulation, over the same link between two simulations joined by a channel, and through a simulator with two channels."""
    count = size.pick(30_000, 2_000_000, 10_000_000)
    results, _ = run_experiment(json.dumps(_whole(count)), "--no-progress")
    whole = _captures(results)
    frames = sum((path.stat().st_size for path in (results / "hosts").rglob("*.pcap")))
    remove(results)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
        two = _two(pathlib.Path(folder), count)
    # Links of 25 us, channels of 200 us and a delay of 150 us at either end are 600 us.
    results, _ = run_experiment(json.dumps(_boxed(count, BOX)), "--no-progress")
    boxed = _captures(results)
    remove(results)
    same = lambda other: sum(other.get(name) == digest for name, digest in whole.items())  # noqa: E731
    progress(f"{same(two)} of {len(whole)} files are the same with two simulations, {same(boxed)} with a simulator between")
    return Result(
        [Row("files of the hosts (captures, output) that are the same, two simulations", "exactly the same", f"{same(two)} of {len(whole)}"),
         Row("the same, with a simulator between", "", f"{same(boxed)} of {len(whole)}"),
         Row("captures compared", "", number(frames / 1e6, "MB"))],
        [Claim("logs with time stamps match exactly when a link is cut between two simulations", two == whole),
         Claim("they match exactly through a simulator with two channels", boxed == whole)])


@experiment("simbricks-determinism", "section 7.6", minutes=1, full="the same with 10 MB.", differs="""
    The paper repeats its runs on different machines, ours are repeated on one, with 1 and 2 workers; the results also hold captures of every frame.""")
def determinism(size: Size) -> Result:
    """Five runs of two hosts with a simulator between that loses and delays frames: every file of the results."""
    count = size.pick(30_000, 1_000_000, 10_000_000)
    seen = []
    for turn in range(5):
        results, _ = run_experiment(json.dumps(_boxed(count, [*BOX, "--loss", "0.01", "--seed", "4"])), "--no-progress", "--parallelism", "12"[turn % 2])
        seen.append(_captures(results) | {"stats": hashlib.sha256((results / "sim-stats.json").read_bytes()).hexdigest()})
        remove(results)
    alike = sum(one == seen[0] for one in seen)
    return Result([Row("runs that are the same in every byte", "5 of 5", f"{alike} of 5"), Row("files compared in each", "", str(len(seen[0])))],
                  [Claim("simulations with deterministic parts are deterministic as a whole", alike == 5)])


@experiment("simbricks-dctcp", "figure 1", minutes=4, needs=("iperf", "python3-pandas"), full="thirteen thresholds, flows of 1 s.", differs="""
    The paper's figure has no values in its text; what it shows is that throughput falls below the link's rate for small thresholds, and that ns-3 alone shows it differently from the testbed. Here the judge is DCTCP's own
    theory: full use above rate x round trip / 7.""")
def dctcp(size: Size) -> Result:
    """Throughput of two DCTCP flows over one link of 10 Gbit/s over the marking threshold K, with an MTU of 4,000 bytes."""
    thresholds = size.pick([8, 120], [8, 16, 32, 40, 60, 80, 120, 160], [4, 8, 16, 24, 32, 40, 50, 60, 80, 100, 130, 160, 200])
    with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
        got = bench("dctcp", "--k", *thresholds, "--seconds", size.pick(0.16, 0.3, 1), "--folder", folder)
    rates = {row["k"] / 1000: row["gbits"] for row in got["rows"]}
    limit = got["limit_gbits"]
    above = [rate for k, rate in rates.items() if k >= 80]
    rising = all(low <= high * 1.01 for low, high in zip(list(rates.values()), list(rates.values())[1:]))
    return Result(
        [*(Row(f"K = {k:.0f} kB", "", number(rate, "Gbit/s")) for k, rate in rates.items()),
         Row("the link's payload rate; K from which theory has full use", "", f"{limit:.2f} Gbit/s; 60 kB")],
        [Claim("throughput rises with K, without a dip", rising),
         Claim("above theory's threshold the link is full (99 %)", min(above) > 0.99 * limit),
         Claim("below it some of the link is unused", min(rates.values()) < 0.9 * limit)],
        Plot("K / kB", "Gbit/s", [("both flows", k, rate) for k, rate in rates.items()] + [("the link's payload", k, limit) for k in rates]))


PAXOS = {"NOPaxos, switch": ("nopaxos", "switch"), "NOPaxos, host": ("nopaxos", "host"), "Multi-Paxos": ("paxos", "switch")}


@experiment("simbricks-nopaxos", "figure 10", minutes=4, needs=("make",), full="1 to 12 clients, each number.", differs="""
    One figure of the paper, the throughput of 78,000 requests a second, fixes the cost of a request on our hosts (docs/guide/nopaxos.md); latencies and ratios follow from the simulation. Leader and sequencer
    do not change, so there is no failover here.""")
def nopaxos(size: Size) -> Result:
    """Latency against throughput of NOPaxos with a switch and with a host as sequencer, and of Multi-Paxos."""
    subprocess.run(["make", "--silent", "-C", str(ROOT / "examples"), "built/nopaxos"], check=True)
    clients = size.pick([1, 4], [1, 2, 4, 8, 12], list(range(1, 13)))
    example = ROOT / "examples" / "p4" / "nopaxos" / "nopaxos.yaml"
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, (protocol, sequencer) in PAXOS.items():
        curves[name] = []
        for number_ in clients:
            settings = {f"hosts.r{n}.processes.0.args": f"replica {protocol} {n}" for n in (1, 2, 3)}
            settings |= {f"hosts.c{n}.processes.0.args": f"client {protocol} 0.1" for n in range(1, number_ + 1)}
            settings |= {f"hosts.c{n}.processes": "[]" for n in range(number_ + 1, 13)}
            settings["switches.s1.runtime"] = f"[s1-runtime.json, by-{sequencer}.json]"
            with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
                data = pathlib.Path(folder, "data")
                measure([belljar(), "run", example, "-o", data, "--no-progress", *(word for item in settings.items() for word in ("--set", "=".join(item)))])
                said = [next((data / "hosts" / f"c{n}").glob("nopaxos.*.stdout")).read_text().replace(",", "").split() for n in range(1, number_ + 1)]
            rates = [float(words[0]) for words in said]
            curves[name].append((sum(rates), sum(rate * float(words[3]) for rate, words in zip(rates, said)) / sum(rates)))
        progress(f"{name}: " + ", ".join(f"{rate:,.0f}/s {latency:.1f} us" for rate, latency in curves[name]))
    base = {name: points[0][1] for name, points in curves.items()}
    most = {name: max(rate for rate, _ in points) for name, points in curves.items()}
    switch, host, paxos = PAXOS
    slower, faster, less = base[host] / base[switch] - 1, most[switch] / most[paxos] - 1, 1 - base[switch] / base[paxos]
    full = size.name != "small"
    return Result(
        [Row("latency of one request at a time, switch", "43 us", number(base[switch], "us")),
         Row("the same with a host as sequencer", "+ 23 %", f"+ {slower:.0%}"),
         Row("requests a second at most: switch, host", "78,000, 78,000", f"{most[switch]:,.0f}, {most[host]:,.0f}"),
         Row("throughput against Multi-Paxos", "+ 270 %", f"+ {faster:.0%}"),
         Row("latency against Multi-Paxos", "- 40 %", f"- {less:.0%}")],
        [Claim("a host as sequencer adds latency (15 to 40 %)", 0.15 < slower < 0.4),
         Claim("both sequencers saturate at the same rate (5 %)", abs(most[switch] / most[host] - 1) < 0.05 if full else None),
         Claim("NOPaxos has 3 to 4.5 times the throughput of Multi-Paxos", 2 < faster < 3.5 if full else None),
         Claim("and 30 to 50 % less latency", 0.3 < less < 0.5)],
        Plot("requests a second", "latency / us", [(name, *point) for name, points in curves.items() for point in points]))


@experiment("simbricks-memcached", "figure 8", minutes=6, needs=("memcached", "ip:iproute2"), full="40, 200, 520 and 1,000 hosts for 10 simulated seconds.", differs="""
    The paper has a server of 96 hyperthreads for each rack, so its time stays nearly the same; one machine does all the work here, so the cost of a host is what can stay the same. Hosts are processes without a CPU model,
    not gem5 or QEMU. The cost grows where the state of all hosts no longer fits the caches.""")
def memcached(size: Size) -> Result:
    """Racks of 40 hosts, half of them memcached and half clients: CPU of a host and simulated second over the number of hosts."""
    racks = size.pick([1, 2], [1, 5, 25], [1, 5, 13, 25])
    more = size.pick(["--rack", 4, "--seconds", 0.01, 0.03, "--hosts-seconds", 0], ["--seconds", 0.2, 0.6, "--hosts-seconds", 60], ["--seconds", 2, 10])
    rows = bench("racks", "--racks", *racks, "--repeat", 1, *more)["rows"]
    costs = {row["hosts"]: row["cpu_ms"]["median"] for row in rows}
    turns = {row["hosts"]: row["turns"][0] for row in rows}
    growth = ratio(costs[rows[-1]["hosts"]], costs[rows[0]["hosts"]])
    return Result(
        [*(Row(f"{hosts} hosts: CPU of a host and simulated second, time of 10 s, a request", "15.5 h of gem5, 2.2 h of QEMU" if hosts == 40 else "17.6 h of gem5, 5.6 h of QEMU" if hosts == 1000 else "",
               f"{number(cost, 'ms')}, {number(turns[hosts]['wall'] * hosts * 10 / 60, 'min')}, {number(turns[hosts]['mean_us'], 'us')}") for hosts, cost in costs.items()),
         Row("growth from 40 to 1,000 hosts", "1.14 times (gem5), 2.5 times (QEMU)", f"{growth:.1f} times the cost of a host")],
        [Claim("racks of up to 1,000 hosts run, and every request is answered", True),
         Claim("a host costs at most 2.5 times as much among 1,000 as among 40", growth < 2.5, timed=True)],
        Plot("hosts", "CPU of a host and simulated second / ms", [("ours", hosts, cost) for hosts, cost in costs.items()]))


@experiment("simbricks-pcie", "section 8.1", minutes=2, full="2 MB, with SimBricks' own controllers if BELLJAR_SIMBRICKS names a tree that is built.", differs="""
    Intel's controller is our e1000 at 1 Gbit/s, the paper's an i40e at 10 Gbit/s. Corundum itself is measured only with SimBricks' models, from a tree that is built; docs/performance.md has such a
    measurement: 21.8 % less with its behavioural model and a CPU, sending.""")
def pcie_latency(size: Size) -> Result:
    """TCP throughput of hosts with a network controller when the latency of PCI doubles from 500 ns to 1 us, with a CPU model."""
    tree = os.environ.get("BELLJAR_SIMBRICKS")
    got = bench("pcie", "--cpu", "--bytes", size.pick(100_000, 300_000, 2_000_000), *(["--simbricks", tree] if tree else []))
    changes = {(row["controller"], row["sends"], row["cpu"]): row["mbits"][1] / row["mbits"][0] - 1 for row in got["rows"]}
    ours = [change for (name, _, _), change in changes.items() if name == "e1000"]
    corundum = [change for (name, sends, cpu), change in changes.items() if "behavioural" in name and sends and cpu]
    shown = lambda value: f"{value:+.1%}"  # noqa: E731
    return Result(
        [Row(f"{name}, {'sends' if sends else 'receives'}{', with a CPU' if cpu else ''}", "0 %" if name == "e1000" else "- 21.2 %" if "Corundum" in name else "", shown(change))
         for (name, sends, cpu), change in changes.items()],
        [Claim("the throughput of the Intel controller does not change (1 %)", max(map(abs, ours)) < 0.01),
         Claim("that of Corundum falls by 15 to 30 %", 0.15 < -corundum[0] < 0.3 if corundum else None)])


def _settings(**more: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(simbricks=None, rate=0, rounds=more.pop("rounds"), **more)


@experiment("simbricks-latency", "figure 9, section 7.3.1", minutes=3, full="latencies down to 1 ns, 40,000 rounds.", differs="""
    In the paper two gem5 hosts take most of the time, so that synchronising a thousand times as often adds 59 %. Our hosts take 50 ms of CPU a simulated second, so that rounds are nearly all of the time, and the
    growth is much larger while the time itself is a ten-thousandth of the paper's.""")
def latency(size: Size) -> Result:
    """Cost of a simulated second over the latency of the channel: two hosts that exchange 10,000 datagrams a second through a simulator."""
    latencies = size.pick([1000, 500], [1000, 500, 100, 50], [1000, 500, 100, 50, 10, 1])
    a = _settings(rounds=size.pick(400, 1600, 40_000))
    costs: dict[str, list[tuple[int, float]]] = {"without a channel": [], "through two channels": []}
    for one in latencies:
        for name, kind in (("without a channel", "none"), ("through two channels", "busy")):
            long = a.rounds * 250 if kind == "none" else max(400, a.rounds * 250 * one // 1000)
            runs = [[simulators.talked(a, kind, one, us)[1] for us in (long // 4, long)] for _ in range(size.pick(1, 3, 5))]
            cpu = statistics.median(much - little for little, much in runs) / ((long - long // 4) / 1e6)
            costs[name].append((one, positive(cpu, f"the cost {name} at {one} ns") if size.name != "small" else cpu))
        progress(f"{one} ns: " + ", ".join(f"{name} {values[-1][1]:.3f} s of CPU" for name, values in costs.items()))
    busy = dict(costs["through two channels"])
    growth = ratio(busy[latencies[-1]], busy[latencies[0]])
    return Result(
        [*(Row(f"CPU of a simulated second, channels of {one} ns", "", number(cost, "s")) for one, cost in busy.items()),
         Row("without a channel", "", number(statistics.median(cost for _, cost in costs["without a channel"]), "s")),
         Row(f"growth from {latencies[0]} ns to {latencies[-1]} ns", "1.59 times, to 1 ns", f"{growth:.1f} times")],
        [Claim("the cost grows by less than the number of rounds", growth < latencies[0] / latencies[-1], timed=True),
         Claim("the cost grows by at most 59 %", growth < 1.59, timed=True)],
        Plot("latency of the channels / ns", "CPU of a simulated second / s", [(name, *point) for name, values in costs.items() for point in values], log_x=True, log_y=True))


@experiment("simbricks-generators", "section 7.3.2", minutes=4, full="40,000 rounds.", differs="""
    The paper gives a core to each of 32 generators and their switches, and also has generators at 100 Gbit/s, which take hours here. On two cores Belljar runs generators in turns, so times are many times longer, and switches of one Belljar do not run in
    processes of their own. What can be compared is how the time grows with the generators, and what decomposition changes.""")
def generators(size: Size) -> Result:
    """Packet generators with channels of 500 ns at one switch, and at four ToR switches below another one: time of a simulated second without traffic."""
    few, many = 2, size.pick(4, 32, 32)
    rounds, turns = size.pick((40, 1), (1600, 3), (40_000, 3))
    seconds = {}
    for name, count, tors in ((f"{few} at a switch", few, 1), (f"{many} at a switch", many, 1), (f"{many} at four ToRs and a core", many, 4)):
        rate = statistics.median(simulators.ours(_settings(rounds=rounds * (8 if count == few else 1)), False, count, tors, 500)[0] for _ in range(turns))
        seconds[name] = 2_000_000 / rate
        progress(f"{name}: {rate:,.0f} rounds a second")
    one, all_, apart = seconds.values()
    return Result(
        [Row(name, paper, number(value, "s of a simulated second")) for (name, value), paper in zip(seconds.items(), ("2.6 s", "17.6 s", "9.6 s"))]
        + [Row("growth from 2 to 32", "6.8 times", f"{all_ / one:.1f} times"), Row("saved by decomposition", "45 %", f"{1 - apart / all_:.0%}")],
        [Claim("one network simulator is a bottleneck: the time grows with the generators", all_ > 2 * one, timed=True),
         Claim("decomposition into ToRs makes it faster", apart < all_, timed=True)])


def _proxied(exp: dict[str, Any], folder: pathlib.Path) -> tuple[dict[str, str], float]:
    """Captures and time of a run whose middlebox is behind two proxies on loopback."""
    exp = json.loads(json.dumps(exp))
    sockets = {port: folder / f"{port}.sock" for port in ("left", "right")}
    far = {port: folder / f"far-{port}.sock" for port in sockets}
    box = exp["simulators"]["box"]
    options = box.pop("command")[4:]
    box["ports"] = {port: {"socket": str(path)} for port, path in sockets.items()}
    file, data = folder / "exp.yaml", folder / "data"
    file.write_text(json.dumps(exp))
    started: list[subprocess.Popen[str]] = []
    try:
        started.append(subprocess.Popen([belljar(), "channel-proxy", "--listen", "127.0.0.1:0", *(f"connect:{path}:sync=true" for path in sockets.values())],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        address = (started[0].stdout and started[0].stdout.readline() or "").strip()
        started.append(subprocess.Popen([belljar(), "channel-proxy", "--connect", address, *(f"listen:{path}:{path}-memory:sync=true" for path in far.values())],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        started.append(subprocess.Popen([sys.executable, MIDDLEBOX, *(f"connect:{path}:sync=true:latency=200000" for path in far.values()), *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        began = time.monotonic()
        measure([belljar(), "run", file, "-o", data, "--no-progress"])
        took = time.monotonic() - began
        for process in started:
            process.communicate(timeout=60)
    finally:
        for process in started:
            process.kill()
            process.wait()
    return _captures(data), took


@experiment("simbricks-proxies", "section 7.4.2", minutes=1, full="10 MB.", differs="""
    Both proxies are on this machine, joined by loopback; there is one proxy, over TCP, and none over RDMA. The paper's latency of an unsynchronised run through its sockets proxy (305 us instead of 71) has no counterpart: runs here are
    synchronised. With two cores the proxies take processor time from the simulation.""")
def proxies(size: Size) -> Result:
    """A synchronised simulation with a simulator beside it, and with the same simulator behind a pair of proxies over TCP."""
    count = size.pick(30_000, 1_000_000, 10_000_000)
    exp = _boxed(count, BOX)
    began = time.monotonic()
    results, _ = run_experiment(json.dumps(exp), "--no-progress")
    near = time.monotonic() - began
    expected = _captures(results)
    remove(results)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
        got, far = _proxied(exp, pathlib.Path(folder))
    progress(f"without proxies {near:.2f} s, with {far:.2f} s")
    return Result(
        [Row("files of the hosts that are the same", "", f"{sum(got.get(name) == digest for name, digest in expected.items())} of {len(expected)}"),
         Row("time with proxies to time without", "1", f"{far / near:.1f}")],
        [Claim("proxies change nothing in the results", got == expected),
         Claim("proxies are no bottleneck of synchronised simulations (10 %)", far < 1.1 * near, timed=True)])


@experiment("simbricks-rtl", "section 7.2", minutes=2, needs=("verilator", "g++", "make"), full="the same.", differs="""
    The RTL is a learning switch of four ports in Verilog (`adapters/cosim/rtl/switch.v`), not Corundum, and hosts are processes.""")
def rtl(size: Size) -> Result:
    """A switch in Verilog in the loop, by Verilator: pings through it, twice."""
    folder = ROOT / "adapters" / "cosim" / "rtl"
    subprocess.run(["make", "--silent", "-C", str(folder)], check=True, capture_output=True)
    seen, took = [], 0.0
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as data:
            _, usage = measure([belljar(), "run", folder / "switch.yaml", "-o", f"{data}/data", "--no-progress"])
            took = usage.wall
            seen.append(_captures(pathlib.Path(data, "data")))
            text = "".join(path.read_text() for path in pathlib.Path(data, "data", "hosts").glob("*/ping.*.stdout"))
    trips = [float(ms) for ms in re.findall(r"time=([\d.]+) ms", text)]
    return Result([Row("pings answered through the RTL", "", str(len(trips))), Row("round trip", "", number(statistics.median(trips) if trips else 0, "ms")),
                   Row("time of a run", "", number(took, "s"))],
                  [Claim("RTL works in the loop of a simulation with unmodified programs", bool(trips)), Claim("two runs are the same in every byte", seen[0] == seen[1])])


#: Kinds of hosts with their settings, and the latency and throughput of the kind that they are nearest to in table 3.
HOSTS: dict[str, dict[str, Any]] = {"program": {}, "program, CPU model": {"cpu": CPU | {"interrupt": "2 us"}}, "QEMU": {"machine": {"type": "qemu"}}}
CONTROLLERS = ("none", "e1000 over PCI", "QEMU's e1000", "QEMU's virtio-net")


def kernel() -> str | None:
    """The kernel of machines: that of BELLJAR_KERNEL, the machine's own, or that which tests/install has unpacked."""
    named = os.environ.get("BELLJAR_KERNEL")
    images = sorted(pathlib.Path("/boot").glob("vmlinuz-*")) + sorted(TARGET.glob("machine/boot/vmlinuz-*"))
    return named or (str(images[-1]) if images else None)


def _netperf(host: str, controller: str, milliseconds: int, trips: int) -> tuple[float, float, float]:
    """Mbit/s and microseconds of two hosts of a kind at a switch, and the time of the run."""
    program = str(compile_c(pathlib.Path(__file__).with_name("netperf.c"), "netperf", "-static"))
    is_machine = host == "QEMU"
    # A machine boots for some four seconds.
    begin, stop = ("8 s", "30 s") if is_machine else ("1 ms", "20 s")
    exp: dict[str, Any] = {"general": {"stop_time": stop}, "switches": ["s"], "hosts": {}, "links": []}
    for name, address, arguments in (("a", "10.0.0.1", ["10.0.0.2", str(milliseconds), str(trips)]), ("b", "10.0.0.2", [])):
        process = {"path": program, "args": arguments, "start_time": begin if arguments else "0 s", "expected_final_state": {"exited": 0} if arguments else "running"}
        settings = json.loads(json.dumps(HOSTS[host]))
        if is_machine:
            settings["machine"]["nic"] = "virtio-net" if "virtio" in controller else "e1000"
        exp["hosts"][name] = settings | {"processes": [process]}
        if controller == "e1000 over PCI":
            exp["hosts"][name]["devices"] = [{"pci": f"nic-{name}", "driver": "e1000", "latency": "500 ns"}]
            exp.setdefault("nics", {})[f"nic-{name}"] = {}
        exp["hosts"][name]["interfaces"] = {"eth0": f"{address}/24"}
        end = f"nic-{name}:eth" if controller == "e1000 over PCI" else f"{name}:eth0"
        exp["links"].append({"between": [end, "s"], "latency": "500 ns", "rate": "1 Gbit"})
    image = kernel()
    with environment(**({"BELLJAR_KERNEL": image} if image else {})):
        began = time.monotonic()
        results, _ = run_experiment(json.dumps(exp), "--no-progress")
        took = time.monotonic() - began
    said = "".join(path.read_text() for path in results.glob("hosts/a/netperf.*.stdout"))
    remove(results)
    found = re.search(r"stream ([\d.]+) rr ([\d.]+)", said)
    if found is None:
        raise RuntimeError(f"netperf on {host} with {controller} says nothing")
    return float(found[1]), float(found[2]), took


@experiment("simbricks-netperf", "tables 1 and 3", minutes=5, needs=("gcc",), full="streams of 1 s and 10,000 round trips.", differs="""
    Links have 1 Gbit/s, that of an e1000, where the paper's have 10 Gbit/s; its controllers of i40e's class and Corundum are missing. Hosts are programs, with and without a CPU model, and Debian's kernel in QEMU, if qemu-system-x86, busybox-static and
    a kernel are there (docs/guide/machines.md); there is no gem5. QEMU's instructions take 1 ns each, so a machine is slower than the paper's at 4 GHz. All runs are synchronised and exact; the paper's fastest are not.""")
def netperf(size: Size) -> Result:
    """TCP_STREAM and TCP_RR between two hosts at a switch, over kinds of hosts and of network controllers."""
    milliseconds, trips = size.pick((5, 20), (100, 500), (1000, 10_000))
    pairs = [(host, controller) for host in HOSTS for controller in CONTROLLERS if (host == "QEMU") == controller.startswith("QEMU")]
    if size.name == "small" or not (is_there("qemu-system-x86_64") and is_there("busybox") and kernel()):
        pairs = [(host, controller) for host, controller in pairs if host != "QEMU"]
    rows, rates, trips_of = [], {}, {}
    for host, controller in pairs:
        mbit, microseconds, took = _netperf(host, controller, *((milliseconds // 5, trips // 5) if host == "QEMU" else (milliseconds, trips)))
        rates[host, controller], trips_of[host, controller] = mbit, microseconds
        progress(f"{host}, {controller}: {mbit:.1f} Mbit/s, {microseconds:.1f} us, {took:.1f} s")
        paper = {"QEMU": "8.85 Gbit/s, 17 us, 65 min (QEMU, Intel)", "program, CPU model": "8.84 Gbit/s, 20 us, 12.9 h (gem5, Intel)"}.get(host, "") if "e1000" in controller else ""
        rows.append(Row(f"{host}, {controller}: throughput, latency, time of the run", paper, f"{number(mbit, 'Mbit/s')}, {number(microseconds, 'us')}, {took:.1f} s"))
    programs = [key for key in pairs if key[0] != "QEMU"]
    return Result(rows, [
        Claim("every combination of host and network controller works", len(rates) == len(pairs)),
        Claim("programs fill the link with either controller (80 %)", min(rates[key] for key in programs) > 800 if size.name != "small" else None),
        Claim("a controller over PCI adds latency to a host", trips_of["program", "e1000 over PCI"] > trips_of["program", "none"]),
        Claim("a host with a CPU has more latency than one without", trips_of["program, CPU model", "none"] > trips_of["program", "none"])])
