#!/usr/bin/env python3
"""What a modelled host costs: N of them that make HTTP requests of 10 KB every second to modelled servers, one for
every hundred, with real curl clients among them; against a tenth of the hosts, and against hosts that only wait."""

import argparse
import csv

from common import BUILT, remove, run_experiment, save, spread

SECONDS = 10


def text(hosts, programs, active):
    servers = max(1, hosts // 100)
    lines = ["general: {stop_time: %d s}" % (SECONDS + 2), "network: {graph: {type: gml, inline: '"]
    lines += ['graph [ node [ id 0 host_bandwidth_up "100 Mbit" host_bandwidth_down "100 Mbit" ]',
              'edge [ source 0 target 0 latency "20 ms" ] ]', "'}}", "hosts:"]
    for i in range(servers):
        lines.append(f"  server{i:04}: {{network_node_id: 0, processes: [{{model: {{type: http_server, response_size: 10 KB}}}}]}}")
    for i in range(hosts - servers):
        model = f"{{type: http, to: server{i % servers:04}, count: {SECONDS}, interval: {{exponential: 1 s}}}}"
        if not active:
            model = "{type: sink, port: 5001}"
        lines.append(f"  client{i:05}: {{network_node_id: 0, processes: [{{model: {model}, start_time: {1000 + i % 1000} ms}}]}}")
    for i in range(programs):
        lines.append(f"  real{i:04}: {{network_node_id: 0, processes: [{{path: curl, args: [-sS, -o, page, http://server{i % servers:04}/], start_time: 2 s}}]}}")
    return "\n".join(lines) + "\n"


def run(hosts, programs, active=True):
    results, usage = run_experiment(text(hosts, programs, active))
    with open(results / "flows.csv") as file:
        requests = [row for row in csv.DictReader(file) if row["model"] == "http" and row["outcome"] == "done"]
    fetched = len(list(results.glob("hosts/real*/page")))
    remove(results)
    assert fetched == programs, f"{fetched} of {programs} real clients got their page"
    return usage, len(requests)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    a = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    few = max(10, a.hosts // 10)
    kib, idle_kib, idle_us, request_us, wall = [], [], [], [], []
    for _ in range(a.repeat):
        small, _ = run(few, a.programs)
        large, requests = run(a.hosts, a.programs)
        idle_small, _ = run(few, 0, active=False)
        idle_large, _ = run(a.hosts, 0, active=False)
        more = a.hosts - few
        kib.append((large.peak_kib - small.peak_kib) / more)
        idle_kib.append((idle_large.peak_kib - idle_small.peak_kib) / more)
        idle_us.append((idle_large.cpu - idle_small.cpu) / more * 1e6)
        request_us.append((large.cpu - idle_large.cpu) / max(1, requests) * 1e6)
        wall.append(large.wall)
        print(f"{a.hosts} modelled hosts and {a.programs} programs: {large.wall:.1f} s, {large.cpu:.1f} s of CPU, "
              f"{large.peak_kib / 1024:.0f} MiB, {requests} requests", flush=True)
    result = {"bench": "models", "hosts": a.hosts, "programs": a.programs, "kib_per_host": spread(kib),
              "kib_per_waiting_host": spread(idle_kib), "us_of_cpu_per_waiting_host": spread(idle_us),
              "us_of_cpu_per_request": spread(request_us), "wall_s": spread(wall)}
    print(f"a host: {result['kib_per_host']['median']:.1f} KiB, waiting {result['kib_per_waiting_host']['median']:.1f} KiB "
          f"and {result['us_of_cpu_per_waiting_host']['median']:.0f} us of CPU; a request: "
          f"{result['us_of_cpu_per_request']['median']:.0f} us of CPU")
    save("models", result, a.json)


if __name__ == "__main__":
    main()
