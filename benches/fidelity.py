#!/usr/bin/env python3
"""The same iperf (2) flows under Belljar and on this machine's kernel (namespaces.py), each a number of times, as means with
95 % intervals (Student's t over the runs).

flows   one flow over rates, latencies and losses: what the server received, what the client says, and the throughput once slow
        start is over; with --size when the last byte arrived
pairs   two flows that share a bottleneck of the rate, named as `cubic/10+bbr/50`: congestion control and one-way latency of
        each; the second begins up to a second later, as the seed says
traces  one flow through such a bottleneck that looks at its own congestion window (fidelity/trace.c)

A run of the kernel is spoilt if the delay line came late, and made anew; how many were is in the row. Belljar's run is the same
every time where nothing is drawn, so it is made once there. Without privilege for namespaces the kernel's side is left out.
"""

import argparse
import dataclasses
import os
import random
import sys
import time

import namespaces
from common import BUILT, ROOT, compile_c, iperf_rates, output, remove, run_experiment, save, two_hosts

sys.path.insert(0, str(ROOT / "python"))
from belljar.statistics import mean_band  # noqa: E402

PORT = 5001
PAYLOAD = 1448 / 1500  # of a full segment with timestamps, of what the rate counts: IP packets
#: What the kernel's default buffers keep in flight: docs/fidelity.md.
WINDOW = min((6 << 20) * 160 // 256, (4 << 20) * 2 // 3)
WRITE = 128 << 10  # of iperf
NO_THRESHOLD = 0x7FFFFFFF


@dataclasses.dataclass
class Case:
    """What one run is: Mbit/s, the latency of each flow's server in ms, its client's command without the server's name, and when
    it begins. With a queue (bytes) they share a bottleneck of the rate, else the rate is that of the hosts' interfaces."""

    rate: float
    latencies: list[float]
    commands: list[str]
    starts: list[float]
    loss: float = 0
    queue: int = 0
    jitter: float = 0  # of packets that leave, in us, at most
    seconds: float = 10
    seed: int = 1
    call_us: float = 0  # what each system call takes under Belljar


def on_belljar(case):
    """What clients and servers wrote, that nothing came late, and no CPU time."""
    program = case.commands[0].split()[0]
    stop = 6 * case.seconds + 60

    def client(n, server):
        path, arguments = case.commands[n].split(maxsplit=1)
        return f"{{path: {path}, args: '{arguments.format(server=server)}', start_time: {1 + case.starts[n]:.6f} s}}"

    server = "{path: iperf, args: -s -f k -i 0.5, expected_final_state: running}"
    if case.queue:
        servers = [f"server{n}" for n in range(len(case.latencies))]
        links = "".join(f"- {{between: [right, {name}], rate: unlimited, latency: {ms} ms}}\n" for name, ms in zip(servers, case.latencies))
        text = f"""
general: {{stop_time: {stop} s, seed: {case.seed}}}
switches: [left, right]
hosts:
  client: {{processes: [{", ".join(client(n, name) for n, name in enumerate(servers))}]}}
{"".join(f"  {name}: {{processes: [{server}]}}{chr(10)}" for name in servers)}
links:
- {{between: [client, left], rate: unlimited, {f"latency: {case.jitter + 1} us, jitter: {case.jitter} us" if case.jitter else "latency: 1 ns"}}}
- {{between: [left, right], rate: {case.rate} Mbit, latency: 1 ns, queue: {{bytes: {case.queue} B}}}}
{links}"""
    else:
        servers = ["server"]
        text = two_hosts(f"{case.rate} Mbit", case.latencies[0], server, client(0, "server"), stop=stop, seed=case.seed, loss=case.loss)
    if case.call_us:
        text = text.replace("general: {", "general: {model_unblocked_syscall_latency: true, ", 1)
        text += f"experimental: {{unblocked_syscall_latency: {case.call_us} us, unblocked_vdso_latency: 50 ns, max_unapplied_cpu_latency: 0 ns}}\n"
    results, _ = run_experiment(text)
    try:
        return [output(results, "client", os.path.basename(program))], [output(results, name) for name in servers], False, None
    finally:
        remove(results)


def on_linux(case):
    """The same, whether the run is spoilt, and the CPU seconds of the clients."""
    bottleneck = (case.rate, case.queue) if case.queue else None
    ends = namespaces.Namespaces(case.latencies, case.loss, case.seed, None if case.queue else case.rate, bottleneck)
    with ends:
        servers = [["iperf", "-s", "-B", address, "-f", "k", "-i", "0.5"] for address in ends.addresses]
        clients = [(start, command.format(server=address).split())
                   for command, start, address in zip(case.commands, case.starts, ends.addresses)]
        linger = 4 * max(case.latencies) / 1000 + 0.5
        said, heard, cpu = namespaces.measure(ends, servers, clients, linger, timeout=6 * case.seconds + 60)
    return said, heard, ends.spoilt, cpu


def iperf(congestion, amount):
    return f"iperf -Z {congestion} -c {{server}} {amount} -f k"


def received(heard, skip, until):
    """Mbit/s that a server received between two times of the connection."""
    lines = iperf_rates(heard)
    if not lines:
        sys.exit(f"iperf's server reports nothing:\n{heard}")
    bins = [(b - a, rate) for a, b, rate in lines[:-1] if a >= skip and b <= until + 0.01]
    return sum(width * rate for width, rate in bins) / sum(width for width, _ in bins) if bins else lines[-1][2]


def flow(side, a, rate, latency, loss, seed):
    amount = f"-n {a.size}" if a.size else f"-t {a.seconds}"
    case = Case(rate, [latency], [iperf(a.congestion, amount)], [0], loss, seconds=a.seconds, seed=seed, call_us=a.call_time)
    said, heard, spoilt, cpu = side(case)
    server, client = iperf_rates(heard[0]), iperf_rates(said[0])
    if not server or not client:
        sys.exit(f"iperf reports nothing:\n{heard[0]}\n{said[0]}")
    return {"server": server[-1][2], "client": client[-1][2], "steady": received(heard[0], a.skip, a.seconds),
            "seconds": server[-1][1], "client_seconds": client[-1][1],
            "write_us": a.call_time if cpu is None else cpu * 1e6 / (client[-1][2] * 1e6 * client[-1][1] / 8 / WRITE)}, spoilt


def pair(side, a, rate, flows, seed):
    commands = [iperf(congestion, f"-t {a.seconds}") for congestion, _ in flows]
    starts = [0, round(random.Random(seed).random(), 6)]
    case = Case(rate, [latency for _, latency in flows], commands, starts, queue=a.queue, jitter=a.jitter, seconds=a.seconds, seed=seed)
    _, heard, spoilt, _ = side(case)
    first, second = (received(text, a.skip, a.seconds - 1) for text in heard)
    return {"first": first, "second": second, "both": first + second, "share": first / (first + second)}, spoilt


def teeth(samples):
    """How often the window fell by more than a tenth, and rose again."""
    count, most, least = 0, 0, None
    for _, cwnd in samples:
        if least is None:
            most = max(most, cwnd)
            if cwnd < 0.9 * most:
                count, least = count + 1, cwnd
        else:
            least = min(least, cwnd)
            if cwnd > 1.05 * least:
                most, least = cwnd, None
    return count


def trace(side, a, rate, latency, congestion, seed):
    program = compile_c(ROOT / "benches/fidelity/trace.c", "trace", "-pthread")
    command = f"{program} {{server}} {PORT} {a.seconds} {congestion} {a.interval * 1000:.0f} 131072 {a.work}"
    said, heard, spoilt, _ = side(Case(rate, [latency], [command], [0], queue=a.queue, seconds=a.seconds, seed=seed))
    samples = [list(map(int, line.split()[1:])) for line in said[0].splitlines() if line.startswith("sample")]
    if not samples:
        sys.exit(f"the flow has no samples:\n{said[0]}")
    first = next((n for n, row in enumerate(samples) if row[2] < NO_THRESHOLD), len(samples) - 1)
    later = [row for row in samples if row[0] >= a.skip * 1e6]
    return {
        "steady": received(heard[0], a.skip, a.seconds), "slow_start_s": samples[first][0] / 1e6,
        "slow_start_cwnd": max(row[1] for row in samples[:first + 1]),
        "cwnd": sum(row[1] for row in later) / len(later), "srtt_ms": sum(row[6] for row in later) / len(later) / 1000,
        "reductions": teeth([(row[0], row[1]) for row in samples]), "retransmitted": samples[-1][5],
        "samples": [[row[0] / 1e6, row[1]] for row in samples],
    }, spoilt


def repeated(name, side, repeat, drawn, once):
    """`once(side, seed)` as often as asked; for each number of a run its mean with the interval, and all of its values."""
    runs, dropped = [], 0
    wanted = repeat if drawn or name == "linux" else 1
    while len(runs) < wanted:
        seed = len(runs) + 1
        values, spoilt = once(side, seed)
        if spoilt and dropped < 2 * wanted:
            dropped += 1
            time.sleep(1)
            continue
        runs.append(values)
    row = {"side": name, "n": len(runs), "spoilt": dropped}
    for key in runs[0]:
        values = [run[key] for run in runs]
        if key == "samples":
            row[key] = values
        else:
            band = mean_band(values)
            known = band.low == band.low
            row[key] = {"mean": band.mean, "low": band.low if known else None, "high": band.high if known else None, "values": values}
    return row


def shown(value, digits=2):
    """A mean, and what its interval is to either side."""
    half = f" ±{value['high'] - value['mean']:.{digits}f}" if value["high"] is not None else ""
    return f"{value['mean']:.{digits}f}{half}"


def cases(a):
    """Each row's names, whether chance plays a part, and what makes one run of it."""
    for rate in a.rates:
        if a.what == "pairs":
            for text in a.pairs:
                flows = [(word.partition("/")[0], float(word.partition("/")[2])) for word in text.split("+")]
                yield {"rate_mbit": rate, "pair": text}, True, lambda side, seed, r=rate, f=flows: pair(side, a, r, f, seed)
            continue
        for latency in a.latencies:
            if a.what == "traces":
                for congestion in a.congestion:
                    yield ({"rate_mbit": rate, "latency_ms": latency, "congestion": congestion}, False,
                           lambda side, seed, r=rate, w=latency, c=congestion: trace(side, a, r, w, c, seed))
                continue
            limit = min(rate * PAYLOAD, WINDOW * 8 / (2 * latency / 1000) / 1e6)
            for loss in a.losses:
                yield ({"rate_mbit": rate, "latency_ms": latency, "loss": loss, "limit_mbit": limit}, loss > 0,
                       lambda side, seed, r=rate, w=latency, p=loss: flow(side, a, r, w, p, seed))


COLUMNS = {"flows": ("steady", "server", "client", "seconds", "client_seconds", "write_us"), "pairs": ("first", "second", "both", "share"),
           "traces": ("steady", "slow_start_s", "slow_start_cwnd", "cwnd", "srtt_ms", "reductions", "retransmitted")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=list(COLUMNS), default="flows")
    parser.add_argument("--rates", type=int, nargs="+", default=[10, 100], help="Mbit/s")
    parser.add_argument("--latencies", type=float, nargs="+", default=[10, 75], help="ms, one way")
    parser.add_argument("--losses", type=float, nargs="+", default=[0], help="chance that a packet is lost, both ways")
    parser.add_argument("--pairs", nargs="+", default=["cubic/10+cubic/10", "cubic/10+reno/10", "cubic/10+bbr/10", "cubic/10+cubic/50"])
    parser.add_argument("--size", type=int, default=0, help="bytes to send instead of a time: the flow's completion time")
    parser.add_argument("--congestion", nargs="+", default=["cubic"], help="the congestion control of both sides; several with traces")
    parser.add_argument("--queue", type=int, default=250_000, help="bytes that wait at the bottleneck of pairs and traces; 0: none, the interfaces have the rate")
    parser.add_argument("--jitter", type=float, default=50, help="us by which packets of pairs leave Belljar's hosts sooner or later; no machine is without")
    parser.add_argument("--interval", type=float, default=10, help="ms between looks at the window")
    parser.add_argument("--work", type=int, default=0, help="us that the flow of traces computes between writes")
    parser.add_argument("--call-time", type=float, default=0, help="us that each system call of flows takes under Belljar: `write_us` is what iperf took for each of its writes of 128 KiB, and its start")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--skip", type=float, default=3, help="seconds after which slow start is over")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each, with seeds of their own")
    parser.add_argument("--sides", nargs="+", choices=["linux", "belljar"], default=["linux", "belljar"])
    parser.add_argument("--json")
    a = parser.parse_args()
    if a.what != "traces":
        (a.congestion,) = a.congestion if len(a.congestion) == 1 else parser.error("several congestion controls: only with traces")
    if a.what == "pairs" and not a.queue:
        parser.error("--queue: two flows need a bottleneck to share")
    BUILT.mkdir(parents=True, exist_ok=True)
    sides = {name: {"linux": on_linux, "belljar": on_belljar}[name] for name in a.sides}
    if "linux" in sides and not namespaces.privileged():
        print("no privilege for namespaces with TUN devices, or no ip, tc, chrt: only Belljar")
        sides = {"belljar": on_belljar}
    rows = []
    for names, drawn, once in cases(a):
        if not rows:
            print("  ".join([*(f"{name:>10}" for name in names), f"{'side':8}", " n"] + [f"{column:>16}" for column in COLUMNS[a.what]]))
        for name, side in sides.items():
            row = names | repeated(name, side, a.repeat, drawn, once)
            rows.append(row)
            print("  ".join([*(f"{value:>10.5g}" if isinstance(value, float) else f"{value:>10}" for value in names.values()),
                             f"{name:8}", f"{row['n']:2}"]
                            + [f"{shown(row[c], 3 if 's' == c[-1] or c == 'share' else 2):>16}" for c in COLUMNS[a.what]])
                  + (f"  ({row['spoilt']} spoilt)" if row["spoilt"] else ""), flush=True)
    save("fidelity", {"bench": "fidelity", "what": a.what, "kernel": os.uname().release, "seconds": a.seconds, "skip": a.skip, "size": a.size,
                      "queue": a.queue, "jitter": a.jitter, "work": a.work, "call_time": a.call_time, "congestion": a.congestion, "rows": rows}, a.json)


if __name__ == "__main__":
    main()
