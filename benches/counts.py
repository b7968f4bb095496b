"""The committed counts of instructions.py (instructions/counts.json), by compiler and workload: comparing and recording."""

import json
import pathlib

COUNTS = pathlib.Path(__file__).resolve().parent / "instructions" / "counts.json"
# Share by which a count may differ, in either direction: one that has become smaller is recorded too, or the next change could use it up unseen.
TOLERANCE = 0.02
# Instructions by which the count of a long unit must differ less: counts are exact, and 2 % of a message are many.
MOST = 100
# Functions recorded of each workload: those with the most instructions.
RECORDED = 25
# Functions named of a workload that has changed.
NAMED = 10


def read():
    return json.loads(COUNTS.read_text()) if COUNTS.exists() else {}


def record(compiler, measured):
    """Puts the counts of some workloads in the place of those that are committed for a compiler."""
    counts = read()
    for name, result in measured.items():
        functions = {function["name"]: round(function["instructions"], 1) for function in result["functions"][:RECORDED]}
        counts.setdefault(compiler, {})[name] = {"instructions": round(result["instructions"], 3), "functions": functions}
    COUNTS.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")


def changes(measured, committed):
    """Instructions that each function has more than is committed: (difference, committed, measured, name), the largest first. One that
    is not among the committed ones had at most as many as the last of these; one that is not measured any more has none."""
    now = {function["name"]: function["instructions"] for function in measured["functions"]}
    before = committed["functions"]
    least = min(before.values(), default=0)
    found = [(now.get(name, 0) - count, count, now.get(name, 0), name) for name, count in before.items()]
    found += [(count - least, least, count, name) for name, count in now.items() if name not in before and count > least]
    return sorted(found, reverse=True)


def compare(name, unit, measured, committed):
    """(True if the counts agree, a line or a report)."""
    difference = measured["instructions"] - committed["instructions"]
    said = (f"{name}: {measured['instructions']:.1f} instructions a {unit}, {abs(difference):.1f} ({abs(difference) / committed['instructions']:.2%}) "
            f"{'more' if difference > 0 else 'fewer'} than the committed {committed['instructions']:.1f}")
    allowed = min(TOLERANCE * committed["instructions"], MOST)
    if abs(difference) < allowed:
        return True, said
    moved = changes(measured, committed)
    moved = [change for change in (moved if difference > 0 else reversed(moved)) if change[0] * difference > 0 and abs(change[0]) >= 0.1][:NAMED]
    lines = [f"{said}; less than {allowed:.1f} are allowed",
             f"functions that {'grew' if difference > 0 else 'shrank'} most (instructions a {unit}: change, committed, measured):"]
    lines += [f"{change:+10.1f} {before:9.1f} {now:9.1f}  {function}" for change, before, now, function in moved]
    lines += ["If the change is worth it, or faster: `benches/instructions.py --record` writes the new counts, which are committed with the change;",
              "its message has the figure and the reason."]
    return False, "\n".join(lines)
