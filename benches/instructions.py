#!/usr/bin/env python3
"""Which instructions a message of the P2P program (p2p/p2p.c) takes, exactly: a worker is stepped through them one by one
(instructions/step.c). No counters are needed, and it does not matter what else the machine does.

Prints, per message: how many instructions there are, in how many cache lines of code they lie, how many of those an
instruction cache of 32 KiB (8 ways, the line unused for longest goes) would have to fetch, and the functions. What a window
does for all messages at once, such as putting them on their paths, is in the functions, not in the medians at the top."""

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

from common import BUILT, ROOT, belljar, compile_c, save
from p2p import SOURCE, experiment

LINE, WAYS, SETS = 64, 8, 64
# The call that stands for a message: each is received once.
MARK = "socket_io::sys_recvfrom"


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=100)
    parser.add_argument("--messages", type=int, default=100, help="in flight per peer")
    parser.add_argument("--instructions", type=int, default=1_500_000)
    parser.add_argument("--after", type=int, default=5, help="seconds that it runs before")
    parser.add_argument("--functions", type=int, default=40, help="how many are shown")
    parser.add_argument("--json")
    a = parser.parse_args(namespace=argparse.Namespace(weights="exp", seed=1))
    program = compile_c(SOURCE, "p2p")
    step = compile_c(ROOT / "benches" / "instructions" / "step.c", "step")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=BUILT))
    try:
        (folder / "experiment.yaml").write_text(experiment(program, a, 3600, ", parallelism: 1"))
        command = [belljar(), "run", folder / "experiment.yaml", "-o", folder / "data"]
        stepped = subprocess.run([step, folder, str(a.after), str(a.instructions), *command], capture_output=True, text=True)
        if stepped.returncode != 0:
            sys.exit(stepped.stderr.strip())
        code = Code(belljar(), (folder / "maps").read_text())
        # One that repeats itself (`rep`) is stepped through round by round.
        trace = [rip for rip, _ in itertools.groupby(array.array("Q", (folder / "trace").read_bytes())[::2])]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    marks = code.starts(MARK)
    at = [n for n, rip in enumerate(trace) if rip in marks]
    if len(at) < 3:
        sys.exit(f"only {len(at)} messages in {len(trace)} instructions: ask for more")
    messages = list(zip(at, at[1:]))
    misses = cache_misses([rip // LINE for rip in trace], set(at))
    function_lines, counts = collections.defaultdict(set), collections.Counter()
    names = {rip: code.name(rip) for rip in set(trace)}
    for rip in trace:
        counts[names[rip]] += 1
    for rip, name in names.items():
        function_lines[name].add(rip // LINE)
    median = statistics.median
    result = {
        "bench": "instructions", "peers": a.peers, "messages": len(at),
        "instructions": median(end - begin for begin, end in messages),
        "lines": median(len({rip // LINE for rip in trace[begin:end]}) for begin, end in messages),
        "misses": median(end - begin for begin, end in zip(misses, misses[1:])),
        "functions": [
            {"name": name, "instructions": n / len(at), "lines": len(function_lines[name])} for name, n in counts.most_common()
        ],
    }
    print(f"a message: {result['instructions']:.0f} instructions in {result['lines']:.0f} lines of code, "
          f"{result['misses']:.0f} of them fetched (medians of {len(at)} messages)")
    print(f"{'instructions':>12} {'lines':>6}  function")
    for function in result["functions"][: a.functions]:
        print(f"{function['instructions']:12.1f} {function['lines']:6}  {function['name'][-100:]}")
    save("instructions", result, a.json)


if __name__ == "__main__":
    main()
