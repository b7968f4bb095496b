"""Experiments of the Phantom paper: Jansen, Newsome, Wails: Co-opting Linux Processes for High-Performance Network Simulation, USENIX ATC 2022."""

from __future__ import annotations

import contextlib
import io
import types

import network_grid
import report as benches_report

from . import messages
from .claims import Claim, Plot, Result, Row, Size, correlation, experiment, number, progress, ratio, slope


@experiment("phantom-scale", "figure 11", minutes=3, full="1,000 to 64,000 hosts with 100 messages each for 10 s, of a static program; the largest takes some 12 GiB and hours.", differs="""
    The paper has 28 cores and 256 GiB. Time is therefore compared as CPU: the paper's 51 ms of time a host on 28 cores are at most 1.4 s of CPU. A run has fewer
    messages than the paper's; the cost of 20,000 messages a host follows from the slopes.""")
def scale(size: Size) -> Result:
    """P2P messages over the number of hosts: CPU, start and memory grow linearly."""
    hosts = size.pick([5, 10, 20], [250, 500, 1000, 2000], [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000])
    count, seconds = size.pick((5, 1), (10, 2), (100, 9))
    static = size.name == "full"
    start, cost, memory, wall = [], [], [], []
    for peers in hosts:
        options = ("--cells", str(max(2, peers // 4000))) if peers > 4000 else ()
        (few, short), (many, long) = (messages.run(peers, count, span, static=static, options=options) for span in (1, 1 + seconds))
        each = (long.cpu - short.cpu) / (many - few)
        begin = max(0.0, short.cpu - few * each)
        start.append((peers, begin))
        cost.append((peers, begin + each * messages.PAPER_MESSAGES * peers))
        memory.append((peers, (long.private_kib or 0) / (1 << 20)))
        wall.append((peers, long.wall))
        progress(f"{peers} hosts: {each * 1e6:.2f} us of CPU a message, start {begin:.2f} s, {memory[-1][1]:.2f} GiB")
    r, per_host = correlation(cost), slope(cost)
    thousand = slope(memory) * 1000
    return Result(
        [Row("linear in the number of hosts, r", "0.995", f"{r:.3f}"),
         Row("CPU a host of 20,000 messages", "at most 1.4 s", number(per_host, "s")),
         Row("CPU to start a host", "at most 0.15 s at 16,000 hosts", number(slope(start) * 1000, "ms")),
         Row("memory of 1,000 hosts", "1.5 GiB (Shadow 2.3 GiB)", number(thousand, "GiB")),
         Row("largest run", "64,000 hosts", f"{hosts[-1]:,} hosts, {wall[-1][1]:.0f} s of time")],
        [Claim("the benchmark's time is nearly linear in the number of hosts (r > 0.99)", r > 0.99, timed=True),
         Claim("a host takes less CPU than on the paper's machine", 0 < per_host < 1.43, timed=True),
         Claim("1,000 hosts take less memory than with Phantom", 0 < thousand < 1.5, timed=True)],
        Plot("hosts", "CPU / s, memory / GiB", [*(("CPU of the paper's load", *point) for point in cost), *(("CPU to start", *point) for point in start),
                                               *(("memory", *point) for point in memory)], log_x=True, log_y=True))


@experiment("phantom-load", "figure 22", minutes=2, full="1,000 hosts, 100 messages each by default, up to 1,000, for 10 s.", differs="""
    The AES is our own in C (FIPS 197, 128 bits), each of c operations on the whole message of 1 KiB. A few hosts with few messages show the slopes as well as many do.
   """)
def load(size: Size) -> Result:
    """CPU of the P2P benchmark over the AES operations of each message (c), the messages of each host (m), and their distribution (W)."""
    peers, seconds = size.pick((5, 1), (100, 2), (1000, 10))
    default = size.pick(2, 5, 100)
    counts = size.pick([1, 5, 10], [1, 10, 100], [1, 10, 100, 1000])
    aes = [(times, messages.run(peers, default, seconds, aes=times)[1].cpu) for times in range(4)]
    progress("CPU over c: " + ", ".join(f"{cpu:.2f} s" for _, cpu in aes))
    loads = [(count, messages.run(peers, count, seconds)[1].cpu) for count in counts]
    progress("CPU over m: " + ", ".join(f"{cpu:.2f} s" for _, cpu in loads))
    shapes = {weights: messages.cost(peers, counts[-1], seconds, weights=weights) for weights in ("exp", "uniform", "ring")}
    progress("us a message over W: " + ", ".join(f"{weights} {cost:.2f}" for weights, cost in shapes.items()))
    r_aes, r_load = correlation([(float(x), y) for x, y in aes]), correlation([(float(x), y) for x, y in loads])
    return Result(
        [Row("linear in c, r", "roughly linear", f"{r_aes:.4f}"),
         Row("CPU of c = 3 to that of c = 0", "", f"{aes[3][1] / aes[0][1]:.1f} times"),
         Row("linear in m, r", "linear above the start", f"{r_load:.4f}"),
         Row("CPU a message: exponential, uniform, ring", "minor effect", ", ".join(number(cost, "us") for cost in shapes.values()))],
        [Claim("time grows linearly with the AES operations of each message", r_aes > 0.98, timed=True),
         Claim("time grows linearly with the messages", r_load > 0.98, timed=True),
         Claim("exponential and uniform weights differ little (less than a quarter)", abs(shapes["exp"] / shapes["uniform"] - 1) < 0.25, timed=True)],
        Plot("AES operations (c), or messages per host (m) as a share of the most", "CPU / s", [
            *(("c", times / 3, cpu) for times, cpu in aes), *(("m", count / counts[-1], cpu) for count, cpu in loads)]))


def _turns(case: benches_report.Case, turns: int) -> dict[str, float]:
    """Medians of all variants, measured in turns."""
    said = io.StringIO()
    for _ in range(turns):
        with contextlib.redirect_stdout(io.StringIO()):
            if not case.take_turn(said):
                raise RuntimeError(said.getvalue().strip())
    progress(case.name + ": " + ", ".join(f"{name} {value['median']:.3g} {case.unit}" for name, value in case.shown().items()))
    return {name: value["median"] for name, value in case.shown().items()}


@experiment("phantom-calls", "figures 4 and 5", minutes=2, full="ten times as many calls, five turns.", differs="""
    Our near guests are the paper's uni-process design without its interposition of symbols: system calls are rewritten in place. Far guests are its multi-process design.
    The paper's values are in the drawing only; its text gives their order. There is no ptrace here.""")
def calls(size: Size) -> Result:
    """Micro-benchmarks: a call that returns at once, one that blocks, and writes to and reads from a pipe, in one process, in a process of its own, and natively."""
    scale = size.pick(0.002, 0.1, 1)
    cases = list(benches_report.micro_cases(types.SimpleNamespace(scale=scale)))
    turns = size.pick(1, 3, 5)
    medians = {case.name: _turns(case, turns) for case in cases}
    pipes = {int(name.split()[1]): of for name, of in medians.items() if name.startswith("pipe")}
    returns, blocks = (next(of for name, of in medians.items() if word in name) for word in ("returns", "blocks"))
    overhead = {kib: of["far"] / of["near"] for kib, of in pipes.items()}
    triple = lambda of: f"{number(of['near'], 'us')}, {number(of['far'], 'us')}, {number(of['native'], 'us')}"  # noqa: E731
    return Result(
        [Row("call that returns at once: near, far, native", "a function call, with one process", triple(returns)),
         Row("call that blocks: near, far, native", "costs more than one that returns", triple(blocks)),
         *(Row(f"{kib} KiB through a pipe: near, far, native", "", triple(of)) for kib, of in pipes.items() if kib in (1, 4, 16, 64)),
         Row("far to near, 1 KiB and 64 KiB", "more to less", f"{overhead[1]:.1f} and {overhead[64]:.1f} times")],
        [Claim("one process is the fastest of all designs in each benchmark", all(of["near"] < of["far"] for of in medians.values()), timed=True),
         Claim("a call that returns at once costs as little as natively (at most twice)", returns["near"] < 2 * returns["native"], timed=True),
         Claim("the overhead of a process of its own shrinks with the buffer", overhead[64] < overhead[1], timed=True)],
        Plot("KiB written and read", "CPU / us", [(name, kib, of[name]) for kib, of in pipes.items() for name in ("near", "far", "native")], log_x=True, log_y=True))


@experiment("phantom-scheduling", "figures 7 to 10", minutes=3, full="1,000 hosts, 100 messages each for 10 s, five turns.", differs="""
    The paper varies 1 to 56 workers; two cores show 1 and 2. Its gain by pinning (2.5 times) is of a worker and its processes on different cores: in one process nothing has to
    be pinned together, and far guests run on the core of their worker by default. Runs are compared in turns.""")
def scheduling(size: Size) -> Result:
    """Ablations: workers, one process against one for each guest, CPU pinning, work stealing."""
    peers, count, seconds, turns = size.pick((5, 5, 1, 1), (100, 100, 3, 3), (1000, 100, 9, 5))
    variants = {
        "1 worker": {"workers": 1}, "2 workers": {"workers": 2}, "2 workers, no stealing": {"workers": 2, "options": ("--stealing", "false")},
        "2 workers, pinned": {"workers": 2, "options": ("--pinning", "true")}, "2 workers, not pinned": {"workers": 2, "options": ("--pinning", "false")},
    }
    far = {"far, pinned": {"workers": 2, "options": ("--placement", "far", "--pinning", "true")},
           "far, not pinned": {"workers": 2, "options": ("--placement", "far", "--pinning", "false")}, "near": {"workers": 2}}
    near_times: dict[str, list[float]] = {name: [] for name in variants}
    far_times: dict[str, list[float]] = {name: [] for name in far}
    memory: dict[str, float] = {}
    for _ in range(turns):
        for name, of in variants.items():
            near_times[name].append(messages.run(peers, count, seconds, **of)[1].wall)
        for name, of in far.items():
            usage = messages.run(peers, max(1, count // 10), seconds, **of)[1]
            far_times[name].append(usage.wall)
            memory[name] = max(memory.get(name, 0.0), (usage.private_kib or 0) / 1024)
    middle = lambda times: sorted(times)[len(times) // 2]  # noqa: E731
    near, apart = ({name: middle(times) for name, times in of.items()} for of in (near_times, far_times))
    progress(", ".join(f"{name} {value:.2f} s" for name, value in {**near, **apart}.items()))
    gain = near["1 worker"] / near["2 workers"]
    return Result(
        [Row("gain of a second worker", "faster with more, up to the number of cores", f"{gain:.2f} times"),
         Row("gain of pinning, one process", "minor", f"{near['2 workers, not pinned'] / near['2 workers, pinned']:.2f} times"),
         Row("gain of pinning, a process for each guest", "2.5 times", f"{apart['far, not pinned'] / apart['far, pinned']:.2f} times"),
         Row("gain of stealing work", "faster", f"{near['2 workers, no stealing'] / near['2 workers']:.2f} times"),
         Row("time of one process to one for each guest", "more than 1.4 with 28 workers", f"{apart['near'] / apart['far, pinned']:.2f}"),
         Row("memory of one process to one for each guest", "more than 1.5", f"{ratio(memory['near'], memory['far, pinned']):.2f}")],
        [Claim("workers up to the number of cores make the run faster (1.3 times with two)", gain > 1.3, idle=True),
         Claim("pinning is never worse than 10 %", near["2 workers, pinned"] < 1.1 * near["2 workers, not pinned"], idle=True),
         Claim("with one process the run takes less time than with one for each guest, unlike Shadow's", apart["near"] < apart["far, pinned"], timed=True)],
        Plot("number of the turn", "time / s", [(name, turn + 1, value) for name, times in near_times.items() for turn, value in enumerate(times)]))


@experiment("phantom-network", "figure 12, appendix E.3.1", minutes=3, needs=("iperf",), full="iperf for 10 s over {1, 10, 100, 1000} Mbit/s and {1, 10, 75, 175} ms.", differs="""
    The paper's bare-metal pair is two machines with netem; `benches/fidelity.py` compares our TCP with this machine's kernel. The echo's error is zero here, and the paper's 3 % at 1 ms is the time
    of the programs on its bare metal, which no simulator without a CPU model has. At 1 Gbit/s over 75 ms Linux's own limit of a receive buffer (6 MiB) keeps the window below the path's, here as on real hosts.""")
def network(size: Size) -> Result:
    """One iperf flow (Reno) over rates and latencies, and round trips of a UDP echo."""
    rates, latencies, seconds = size.pick(([1, 10], [1, 75], 9), ([1, 10, 100, 1000], [1, 10, 75], 10), ([1, 10, 100, 1000], [1, 10, 75, 175], 10))
    errors = {latency: network_grid.round_trip_error(latency) for latency in latencies}
    shares = {}
    for rate in rates:
        for latency in latencies:
            shares[rate, latency] = network_grid.throughput(rate, latency, seconds) / (rate * network_grid.PAYLOAD)
        progress(f"{rate} Mbit/s: " + ", ".join(f"{latency} ms {shares[rate, latency]:.1%}" for latency in latencies))
    short = [share for (rate, latency), share in shares.items() if rate * latency <= 1000]
    return Result(
        [Row("greatest error of the round trip", "3 % (at 1 ms)", f"{max(errors.values())} ns"),
         *(Row(f"{rate} Mbit/s over {', '.join(map(str, latencies))} ms, share of the payload", "comparable to bare metal or higher",
               ", ".join(f"{shares[rate, latency]:.1%}" for latency in latencies)) for rate in rates)],
        [Claim("round trips are those that are configured", not any(errors.values())),
         Claim("flows whose window fills the path use it (at least 95 %)", min(short) > 0.95)],
        Plot("latency / ms", "share of the payload", [(f"{rate} Mbit/s", latency, share) for (rate, latency), share in shares.items()], log_x=True))
