#!/usr/bin/env python3
"""Runs the worked examples of this folder and draws what comes out: telemetry, flowlet, dctcp, syn_flood, nopaxos.

    pip install 'belljar[analysis]'
    python3 examples/p4/figures.py telemetry -o figures
"""

import argparse
import json
import pathlib
import sys
import tempfile

import matplotlib
import pandas as pd

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "python"))
import belljar  # noqa: E402


def run(name, work, variant="", **settings):
    """Runs an example with some settings changed."""
    experiment = HERE / name / f"{name}.yaml"
    return belljar.run(experiment, work / f"{name}{variant}", settings={k.replace("__", "."): v for k, v in settings.items()})


def telemetry(work):
    """How long probes waited in each switch, above one another, and how long the hosts say that the probes took."""
    reports = pd.read_csv(run("telemetry", work).files("h2", "stdout", "probe.py")[0])
    reports["waited"] = (reports.egress_us - reports.ingress_us) / 1e3
    probes = reports.pivot(index="sent_us", columns="switch", values="waited")
    took = reports.groupby("sent_us").received_us.first()
    figure, axes = plt.subplots(figsize=(7, 3.2))
    at = probes.index / 1e6
    axes.stackplot(at, [probes[switch] for switch in probes], labels=[f"in the queue of {switch}" for switch in probes])
    axes.plot(at, (took - took.index) / 1e3, "k", lw=0.8, label="from host to host")
    axes.set(xlabel="time (s)", ylabel="delay (ms)", xlim=(at.min(), at.max()), ylim=(0, None))
    axes.legend()
    return figure


def flowlet(work):
    """Times of bursts with three ways of choosing a path, over five seeds."""
    figure, axes = plt.subplots(figsize=(6, 3.2))
    for policy, label in (("flow", "by flow (ECMP)"), ("flowlet", "by flowlet"), ("packet", "by packet")):
        times = []
        for seed in range(1, 6):
            leaves = {f"switches__leaf{n}__runtime": [f"leaf{n}-runtime.json", f"by-{policy}.json"] for n in (1, 2)}
            done = run("flowlet", work, f"-{policy}-{seed}", general__seed=seed, **leaves)
            times += [float(line) for n in range(1, 5) for line in done.stdout(f"h{n}", "bursts.py").split()]
        times.sort()
        axes.plot(times, [n / len(times) for n in range(1, len(times) + 1)], label=label)
    axes.set(xlabel="time of a burst of 60 kB (ms)", ylabel="share of the bursts", xlim=(0, 80), ylim=(0, 1))
    axes.legend(loc="lower right")
    return figure


def dctcp(work):
    """Throughput and round-trip time by the threshold of marking."""
    thresholds = [1, 2, 4, 8, 16, 40, 120]
    rates, delays = [], []
    for threshold in thresholds:
        marking = {"table": "MyEgress.marking", "default_action": True, "action_name": "MyEgress.mark_above",
                   "action_params": {"packets": threshold}}
        file = work / f"above-{threshold}.json"
        file.write_text(json.dumps({"target": "bmv2", "table_entries": [marking]}))
        both = {f"switches__s{n}__runtime": [f"s{n}-runtime.json", str(file)] for n in (1, 2)}
        done = run("dctcp", work, f"-{threshold}", **both)
        rates.append(sum(float(done.stdout(host, "stream.py").split()[0]) for host in ("h3", "h4")))
        delays.append(1e3 * float(done.stdout("h1", "ping").split("/")[-3]))
    figure, axes = plt.subplots(figsize=(6, 3.2))
    axes.semilogx(thresholds, rates, "o-")
    axes.set(xlabel="packets that may wait without a mark", ylabel="payload of both flows (Mbit/s)", ylim=(0, 1000))
    right = axes.twinx()
    right.semilogx(thresholds, delays, "s--", color="C1")
    right.set_ylabel("mean round-trip time (us)", color="C1")
    right.set_ylim(0, None)
    return figure


def syn_flood(work):
    """When connections were opened, and how long that took, with the filter and without."""
    figure, both = plt.subplots(2, 1, figsize=(6, 4), sharex=True, sharey=True)
    for axes, runtime, title in ((both[0], ["s1-runtime.json"], "without the filter"),
                                 (both[1], ["s1-runtime.json", "filter.json"], "with the filter")):
        done = run("syn_flood", work, f"-{len(runtime)}", switches__s1__runtime=runtime)
        lines = [line.split() for line in done.stdout("h1", "client.py").splitlines()]
        opened = [(float(at), float(took)) for at, took in lines if took != "failed"]
        failed = [float(at) for at, took in lines if took == "failed"]
        axes.axvspan(3, 8, color="0.9")
        axes.plot(*zip(*opened), "o", ms=3, label=f"{len(opened)} opened")
        axes.plot(failed, [3] * len(failed), "x", ms=4, color="C3", label=f"{len(failed)} failed")
        axes.set(title=title, ylabel="seconds")
        axes.legend(loc="center right")
    both[1].set_xlabel("time of the first SYN (s); flood in grey")
    return figure


def nopaxos(work):
    """Latency against throughput of NOPaxos with either sequencer and of Multi-Paxos, by the number of clients."""
    figure, axes = plt.subplots(figsize=(6, 3.6))
    for protocol, sequencer, label in (("nopaxos", "switch", "NOPaxos, the switch is the sequencer"),
                                       ("nopaxos", "host", "NOPaxos, a host is the sequencer"), ("paxos", "switch", "Multi-Paxos")):
        points = []
        for clients in range(1, 13):
            settings = {f"hosts__r{n}__processes__0__args": f"replica {protocol} {n}" for n in (1, 2, 3)}
            settings |= {f"hosts__c{n}__processes__0__args": f"client {protocol} 0.1" for n in range(1, clients + 1)}
            settings |= {f"hosts__c{n}__processes": [] for n in range(clients + 1, 13)}
            done = run("nopaxos", work, f"-{protocol}-{sequencer}-{clients}", switches__s1__runtime=["s1-runtime.json", f"by-{sequencer}.json"], **settings)
            said = [done.stdout(f"c{n}", "nopaxos").replace(",", "").split() for n in range(1, clients + 1)]
            rates = [float(words[0]) for words in said]
            points.append((sum(rates), sum(rate * float(words[3]) for rate, words in zip(rates, said)) / sum(rates)))
        print(label, "; ".join(f"{rate:.0f}/s {latency:.1f} us" for rate, latency in points))
        axes.plot([rate / 1e3 for rate, _ in points], [latency for _, latency in points], "o-", ms=4, label=label)
    axes.set(xlabel="requests per second (thousands)", ylabel="mean latency (us)", xlim=(0, None), ylim=(0, 300))
    axes.legend()
    return figure


FIGURES = {"telemetry": telemetry, "flowlet": flowlet, "dctcp": dctcp, "syn_flood": syn_flood, "nopaxos": nopaxos}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"{', '.join(FIGURES)}; all if none is named")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("figures"))
    given = parser.parse_args()
    unknown = set(given.figures) - set(FIGURES)
    if unknown:
        parser.error(f"there is no figure {', '.join(sorted(unknown))}: there are {', '.join(FIGURES)}")
    given.output.mkdir(parents=True, exist_ok=True)
    for name in given.figures or FIGURES:
        with tempfile.TemporaryDirectory() as work:
            figure = FIGURES[name](pathlib.Path(work))
        figure.tight_layout()
        figure.savefig(given.output / f"p4-{name.replace('_', '-')}.png", dpi=110)
        print(given.output / f"p4-{name.replace('_', '-')}.png")


if __name__ == "__main__":
    main()
