"""Experiments of Tracey, Jansen, Goldberg: High Performance Tor Experimentation from the Magic of Dynamic ELFs, USENIX CSET 2018."""

from __future__ import annotations

import pathlib
import shutil
import statistics
import tempfile
import types

import scaling
from common import results_folder, run_experiment

from . import messages
from .claims import Claim, Plot, Result, Row, Size, experiment, number, progress, ratio
from .phantom_others import tor_network

PARETO = "pareto"


@experiment("elfs-phold", "figure 6", minutes=3, full="250 to 4,000 hosts, 50 to 1,000 messages each, for 60 simulated seconds, five turns.", differs="""
    The original Shadow, whose logging and loading the paper improves, is not measured: ours has neither to begin with. What is left of the figure is work stealing, on and off, with 1 and 2 workers where
    the paper has 1 to 32. The paper gives no shape of its Pareto distribution; ours is 1.5, of which 1 % of the hosts get 22 % of all messages.""")
def phold(size: Size) -> Result:
    """PHOLD with Pareto weights over messages, hosts and threads, with and without stealing of work."""
    turns = size.pick(1, 3, 5)
    counts, hosts, seconds = size.pick(([2, 5], [5, 10], 1), ([10, 50, 100], [100, 250, 500], 3), ([50, 250, 1000], [250, 1000, 4000], 59))
    middle_count, middle_hosts = counts[1], hosts[1]

    def turn_by_turn(peers: int, count: int) -> dict[str, float]:
        variants = {"1 worker": (1, "true"), "2 workers, no stealing": (2, "false"), "2 workers, stealing": (2, "true")}
        walls: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(turns):
            for name, (workers, stealing) in variants.items():
                walls[name].append(messages.run(peers, count, seconds, weights=PARETO, workers=workers, options=("--stealing", stealing))[1].wall)
        medians = {name: statistics.median(values) for name, values in walls.items()}
        progress(f"{peers} hosts, {count} messages: " + ", ".join(f"{name} {value:.2f} s" for name, value in medians.items()))
        return medians

    by_count = {count: turn_by_turn(middle_hosts, count) for count in counts}
    by_hosts = {peers: by_count[middle_count] if peers == middle_hosts else turn_by_turn(peers, middle_count) for peers in hosts}
    gains = [1 - of["2 workers, stealing"] / of["2 workers, no stealing"] for of in (*by_count.values(), *by_hosts.values())]
    speedup = [of["1 worker"] / of["2 workers, stealing"] for of in by_hosts.values()]
    return Result(
        [Row("time saved by stealing, median", "31 % with 4 threads, a loss of 22 % with 32", f"{statistics.median(gains):.0%} with 2 (from {min(gains):.0%} to {max(gains):.0%})"),
         Row("gain of the second worker", "", f"{min(speedup):.2f} to {max(speedup):.2f} times"),
         *(Row(f"time, {peers} hosts, {middle_count} messages each", "", ", ".join(number(value, "s") for value in of.values())) for peers, of in by_hosts.items())],
        [Claim("stealing makes uneven loads faster, or no slower than 5 %", statistics.median(gains) > -0.05, idle=True),
         Claim("the effect is about the same for all numbers of messages (within 20 percentage points)", max(gains) - min(gains) < 0.2, idle=True)],
        Plot("messages of all hosts", "time / s", [(name, peers * middle_count, value) for peers, of in by_hosts.items() for name, value in of.items()]))


@experiment("elfs-balance", "figures 3 and 5", minutes=2, full="1,000 hosts, 250 messages each, for 60 simulated seconds.", differs="""
    The paper draws the time that each of 24 threads is blocked. With two cores the time that workers wait is measured with two; for more it follows from one run's profile: no schedule is faster than
    an even share of all work or than the slowest host of each window, and a greedy one is never slower than both together. The estimate for two is held against the measurement.""")
