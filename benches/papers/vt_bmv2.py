"""Experiments of Chen, Hu, Jin: Enhancing Fidelity of P4-Based Network Emulation with a Lightweight Virtual Time System, SIGSIM-PADS 2023.

The same files run in three worlds: simulated by `belljar run`, and on this machine's kernel by `belljar emulate`, in real time (the paper's Mininet-BMv2) and in dilated
time (its VT-BMv2)."""

from __future__ import annotations

from typing import Any

import dilated_line
import p4_chain

from .claims import Claim, Plot, Result, Row, Size, experiment, number, progress

ADAPTED = ["emulate", "--tdf", "auto"]


def _worlds(size: Size) -> dict[str, list[str]]:
    """What a file is run by. The adapter needs some seconds to find its factor, which a small run spares."""
    return {"simulated": ["run"], "real time": ["emulate"], "dilated": size.pick(["emulate", "--tdf", "2"], ADAPTED, ADAPTED)}


def _line(plane: str, count: int, rate: int, seconds: float, arguments: list[str]) -> dict[str, Any]:
    seconds = dilated_line.measured(count, rate, seconds)
    text, warm = dilated_line.paced(*dilated_line.PLANES[plane](count, rate, seconds), seconds, dilated_line.round_trip(count, rate))
    got = dilated_line.run(text, arguments, warm, rate, seconds)
    progress(f"{count} switches, {rate} Mbit/s, {' '.join(arguments)}: {got['share']:.1%} of the line rate, {got['took_seconds']:.0f} s, {got['verdict']}")
    return got


@experiment("vt-rates", "figures 3 and 8", minutes=5, needs=("iperf",), root=True, full="16 switches at 100 to 1,000 Mbit/s.", differs="""
    The switches are Belljar's P4 switches and, for figure 3, the kernel's bridges in the place of Open vSwitch; BMv2 itself is not measured. The TDF is the adapter's, which starts with 1 and raises it. The line
    has a quarter of the paper's 16 switches, for two cores, unless the size is full.""")
def rates(size: Size) -> Result:
    """TCP over a line of P4 switches with links of 1 ms over the links' rate: simulated, in real time, in dilated time; and over bridges in real time."""
    count, seconds = size.pick((2, 0.5), (4, 1), (16, 3))
    of_links = size.pick([10], [50, 200, 800], [100, 200, 400, 600, 800, 1000])
    shares: dict[str, list[tuple[int, float]]] = {name: [] for name in (*_worlds(size), "bridges, real time")}
    verdicts = {}
    for rate in of_links:
        for name, arguments in _worlds(size).items():
            got = _line("p4", count, rate, seconds, arguments)
            shares[name].append((rate, got["share"]))
            verdicts[name, rate] = got["verdict"]
        shares["bridges, real time"].append((rate, _line("bridges", count, rate, seconds, ["emulate"])["share"]))
    top = of_links[-1]
    last = {name: points[-1][1] for name, points in shares.items()}
    return Result(
        [*(Row(f"{rate} Mbit/s, share of the line rate: simulated, real time, dilated, bridges", "98.9 % dilated, 13 % in real time" if rate == top else "",
               ", ".join(f"{points[n][1]:.1%}" for points in shares.values())) for n, rate in enumerate(of_links))],
        [Claim("the simulation has the line rate at every rate (99 %)", min(share for _, share in shares["simulated"]) > 0.99),
         Claim("real time falls short of the line rate at the highest", last["real time"] < 0.9, timed=True),
         Claim("dilated time has it (95 %)", last["dilated"] > 0.95, idle=True),
         Claim("kernel switches reach higher rates in real time than P4 switches in user space", last["bridges, real time"] > last["real time"], idle=True)],
        Plot("rate of the links / Mbit/s", "received, share of the line rate", [(name, *point) for name, points in shares.items() for point in points], log_x=True))


