#!/usr/bin/env python3
"""Instructions of one unit of work, exactly: a worker is stepped through a section of a run one by one (instructions/step.c), and
guests report the units that they do meanwhile. No counters are needed, and it does not matter what else the machine does.

    p2p      a message of the P2P program (p2p/p2p.c)
    flow     a data segment of a TCP flow of 10 Mbit/s, at both ends, with its share of ACKs and its read
    getppid  a rewritten system call that its stub answers
    lseek    a rewritten system call that the kernel answers
    p4       a hop of a datagram over a line of P4 switches (p4_chain.p4), with its share of the two ends
    switch   the same over a line of learning switches
    router   the same over a line of routers

A section begins and ends at fixed simulated times, and counts are means over all of it, with what its windows cost. They are the
simulator's own instructions and those of the stubs that it makes for guests. What programs, their libraries, the simulator's C library
and its allocator execute depends on the machine and its clock, and is given apart. Beside them: the lines of code (64 bytes) in a stretch of as many
instructions as a unit takes, those that an instruction cache of 32 KiB would fetch for a unit (8 ways, the line unused for longest
goes), and the functions.

--check compares with the committed counts (instructions/counts.json) and gives 1 where one differs by 2 % or by 100 instructions, more
or fewer, and 77 where none can be compared. --record measures twice and writes there."""

import argparse
import json
import sys

import counts
from common import belljar, compile_c, save, two_hosts
from p2p import SOURCE, experiment
from p4_chain import PROGRAM, address
from stepping import FOLDER, Denied, Section, compiler

NOTHING_TO_COMPARE = 77
# Arguments on which counts depend.
SIZES = ["peers", "messages", "latency", "switches", "p4_switches", "train", "logging"]
# Share by which two measurements of the same binary may differ.
NOISE = 0.002


def guest(*arguments, **process):
    path = compile_c(FOLDER / "guest.c", "guest")
    keys = {"path": str(path), "args": [str(argument) for argument in arguments], "expected_final_state": "any", **process}
    return json.dumps(keys)


def section(start, length):
    """The process that marks a section: its start in seconds, its length in nanoseconds of simulated time. It runs on a host that takes part,
    whose windows end where its peers can reach it; one of its own would run through both marks in one window."""
    return guest("section", length, start_time=f"{start} s")


def p2p(a):
    """Messages are under way for 50 ms and are answered at once: a section is one round of all of them."""
    text = experiment(compile_c(SOURCE, "p2p"), a, 2, ", parallelism: 1")
    return text.replace("}]}", f"}}, {section(2.02, 50_000_000)}]}}", 1), 1


def flow(a):
    """A section of ten segments, after slow start. At a high rate TCP hands over dozens of segments at once, and a section would have all of
    them or none; at this one it hands over two."""
    client = f"{guest('stream', 'server', start_time='1 s')}, {section(2, 12_000_000)}"
    return two_hosts("10 Mbit", a.latency, guest("drain"), client, stop=2.05, parallelism=1), 1 / 1448


def call(kind, count):
    return lambda a: (f"general: {{stop_time: 2 s, parallelism: 1}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\n"
                      f"hosts: {{host: {{network_node_id: 0, processes: [{guest(kind, count)}]}}}}\n", 1)


def line(a, count, device, kind="switches", ports=("p1", "p2")):
    """Trains of datagrams over a line of devices with links of 1 ms: a section is the time in which each train passes one of them. The ends
    of a line of switches are on one network."""
    names = [f"s{n}" for n in range(1, count + 1)]
    ends = ["h1", *(f"{name}:{port}" for name in names for port in ports), "h2"]
    own = {n: f"interfaces: {{eth0: {address(n)}/16}}, " if kind == "switches" else "" for n in (1, 2)}
    processes = {1: f"{guest('datagrams', 'h2', a.train, start_time='1 s')}, {section(2.0005, 1_000_000)}", 2: guest("discard")}
    hosts = "\n".join(f"  h{n}: {{{own[n]}processes: [{process}]}}" for n, process in processes.items())
    links = "\n".join(f'- {{between: ["{left}", "{right}"], rate: 1 Gbit, latency: 1 ms}}' for left, right in zip(ends[::2], ends[1::2]))
    devices = "\n".join(f"  {name}: {device}" for name in names)
    return f"general: {{stop_time: 2.01 s, parallelism: 1}}\n{kind}:\n{devices}\nhosts:\n{hosts}\nlinks:\n{links}\n", count