def balance(size: Size) -> Result:
    """How long workers wait for each other under an uneven load: measured with two, estimated for more."""
    peers, count, seconds, turns = size.pick((5, 5, 2, 1), (250, 50, 3, 3), (1000, 250, 60, 5))
    a = types.SimpleNamespace(peers=peers, messages=count, seconds=seconds, weights=PARETO, latency="50 ms", meeting=2.0)
    estimates = scaling.profile(messages.program(), a)["workers"]
    walls: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(turns):
        for workers in walls:
            walls[workers].append(messages.run(peers, count, seconds, weights=PARETO, workers=workers)[1].wall)
    measured = statistics.median(one / two for one, two in zip(walls[1], walls[2]))
    low, high = estimates[2]["speedup"]
    error = 0.0 if low <= measured <= high else min(abs(measured / low - 1), abs(measured / high - 1))
    progress(f"two workers: measured {measured:.2f} times, estimated {low:.2f} to {high:.2f}")
    shown = [workers for workers in (2, 4, 8, 16, 32) if workers in estimates]
    return Result(
        [Row("gain of two workers: measured, estimated", "", f"{measured:.2f} times, {low:.2f} to {high:.2f} times (error {error:.0%})"),
         *(Row(f"time that workers wait, {workers} workers, estimated", "most of the time without stealing (figure 3), little and equal with it (figure 5)",
               f"{estimates[workers]['waiting'][1]:.0%} to {estimates[workers]['waiting'][0]:.0%}") for workers in shown),
         *(Row(f"gain of {workers} workers, estimated", "", f"{estimates[workers]['speedup'][0]:.1f} to {estimates[workers]['speedup'][1]:.1f} times") for workers in shown)],
        [Claim("the estimate for two workers is right within 25 %", error < 0.25, idle=True),
         Claim("with stealing two workers wait for less than a third of the time", max(estimates[2]["waiting"]) < 1 / 3, timed=True)],
        Plot("workers", "gain", [(name, workers, of["speedup"][n]) for n, name in enumerate(("estimate, at least", "estimate, at most")) for workers, of in estimates.items()]
             + [("measured", 2, measured)], log_x=True))


@experiment("elfs-logging", "figure 2", minutes=2, full="1,000 hosts, 100 messages each for 60 simulated seconds.", differs="""
    The paper compares logging behind a lock with no logging at all: 115 hours and 9. Ours writes more, a line for each system call and each packet, through a queue for each worker to one writer, and
    is compared with no logging, too. With two cores the second worker shares its core with the writer.""")
def logging(size: Size) -> Result:
    """The price of logs of all system calls and packets, with one worker and with two."""
    peers, count, seconds, turns = size.pick((5, 5, 1, 1), (100, 50, 3, 3), (1000, 100, 59, 3))
    logs = ("--pcap", "--strace")
    walls = {(workers, bool(options)): [] for workers in (1, 2) for options in ((), logs)}
    for _ in range(turns):
        for workers, logged in walls:
            walls[workers, logged].append(messages.run(peers, count, seconds, workers=workers, options=logs if logged else ())[1].wall)
    middle = {key: statistics.median(values) for key, values in walls.items()}
    slower = {workers: ratio(middle[workers, True], middle[workers, False]) for workers in (1, 2)}
    gain = {logged: ratio(middle[1, logged], middle[2, logged]) for logged in (False, True)}
    progress(", ".join(f"{workers} workers: {factor:.2f} times as long with logs" for workers, factor in slower.items()))
    return Result(
        [Row("time with logs to time without", "12.8 (GLib's lock, 24 threads)", f"{slower[1]:.1f} with one worker, {slower[2]:.1f} with two"),
         Row("gain of a second worker: without logs, with logs", "none or worse with the lock", f"{gain[False]:.2f}, {gain[True]:.2f} times")],
        [Claim("logging does not prevent the second worker from a gain", gain[True] > 1, idle=True),
         Claim("logs of everything cost less than the paper's lock (12.8 times)", max(slower.values()) < 12.8, timed=True)],
        Plot("workers", "time / s", [("with logs" if logged else "without", workers, value) for (workers, logged), value in middle.items()]))


@experiment("elfs-tor", "figure 7", minutes=8, needs=("tor", "tor-gencert:tor", "curl"), full="60 simulated minutes.", differs="""
    The network is that of `examples/tor/network.py` with the paper's 18 relays and 230 clients, but three authorities, an onion service and one web server instead of 20, and clients fetch two files each by curl instead of the plugin's behaviours. It runs
    for six simulated minutes, of which clients start in the first four, one each second; the paper's takes 30 to bootstrap. The time is compared with real time, which is what that network was made for.""")
