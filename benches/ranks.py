#!/usr/bin/env python3
"""Cost of a window to each rank of a run: hosts that send each other a datagram a millisecond, over the least latency of 1 ms, run alone and by
2, 4, 8 ... ranks on this machine, over memory and over TCP. From the slope over ranks follows what one more rank costs; `--model` says what
that comes to on machines of their own."""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from common import belljar, results_folder, save, spread, table

# The least latency of all paths, and so the length of a window.
LATENCY_MS = 1


def experiment(hosts, seconds):
    lines = "\n".join(
        f"  host{n:03}: {{network_node_id: 0, processes: [{{model: {{type: constant_rate, to: 'host{(n + 1) % hosts:03}:9', rate: 800 Kbit, "
        f"datagram_size: 100 B}}}}]}}"
        for n in range(hosts)
    )
    gml = f'graph [ node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ] edge [ source 0 target 0 latency "{LATENCY_MS} ms" ] ]'
    return f"general: {{stop_time: {seconds} s}}\nnetwork: {{graph: {{type: gml, inline: '{gml}'}}}}\nhosts:\n{lines}\n"


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(text, count, transport):
    """CPU and wall seconds of a run by so many ranks, one worker each."""
    with tempfile.TemporaryDirectory(prefix="ranks-", dir=results_folder()) as folder:
        with open(f"{folder}/exp.yaml", "w") as file:
            file.write(text)
        command = [belljar(), "run", "exp.yaml", "-o", "data", "--parallelism", "1", "--no-progress", "--rank-transport", transport]
        cpu, begin = cpu_of_children(), time.monotonic()
        ranks = [
            subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(count)})
            for rank in range(count)
        ]
        said = [rank.communicate()[1] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            sys.exit("".join(said))
        return cpu_of_children() - cpu, time.monotonic() - begin


def windows(text):
    """The number of windows, which is the same however the experiment is run."""
    with tempfile.TemporaryDirectory(prefix="ranks-", dir=results_folder()) as folder:
        with open(f"{folder}/exp.yaml", "w") as file:
            file.write(text)
        subprocess.run([belljar(), "run", "exp.yaml", "-o", "data", "--parallelism", "1", "--no-progress", "--profile", "--no-ranks"],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/data/profile.json") as file:
            return json.load(file)["windows"]["count"]


def slope(points):
    """Least squares: the cost of one more peer, and what there is without one."""
    n, x, y = len(points), sum(p for p, _ in points), sum(c for _, c in points)
    xx, xy = sum(p * p for p, _ in points), sum(p * c for p, c in points)
    per = (n * xy - x * y) / (n * xx - x * x)
    return per, (y - per * x) / n


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--ranks", default="1,2,4,8", help="numbers of ranks")
    parser.add_argument("--seconds", type=int, default=20, help="of simulated time, in the longer of two runs")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", default="2,8,16,64", help="numbers of machines that the cost is worked out for")
    parser.add_argument("--latency-us", type=float, default=25, help="of the network between them, one way")
    parser.add_argument("--json")
    a = parser.parse_args()
    short, long = experiment(a.hosts, max(1, a.seconds // 4)), experiment(a.hosts, a.seconds)
    more = windows(long) - windows(short)
    rows, points, alone = [], {"auto": [], "tcp": []}, 0.0
    for count in map(int, a.ranks.split(",")):
        for transport in ("auto", "tcp") if count > 1 else ("auto",):
            pairs = [(run(short, count, transport), run(long, count, transport)) for _ in range(a.repeat)]
            # Per window and rank: starting and loading are in both runs.
            cpu = spread([(many[0] - few[0]) / more / count * 1e6 for few, many in pairs])
            wall = spread([(many[1] - few[1]) / more * 1e6 for few, many in pairs])
            rows.append({"ranks": count, "transport": "alone" if count == 1 else {"auto": "memory", "tcp": "TCP"}[transport],
                         "cpu_us": cpu, "wall_us": wall})
            if count == 1:
                alone = cpu["median"]
            else:
                # The hosts' own work is shared out; what is left is the exchange.
                points[transport].append((count - 1, cpu["median"] - alone / count))
    print(table(["ranks", "way", "CPU a window and rank", "wall a window"],
                [[r["ranks"], r["transport"], f"{r['cpu_us']['median']:.1f} us", f"{r['wall_us']['median']:.1f} us"] for r in rows]))
    result = {"bench": "ranks", "hosts": a.hosts, "windows": more, "rows": rows, "model": []}
    if len(points["tcp"]) > 1:
        per, fixed = slope(points["tcp"])
        result["us_per_peer"] = per
        for machines in map(int, a.model.split(",")):
            cost = max(fixed, 0) + per * (machines - 1) + a.latency_us
            result["model"].append({"machines": machines, "us_per_window": cost})
        print(f"\none more peer over TCP: {per:.1f} us of CPU a window; with {a.latency_us:.0f} us between machines, one rank each:")
        print(table(["machines", "a window", "10,000 windows"],
                    [[m["machines"], f"{m['us_per_window']:.0f} us", f"{m['us_per_window'] / 100:.1f} s"] for m in result["model"]]))
    save("ranks", result, a.json)


if __name__ == "__main__":
    main()
