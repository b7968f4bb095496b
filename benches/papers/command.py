"""`belljar reproduce`: lists and runs the experiments of the papers."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import platform
import re
import sys
import time
from collections.abc import Sequence

from . import phantom, phantom_others, elfs, simbricks, vt_bmv2, ns3  # noqa: F401 - registered in the order of the list
from .claims import EXPERIMENTS, PAPERS, Claim, Experiment, Size
from .shown import as_data, record, report, save_figure, write_page

#: Lines of the output of a command that has failed.
MOST_LINES = 12

_DESCRIPTION = """Repeats experiments of the papers that Belljar follows, each by its name. A run takes minutes on two cores, prints the paper's values beside
ours, and writes report.md, result.json, figure.svg and figure.csv to DIR/NAME. Without a name it lists all; a pattern such as 'phantom-*' names several."""
_EXAMPLES = """Examples:
  belljar reproduce                             the list
  belljar reproduce phantom-load
  belljar reproduce 'vt-*' -o papers
  belljar reproduce phantom-scale --full        in the size of the paper, which may take hours

The exit status is 0 if every experiment was measured, whatever its verdict, 1 if one failed or lacks a program, and 2 if there is none of that name."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("belljar reproduce", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments; 'all' for each")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("papers.data"), metavar="DIR", help="the folder for results [default: papers.data]")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_const", const="full", dest="size", default="usual", help="the size of the paper")
    size.add_argument("--small", action="store_const", const="small", dest="size", help="the size of a test, which shows that it works and no more")
    parser.add_argument("--page", action="store_true", help="write docs/papers.md anew, with the results of the usual size in DIR")
    return parser


def machine() -> str:
    """The machine, for reports."""
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{len(os.sched_getaffinity(0))} processors ({found[1] if found else platform.machine()}), Linux {platform.release().partition('-')[0]}"


def _selected(names: Sequence[str]) -> list[Experiment]:
    chosen: dict[str, Experiment] = {}
    for name in names:
        found = [one for one in EXPERIMENTS.values() if name == "all" or fnmatch.fnmatchcase(one.name, name)]
        if not found:
            raise LookupError(f"error: no experiment is called '{name}': 'belljar reproduce' lists them")
        chosen |= {one.name: one for one in found}
    return list(chosen.values())


def show_list() -> None:
    """Prints all experiments."""
    for key, paper in PAPERS.items():
        print(paper)
        for one in EXPERIMENTS.values():
            if one.name.startswith(f"{key}-"):
                print(f"  {one.name:24} {one.figure:24} about {one.minutes:g} min")


def other_work(seconds: float = 0.5) -> float:
    """Share of the processors' time that is in use now."""
    def read() -> tuple[int, int]:
        ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]

    before = read()
    time.sleep(seconds)
    total, idle = (after - earlier for after, earlier in zip(read(), before))
    return 1 - idle / total if total else 0.0


def judged(claim: Claim, size: Size, load: float) -> Claim:
    """The claim, without a judgement where the size of the run, or other work on the machine, permits none."""
    busy = claim.idle and load > 0.2
    if not busy and not (size.name == "small" and (claim.timed or claim.idle)):
        return claim
    return dataclasses.replace(claim, shown=None, text=f"{claim.text} (the machine has other work)" if busy else claim.text)


def run(one: Experiment, size: Size, output: pathlib.Path) -> str | None:
    """Measures an experiment and writes its results. Returns why not, if it fails."""
    lacking = one.lacks()
    if lacking is not None:
        return lacking
    print(f"{one.name}: {one.figure} of {one.paper}", file=sys.stderr, flush=True)
    load = other_work()
    began = time.monotonic()
    try:
        result = one.measure(size)
    except SystemExit as error:
        return "\n".join(str(error.code).splitlines()[:MOST_LINES])
    except (OSError, AssertionError, RuntimeError, LookupError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    took = time.monotonic() - began
    result.claims = [judged(claim, size, load) for claim in result.claims]
    folder = output / one.name
    folder.mkdir(parents=True, exist_ok=True)
    about = f"{machine()}, {load:.0%} busy before"
    text = report(one, result, size.name, took, about)
    (folder / "report.md").write_text(text)
    (folder / "result.json").write_text(json.dumps(as_data(one, result, size.name, took, about), indent=1) + "\n")
    print(text, flush=True)
    if result.plot is not None:
        lacking = save_figure(result.plot, folder / "figure.svg")
        print(f"note: {lacking}" if lacking else f"figure: {folder / 'figure.svg'}", file=sys.stderr, flush=True)
    return None


def main(arguments: Sequence[str]) -> int:
    """Executes the command; returns its exit status."""
    given = _parser().parse_args(arguments)
    try:
        chosen = _selected(given.names)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    if not chosen and not given.page:
        show_list()
        return 0
    failed = 0
    for one in chosen:
        reason = run(one, Size(given.size), given.output)
        if reason is not None:
            failed += 1
            print(f"error: {one.name}: {reason}", file=sys.stderr, flush=True)
    if given.page:
        taken = record(given.output)
        write_page()
        print(f"docs/papers.md is written, with {len(taken)} results of {given.output}")
    return 1 if failed else 0
