#!/usr/bin/env python3
"""The same iperf (2) flow under Belljar and on this machine's kernel, over rates, latencies and losses: what the server
received, what the client says, and the throughput once slow start is over.

The kernel's side is two network namespaces with a TUN device each: tbf with the rate (a burst of 2 ms, at least two
packets), and between them a delay line of our own (fidelity/line.c), since netem is missing from many kernels. The device
does no segmentation, so packets are what Belljar's are. Pinned: the congestion control, tcp_rmem and tcp_wmem as Linux had them before
6.16 (6 and 4 MiB at most), no metrics from earlier connections. The delay line and both ends run at real-time priority:
Linux 6.18 counts only what the program has read in time when it sizes the receive buffer, and a reader that comes late
keeps it small for seconds.

Without privilege for namespaces the kernel's side is left out.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from common import BUILT, ROOT, compile_c, remove, run_experiment, save, spread

RMEM, WMEM = "4096 131072 6291456", "4096 16384 4194304"


class Result:
    """What one flow came to, in Mbit/s."""

    def __init__(self, server, client, skip):
        lines = re.findall(r"([\d.]+)-\s*([\d.]+) sec\s+[\d.]+ KBytes\s+([\d.]+) Kbits/sec", server)
        if not lines:
            sys.exit(f"iperf's server reports nothing:\n{server}\n{client}")
        bins = [(float(a), float(b), float(rate) / 1000) for a, b, rate in lines]
        total = bins.pop()
        self.server = total[2]
        self.client = float(re.findall(r"([\d.]+) Kbits/sec", client)[-1]) / 1000
        steady = [rate for start, _, rate in bins if start >= skip]
        self.steady = sum(steady) / len(steady) if steady else self.server
        self.bins = [rate for _, _, rate in bins]
        self.seconds = total[1]


def on_belljar(rate, latency, loss, seconds, skip, seed, size, congestion):
    results, _ = run_experiment(f"""
general: {{stop_time: {4 * seconds + 60} s, seed: {seed}}}
network:
  graph:
    type: gml
    inline: |
      graph [
        directed 0
        node [ id 0 host_bandwidth_up "{rate} Mbit" host_bandwidth_down "{rate} Mbit" ]
        node [ id 1 host_bandwidth_up "{rate} Mbit" host_bandwidth_down "{rate} Mbit" ]
        edge [ source 0 target 1 latency "{latency} ms" packet_loss {loss} ]
      ]
hosts:
  server: {{network_node_id: 0, processes: [{{path: iperf, args: -s -f k -i 0.5, expected_final_state: running}}]}}
  client:
    network_node_id: 1
    processes: [{{path: iperf, args: -Z {congestion} -c server {amount(seconds, size)} -f k, start_time: 1 s}}]
