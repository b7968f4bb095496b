#!/usr/bin/env python3
"""What more workers make of the P2P program (p2p/p2p.c): measured on this machine, estimated beyond it.

Runs with different numbers of workers take turns and each is held against the one with a single worker of the same
turn. One more run with --profile measures, in CPU time, each host's part of each window; from that follows what
more workers could make of it: in each window no schedule is faster than an even share of all work or than the host
that takes longest (the critical path), and the engine's greedy one is never slower than both together. What it costs
workers to meet is added per window (--meeting, an assumption).
"""

import argparse
import os
import re

from common import ROOT, belljar, compile_c, measure, remove, run_experiment, save, spread

TOTAL = re.compile(
    r"profile: (\d+) windows, (\d+) runs of hosts, (\d+) messages \| hosts ([\d.]+) ms, handing over ([\d.]+) ms, critical path ([\d.]+) ms"
)
ESTIMATE = re.compile(r"profile: +(\d+) workers: ([\d.]+) to ([\d.]+) ms")


def experiment(program, a):
    hosts = "\n".join(
        f"  peer{i:06}: {{network_node_id: 0, processes: [{{path: {program}, "
        f"args: {i} {a.peers} {a.messages} {a.seconds} {a.weights} 1, start_time: 1 s}}]}}"
        for i in range(a.peers)
    )
    return (
        f"general: {{stop_time: {a.seconds + 2} s, seed: 1}}\n"
        "network:\n  graph:\n    type: gml\n    inline: |\n"
        '      graph [ node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ] '
        f'edge [ source 0 target 0 latency "{a.latency}" ] ]\n'
        f"hosts:\n{hosts}\n"
    )


def profile(program, a):
    """The totals and, by number of workers, the bounds in seconds."""
    results, _ = run_experiment(experiment(program, a))
    text, _ = measure(
        [belljar(), "run", results.parent / "experiment.yaml", "-o", results.parent / "again", "--no-progress",
         "--parallelism", 1, "--profile"]
    )
    remove(results)
    windows, runs, messages, hosts, handing, critical = map(float, TOTAL.search(text).groups())
    meeting = windows * a.meeting / 1e6
    bounds = {int(w): (float(low) / 1e3, float(high) / 1e3 + meeting) for w, low, high in ESTIMATE.findall(text)}
    return {
        "windows": windows, "runs": runs, "messages": messages, "hosts_s": hosts / 1e3, "handing_over_s": handing / 1e3,
        "critical_path_s": critical / 1e3, "workers": {w: {
            "speedup": [bounds[1][0] / high, bounds[1][0] / low],
            "waiting": [1 - bounds[1][0] / (low * w), 1 - bounds[1][0] / (high * w)],
        } for w, (low, high) in bounds.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=100)
    parser.add_argument("--messages", type=int, default=100, help="in flight per peer at the start")
    parser.add_argument("--weights", choices=["uniform", "exp", "ring"], default="uniform")
    parser.add_argument("--latency", default="50 ms")
    parser.add_argument("--seconds", type=int, default=10, help="simulated seconds")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="the first is the one to compare with")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--meeting", type=float, default=2.0, help="microseconds per window in which workers meet")
    parser.add_argument("--json", help="where to write the result")
    a = parser.parse_args()
    program = compile_c(ROOT / "benches" / "p2p" / "p2p.c", "p2p")
    runs = {w: [] for w in a.workers}
    for turn in range(a.repeat):
        for workers in a.workers:
            os.environ["BELLJAR_PARALLELISM"] = str(workers)
            results, usage = run_experiment(experiment(program, a))
            remove(results)
            runs[workers].append(usage)
        print(f"turn {turn + 1}: " + ", ".join(f"{w}: {u[-1].wall:.2f} s wall, {u[-1].cpu:.2f} s CPU" for w, u in runs.items()), flush=True)
    os.environ.pop("BELLJAR_PARALLELISM", None)
    base = runs[a.workers[0]]
    result = {"bench": "scaling", "peers": a.peers, "messages": a.messages, "weights": a.weights, "latency": a.latency,
              "measured": {w: {"wall_s": spread([u.wall for u in us]), "cpu_s": spread([u.cpu for u in us]),
                               "speedup": spread([b.wall / u.wall for b, u in zip(base, us)])} for w, us in runs.items()},
              "profile": profile(program, a)}
    for w, m in result["measured"].items():
        print(f"{w:3} workers measured:  {m['speedup']['median']:.2f}x ({m['speedup']['least']:.2f} to {m['speedup']['greatest']:.2f})")
    p = result["profile"]
    print(f"{p['windows']:.0f} windows, {p['runs'] / p['windows']:.1f} hosts each; hosts {p['hosts_s']:.2f} s, "
          f"handing over {p['handing_over_s']:.2f} s, critical path {p['critical_path_s']:.2f} s")
    for w, e in p["workers"].items():
        print(f"{w:3} workers estimated: {e['speedup'][0]:.1f} to {e['speedup'][1]:.1f}x, waiting "
              f"{100 * e['waiting'][0]:.0f} to {100 * e['waiting'][1]:.0f} %")
    save("scaling", result, a.json)


if __name__ == "__main__":
    main()
