#!/usr/bin/env python3
"""CPU per message of the P2P program (p2p/p2p.c), under Belljar and natively over loopback.

Both run it for two different times; the cost is the slope of CPU over messages received between the two, so
starting up and closing down don't count. The two take turns, five times, and the median counts: what else the
machine does meanwhile meets both.
"""

import argparse
import contextlib
import os
import re
import socket
import subprocess
import threading
import time

from common import ROOT, compile_c, remove, run_experiment, save, spread

SOURCE = ROOT / "benches" / "p2p" / "p2p.c"
NATIVE_MESSAGES = 20  # in flight per peer at most: as many as sockets hold
COUNT = re.compile(r"sent (\d+) received (\d+)")


def aes(a):
    """The last argument of the program: how often each message is encrypted and decrypted."""
    return [a.aes] if getattr(a, "aes", 0) else []


def experiment(program, a, seconds, general=""):
    """Every pair of peers is 50 ms apart. `general` has more settings of the experiment as a whole."""
    load = "".join(f" {times}" for times in aes(a))
    hosts = "\n".join(
        f"  peer{i:06}: {{network_node_id: 0, processes: [{{path: {program}, "
        f"args: {i} {a.peers} {a.messages} {seconds} {a.weights} {a.seed}{load}, start_time: 1 s}}]}}"
        for i in range(a.peers)
    )
    return (
        f"general: {{stop_time: {seconds + 2} s, seed: {a.seed}{general}}}\n"
        "network:\n  graph:\n    type: gml\n    inline: |\n"
        '      graph [ node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ] edge [ source 0 target 0 latency "50 ms" ] ]\n'
        f"hosts:\n{hosts}\n"
    )


def simulated(program, a, seconds):
    """(messages received, CPU seconds, wall seconds) of a run under Belljar."""
    results, usage = run_experiment(
        experiment(program, a, seconds),
        *(["--cells", a.cells] if a.cells > 1 else []),
        *(["--placement", a.placement] if a.placement else []),
        *(["--pcap", "--strace"] if a.logging else []),
    )
    counts = [COUNT.search(f.read_text()) for f in results.glob("hosts/*/p2p*.stdout")]
    remove(results)
    assert len(counts) == a.peers and all(counts), f"{len(counts)} of {a.peers} peers reported"
    return sum(int(c[2]) for c in counts), usage.cpu, usage.wall


@contextlib.contextmanager
def ports(peers):
    """The first of consecutive UDP ports that are free. The TCP port of its number keeps other benchmarks off them meanwhile."""
    for first in range(20_000, 32_000, peers):
        with contextlib.ExitStack() as sockets:
            kept = sockets.enter_context(socket.socket())
            try:
                kept.bind(("127.0.0.1", first))
                for port in range(first, first + peers):
                    with socket.socket(type=socket.SOCK_DGRAM) as free:
                        free.bind(("127.0.0.1", port))
            except OSError:
                continue
            yield first
            return
    raise AssertionError(f"there are no {peers} consecutive UDP ports that are free")


def native(program, a, seconds):
    """The same over loopback: as fast as it goes, because nothing delays a message."""
    with ports(a.peers) as first:
        return native_at(first, program, a, seconds)


def native_at(first, program, a, seconds):
    begin = int(time.time()) + 2 + a.peers // 500
    children = []
    # One whose alarm rang just before it began to wait for a message that was lost would wait for ever.
    timer = threading.Timer(120 + 2 * seconds + a.peers / 50, lambda: [child.kill() for child in children])
    timer.start()
    try:
        for i in range(a.peers):
            arguments = [i, a.peers, a.messages, seconds, a.weights, a.seed, first, begin, *aes(a)]
            children.append(
                subprocess.Popen([str(program), *map(str, arguments)], stdout=subprocess.PIPE, text=True)
            )
        received, cpu = 0, 0.0
        for child in children:
            found = COUNT.search(child.stdout.read())
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0 and found, f"a native peer ended with {child.returncode}"
            received += int(found[2])
            cpu += usage.ru_utime + usage.ru_stime
        return received, cpu, seconds
    finally:
        timer.cancel()
        for child in children:
            if child.returncode is None:
                child.kill()
                child.wait()
            child.stdout.close()


def native_pair(program, a, times):
    """A short and a long run. They are made again where the longer one received less, which only a machine that was busy meanwhile does."""
    for _ in range(5):
        short, long = (native(program, a, seconds) for seconds in times)
        if long[0] > short[0]:
            break
    return short, long


def slope(short, long):
    """Microseconds of CPU per message between two runs."""
    assert long[0] > short[0], f"{long[0]} messages in the long run, {short[0]} in the short one"
    return (long[1] - short[1]) / (long[0] - short[0]) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=int, default=100)
    parser.add_argument("--messages", type=int, default=100, help="in flight per peer at the start")
    parser.add_argument("--weights", choices=["uniform", "exp", "ring", "pareto"], default="exp")
    parser.add_argument("--aes", type=int, default=0, metavar="TIMES", help="encrypt and decrypt each message so many times")
    parser.add_argument("--times", type=int, nargs=2, default=[2, 10], help="simulated seconds of the two runs")
    parser.add_argument("--native-times", type=int, nargs=2, default=[1, 3], help="seconds of the two native runs")
    parser.add_argument("--native-messages", type=int, help=f"in flight natively (default: at most {NATIVE_MESSAGES}, or sockets overflow)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cells", type=int, default=1, help="processes that the hosts are spread over")
    parser.add_argument("--placement", choices=["near", "far"])
    parser.add_argument("--logging", action="store_true", help="with captures and logs of system calls")
    parser.add_argument("--static", action="store_true", help="a statically linked program: 12 mappings instead of 30")
    parser.add_argument("--only", choices=["belljar", "native"])
    parser.add_argument("--json", help="where to write the result")
    a = parser.parse_args()
    program = compile_c(SOURCE, "p2p-static" if a.static else "p2p", *(["-static-pie"] if a.static else []))
    in_flight = a.native_messages or min(a.messages, NATIVE_MESSAGES)
    costs = {"belljar": [], "native": []}
    speed = []
    for turn in range(a.repeat):
        if a.only != "native":
            short, long = (simulated(program, a, t) for t in a.times)
            costs["belljar"].append(slope(short, long))
            speed.append((a.times[1] - a.times[0]) / (long[2] - short[2]) if long[2] > short[2] else float("inf"))
        if a.only != "belljar":
            n = argparse.Namespace(**{**vars(a), "messages": in_flight})
            costs["native"].append(slope(*native_pair(program, n, a.native_times)))
        print(f"turn {turn + 1}: " + ", ".join(f"{k} {v[-1]:.2f} us" for k, v in costs.items() if v), flush=True)
    result = {"bench": "p2p", "peers": a.peers, "messages": a.messages, "native_messages": in_flight,
              "weights": a.weights, "cells": a.cells, "placement": a.placement, "logging": a.logging, "cost_us": {k: spread(v) for k, v in costs.items() if v}}
    print(f"\n{'CPU per message':16} {'median':>8} {'least':>8} {'greatest':>8}")
    for kind, s in result["cost_us"].items():
        print(f"{kind:16} {s['median']:7.2f}u {s['least']:7.2f}u {s['greatest']:7.2f}u")
    if a.only is None:
        ratios = [b / n for b, n in zip(costs["belljar"], costs["native"])]
        result["ratio"] = spread(ratios)
        print(f"belljar / native {result['ratio']['median']:8.3f} (of the pairs: median)")
    if speed:
        result["simulated_seconds_per_second"] = spread(speed)
    save("p2p", result, a.json)


if __name__ == "__main__":
    main()
