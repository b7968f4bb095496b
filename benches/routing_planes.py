#!/usr/bin/env python3
"""Forwarding in network namespaces by the data planes of `belljar-routed`, with olsrd and with ns-3's emulation beside: the
experiments of the thesis on fast prototyping with ns-3, on this machine.

    benches/routing_planes.py                       one router: UDP of 160 and 1,470 bytes, TCP; all planes
    benches/routing_planes.py --routers 1 2 4 8     lines
    benches/routing_planes.py --rates 1 10 100 0    offered UDP payload in Mbit/s (0: as fast as it goes)
    benches/routing_planes.py --planes kernel tc-bpf af-xdp olsrd ns-3 --json out.json

A line is a sender, routers and a receiver, each in a namespace, joined by veths without offloads. The planes are measured in
turns, forth and back, so that the machine's moods meet all of them; figures are medians. What stands behind `x` is the median of the
ratios to the first plane in the same turn; two turns of one plane differ by 20 % on a busy machine, so this takes ten turns. `kernel`
is bare forwarding by static routes; `routed` is the same with OLSR by belljar-routed on all nodes (`routing_parts.py` says what of it
costs); `olsrd` with olsrd (BELLJAR_OLSRD names it). `ns-3` is a router in ns-3's real-time simulator with
FdNetDevices (compiled against libns3-dev, if it is installed); its saturation is the best of several offered rates, since it breaks
down under more. Needs root, and a machine without other work: forwarding is done on whatever processor the packets are sent on.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from common import BUILT, ROOT, TARGET, compile_c, table

HERE = ROOT / "benches" / "planes"
PLANES = ["kernel", "routed", "tc-bpf", "af-xdp", "olsrd", "ns-3"]
#: Offered payloads in Mbit/s among which the best stands for saturation where a plane breaks down under more.
STEPS = [4, 8, 16, 32, 64, 128]
#: Seconds at the beginning whose packets traffic.c does not count.
WARM = 0.1
FAST = ["--hello-interval", "500ms", "--tc-interval", "1s"]


def quiet(*command, check=True):
    return subprocess.run([str(word) for word in command], check=check, capture_output=True, text=True)


class Unreachable(Exception):
    """A line whose routers forward nothing."""


def worked(pids):
    """Seconds of processors that these processes have taken, those that have ended left out."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            # Fields 14 and 15 of proc(5)'s stat, behind the name in parentheses.
            ticks += sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def softirq_threads():
    return [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/comm") if path.read_text().startswith("ksoftirqd/")]


def consumed(process):
    """Waits for a process; gives the seconds of processors that it took."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


class Line:
    """sender - router 1 - ... - router N - receiver, in namespaces."""

    def __init__(self, routers, urgent=False):
        self.urgent = ["chrt", "-r", "10"] if urgent else []
        self.routers, self.prefix, self.processes = routers, f"planes{os.getpid()}-", []
        self.nodes = routers + 2

    def name(self, n):
        return f"{self.prefix}{n}"

    def inside(self, n, *command):
        return [*self.urgent, "ip", "netns", "exec", self.name(n), *[str(word) for word in command]]

    def interfaces(self, n):
        return [name for name, there in (("left", n > 0), ("right", n < self.nodes - 1)) if there]

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        for n in range(self.nodes):
            quiet("ip", "netns", "add", self.name(n))
            quiet(*self.inside(n, "ip", "link", "set", "lo", "up"))
            quiet(*self.inside(n, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                               "net.ipv4.conf.default.rp_filter=0", "net.ipv6.conf.all.disable_ipv6=1"))
        for k in range(self.nodes - 1):
            quiet("ip", "link", "add", "right", "netns", self.name(k), "type", "veth", "peer", "name", "left", "netns", self.name(k + 1))
            for n, interface, end in ((k, "right", 1), (k + 1, "left", 2)):
                quiet(*self.inside(n, "ip", "address", "add", f"10.9.{k}.{end}/24", "dev", interface))
                quiet(*self.inside(n, "ip", "link", "set", interface, "up"))
                quiet(*self.inside(n, compile_c(HERE / "traffic.c", "traffic"), "plain", interface))

    def static_routes(self, nodes=None):
        for n in range(self.nodes) if nodes is None else nodes:
            back = [f"10.9.{k}.0/24 via 10.9.{n - 1}.1" for k in range(n - 1)]
            self.set_routes(n, back + [f"10.9.{k}.0/24 via 10.9.{n}.2" for k in range(n + 1, self.nodes - 1)])

    def set_routes(self, n, routes):
        """Sets a node's routes, as `ip route` takes them."""
        lines = "".join(f"route replace {route}\n" for route in routes)
        subprocess.run(self.inside(n, "ip", "-batch", "-"), input=lines, text=True, check=True, capture_output=True)

    def start(self, n, *command):
        log = open(BUILT / "routing-planes.log", "ab")
        self.processes.append(subprocess.Popen(self.inside(n, *command), stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        return self.processes[-1]

    def receiver(self):
        return f"10.9.{self.routers}.2"

    def reachable(self, timeout=60):
        ping, late = self.inside(0, "ping", "-n", "-c", "1", "-W", "1", self.receiver()), time.monotonic() + timeout
        while quiet(*ping, check=False).returncode != 0:
            if time.monotonic() > late:
                raise Unreachable(f"the receiver is not reached after {timeout} s: {BUILT / 'routing-planes.log'}")
            time.sleep(0.02)

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        for n in range(self.nodes):
            quiet("ip", "netns", "delete", self.name(n), check=False)


def set_up(line, plane, routed):
    """Gives the line a plane's routers."""
    routers = range(1, line.routers + 1)
    options = lambda n: [o for name in line.interfaces(n) for o in ("-i", name)]
    if plane == "routed":
        for n in range(line.nodes):
            line.start(n, routed, "olsr", *options(n), *FAST, "--control", BUILT / f"control{os.getpid()}-{n}")
    elif plane == "olsrd":
        for n in range(line.nodes):
            conf = BUILT / f"olsrd{n}.conf"
            names = " ".join(f'"{name}"' for name in line.interfaces(n))
            conf.write_text(f'DebugLevel 0\nLinkQualityLevel 0\nUseHysteresis no\nLockFile "{BUILT}/olsrd{n}.lock"\n'
                            f"Interface {names}\n{{\nHelloInterval 0.5\nTcInterval 1.0\n}}\n")
            line.start(n, os.environ["BELLJAR_OLSRD"], "-f", conf, "-nofork")
    elif plane == "ns-3":
        line.static_routes([0, line.nodes - 1])
        for n in routers:
            quiet(*line.inside(n, "sysctl", "-qw", "net.ipv4.ip_forward=0"))
            spec = [f"{name}={address}" for name, address in (("left", f"10.9.{n - 1}.2"), ("right", f"10.9.{n}.1"))]
            routes = [f"10.9.{k}.0={'10.9.%d.1' % (n - 1) if k < n - 1 else '10.9.%d.2' % n}={0 if k < n - 1 else 1}"
                      for k in range(line.nodes - 1) if k not in (n - 1, n)]
            line.start(n, ns3_router(), *spec, *routes)
    else:
        line.static_routes()
        if plane != "kernel":
            for n in routers:
                line.start(n, routed, "forward", "--data-plane", plane, *options(n))
            # Native XDP on a veth wants a program, or GRO, at the other end too, for frames that are redirected to it.
            if plane == "af-xdp":
                time.sleep(0.5)
    line.reachable()


def ns3_router():
    """The router on ns-3's emulation, compiled."""
    source, out = HERE / "ns3_router.cc", BUILT / "ns3_router"
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        libraries = [f"-lns3-{name}" for name in ("fd-net-device", "internet", "network", "core")]
        subprocess.run(["g++", "-std=c++17", "-O2", source, "-o", out, *libraries], check=True)
    return out


def measure(line, traffic, kind, size, mbit, seconds):
    """Packets a second, Mbit/s of payload, and microseconds of processors a packet; of TCP, for 1,448 bytes. Sender, receiver, the line's
    daemons and the kernel's softirq threads count: forwarding takes place in softirqs, on the account of whatever they interrupt."""
    sink = subprocess.Popen(line.inside(line.nodes - 1, traffic, f"{kind}-sink", seconds + (1.5 if kind == "udp" else 20)), stdout=subprocess.PIPE, text=True)
    assert sink.stdout.readline() == "ready\n"
    others = [process.pid for process in line.processes] + softirq_threads()
    before = worked(others)
    arguments = [line.receiver(), size, mbit, seconds] if kind == "udp" else [line.receiver(), seconds]
    sender = subprocess.Popen([str(word) for word in line.inside(0, traffic, f"{kind}-send", *arguments)], stdout=subprocess.DEVNULL)
    took_cpu = consumed(sender)
    assert sender.returncode == 0 or kind == "tcp", f"the sender ended with {sender.returncode}"
    said = sink.stdout.read().split()
    took_cpu += consumed(sink) + worked(others) - before
    # A connection that is not made in the time is a rate of nothing.
    packets, length, took = said if len(said) == 3 else ("0", "0", "0")
    took = max(float(took), 0) or float("inf")
    if kind == "udp":
        # What comes in one burst, of a plane that stood still before, was on its way as long as was sent.
        took = max(took, seconds - WARM)
    packets, rate = int(packets) if kind == "udp" else int(length) // 1448, int(length) * 8 / took / 1e6
    return {"kpps": packets / took / 1e3, "mbit": rate, "cpu_us": took_cpu * 1e6 / packets * took / (took + WARM) if packets else None}


def round_trip(line):
    said = quiet(*line.inside(0, "ping", "-n", "-q", "-c", "50", "-i", "0.01", line.receiver())).stdout
    return float(said.rsplit("= ", 1)[1].split("/")[1]) * 1000


def one_line(routers, plane, loads, routed, traffic, options):
    """The figures of loads on a line that is made for them."""
    with Line(routers, options.urgent) as line:
        set_up(line, plane, routed)
        trip = round_trip(line)
        return [{"rtt_us": trip, **measure(line, traffic, *load, options.seconds)} for load in loads]


def available(planes, routed):
    """The planes that this machine has."""
    out = []
    for plane in planes:
        if plane == "olsrd" and not os.environ.get("BELLJAR_OLSRD"):
            print("olsrd: left out, for BELLJAR_OLSRD does not name one", file=sys.stderr)
        elif plane == "ns-3" and not pathlib.Path("/usr/include/ns3/fd-net-device.h").exists():
            print("ns-3: left out, for libns3-dev is not installed", file=sys.stderr)
        else:
            out.append(plane)
    return out


def parsed(parser):
    """Parses the options of a benchmark on lines, with those that all such have: they, the daemon, and the program of traffic.c. Exits where it cannot run."""
    parser.add_argument("--routed", default=TARGET / "release" / "belljar-routed", help="the daemon [default: of the release build]")
    parser.add_argument("--urgent", action="store_true", help="at real-time priority, for machines that have other work")
    parser.add_argument("--json", help="also write all figures there")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("only root makes network namespaces with veths between them")
    if not pathlib.Path(options.routed).exists():
        sys.exit(f"{options.routed} does not exist: `cargo build --release -p belljar-routed` builds it")
    routed = pathlib.Path(options.routed).resolve()
    return options, routed, compile_c(HERE / "traffic.c", "traffic")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routers", type=int, nargs="+", default=[1])
    parser.add_argument("--planes", nargs="+", default=PLANES, choices=PLANES)
    parser.add_argument("--sizes", type=int, nargs="+", default=[160, 1470])
    parser.add_argument("--rates", type=float, nargs="+", default=[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    options, routed, traffic = parsed(parser)
    planes = available(options.planes, routed)
    loads = [("udp", size, rate) for size in options.sizes for rate in options.rates] + [("tcp", 0, 0)]
    figures = []
    for routers in options.routers:
        for run in range(options.runs):
            for plane in planes[:: -1 if run % 2 else 1]:
                # Under more than it can do ns-3's real-time simulator falls behind for good: each load has a line of its own.
                groups = [[load] for load in loads] if plane == "ns-3" else [loads]
                for group in groups:
                    try:
                        if plane == "ns-3" and group[0][0] == "udp" and group[0][2] == 0:
                            tries = [one_line(routers, plane, [(group[0][0], group[0][1], step)], routed, traffic, options)[0] for step in STEPS]
                            measured = [max(tries, key=lambda figure: figure["kpps"])]
                        else:
                            measured = one_line(routers, plane, group, routed, traffic, options)
                    except Unreachable as error:
                        print(f"{routers} routers, run {run}, {plane}: left out: {error}", file=sys.stderr, flush=True)
                        measured = []
                    for (kind, size, rate), done in zip(group, measured):
                        print(f"{routers} routers, run {run}, {plane}, {kind} {size} {rate:g}: {done['kpps']:.1f} kpps, "
                              f"{done['mbit']:.1f} Mbit/s", file=sys.stderr, flush=True)
                        figures.append({"routers": routers, "plane": plane, "run": run, "load": kind, "size": size, **done, "offered": rate})
                if options.json:
                    # What has been measured stays, whatever ends the rest.
                    pathlib.Path(options.json).write_text(json.dumps(figures, indent=1))
    report(figures, options.routers, planes, loads)


def ratio(figures, first, key):
    """The median of the ratios to the first plane's figures of the same runs."""
    by_run = {figure["run"]: figure[key] for figure in first}
    pairs = [figure[key] / by_run[figure["run"]] for figure in figures if by_run.get(figure["run"])]
    return f" x {statistics.median(pairs):.2f}" if pairs and figures is not first else ""


def report(figures, lengths, planes, loads):
    select = lambda load, mine: [f for f in mine if (f["load"], f["size"], f["offered"]) == load]
    for routers in lengths:
        base = [f for f in figures if f["routers"] == routers and f["plane"] == planes[0]]
        rows = []
        for plane in planes:
            mine = [f for f in figures if f["routers"] == routers and f["plane"] == plane]
            if not mine:
                continue
            row = [plane, f"{statistics.median(f['rtt_us'] for f in mine):.0f}"]
            for load in loads:
                some = select(load, mine)
                first = some if plane == planes[0] else select(load, base)
                middle = lambda key: statistics.median(f[key] or 0 for f in some)
                if load[0] == "udp":
                    row.append(f"{middle('kpps'):.0f}{ratio(some, first, 'kpps')} ({middle('cpu_us'):.1f} us)")
                else:
                    row.append(f"{middle('mbit'):.0f}{ratio(some, first, 'mbit')} ({middle('cpu_us'):.1f} us)")
            rows.append(row)
        heads = ["plane", "RTT us"] + [f"UDP {size} B{f' at {rate:g} Mbit/s' if rate else ''}, kpps (CPU)" if kind == "udp" else "TCP Mbit/s (CPU)"
                                       for kind, size, rate in loads]
        print(f"\n{routers} router{'s' * (routers > 1)}")
        print(table(heads, rows))


if __name__ == "__main__":
    main()
