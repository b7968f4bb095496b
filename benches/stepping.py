"""A section of a run, instruction by instruction (instructions/step.c), and the functions that it spends them in."""

import array
import bisect
import collections
import functools
import itertools
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from common import BUILT, ROOT, belljar, compile_c

FOLDER = ROOT / "benches" / "instructions"
LINE, WAYS, SETS = 64, 8, 64
# Seconds after which a run hangs.
PATIENCE = 1800
# Near guests have the memory below (crates/platform/src/layout.rs), the simulator that above.
SIMULATOR = 0x5000_0000_0000
ALLOCATOR = ("mi_", "_mi_")
STUBS = "(stubs of rewritten calls)"
DENIED = 77


class Denied(Exception):
    """This machine does not let a program trace its own child."""


def tool(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def compiler(binary):
    """Releases of rustc that a binary was built by, as `rustc --version` prints them."""
    found = re.findall(r"rustc version (\d[^\n]*)", tool("readelf", "-p", ".comment", binary))
    return " and ".join(f"rustc {release.strip()}" for release in sorted(set(found)))


@functools.cache
def plain(name):
    """A function's name without what differs from build to build: hashes, suffixes of the optimiser, paths of type arguments."""
    name = re.sub(r"(::h[0-9a-f]{16}|\.llvm\.\d+|\.cold|\.isra|\.part|\.constprop|\.\d+)+$", "", name)
    name = re.sub(r"\[[0-9a-f]{16}\]", "", name)
    # Type arguments: those of the outermost `<Type as Trait>` keep their paths.
    head, open_, rest = name.rpartition(">") if name.startswith("<") else ("", "", name)
    return head + open_ + re.sub(r"(?<=[<&, ])(\w+::)+(?=\w)", "", rest)


class Code:
    """Names of functions by address: those of the simulator's binary, and what other mappings are."""

    def __init__(self, binary, maps):
        self.mappings = []
        for line in maps.splitlines():
            extent, _, _, _, _, *path = line.split(maxsplit=5)
            start, end = (int(at, 16) for at in extent.split("-"))
            self.mappings.append((start, end, path[0] if path else ""))
        self.binary = str(binary)
        self.base = min((start for start, _, path in self.mappings if path == self.binary), default=0)
        symbols = (line.split(" ", 2) for line in tool("nm", "-C", "-n", "--defined-only", binary).splitlines())
        named = [(int(at, 16), name) for at, kind, name in symbols if kind in "tTwW"]
        self.addresses, self.names = zip(*named) if named else ((), ())

    def place(self, rip):
        """(name of the function or mapping, True for the simulator's own code and that which it makes for guests)."""
        at = bisect.bisect_right(self.mappings, (rip, float("inf"))) - 1
        start, end, path = self.mappings[at]
        if not start <= rip < end:
            return "(unknown)", False
        if path == self.binary:
            at = bisect.bisect_right(self.addresses, rip - self.base) - 1
            name = plain(self.names[at]) if at >= 0 else "(no symbols)"
            # The allocator reads the machine's clock: what it gives back, and when, differs from run to run.
            return name, not name.startswith(ALLOCATOR)
        if rip >= SIMULATOR:
            return f"({path.rpartition('/')[2].strip('[]') or 'memory'})", False
        # A shared image has its stubs in itself, and counts as a guest's.
        return (STUBS, True) if path == "" else ("(programs and their libraries)", False)


def fetched(lines):
    """The number of lines that an instruction cache of 32 KiB would have to fetch (8 ways, the line unused for longest goes)."""
    sets, misses = [collections.OrderedDict() for _ in range(SETS)], 0
    for line in lines:
        ways = sets[line % SETS]
        if line in ways:
            ways.move_to_end(line)
            continue
        misses += 1
        ways[line] = None
        if len(ways) > WAYS:
            ways.popitem(last=False)
    return misses


class Section:
    """The instructions between two marks of a run, and the number of units that its guests reported between them."""

    def __init__(self, text, *arguments, limit):
        step = compile_c(FOLDER / "step.c", "step")
        BUILT.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=BUILT))
        try:
            (folder / "experiment.yaml").write_text(text)
            command = [belljar(), "run", folder / "experiment.yaml", "-o", folder / "data", *arguments]
            done = subprocess.run([step, folder, str(limit), *command], capture_output=True, text=True, check=False, timeout=PATIENCE)
            if done.returncode == DENIED:
                raise Denied(done.stderr.strip())
            if done.returncode != 0 or not (folder / "units").exists():
                sys.exit(f"{done.stdout[-3000:]}{done.stderr[-3000:]}the run ended with {done.returncode}, marked or not")
            self.code = Code(belljar(), (folder / "maps").read_text())
            # One that repeats itself (`rep`) is stepped through round by round.
            self.trace = [rip for rip, _ in itertools.groupby(array.array("Q", (folder / "trace").read_bytes()))]
            self.reported = int((folder / "units").read_text())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def result(self, units):
        """Means per unit: instructions of the simulator, of everything else, and of each function."""
        counts, calls, lines = collections.Counter(), collections.Counter(), collections.defaultdict(set)
        begins = {self.code.base + at for at in self.code.addresses}
        own, other = 0, 0
        for rip, n in collections.Counter(self.trace).items():
            name, is_own = self.code.place(rip)
            counts[name] += n
            own, other = (own + n, other) if is_own else (own, other + n)
            # Entered by its first instruction, whether called or jumped to.
            calls[name] += n * (rip in begins)
            lines[name].add(rip // LINE)
        cached = [rip // LINE for rip in self.trace]
        stretch = max(1, round(len(cached) / units))
        return {
            "units": units, "instructions": own / units, "other": other / units,
            "lines": statistics.median(len(set(cached[at:at + stretch])) for at in range(0, len(cached), stretch)),
            "fetched": fetched(cached) / units,
            "functions": [{"name": name, "instructions": n / units, "calls": calls[name] / units, "lines": len(lines[name])}
                          for name, n in counts.most_common()],
        }
