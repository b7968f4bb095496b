#!/usr/bin/env python3
"""Other simulators beside the simulation: rounds per second and CPU per round, over numbers of simulators, latencies and topologies.

The simulators are packet generators (adapters/cosim/pktgen.c) that send nothing unless `--rate` says so, on Belljar's switch; a round is an exchange of
SYNCs with all of them. The case `cost` has a host that sends datagrams to another, on a link alone, with an idle channel to a third one beside it, and with the link cut by two channels. With `--simbricks DIR`, a tree of SimBricks with its pktgen and net_switch built, the same
is measured with its generators on Belljar's switch and, in turns, on its own."""

import argparse
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from common import ROOT, compile_c, remove, run_experiment, save, spread, until

# When the talk of the case `cost` begins.
START_US = 100


def processor():
    """The name of this machine's processor, and how many there are."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    return f"{name.group(1) if name else platform.machine()}, {len(os.sched_getaffinity(0))} processors, Linux {platform.release()}"


def generator(a, theirs, number, port, latency):
    """The command of a generator."""
    if theirs:
        rate = max(0, round(a.rate / 1000))
        pktgen = f"{a.simbricks}/sims/net/pktgen/pktgen"
        return [pktgen, "-n", str(number), "-E", str(latency), "-S", str(latency), "-b", str(rate), "-s", f"{{{port}.socket}}"]
    pktgen = compile_c(ROOT / "adapters" / "cosim" / "pktgen.c", "pktgen")
    sends = ["--rate", str(a.rate), "--size", "1500", "--count", "1000000000"] if a.rate else ["--count", "0"]
    macs = [f"02:00:00:00:00:{n:02x}" for n in (number, number ^ 1)]
    return [str(pktgen), f"{{{port}}}", *sends, "--from", macs[0], "--to", macs[1]]


def experiment(a, theirs, count, tors, latency, stop_us):
    """Generators on one switch, or on so many below another one."""
    lines = [f"general: {{stop_time: {stop_us} us}}", "hosts: {idle: {processes: []}}", "switches:"]
    names = [f"tor{n}" for n in range(tors)] if tors > 1 else ["core"]
    lines += [f"  {name}:" for name in {*names, "core"}] + ["simulators:"]
    links = ["- {between: [idle, core], latency: 100 us}"]
    for n in range(count):
        command = ", ".join(f'"{word}"' for word in generator(a, theirs, n, "p", latency))
        lines.append(f"  g{n:02}: {{command: [{command}], latency: {latency} ns, start_timeout: 120 s}}")
        links.append(f"- {{between: [\"g{n:02}:p\", {names[n % len(names)]}], latency: {latency} ns, rate: unlimited}}")
    if tors > 1:
        links += [f"- {{between: [{name}, core], latency: {latency} ns, rate: unlimited}}" for name in names]
    return "\n".join(lines + ["links:"] + links) + "\n"


def chain(count, latency, stop_us):
    """Simulators between two hosts that have channels with each other, and one with Belljar at either end, a hundred times as long."""
    wire = str(compile_c(ROOT / "crates" / "cosim" / "tests" / "wire.c", "wire", f"-I{ROOT / 'adapters' / 'cosim'}"))
    names, long = [f"w{n}" for n in range(count)], f"{100 * latency} ns"
    ends = ["a", *(f"{name}:{port}" for name in names for port in ("left", "right")), "b"]
    links = [{"between": list(ends[n:n + 2]), "latency": f"{latency} ns"} for n in range(0, len(ends), 2)]
    for link in (links[0], links[-1]):
        link["latency"] = long
    simulator = {"command": [wire, "{left}", "{right}"], "latency": long, "start_timeout": "120 s"}
    simulators = {name: simulator | ({"ports": {"right": {"role": "listen"}}} if name != names[-1] else {}) for name in names}
    return json.dumps({"general": {"stop_time": f"{stop_us} us"}, "hosts": {"a": {"processes": []}, "b": {"processes": []}}, "simulators": simulators, "links": links})


def slope(make, rounds, latency, options=()):
    """(rounds per second, CPU seconds per round) of what `make` makes of a stop time in microseconds: from a short and a long run."""
    points = []
    for part in (rounds // 4, rounds):
        results, usage = run_experiment(make(max(1, part * latency // 1000)), "--no-progress", *options)
        remove(results)
        points.append((part, usage.wall, usage.cpu))
    (few, short, little), (many, long, much) = points
    return (many - few) / max(long - short, 1e-9), (much - little) / (many - few)


def ours(a, theirs, count, tors, latency, options=()):
    """The rate and cost of rounds of generators on our switches."""
    # One is so fast that starting would hide it. Generators end at a simulated second.
    rounds = min(a.rounds * 500, 900_000_000 // latency) if count == 1 else a.rounds
    return slope(lambda stop_us: experiment(a, theirs, count, tors, latency, stop_us), rounds, latency, options)


def talk(a, kind, latency, stop_us):
    """Two hosts, 2 us and two times the latency apart, however the frames get there."""
    line = {"rate": "10 Gbit"}
    program = str(compile_c(ROOT / "benches" / "simulators" / "talk.c", "talk"))
    host = lambda start, *args: {"processes": [{"path": program, "args": list(args), "start_time": f"{start} us", "expected_final_state": "running"}]}  # noqa: E731
    exp = {"general": {"stop_time": f"{START_US + stop_us} us"}, "hosts": {"server": host(0, "server"), "client": host(START_US, "client", "server")},
           "links": [{"between": ["client", "server"], "latency": f"{2000 + 2 * latency} ns", **line}]}
    channel = {"latency": f"{latency} ns", "start_timeout": "120 s"}
    if kind == "idle":
        exp["hosts"]["idle"] = {"processes": []}
        exp["simulators"] = {"generator": {"command": generator(a, False, 0, "p", latency), **channel}}
        exp["links"].append({"between": ["idle", "generator:p"], "latency": f"{latency} ns", **line})
    elif kind == "busy":
        wire = compile_c(ROOT / "crates" / "cosim" / "tests" / "wire.c", "wire", f"-I{ROOT / 'adapters' / 'cosim'}")
        exp["simulators"] = {"wire": {"command": [str(wire), "{left}", "{right}"], **channel}}
        # Serialised once in each direction, as on the whole link.
        exp["links"] = [{"between": [name, f"wire:{port}"], "latency": "1 us", **line, "reverse": {"rate": "unlimited"}}
                        for name, port in (("client", "left"), ("server", "right"))]
    return json.dumps(exp)


def costs(a, table):
    """CPU and wall time of a simulated second, without a channel and with one, idle and busy."""
    kinds = {"none": "no channel", "idle": "an idle channel beside", "busy": "through two channels"}
    for latency in map(int, a.latencies.split(",")):
        measured = {kind: [] for kind in kinds}
        for _ in range(a.repeat):
            for kind in kinds:
                # As many rounds at each latency; what needs none runs longer, to be measured at all.
                long = a.rounds * 250 if kind == "none" else max(400, a.rounds * 250 * latency // 1000)
                (short, little), (wall, cpu) = (talked(a, kind, latency, us) for us in (long // 4, long))
                seconds = (long - long // 4) / 1e6
                measured[kind].append(((wall - short) / seconds, (cpu - little) / seconds))
        for kind, values in measured.items():
            wall, cpu = spread([wall for wall, _ in values]), spread([cpu for _, cpu in values])
            table.append({"case": "cost", "variant": kind, "latency_ns": latency, "wall_s_per_s": wall, "cpu_s_per_s": cpu})
            print(f"{'10,000 datagrams a second':28} {kinds[kind]:34} {latency:5} ns {wall['median']:12.3f} s, {cpu['median']:10.3f} s of CPU a simulated second"
                  f" ({cpu['least']:.3f} to {cpu['greatest']:.3f})", flush=True)


def talked(a, kind, latency, us):
    results, usage = run_experiment(talk(a, kind, latency, us), "--no-progress")
    remove(results)
    return usage.wall, usage.cpu


def cpu_of(processes):
    """CPU seconds of running processes."""
    ticks = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def simbricks(a, count, tors, latency):
    """The same for SimBricks' own switches and generators, looked at twice while they run."""
    net, common = f"{a.simbricks}/sims/net", ["-S", str(latency), "-E", str(latency)]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-"))
    processes, said = [], open(folder / "core.stderr", "w+")

    def start(program, arguments, stderr=subprocess.DEVNULL):
        processes.append(subprocess.Popen([program, *common, *arguments], stdout=subprocess.DEVNULL, stderr=stderr))

    def listens(path):
        until(path.exists, f"nobody listens on {path}", 120)
        return str(path)

    try:
        # A listener takes one port after the other, so who connects to them comes in their order.
        below = [["-h", f"{folder}/g{n}"] for n in range(count)]
        switches = [sum(below[tor::tors], []) + (["-h", f"{folder}/up{tor}"] if tors > 1 else []) for tor in range(tors)]
        for ports in switches:
            start(f"{net}/switch/net_switch", ports, said if tors == 1 else subprocess.DEVNULL)
        for n in range(count):
            start(f"{net}/pktgen/pktgen", ["-n", str(n), "-b", str(round(a.rate / 1000)), "-s", listens(folder / f"g{n}")])
        if tors > 1:
            start(f"{net}/switch/net_switch", sum([["-s", listens(folder / f"up{tor}")] for tor in range(tors)], []), said)
        core = processes[-1] if tors > 1 else processes[0]
        time.sleep(1)

        def look():
            core.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
            times = re.findall(r"main_time = (\d+)", pathlib.Path(said.name).read_text())
            return int(times[-1]) if times else 0, time.monotonic(), cpu_of(processes)

        first = look()
        time.sleep(a.seconds)
        second = look()
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    rounds = (second[0] - first[0]) / 1000 / latency
    return rounds / (second[1] - first[1]), (second[2] - first[2]) / max(rounds, 1e-9)


