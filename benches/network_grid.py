#!/usr/bin/env python3
"""The basic network verification of the Phantom paper (ATC 2022, figure 12 and appendix E.3.1): one iperf flow of ten seconds with
Reno over {1, 10, 100, 1000} Mbit/s x {1, 10, 75, 175} ms of one-way latency, of which the three-second interval nearest to the middle
counts as the server reports it; and a UDP echo's round trips over the same latencies, whose error that paper gives as up to 3 %."""

import argparse
import sys

from common import BUILT, iperf_rates, output, remove, run_experiment, save, two_hosts

PAYLOAD = 1448 / 1500  # of a full segment with timestamps, of what the rate counts: IP packets
ECHO = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if len(sys.argv) == 1:
    s.bind(("", 7))
    while True: s.sendto(*s.recvfrom(100))
for _ in range(20):
    before = time.monotonic_ns(); s.sendto(b"x", (sys.argv[1], 7)); s.recv(100); print(time.monotonic_ns() - before)
"""


def world(rate, latency, server, client, stop):
    return two_hosts(rate, latency, server, client, stop=stop, congestion="reno")


def throughput(rate, latency, seconds):
    server = "{path: iperf, args: -s -f k -i 3, expected_final_state: running}"
    client = f"{{path: iperf, args: -c server -t {seconds}, start_time: 1 s}}"
    results, _ = run_experiment(world(f"{rate} Mbit", latency, server, client, 3 * seconds + 30))
    said = output(results, "server")
    remove(results)
    found = iperf_rates(said)
    whole = [row for row in found if row[1] - row[0] < 3.5] or found
    if not whole:
        sys.exit(f"iperf at {rate} Mbit/s, {latency} ms reports nothing:\n{said}")
    return min(whole, key=lambda row: abs((row[0] + row[1]) / 2 - seconds / 2))[2]


def round_trip_error(latency):
    """The greatest difference from twice the latency, in nanoseconds."""
    code = ECHO.replace("\n", "\\n").replace('"', '\\"')
    server = f'{{path: /usr/bin/python3, args: [-c, "{code}"], expected_final_state: running}}'
    client = f'{{path: /usr/bin/python3, args: [-c, "{code}", server], start_time: 1 s}}'
    results, _ = run_experiment(world("unlimited", latency, server, client, 30))
    said = output(results, "client", "python3").split()
    remove(results)
    assert len(said) == 20, said
    return max(abs(int(ns) - 2 * latency * 1_000_000) for ns in said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[1, 10, 100, 1000], help="Mbit/s")
    parser.add_argument("--latencies", type=int, nargs="+", default=[1, 10, 75, 175], help="ms, one way")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--json")
    a = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    errors = {latency: round_trip_error(latency) for latency in a.latencies}
    print("error of the round trip, ns: " + ", ".join(f"{latency} ms: {error}" for latency, error in errors.items()))
    print("Mbit/s in the middle of the flow (and the share of the rate's payload)")
    print("  rate " + "".join(f"{f'{latency} ms':>18}" for latency in a.latencies))
    rows = []
    for rate in a.rates:
        got = [throughput(rate, latency, a.seconds) for latency in a.latencies]
        rows += [{"rate_mbit": rate, "latency_ms": latency, "mbit": mbit, "share": mbit / (rate * PAYLOAD)} for latency, mbit in zip(a.latencies, got)]
        print(f"{rate:6} " + "".join(f"{mbit:9.2f} ({mbit / (rate * PAYLOAD):6.1%})" for mbit in got), flush=True)
    save("network_grid", {"seconds": a.seconds, "error_ns": errors, "rows": rows}, a.json)
    return 1 if any(errors.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