@experiment("vt-switches", "figures 4 and 10", minutes=4, needs=("iperf",), root=True, full="1 to 256 switches at 1,000 Mbit/s, and 1 to 64 in real time.", differs="""
    The paper's lines of up to 256 switches run simulated here; real time stops at 16, by which it has failed on two cores. Dilated runs of long lines are in docs/guide/dilated-time.md, with their time.""")
def switches(size: Size) -> Result:
    """TCP over lines of P4 switches over their number."""
    lines, real = size.pick(([1, 2], [1]), ([1, 4, 16, 64], [1, 4, 16]), ([1, 4, 16, 64, 256], [1, 4, 16, 64]))
    rate = size.pick(10, 200, 1000)
    simulated, measured = [], []
    for count in lines:
        text, servers, warm = p4_chain.line(count, rate, size.pick(1, 2, 5))
        got = p4_chain.measure(text, servers, warm, rate, size.pick(1, 2, 5), 0)
        simulated.append((count, got["share"]))
        progress(f"{count} switches simulated: {got['share']:.1%}, {got['wall']:.1f} s")
    for count in real:
        measured.append((count, _line("p4", count, rate, size.pick(0.5, 1, 3), ["emulate"])["share"]))
    return Result(
        [*(Row(f"{count} switches, share of the line rate, simulated", {64: "", 256: "90.2 % dilated"}.get(count, ""), f"{share:.1%}") for count, share in simulated),
         *(Row(f"{count} switches, real time", {1: "99 %", 4: "99.1 %"}.get(count, "17.5 % with 256"), f"{share:.1%}") for count, share in measured)],
        [Claim("the simulation has the line rate over any number of switches (99 %)", min(share for _, share in simulated) > 0.99),
         Claim("in real time throughput falls with the number of switches", measured[-1][1] < 0.9 * measured[0][1], timed=True)],
        Plot("switches", "received, share of the line rate", [("simulated", *point) for point in simulated] + [("real time", *point) for point in measured], log_x=True))


@experiment("vt-ring", "figures 5 and 11", minutes=4, needs=("iperf",), root=True, full="a ring of 256 switches at 1,000 Mbit/s, simulated; 64 in real and dilated time.", differs="""
    The ring has fewer switches, which fail in real time on two cores as the paper's 256 do on 128. The least of all flows counts, not a selection of four.""")
def ring(size: Size) -> Result:
    """A ring of P4 switches, each with a host, and a flow in each pair of neighbours: the slowest flow."""
    count, rate, seconds = size.pick((4, 10, 0.5), (16, 100, 1), (64, 100, 2))
    shares, verdicts = {}, {}
    for name, arguments in _worlds(size).items():
        text, warm = dilated_line.paced(*dilated_line.ring(count, rate, seconds), seconds, dilated_line.round_trip(2, rate))
        got = dilated_line.run(text, arguments, warm, rate, seconds)
        shares[name], verdicts[name] = got["share"], got["verdict"]
        progress(f"ring of {count}, {name}: {got['share']:.1%} of the line rate, {got['took_seconds']:.0f} s, {got['verdict']}")
    large = None
    if size.name == "full":
        text, servers, warm = p4_chain.ring(256, 1000, 10)
        large = p4_chain.measure(text, servers, warm, 1000, 10, 0)["share"]
    paper = {"simulated": "", "real time": "21.2 %", "dilated": "98.9 %"}
    return Result(
        [Row(f"slowest flow in a ring of {count}, {name}", paper[name], f"{share:.1%}") for name, share in shares.items()]
        + ([] if large is None else [Row("slowest flow in a ring of 256 at 1,000 Mbit/s, simulated", "98.9 %", f"{large:.1%}")]),
        [Claim("the simulation gives every flow its line rate (99 %)", shares["simulated"] > 0.99),
         Claim("dilated time does, too (95 %)", shares["dilated"] > 0.95, idle=True),
         Claim("in real time flows disturb each other", shares["real time"] < 0.9, timed=True),
         Claim("where real time falls short, the emulation's verdict says so", shares["real time"] >= 0.9 or verdicts["real time"] != "truthful", timed=True)],
        Plot("switches", "slowest flow, share of the line rate", [(name, count, share) for name, share in shares.items()]))