def pair(a, latency):
    """The same for two of SimBricks' generators with a channel, for so long or until their end at 1 s of simulated time."""
    pktgen, common = f"{a.simbricks}/sims/net/pktgen/pktgen", ["-S", str(latency), "-E", str(latency), "-b", "0"]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        said, path = open(f"{folder}/stderr", "w+"), f"{folder}/socket"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        first = subprocess.Popen([pktgen, *common, "-h", path], stdout=subprocess.DEVNULL, stderr=said)
        while not os.path.exists(path):
            time.sleep(0.001)
        begin = time.monotonic()
        second = subprocess.Popen([pktgen, *common, "-s", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        picos = 10**12
        try:
            second.wait(a.seconds)
        except subprocess.TimeoutExpired:
            first.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
            picos = int(re.findall(r"main_time = (\d+)", pathlib.Path(said.name).read_text())[-1])
        wall = time.monotonic() - begin
        for process in (first, second):
            process.kill()
            process.wait()
        said.close()
    after, rounds = resource.getrusage(resource.RUSAGE_CHILDREN), picos / 1000 / latency
    return rounds / wall, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / rounds


def generators(a, name, count, tors, latency, table):
    """Variants of generators at switches."""
    variants = {"C generators on Belljar": lambda: ours(a, False, count, tors, latency)}
    if a.always:
        variants["the same, never stopped"] = lambda: ours(a, False, count, tors, latency, ["--simulator-turns", "false"])
    if a.simbricks:
        variants["SimBricks' generators on Belljar"] = lambda: ours(a, True, count, tors, latency)
        own = "SimBricks' generators and switch" if count > 1 else "two of SimBricks' generators"
        variants[own] = lambda: simbricks(a, count, tors, latency) if count > 1 else pair(a, latency)
    case(a, name, variants, latency, table)


def together(a, count, latency, table):
    """Variants of simulators that have channels with each other."""
    make = lambda stop_us: chain(count, latency, stop_us)  # noqa: E731
    variants = {"as by default": lambda: slope(make, a.rounds, latency),
                "taking turns": lambda: slope(make, a.rounds, latency, ["--simulator-turns", "true"])}
    case(a, f"{count} in a chain", variants, latency, table)


def case(a, name, variants, latency, table):
    """One line of each variant, measured in turns."""
    measured = {variant: [] for variant in variants}
    for _ in range(a.repeat):
        for variant, measure in variants.items():
            measured[variant].append(measure())
    for variant, values in measured.items():
        rate, cpu = spread([rate for rate, _ in values]), spread([cpu for _, cpu in values])
        table.append({"case": name, "variant": variant, "latency_ns": latency, "rounds_per_second": rate, "cpu_us_per_round": cpu["median"] * 1e6})
        print(f"{name:28} {variant:34} {latency:5} ns {rate['median']:12,.0f} rounds/s ({rate['least']:,.0f} to {rate['greatest']:,.0f})"
              f" {cpu['median'] * 1e6:10.1f} us CPU a round", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simbricks", metavar="DIR")
    parser.add_argument("--rounds", type=int, default=40_000, help="of the longer run")
    parser.add_argument("--seconds", type=float, default=2, help="that SimBricks' own are looked at")
    parser.add_argument("--rate", type=float, default=0, metavar="MBIT", help="what each generator sends")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--always", action="store_true", help="measure without stopping simulators too")
    parser.add_argument("--cases", default="few,latency,many,together,cost", help="of few, latency, many, together and cost")
    parser.add_argument("--latencies", default="1000,500,100,50,10,1", metavar="NS,...", help="of channels, in the cases `latency` and `cost`")
    parser.add_argument("--counts", default="1,2,3,6", help="of simulators in the case `few`")
    parser.add_argument("--json")
    a = parser.parse_args()
    print(processor())
    table, cases = [], a.cases.split(",")
    if "few" in cases:
        for count in map(int, a.counts.split(",")):
            generators(a, f"{count} on a switch", count, 1, 500, table)
    if "latency" in cases:
        for latency in map(int, a.latencies.split(",")):
            generators(a, "1 on a switch", 1, 1, latency, table)
    if "many" in cases:
        generators(a, "32 on a switch", 32, 1, 500, table)
        generators(a, "32 on four ToRs and a core", 32, 4, 500, table)
    if "together" in cases:
        for count in (2, 3):
            together(a, count, 500, table)
    if "cost" in cases:
        costs(a, table)
    save("simulators", {"processor": processor(), "rate_mbit": a.rate, "cases": table}, a.json)


if __name__ == "__main__":
    main()
