#!/usr/bin/env python3
"""What one TCP flow (iperf 2) reaches over {1, 10, 100, 1000} Mbit/s x {1, 10, 75} ms of one-way latency, against
min(rate, window / RTT), both in bytes of payload.

A rate counts IP packets, iperf their payload: 1448 of 1500 bytes. The window is what the buffers of Linux's defaults keep in
flight: the smaller of what a receive buffer of 6 MiB announces and of what stays queued in a send buffer of 4 MiB, whose
blocked writer Linux wakes when a third is free. docs/fidelity.md has the measurements of the kernel behind both.

`server` is what the server counted over the whole flow, slow start included, and what is held to `--least`. `client` is what
the client reports; `steady` is what the server received after the first three seconds.
"""

import argparse
import sys

from common import iperf_rates, output, remove, run_experiment, save, two_hosts

SLOW_START = 3  # seconds
PAYLOAD = 1448 / 1500  # of a full segment with timestamps, of what the rate counts: IP packets
RECEIVER = (6 << 20) * 160 // 256  # tcp_rmem[2]; a packet with 1448 bytes takes 2304 of it
SENDER = (4 << 20) * 2 // 3  # tcp_wmem[2]


def goodput(rate, latency, seconds):
    """(Mbit/s by the server, by the client, after slow start; CPU seconds)."""
    results, usage = run_experiment(two_hosts(
        f"{rate} Mbit", latency, "{path: iperf, args: -s -f k -i 0.5, expected_final_state: running}",
        f"{{path: iperf, args: -c server -t {seconds} -f k, start_time: 1 s}}", stop=2 * seconds + 30))
    try:
        server, client = (output(results, host) for host in ("server", "client"))
    finally:
        remove(results)
    found, said = iperf_rates(server), iperf_rates(client)
    if not found or not said:
        sys.exit(f"iperf at {rate} Mbit/s, {latency} ms reports nothing:\n{server}\n{client}")
    # Half a second each, the last line is the sum; the last of the others may be cut short.
    steady = [rate for start, _, rate in found[:-1] if SLOW_START <= start < seconds - 0.5] or [found[-1][2]]
    return found[-1][2], said[-1][2], sum(steady) / len(steady), usage.cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[1, 10, 100, 1000], help="Mbit/s")
    parser.add_argument("--latencies", type=int, nargs="+", default=[1, 10, 75], help="ms, one way")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--window", type=int, default=min(RECEIVER, SENDER), help="bytes")
    parser.add_argument("--least", type=float, default=0.9, help="the share of the limit that must be reached")
    parser.add_argument("--json")
    a = parser.parse_args()
    rows, short = [], 0
    print(f"{'Mbit/s':>7} {'ms':>4} {'limit':>9} {'server':>9} {'client':>9} {'steady':>9} {'share':>6} {'CPU s':>6}")
    for rate in a.rates:
        for latency in a.latencies:
            limit = min(rate * PAYLOAD, a.window * 8 / (2 * latency / 1000) / 1e6)
            server, client, steady, cpu = goodput(rate, latency, a.seconds)
            share = server / limit
            rows.append({"rate_mbit": rate, "latency_ms": latency, "limit_mbit": limit, "goodput_mbit": server,
                         "client_mbit": client, "steady_mbit": steady, "share": share, "cpu_s": cpu})
            short += share < a.least
            print(f"{rate:7} {latency:4} {limit:9.2f} {server:9.2f} {client:9.2f} {steady:9.2f} {share:6.1%} {cpu:6.2f}{'  <-' * (share < a.least)}", flush=True)
    save("tcp_matrix", {"bench": "tcp_matrix", "seconds": a.seconds, "window": a.window, "rows": rows}, a.json)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