@experiment("vt-barriers", "figure 9, section 5.2", minutes=2, root=True, full="16 to 256 hosts, 300 barriers.", differs="""
    The paper stops containers by signals from kernel threads on 1 to 16 processors; Belljar stops them from user space, on two. A reading of the clock is answered without a call of the kernel, so dilation adds
    less to it than the paper's modified kernel does. Times are of different machines.""")
def barriers(size: Size) -> Result:
    """Cost of a barrier over the number of hosts that all want a processor, with a quantum of 1 ms; and of reading a dilated clock."""
    hosts, turns = size.pick(([4], 20), ([16, 32, 64], 150), ([16, 64, 256], 300))
    rows = [(count, dilated_line.barrier(count, 1, turns)) for count in hosts]
    for count, row in rows:
        if not row["barrier_us"] > 0:
            raise RuntimeError(f"no barrier of {count} hosts took place in the run's time: let the machine do nothing else, and run it again")
        progress(f"{count} hosts: {row['barrier_us']:.0f} us, {row['barrier_share']:.2%} of the time")
    native, dilated = dilated_line.readings()["clock_gettime"]
    per_host = [row["barrier_us"] / count for count, row in rows]
    return Result(
        [*(Row(f"barrier of {count} hosts, share of the time", "0.31 ms, 0.13 %, 256 containers on 16 processors" if count == hosts[-1] else "",
               f"{row['barrier_us'] / 1000:.2f} ms, {row['barrier_share']:.2%}") for count, row in rows),
         Row("reading the clock: native, dilated", "330 ns, 1,635 ns", f"{native:.0f} ns, {dilated:.0f} ns")],
        [Claim("the cost of a barrier grows about linearly with the hosts", max(per_host) < 4 * min(per_host), timed=True),
         Claim("its share of the time falls, or stays small (5 %), as hosts are added", rows[-1][1]["barrier_share"] < max(0.05, rows[0][1]["barrier_share"]), timed=True),
         Claim("dilation adds less than the paper's 1.3 us to a reading of the clock", dilated - native < 1305, timed=True)],
        Plot("hosts", "barrier / ms", [("barrier", count, row["barrier_us"] / 1000) for count, row in rows]))


@experiment("vt-adapter", "section 7 (future work)", minutes=3, needs=("iperf",), root=True, full="16 switches at 1,000 Mbit/s for 3 s.", differs="""
    The paper leaves the adapter to future work, so there is nothing to compare with but a run with one factor chosen beforehand.""")
def adapter(size: Size) -> Result:
    """The TDF adapter: a flow over P4 switches with the factor chosen by the adapter, against a fixed one that is high enough."""
    count, rate, seconds = size.pick((2, 20, 0.5), (4, 400, 1), (16, 1000, 3))
    fixed = size.pick("2", "16", "16")
    adapted, given = _line("p4", count, rate, seconds, ADAPTED), _line("p4", count, rate, seconds, ["emulate", "--tdf", fixed])
    factors = [tdf for _, tdf in adapted["factors"]]
    return Result(
        [Row("received of the line rate: adapted, fixed", "", f"{adapted['share']:.1%}, {given['share']:.1%}"),
         Row("factors that the adapter chose", "", ", ".join(f"{tdf:g}" for tdf in factors[:12]) or f"{adapted['tdf']:g}"),
         Row(f"time of the run: adapted, fixed at {fixed}", "", f"{adapted['took_seconds']:.0f} s, {given['took_seconds']:.0f} s")],
        [Claim("the adapter reaches the line rate (95 %)", adapted["share"] > 0.95, idle=True),
         Claim("in less time than a fixed factor that is high enough", adapted["took_seconds"] < given["took_seconds"], timed=True)],
        Plot("simulated time / s", "factor", [("adapter", at, tdf) for at, tdf in adapted["factors"]] or [("adapter", 0.0, adapted["tdf"] or 1.0)]))