def tor(size: Size) -> Result:
    """The small Tor network: 268 hosts with 18 relays and 230 clients."""
    clients, relays, authorities = size.pick((1, 5, 2), (230, 18, 3), (230, 18, 3))
    seconds = size.pick(110, 340, 3600)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=results_folder()) as folder:
        run = tor_network(pathlib.Path(folder), clients, relays, seconds, fetch_before=size.pick(50, 60, 3300))
    progress(f"{run.tors} tors: {run.downloads} of {2 * clients} downloads, {run.wall:.0f} s, {run.gib:.2f} GiB")
    return Result(
        [Row("hosts", "268", f"{run.tors + 1}"),
         Row("downloads that succeed", "", f"{run.downloads} of {2 * clients}"),
         Row("real time of a simulated hour", "about an hour with the original Shadow, 73 % less with the improvements", number(run.wall / seconds * 60, "min")),
         Row("CPU of a simulated minute", "", number(run.cpu / seconds * 60, "s")),
         Row("memory", "", number(run.gib, "GiB"))],
        [Claim("clients of a network of this size fetch files through circuits (90 %)", run.downloads > 1.8 * clients),
         Claim("it runs at least as fast as real time", run.wall < seconds, timed=True)],
        Plot("simulated / min", "real time / min", [("ours", minutes, run.wall / seconds * minutes) for minutes in (0, 30, 60)]
             + [("real time", minutes, minutes) for minutes in (0, 30, 60)]))


def _plan(servers: int, relays: int, clients: int) -> str:
    """The large network with a traffic model in the place of each program."""
    lines = ["general: {stop_time: 60 s}", "network: {graph: {type: gml, inline: '", 'graph [ node [ id 0 host_bandwidth_up "100 Mbit" host_bandwidth_down "100 Mbit" ]',
             'edge [ source 0 target 0 latency "50 ms" ] ]', "'}}", "hosts:"]
    lines += [f"  web{n:05}: {{network_node_id: 0, processes: [{{model: {{type: http_server, response_size: 320 KB}}}}]}}" for n in range(servers)]
    lines += [f"  relay{n:05}: {{network_node_id: 0, processes: [{{model: {{type: http_server, response_size: 50 KB}}}}]}}" for n in range(relays)]
    for n in range(clients):
        to = f"web{n % servers:05}" if n % 10 else f"relay{n % relays:05}"
        model = f"{{type: http, to: {to}, count: unlimited, pause: {{uniform: [1 s, 60 s]}}}}"
        lines.append(f"  client{n:05}: {{network_node_id: 0, processes: [{{model: {model}, start_time: {n % 30_000} ms}}]}}")
    return "\n".join(lines) + "\n"


@experiment("elfs-tor-large", "figure 8", minutes=3, full="60 simulated minutes of the models.", differs="""
    22,499 real tors need more memory than a machine of two cores has: what they would take follows from `phantom-tor`, which says so for each tor. Here the hosts are traffic models: clients fetch pages of 320 KB with pauses
    of up to a minute as the plugin's web clients, straight from the servers, without circuits. The network's hosts, flows and packets are simulated in full, cells and cryptography are not.""")
def tor_large(size: Size) -> Result:
    """The large network of 22,499 hosts, with traffic models as clients and servers."""
    servers, relays, clients = size.pick((3, 2, 20), (1500, 699, 20_300), (1500, 699, 20_300))
    seconds = size.pick(20, 60, 3600)
    text = _plan(servers, relays, clients).replace("stop_time: 60 s", f"stop_time: {seconds} s")
    results, usage = run_experiment(text, "--no-progress", private=True)
    with open(results / "flows.csv") as file:
        flows = sum(",http," in line and line.rstrip().endswith(",done") for line in file)
    shutil.rmtree(results.parent)
    gib = (usage.private_kib or 0) / (1 << 20)
    progress(f"{flows} pages, {usage.wall:.0f} s, {usage.cpu:.0f} s of CPU, {gib:.2f} GiB")
    return Result(
        [Row("hosts", "22,499", f"{servers + relays + clients:,}"),
         Row("pages fetched", "", f"{flows:,}"),
         Row("real time of a simulated hour", "65 hours were not enough", number(usage.wall / seconds, "h")),
         Row("memory", "", number(gib, "GiB"))],
        [Claim("a network of 22,499 hosts runs on two cores", flows > clients / 4),
         Claim("a simulated hour takes less than 65 hours", usage.wall / seconds < 65, timed=True)], None)