""")
    try:
        text = {host: next(results.glob(f"hosts/{host}/iperf.*.stdout")).read_text() for host in ("server", "client")}
    finally:
        remove(results)
    return Result(text["server"], text["client"], skip)


def amount(seconds, size):
    return f"-n {size}" if size else f"-t {seconds}"


class Namespaces:
    """Two namespaces joined by the delay line; gone at the end."""

    def __init__(self, rate, latency, loss, seed):
        self.names = [f"bjfid{os.getpid()}{end}" for end in "ab"]
        self.line = None
        self.arguments = rate, latency, loss, seed

    def __enter__(self):
        rate, latency, loss, seed = self.arguments
        program = compile_c(ROOT / "benches/fidelity/line.c", "line")
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
            paths = [f"/var/run/netns/{name}" for name in self.names]
            self.line = subprocess.Popen([*urgent(20), program, *paths, "line0", str(latency * 1000), str(loss), str(seed)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if self.line.stdout.readline() != "ready\n":
                raise RuntimeError("the delay line does not start")
            burst = max(int(rate * 250), 3100)
            for n, name in enumerate(self.names, 1):
                for command in (f"ip addr add 10.9.0.{n}/24 dev line0", "ip link set line0 txqueuelen 20000 up",
                                "ip link set lo up", f"tc qdisc add dev line0 root tbf rate {rate}mbit burst {burst} limit 20000000",
                                "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.tcp_no_metrics_save=1"):
                    run(*self.inside(name), *command.split())
                run(*self.inside(name), "sysctl", "-qw", f"net.ipv4.tcp_rmem={RMEM}", f"net.ipv4.tcp_wmem={WMEM}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def inside(self, name):
        return ["ip", "netns", "exec", name]

    def __exit__(self, *_):
        if self.line:
            self.line.communicate("")
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def run(*command):
    subprocess.run(command, check=True)


def urgent(priority):
    return ["chrt", "-r", str(priority)]


def on_linux(rate, latency, loss, seconds, skip, seed, size, congestion):
    with Namespaces(rate, latency, loss, seed) as ends:
        a, b = ends.names
        server = subprocess.Popen([*ends.inside(b), *urgent(30), "iperf", "-s", "-f", "k", "-i", "0.5"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            time.sleep(0.5)
            command = [*ends.inside(a), *urgent(10), "iperf", "-Z", congestion, "-c", "10.9.0.2", *amount(seconds, size).split(), "-f", "k"]
            client = subprocess.run(command, capture_output=True, text=True, check=True, timeout=6 * seconds + 60).stdout
            time.sleep(4 * latency / 1000 + 0.5)
        finally:
            server.send_signal(signal.SIGTERM)
            text = server.communicate()[0]
    return Result(text, client, skip)


def privileged():
    return os.geteuid() == 0 and pathlib.Path("/dev/net/tun").exists() and all(map(shutil.which, ("ip", "tc", "chrt")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[10, 100], help="Mbit/s")
    parser.add_argument("--latencies", type=int, nargs="+", default=[10, 75], help="ms, one way")
    parser.add_argument("--losses", type=float, nargs="+", default=[0], help="chance that a packet is lost, both ways")
    parser.add_argument("--size", type=int, default=0, help="bytes to send instead of a time: the flow's completion time")
    parser.add_argument("--congestion", default="cubic", help="the congestion control of both sides")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--skip", type=float, default=3, help="seconds after which slow start is over")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, with seeds of their own")
    parser.add_argument("--no-linux", action="store_true", help="only Belljar")
    parser.add_argument("--json")
    a = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    sides = {"belljar": on_belljar}
    if not a.no_linux and privileged():
        sides = {"linux": on_linux, **sides}
    elif not a.no_linux:
        print("no privilege for namespaces with TUN devices, or no ip, tc, chrt: only Belljar")
    rows = []
    print(f"{'Mbit/s':>7} {'ms':>4} {'loss':>6} {'':8} {'client':>8} {'server':>8} {'steady':>8} {'range of steady':>17} {'s':>7}")
    for rate in a.rates:
        for latency in a.latencies:
            for loss in a.losses:
                for side, measure in sides.items():
                    runs = [measure(rate, latency, loss, a.seconds, a.skip, seed, a.size, a.congestion) for seed in range(1, a.repeat + 1)]
                    row = {"rate_mbit": rate, "latency_ms": latency, "loss": loss, "side": side}
                    row |= {name: spread([getattr(r, name) for r in runs]) for name in ("client", "server", "steady", "seconds")}
                    row["bins"] = runs[0].bins
                    rows.append(row)
                    c, s, t, w = (row[name] for name in ("client", "server", "steady", "seconds"))
                    print(f"{rate:7} {latency:4} {loss:6} {side:8} {c['median']:8.2f} {s['median']:8.2f} {t['median']:8.2f} "
                          f"{t['least']:8.2f}-{t['greatest']:<8.2f} {w['median']:7.3f}", flush=True)
    save("fidelity", {"bench": "fidelity", "kernel": os.uname().release, "seconds": a.seconds, "skip": a.skip,
                      "size": a.size, "congestion": a.congestion, "rows": rows}, a.json)


if __name__ == "__main__":
    main()
