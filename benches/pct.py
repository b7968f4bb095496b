#!/usr/bin/env python3
"""How often races show under `scheduling: priorities`, against the bound of PCT (ASPLOS 2010): 1 / (n k^(d-1)) for n threads, k possible
points and depth d, by d - 1 points. The programs (pct/races.c) make no system call between the racing instructions.

A rate below the bound counts if its one-sided confidence interval of 99 % lies below."""

import argparse
import math
import pathlib
import subprocess
import tempfile

from common import ROOT, belljar, compile_c, save

# Race: its depth, and the bounds of points: calls and instructions.
RACES = {"order": (1, 1, 1), "lost": (2, 10, 700), "window": (3, 10, 700)}
# The main thread and two others.
THREADS = 3
WORK = 40


def upper_limit(hits, runs, confidence=0.99):
    """Largest rate that is not excluded (Clopper and Pearson): with it, so few hits have a probability of 1 - confidence."""
    if hits == runs:
        return 1.0

    def at_most(rate):
        terms = (math.lgamma(runs + 1) - math.lgamma(n + 1) - math.lgamma(runs - n + 1) + n * math.log(rate) + (runs - n) * math.log1p(-rate)
                 for n in range(hits + 1))
        return sum(math.exp(term) for term in terms)

    low, high = 1e-12, 1 - 1e-12
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > 1 - confidence else (low, middle)
    return high


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="runs of each race")
    parser.add_argument("--placement", choices=("near", "far"), default="near")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    program = compile_c(ROOT / "benches" / "pct" / "races.c", "pct/races", "-pthread")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for race, (depth, calls, instructions) in RACES.items():
            order = f"{{priorities: {{points: {depth - 1}, calls: {calls}, instructions: {instructions}}}}}"
            file = pathlib.Path(folder, f"{race}.yaml")
            file.write_text(
                "general: {stop_time: 5 s}\nnetwork: {graph: {type: 1_gbit_switch}}\nhosts:\n  a:\n    network_node_id: 0\n"
                f"    host_options: {{scheduling: {order}}}\n    processes: [{{path: {program}, args: {race} {WORK}, expected_final_state: any}}]\n")
            hits = 0
            for seed in range(1, a.runs + 1):
                command = [belljar(), "run", file, "-o", pathlib.Path(folder, "data"), "--force", "--no-progress", "--seed", str(seed), "--placement", a.placement]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                hits += "exited 1" in done.stdout
            k = calls * instructions
            bound = 1 / (THREADS * k ** (depth - 1))
            rows.append({"race": race, "depth": depth, "k": k, "runs": a.runs, "hits": hits, "rate": hits / a.runs, "bound": bound,
                         "holds": upper_limit(hits, a.runs) >= bound})
    print(f"{'race':8} {'depth':>5} {'k':>6} {'runs':>6} {'rate':>9} {'bound':>11}")
    for row in rows:
        verdict = "" if row["holds"] else "  BELOW THE BOUND"
        print(f"{row['race']:8} {row['depth']:5} {row['k']:6} {row['runs']:6} {row['rate']:9.4f} {row['bound']:11.2e}{verdict}")
    save("pct", {"rows": rows, "placement": a.placement}, a.json)
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
