#!/usr/bin/env python3
"""Which instructions a message of the P2P program (p2p/p2p.c) takes, or a data segment of a TCP flow (iperf 2), exactly: a
worker is stepped through them one by one (instructions/step.c). No counters are needed, and it does not matter what else
the machine does.

Prints, per message or segment: how many instructions there are, in how many cache lines of code they lie, how many of those an
instruction cache of 32 KiB (8 ways, the line unused for longest goes) would have to fetch, and the functions. What a window
does for all of them at once, such as putting them on their paths, is in the functions, not in the medians at the top. Of a
flow the medians are of the sending end alone; the functions are both ends', over whole windows of both."""

import argparse
import array
import bisect
import collections
import itertools
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from common import BUILT, ROOT, belljar, compile_c, save, two_hosts
from p2p import SOURCE, experiment

LINE, WAYS, SETS = 64, 8, 64
# The function that stands for a message or segment: each is received once, and each goes out once.
MARKS = {"p2p": "socket_io::sys_recvfrom", "flow": "Connection>::send_range"}
# The function that stands for a segment at the other end of a flow.
OTHER_END = "Receiver::insert"


def flow(a):
    """A flow of 1 Gbit/s that does not end while the worker is stepped."""
    return two_hosts(
        "1 Gbit", a.latency, "{path: iperf, args: -s, expected_final_state: running}",
        "{path: iperf, args: -c server -t 3600, start_time: 1 s, expected_final_state: running}", stop=3600, parallelism=1)


class Code:
    """Names of the simulator's functions by address."""

    def __init__(self, binary, maps):
        starts = [int(line.split("-")[0], 16) for line in maps.splitlines() if line.endswith(f" {binary}")]
        self.base = min(starts)
        listed = subprocess.run(["nm", "-C", "-n", "--defined-only", binary], capture_output=True, text=True, check=True)
        symbols = (line.split(" ", 2) for line in listed.stdout.splitlines())
        named = [(int(at, 16), name) for at, kind, name in symbols if kind in "tTwW"]
        self.addresses, self.names = zip(*named)
        self.end = self.base + self.addresses[-1]

    def name(self, rip):
        if not self.base <= rip < self.end:
            return "(programs and their libraries)"
        return self.names[bisect.bisect_right(self.addresses, rip - self.base) - 1]

    def starts(self, suffix):
        return {self.base + at for at, name in zip(self.addresses, self.names) if name.endswith(suffix)}


def cache_misses(lines, marks):
    """The number of lines fetched up to each mark."""
    sets, misses, at_marks = [collections.OrderedDict() for _ in range(SETS)], 0, []
    for n, line in enumerate(lines):
        if n in marks:
            at_marks.append(misses)
        ways = sets[line % SETS]
        if line in ways:
            ways.move_to_end(line)
            continue
        misses += 1
        ways[line] = None
        if len(ways) > WAYS:
            ways.popitem(last=False)
    return at_marks


def whole_windows(trace, here, there):
    """From one turn of one end to another one: the ends take turns, window by window, and each works off a window's segments at once."""
    turns, at_other_end = [], False
    for n, rip in enumerate(trace):
        if rip in there:
            at_other_end = True
        elif rip in here and at_other_end:
            turns.append(n)
            at_other_end = False
    if len(turns) < 2:
        sys.exit(f"only {len(turns)} turns of an end in {len(trace)} instructions: ask for more")
    return trace[turns[0]:turns[-1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=MARKS, default="p2p")
    parser.add_argument("--mark", help="the end of a function's name: what is counted per; by default once per message or segment")
    parser.add_argument("--peers", type=int, default=100)
    parser.add_argument("--messages", type=int, default=100, help="in flight per peer")
    parser.add_argument("--latency", type=float, default=0.2, help="ms, of the flow, one way")
    parser.add_argument("--logging", action="store_true", help="with captures and logs of system calls")
    parser.add_argument("--instructions", type=int, default=1_500_000)
    parser.add_argument("--after", type=int, default=5, help="seconds that it runs before")
    parser.add_argument("--functions", type=int, default=40, help="how many are shown")
    parser.add_argument("--json")
    a = parser.parse_args(namespace=argparse.Namespace(weights="exp", seed=1))
    if a.workload == "p2p":
        text = experiment(compile_c(SOURCE, "p2p"), a, 3600, ", parallelism: 1")
    else:
        text = flow(a)
    step = compile_c(ROOT / "benches" / "instructions" / "step.c", "step")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=BUILT))
    try:
        (folder / "experiment.yaml").write_text(text)
        command = [belljar(), "run", folder / "experiment.yaml", "-o", folder / "data", *(["--pcap", "--strace"] if a.logging else [])]
        stepped = subprocess.run([step, folder, str(a.after), str(a.instructions), *command], capture_output=True, text=True)
        if stepped.returncode != 0:
            sys.exit(stepped.stderr.strip())
        code = Code(belljar(), (folder / "maps").read_text())
        # One that repeats itself (`rep`) is stepped through round by round.
        trace = [rip for rip, _ in itertools.groupby(array.array("Q", (folder / "trace").read_bytes())[::2])]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    marks = code.starts(a.mark or MARKS[a.workload])
    if a.workload == "flow":
        trace = whole_windows(trace, marks, code.starts(OTHER_END))
    at = [n for n, rip in enumerate(trace) if rip in marks]
    if len(at) < 3:
        sys.exit(f"only {len(at)} marks in {len(trace)} instructions: ask for more")
    messages = list(zip(at, at[1:]))
    misses = cache_misses([rip // LINE for rip in trace], set(at))
    function_lines, counts, calls = collections.defaultdict(set), collections.Counter(), collections.Counter()
    begins = {code.base + at for at in code.addresses}
    names = {rip: code.name(rip) for rip in set(trace)}
    for rip, n in collections.Counter(trace).items():
        counts[names[rip]] += n
        # Entered by its first instruction, whether called or jumped to.
        calls[names[rip]] += n * (rip in begins)
    for rip, name in names.items():
        function_lines[name].add(rip // LINE)
    median = statistics.median
    result = {
        "bench": "instructions", "workload": a.workload, "peers": a.peers, "messages": len(at), "all": len(trace) / len(at),
        "instructions": median(end - begin for begin, end in messages),
        "lines": median(len({rip // LINE for rip in trace[begin:end]}) for begin, end in messages),
        "misses": median(end - begin for begin, end in zip(misses, misses[1:])),
        "functions": [
            {"name": name, "instructions": n / len(at), "calls": calls[name] / len(at), "lines": len(function_lines[name])}
            for name, n in counts.most_common()
        ],
    }
    what = "message" if a.workload == "p2p" else "segment"
    print(f"a {what}: {result['instructions']:.0f} instructions in {result['lines']:.0f} lines of code, "
          f"{result['misses']:.0f} of them fetched (medians of {len(at)} {what}s); {result['all']:.0f} instructions for each with all that is seen")
    print(f"{'instructions':>12} {'calls':>6} {'lines':>6}  function")
    for function in result["functions"][: a.functions]:
        print(f"{function['instructions']:12.1f} {function['calls']:6.2f} {function['lines']:6}  {function['name'][-100:]}")
    save("instructions", result, a.json)


if __name__ == "__main__":
    main()
