"""docs/compatibility.md: the programs, what the suites came to in each place, side by side, and why where they differ."""

import pathlib

from programs import table

from . import cpython, golang, nodejs, results, units
from .places import WHERE

HEAD = """# Compatibility

Made by `BELLJAR_UPDATE_DOCS=1 ./test --all` from what it ran on this machine's Debian.

## Programs

Each in a small experiment between hosts (`tests/programs`), with what its package, or its language's registry, has; *works* means that what it is for
came out right, with all its processes near, and again with all of them far. No program asked for a system call, or for anything
else, that is not supported, unless the notes say so. More of them run in the tests and in [examples](../examples).
netperf is not among them: Debian's main archive does not have it. Nor is BMv2 (`simple_switch`, `simple_switch_grpc`), which no archive or registry
has and which builds for an hour: on hosts it is untested. P4 programs for it run on Belljar's own switches ([guide](guide/p4.md)).

{programs}

{simulators}## P4 programs

Belljar's compiler and switch are compared with p4c and BMv2 by p4c's own test data: `BELLJAR_P4C=DIR cargo test -p belljar-p4c --test compiler`, with DIR a checkout of p4c. 469 of its
487 samples for v1model compile. p4c's back end for BMv2 refuses the others too, or they have no `main`; one needs a module of simple_switch. All 203 packet tests pass, and of 583 wrong programs 581 are refused. 511
of the 521 whose line p4c shows are refused with that line among those shown (98.1 %), 475 with it as the first (91.2 %). P4Info is the same for 452 of 453 programs; of the other, p4c leaves out a register. `samples.rs` there has the reason for each difference.

Of 105 programs whose JSON by p4c is at hand, 103 did the same as p4c's JSON with 1,000 random packets and entries. The other two have `out` parameters that get no value, `gauntlet_short_circuit-bmv2` of a function and
`gauntlet_uninitialized_bool_struct-bmv2` of an action, so that the language leaves open what the argument is afterwards. Belljar leaves it as it was; p4c copies a variable to it that is 0 on BMv2.

## Programs' own test suites

`python3 tests/suites UNIT` runs one of them by hand. Test suites that others wrote for Linux, run test by test on Linux itself ("native"), on a simulated host inside the simulator's
process ("near") and in processes of their own ("far"). A number is how many tests passed; in parentheses failed, and skipped.
*differ* counts the tests that pass natively and not in one of the other places; each of them is explained below. {versions}.

"""

# Not made in the tests: SimBricks is not on every machine.
SIMULATORS = pathlib.Path(__file__).with_name("simulators.txt")


def summary(found):
    counts = found.counts()
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def cell(found):
    counts = found.counts()
    return f"{counts['passed']} ({counts['failed']}, {counts['skipped']})"


def differences(folder, unit):
    """(where, test, outcome, its explanation or None) of everything that differs."""
    native = units.load(unit, "native", folder)
    reasons = results.explanations()
    for where in WHERE[1:]:
        found = units.load(unit, where, folder)
        for test, outcome, _ in results.worse(native, found):
            yield where, test, outcome, next((e for e in reasons if e.covers(unit, test, where)), None)


def document(target):
    """The whole text from what is kept under `target`; `None` while a unit has not run everywhere."""
    folder = target / "suites"
    lines, reasons = [], {}
    for unit in units.UNITS:
        found = [units.load(unit, where, folder) for where in WHERE]
        if None in found:
            return None
        differing = {}
        for where, test, outcome, reason in differences(folder, unit):
            differing.setdefault(test, []).append(f"{outcome} {where}")
            if reason:
                reasons.setdefault(reason.why, {}).setdefault(unit, {}).setdefault(test, []).append(f"{outcome} {where}")
        lines.append(f"| {unit} | {' | '.join(map(cell, found))} | {len(differing) or ''} |")
    versions = f"{cpython.version()}, {golang.version().replace('go', 'Go ', 1)}, node {nodejs.version(folder).lstrip('v')}"
    text = HEAD.format(versions=versions, programs=table.table(target), simulators=SIMULATORS.read_text()) + "| suite | native | near | far | differ |\n|---|---:|---:|---:|---:|\n"
    text += "\n".join(lines) + "\n\n## What differs, and why\n"
    for why, by_unit in reasons.items():
        text += f"\n{why}\n\n"
        for unit, tests in by_unit.items():
            text += f"* {unit}: {listed(tests)}\n"
    return text


def listed(tests):
    """Names of tests and where they differ; many that differ in the same way are counted."""
    by_outcome = {}
    for test, where in tests.items():
        by_outcome.setdefault(", ".join(where), []).append(test)
    parts = []
    for where, names in by_outcome.items():
        shown = ", ".join(f"`{name}`" for name in names[:6])
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        parts.append(f"{shown}{more} ({where})")
    return "; ".join(parts)