def p4(a):
    routes = "".join(f"\n      table_add routes forward {address(n)}/32 => {n}" for n in (1, 2))
    return line(a, a.p4_switches, f"\n    p4: {PROGRAM}\n    commands: |{routes}")


def switch(a):
    return line(a, a.switches, "{}")


def router(a):
    return line(a, a.switches, "{}", "routers", ("eth0", "eth1"))


# name: (its unit; a function that gives the experiment, and the units in one that its guests report)
WORKLOADS = {"p2p": ("message", p2p), "flow": ("segment", flow), "getppid": ("call", call("getppid", 900)), "lseek": ("call", call("lseek", 60)),
             "p4": ("hop", p4), "switch": ("hop", switch), "router": ("hop", router)}


def measure(name, a):
    text, scale = WORKLOADS[name][1](a)
    measured = Section(text, *(["--pcap", "--strace"] if a.logging else []), limit=a.limit)
    if measured.reported == 0:
        sys.exit(f"{name}: guests reported no unit between the marks")
    return measured.result(measured.reported * scale)


def show(name, result, count):
    unit = WORKLOADS[name][0]
    print(f"{name}: {result['instructions']:.1f} instructions a {unit}, and {result['other']:.1f} of programs and libraries; {result['lines']:.0f} "
          f"lines of code, {result['fetched']:.1f} of them fetched (means of {result['units']:.0f} {unit}s)")
    print(f"{'instructions':>12} {'calls':>6} {'lines':>6}  function")
    for function in result["functions"][:count]:
        print(f"{function['instructions']:12.1f} {function['calls']:6.2f} {function['lines']:6}  {function['name'][-100:]}")


def check(results, release):
    """Exit status of --check."""
    committed = counts.read().get(release, {})
    compared = [counts.compare(name, WORKLOADS[name][0], result, committed[name]) for name, result in results.items()]
    print("\n\n".join(said for _, said in compared))
    return 0 if all(agrees for agrees, _ in compared) else 1


def nothing_to_compare(names):
    """The reason for which this binary's counts cannot be compared, if there is one."""
    if belljar().parent.name != "release":
        return f"{belljar()} is not in a folder `release`: counts are those of release builds"
    release = compiler(belljar())
    if not set(names) <= set(counts.read().get(release, {})):
        return f"no counts of {release or 'an unknown compiler'} are committed: `benches/instructions.py --record` adds them"
    return None


def record(first, second, release):
    for name in first:
        one, two = (results[name]["instructions"] for results in (first, second))
        if abs(one / two - 1) > NOISE:
            sys.exit(f"{name}: {one:.1f} instructions, then {two:.1f} of the same binary: nothing is recorded")
    counts.record(release, first)
    print(f"recorded for {release}: " + ", ".join(f"{name} {result['instructions']:.1f}" for name, result in first.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--check", action="store_true", help="compare with the committed counts")
    parser.add_argument("--record", action="store_true", help="write the committed counts")
    sizes = parser.add_argument_group("sizes, as committed counts have them by default")
    sizes.add_argument("--peers", type=int, default=3)
    sizes.add_argument("--messages", type=int, default=8, help="in flight per peer")
    sizes.add_argument("--latency", type=float, default=0.1, help="ms, of the flow, one way")
    sizes.add_argument("--switches", type=int, default=16, help="of the lines of learning switches and of routers")
    sizes.add_argument("--p4-switches", type=int, default=5)
    sizes.add_argument("--train", type=int, default=3, help="datagrams at each switch of a line")
    sizes.add_argument("--logging", action="store_true", help="with captures and logs of system calls")
    parser.add_argument("--limit", type=int, default=100_000_000, help="instructions of a section, at most")
    parser.add_argument("--functions", type=int, default=40, help="how many are shown")
    parser.add_argument("--json")
    a = parser.parse_args(namespace=argparse.Namespace(weights="exp", seed=1))
    if (a.check or a.record) and any(getattr(a, size) != parser.get_default(size) for size in SIZES):
        parser.error("committed counts are of the default sizes")
    if a.check and (reason := nothing_to_compare(a.workload)):
        print(reason)
        return NOTHING_TO_COMPARE
    try:
        results = {name: measure(name, a) for name in a.workload}
        again = {name: measure(name, a) for name in a.workload} if a.record else None
    except Denied as denied:
        print(denied)
        return NOTHING_TO_COMPARE
    release = compiler(belljar())
    if a.check:
        return check(results, release)
    if a.record:
        record(results, again, release)
        return 0
    for name, result in results.items():
        show(name, result, a.functions)
    save("instructions", {"bench": "instructions", "compiler": release, "workloads": results}, a.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
