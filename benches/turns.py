"""Cases that are measured in turns within a time: what report.py is made of.

Every case is measured once before any is measured twice, so a run that is stopped, or whose time is over, has something of
all of them. A case that fails says so and takes no further turn; the others go on. After each turn of a case the result is
written, so nothing is lost however the run ends."""

import contextlib
import io
import json
import shutil
import time

from common import Ended, spread


class Case:
    """Variants by name, each a function that measures one number in `unit`, given the number of the turn; the first is what
    the others are held against. `needs` are programs without which the case is left out."""

    def __init__(self, name, unit, variants, needs=()):
        self.name, self.unit, self.variants, self.needs = name, unit, variants, needs
        self.values = {variant: [] for variant in variants}
        self.turns, self.longest, self.failure = 0, 0.0, None

    def left_out(self):
        """Why it is not measured at all, if so."""
        missing = [program for program in self.needs if shutil.which(program) is None]
        return f"{', '.join(missing)} is not installed" if missing else None

    def take_turn(self, errors):
        """Measures each variant once; whether that went well."""
        begin, taken = time.monotonic(), {}
        for variant, run in self.variants.items():
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    taken[variant] = run(self.turns)
            except (Ended, KeyboardInterrupt):
                raise
            except (Exception, SystemExit) as error:
                self.failure = f"{variant}: {str(error).strip() or type(error).__name__}"
                print(f"{self.name}: failed, {self.failure}", file=errors, flush=True)
                return False
        for variant, value in taken.items():
            self.values[variant].append(value)
        self.turns += 1
        self.longest = max(self.longest, time.monotonic() - begin)
        return True

    def shown(self):
        """What was measured so far, and turn by turn against the first variant."""
        first = self.values[next(iter(self.values))]
        ratio = lambda measured: spread([x / y for x, y in zip(measured, first)]) if all(first) else None
        return {variant: {**spread(m), "ratio": ratio(m)} for variant, m in self.values.items()}


def next_turn(cases, turns, left):
    """The case whose turn it is with `left` seconds to go: of those with the fewest turns the first one that ends in time."""
    open_cases = [case for case in cases if case.failure is None and case.turns < turns]
    in_time = [case for case in open_cases if case.turns == 0 or case.longest <= left]
    return min(in_time, key=lambda case: case.turns, default=None)


def table(cases):
    """All that was measured, for people."""
    lines = [f"{'':60} {'median':>10} {'least':>10} {'greatest':>10} turns  against the first"]
    for case in cases:
        if case.left_out() or case.turns == 0:
            lines.append(f"{case.name}: {case.left_out() or case.failure or 'not measured, the run was over before'}")
            continue
        lines.append(f"{case.name}, {case.unit}" + (f" (then failed, {case.failure})" if case.failure else ""))
        for variant, s in case.shown().items():
            ratio = f"{s['ratio']['median']:8.3f}" if s["ratio"] else ""
            lines.append(f"    {variant:56} {s['median']:10.3f} {s['least']:10.3f} {s['greatest']:10.3f} {s['n']:5} {ratio}")
    return "\n".join(lines) + "\n"


def measure_all(cases, turns, minutes, about, path, progress):
    """Measures cases, each at most `turns` times, and begins nothing that would take longer than `minutes` in all, except
    each case's first turn. Writes the result to `path` and, as a table, beside it; whether all cases went well."""
    begin = time.monotonic()
    measured = [case for case in cases if not case.left_out()]

    def save():
        path.parent.mkdir(parents=True, exist_ok=True)
        result = {
            **about, "minutes": round((time.monotonic() - begin) / 60, 1),
            "cases": {case.name: {"unit": case.unit, "variants": case.shown()} for case in measured if case.turns},
            "left_out": {case.name: case.left_out() for case in cases if case.left_out()},
            "failed": {case.name: case.failure for case in measured if case.failure},
        }
        path.write_text(json.dumps(result, indent=2) + "\n")
        path.with_suffix(".txt").write_text(table(cases))

    try:
        while (case := next_turn(measured, turns, begin + minutes * 60 - time.monotonic())) is not None:
            if case.take_turn(progress):
                minutes_in = (time.monotonic() - begin) / 60
                last = ", ".join(f"{variant} {m[-1]:.3g}" for variant, m in case.values.items())
                print(f"{minutes_in:5.1f} min: {case.name}, turn {case.turns}: {last} {case.unit}", file=progress, flush=True)
            save()
    finally:
        save()
        print(table(cases) + f"written to {path} and {path.with_suffix('.txt')}", flush=True)
    return not any(case.failure for case in measured)
