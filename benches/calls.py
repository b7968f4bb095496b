#!/usr/bin/env python3
"""CPU per system call, guest switch and clock reading (calls/calls.c), under `belljar exec` and natively: the slope
between N and 2N calls, measured from outside, the two in turns, median of several."""

import argparse

from common import ROOT, belljar, compile_c, measure, save, spread

KINDS = ["getppid", "jit", "read", "pipe", "switch", "clock", "id", "spin"]


def slope(prefix, program, kind, n):
    """Nanoseconds of CPU per call."""
    short, long = (measure([*prefix, program, kind, count])[1].cpu for count in (n, 2 * n))
    return (long - short) / n * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--placement", choices=["near", "far"])
    parser.add_argument("--json")
    a = parser.parse_args()
    program = compile_c(ROOT / "benches" / "calls" / "calls.c", "calls", "-pthread")
    under = [belljar(), "exec", *(["--placement", a.placement] if a.placement else []), "--"]
    result = {"bench": "calls", "calls": a.calls, "ns": {}}
    print(f"{'ns of CPU per call':20} {'belljar':>9} {'native':>9}")
    for kind in a.kinds:
        ours, theirs = [], []
        for _ in range(a.repeat):
            ours.append(slope(under, program, kind, a.calls))
            theirs.append(slope([], program, kind, a.calls))
        result["ns"][kind] = {"belljar": spread(ours), "native": spread(theirs)}
        print(f"{kind:20} {spread(ours)['median']:9.0f} {spread(theirs)['median']:9.0f}", flush=True)
    save("calls", result, a.json)


if __name__ == "__main__":
    main()
