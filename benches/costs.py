#!/usr/bin/env python3
"""What the two placements cost (costs/costs.c): system calls, forks, execs and file accesses, near, far and natively,
in turns in the same run. CPU of all processes together, by the slope between N and 2N; median of several.

A far system call is two hand-overs between processes; "handoff" is that natively. Forks are of 20 MiB, in a simulation
whose other host has 1 GiB in use."""

import argparse

from common import ROOT, belljar, compile_c, measure, remove, run_experiment, save, spread

# Name, arguments before and behind N, how often, and whether simulated.
KINDS = [
    ("call", ["call"], [], 200_000, True),
    ("handoff", ["handoff"], [], 100_000, False),
    ("fork 20 MiB", ["fork"], [], 200, True),
    ("exec", ["exec"], [], 200, True),
    ("read 4 KiB", ["read"], [4096], 50_000, True),
    ("read 64 KiB", ["read"], [65536], 10_000, True),
    ("write 4 KiB", ["write"], [4096], 50_000, True),
    ("write 64 KiB", ["write"], [65536], 10_000, True),
]

EXPERIMENT = """
general: {{stop_time: 1 h}}
network: {{graph: {{type: 1_gbit_switch}}}}
hosts:
  a: {{network_node_id: 0, processes: [{{path: {program}, args: {args}, placement: {placement}, start_time: 1 s}}]}}
  b: {{network_node_id: 0, processes: [{{path: {program}, args: hog {others}, expected_final_state: running}}]}}
"""


def cpu(placement, program, arguments, others):
    """CPU seconds of one run."""
    if placement == "native":
        return measure([program, *arguments])[1].cpu
    if arguments[0] == "fork":
        said = " ".join(map(str, arguments))
        results, usage = run_experiment(EXPERIMENT.format(program=program, args=said, placement=placement, others=others))
        remove(results)
        return usage.cpu
    return measure([belljar(), "exec", "--placement", placement, "--", program, *arguments])[1].cpu


def slope(placement, program, before, behind, n, others):
    """Microseconds of CPU for each."""
    short, long = (cpu(placement, program, [*before, count, *behind], others) for count in (n, 2 * n))
    return (long - short) / n * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="how many of each, relative to the usual number")
    parser.add_argument("--others", type=int, default=1024, help="MiB that another guest has")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json")
    a = parser.parse_args()
    program = compile_c(ROOT / "benches" / "costs" / "costs.c", "costs")
    result = {"bench": "costs", "us": {}}
    print(f"{'us of CPU':14}{'near':>10}{'far':>10}{'native':>10}")
    for name, before, behind, n, is_simulated in KINDS:
        placements = ["near", "far", "native"] if is_simulated else ["native"]
        n = max(2, round(n * a.scale))
        values = {placement: [] for placement in placements}
        for _ in range(a.repeat):
            for placement in placements:
                values[placement].append(slope(placement, program, before, behind, n, a.others))
        result["us"][name] = {placement: spread(measured) for placement, measured in values.items()}
        row = [f"{spread(values[p])['median']:10.2f}" if p in values else f"{'':10}" for p in ("near", "far", "native")]
        print(f"{name:14}" + "".join(row), flush=True)
    save("costs", result, a.json)


if __name__ == "__main__":
    main()
