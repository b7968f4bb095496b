#!/usr/bin/env python3
"""The experiments of VT-BMv2 (PADS 2023): TCP by iperf over lines of P4 switches with links of 1 ms, and over a ring with a host at each
switch and a flow in each pair of neighbours. Gives the rate that the receiver reports once the window covers the path, its share of the
payload of the line rate, and what a packet costs at each switch: wall time and CPU.

Sending takes buffers of two bandwidth-delay products, and queues hold one. The TTL sinks at each switch and wraps, as in the P4 tutorials."""

import argparse
import json
import math
import pathlib
import sys

from common import iperf_rates, output, remove, run_experiment, save

PAYLOAD = 1448 / 1514  # of a full frame of TCP with timestamps
PROGRAM = pathlib.Path(__file__).with_suffix(".p4")
LATENCY = 0.001


def bytes_in_flight(rate, links):
    """The bandwidth-delay product of a path, with what serialisation adds at each link."""
    return int(rate * 1e6 / 8 * links * 2 * (LATENCY + 1514 * 8 / (rate * 1e6))) + 100_000


def slow_start(rate, links):
    """Seconds until a window of ten segments has grown to that."""
    trip = links * 2 * (LATENCY + 1514 * 8 / (rate * 1e6))
    return trip * (math.log2(max(2, bytes_in_flight(rate, links) / 14_480)) + 4)


def address(host):
    return f"10.0.{host // 256}.{host % 256}"


def experiment(hosts, switches, links, rate, flight, stop, congestion="reno"):
    host = "\n".join(f"  h{n}: {{interfaces: {{eth0: {address(n)}/16}}, processes: [{process}]}}" for n, process in hosts.items())
    switch = "\n".join(
        f"  s{n}:\n    p4: {PROGRAM}\n    queue_bytes: {max(flight, 200_000)} B\n    commands: |\n"
        + "".join(f"      table_add routes forward {to}/32 => {port}\n" for to, port in routes) for n, routes in switches.items())
    sysctls = {"net.ipv4.tcp_congestion_control": congestion, "net.core.rmem_max": 2 * flight, "net.core.wmem_max": 2 * flight}
    return f"""
general: {{stop_time: {stop} s}}
host_option_defaults: {{sysctls: {json.dumps(sysctls)}}}
switches:
{switch}
hosts:
{host}
links:
""" + "\n".join(f'- {{between: ["{a}", "{b}"], rate: {rate} Mbit, latency: 1 ms}}' for a, b in links) + "\n"


def flow(server, flight, seconds):
    window = f"-w {flight * 2}"
    words = lambda text: "[" + ", ".join(text.split()) + "]"  # noqa: E731
    return (f"{{path: iperf, args: {words(f'-s -f k -i 1 {window}')}, expected_final_state: running}}",
            f"{{path: iperf, args: {words(f'-c {server} -t {seconds} {window}')}, start_time: 1 s, expected_final_state: any}}")


def line(count, rate, seconds):
    """A line of switches between two hosts."""
    links = [("h1", "s1:p1"), *((f"s{n}:p2", f"s{n + 1}:p1") for n in range(1, count)), (f"s{count}:p2", "h2")]
    flight = bytes_in_flight(rate, count + 1)
    warm = math.ceil(slow_start(rate, count + 1))
    server, client = flow(address(2), flight, warm + seconds + 1)
    switches = {n: [(address(1), 1), (address(2), 2)] for n in range(1, count + 1)}
    return experiment({1: client, 2: server}, switches, links, rate, flight, warm + seconds + 2), [2], warm


def ring(count, rate, seconds):
    """A ring of switches, each with a host, and a flow from each odd host to the next."""
    links = [(f"s{n}:p2", f"s{n % count + 1}:p1") for n in range(1, count + 1)] + [(f"h{n}", f"s{n}:p3") for n in range(1, count + 1)]
    flight = bytes_in_flight(rate, 3)
    warm = math.ceil(slow_start(rate, 3))
    hosts = {}
    for n in range(1, count, 2):
        hosts[n + 1], hosts[n] = flow(address(n + 1), flight, warm + seconds + 1)
    switches = {n: [(address(n), 3), (address(n + 1), 2) if n % 2 else (address(n - 1), 1)] for n in range(1, count + 1)}
    return experiment(hosts, switches, links, rate, flight, warm + seconds + 2), list(range(2, count + 1, 2)), warm


def measure(text, servers, warm, rate, seconds, workers):
    results, usage = run_experiment(text, "--parallelism", str(workers))
    rates = []
    for server in servers:
        rows = [row for row in iperf_rates(output(results, f"h{server}")) if row[1] - row[0] < 1.5 and warm <= row[0] and row[1] <= warm + seconds]
        if not rows:
            sys.exit(f"iperf on h{server} reports nothing after {warm} s:\n{output(results, f'h{server}')}")
        rates.append(sum(row[2] for row in rows) / len(rows))
    said = json.loads((results / "sim-stats.json").read_text())["p4_switches"]
    hops = sum(switch["received"] for switch in said.values())
    drops = sum(sum(switch["drops"].values()) for switch in said.values())
    remove(results)
    return {"mbit": min(rates), "share": min(rates) / (rate * PAYLOAD), "hops": hops, "drops": drops, "wall": usage.wall, "cpu": usage.cpu,
            "ns_of_cpu_per_hop": usage.cpu / hops * 1e9, "peak_kib": usage.peak_kib}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switches", type=int, nargs="*", default=[1, 4, 16, 64, 256], help="lengths of lines")
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 1000], help="Mbit/s")
    parser.add_argument("--ring", type=int, nargs="*", default=[256], help="switches of the rings")
    parser.add_argument("--seconds", type=int, default=5, help="of the measurement, once the window covers the path; twice that for rings")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--json")
    a = parser.parse_args()
    cells = [("line", count, rate, line, a.seconds) for rate in a.rates for count in a.switches]
    cells += [("ring", count, rate, ring, 2 * a.seconds) for rate in a.rates for count in a.ring]
    print(f"{'':10}{'Mbit/s':>8}{'received':>10}{'share':>8}{'hops':>12}{'wall s':>8}{'CPU s':>8}{'ns/hop':>8}{'MiB':>7}")
    rows = []
    for kind, count, rate, make, seconds in cells:
        text, servers, warm = make(count, rate, seconds)
        row = measure(text, servers, warm, rate, seconds, a.parallelism)
        rows.append({"kind": kind, "switches": count, "rate_mbit": rate, **row})
        print(f"{f'{kind} {count}':10}{rate:8}{row['mbit']:10.2f}{row['share']:8.2%}{row['hops']:12}{row['wall']:8.1f}{row['cpu']:8.1f}"
              f"{row['ns_of_cpu_per_hop']:8.0f}{row['peak_kib'] / 1024:7.0f}", flush=True)
    save("p4_chain", {"parallelism": a.parallelism, "rows": rows}, a.json)
    return 0 if all(row["share"] >= 0.99 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
