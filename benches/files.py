#!/usr/bin/env python3
"""CPU per operation on files (files/files.c), under `belljar exec` and natively: the slope between N and 2N operations,
measured from outside, the two in turns, median of several."""

import argparse
import tempfile

from common import ROOT, belljar, compile_c, measure, save, spread

KINDS = [("open", 0), ("stat", 0), ("read", 4096), ("read", 65536), ("write", 4096), ("write", 65536)]


def slope(prefix, program, kind, size, n, cwd):
    """Nanoseconds of CPU per operation."""
    short, long = (measure([*prefix, program, kind, size, count], cwd=cwd)[1].cpu for count in (n, 2 * n))
    return (long - short) / n * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--placement", choices=["near", "far"])
    parser.add_argument("--json")
    a = parser.parse_args()
    program = compile_c(ROOT / "benches" / "files" / "files.c", "files")
    under = [belljar(), "exec", *(["--placement", a.placement] if a.placement else []), "--"]
    result = {"bench": "files", "calls": a.calls, "ns": {}}
    print(f"{'ns of CPU each':20} {'belljar':>9} {'native':>9} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as cwd:
        for kind, size in KINDS:
            name = f"{kind} {size}" if size else kind
            n = a.calls if size <= 4096 else a.calls // 8
            ours, theirs = [], []
            for _ in range(a.repeat):
                ours.append(slope(under, program, kind, size, n, cwd))
                theirs.append(slope([], program, kind, size, n, cwd))
            ours, theirs = spread(ours), spread(theirs)
            # With few calls a difference of two runs may be nothing that can be measured.
            ratio = ours["median"] / theirs["median"] if theirs["median"] > 0 else None
            result["ns"][name] = {"belljar": ours, "native": theirs, "ratio": ratio}
            shown = f"{ratio:7.2f}" if ratio is not None else "      -"
            print(f"{name:20} {ours['median']:9.0f} {theirs['median']:9.0f} {shown}", flush=True)
    save("files", result, a.json)


if __name__ == "__main__":
    main()
