#!/usr/bin/env python3
"""The cost of `belljar-routed` for packets that the kernel forwards, by its parts: a line whose routes are exchanged between measurements.

    benches/routing_parts.py                              a line of 8 routers, ten turns
    benches/routing_parts.py --routers 1 --turns 20 --loads 160 tcp

| state | routes | daemons |
|---|---|---|
| static | one for each network | none |
| copied | those that the daemons have set, one for each address | none |
| stopped | the daemons' | all have stopped (SIGSTOP): nothing is sent, no table changes |
| running | the daemons' | all run |

Namespaces and links stay the same, and the states follow each other forth and back. Figures are medians; ratios are to `static` in the same
turn, with their quartiles. On a machine that does other things ten turns of a second are good for 3 %. Needs root.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import time

from common import BUILT, save, table, until
from routing_planes import FAST, Line, measure, parsed, quiet, worked

STATES = ["static", "copied", "stopped", "running"]
#: The number of OLSR's routes (`ip route show proto 150`).
OLSR = 150


class Daemons:
    """OLSR by belljar-routed on all nodes of a line."""

    def __init__(self, line, routed):
        self.processes = []
        for n in range(line.nodes):
            interfaces = [option for name in line.interfaces(n) for option in ("-i", name)]
            self.processes.append(line.start(n, routed, "olsr", *interfaces, *FAST, "--control", BUILT / f"control{os.getpid()}-{n}"))
        # A node has a route to each address but its own.
        expected = [2 * (line.nodes - 1) - len(line.interfaces(n)) for n in range(line.nodes)]
        until(lambda: [len(routes) for routes in routes_of(line)] == expected, f"OLSR has not converged: {BUILT / 'routing-planes.log'}", 120)

    def signal(self, number):
        for process in self.processes:
            process.send_signal(number)

    def worked(self):
        """Seconds of processors that all have taken."""
        return worked(process.pid for process in self.processes)

    def end(self, line):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(30)
            line.processes.remove(process)


def routes_of(line):
    """The daemons' routes of each node, as `ip route` takes them."""
    def words(route):
        gateway = f"via {route['gateway']} " if "gateway" in route else ""
        return f"{route['dst']} {gateway}dev {route['dev']} metric {route.get('metric', 0)}"

    return [[words(route) for route in json.loads(quiet(*line.inside(n, "ip", "-j", "route", "show", "proto", OLSR)).stdout or "[]")]
            for n in range(line.nodes)]


def measured_in(line, state, copied, routed, traffic, options, shares):
    """The figures of all loads in a state. Where daemons run, the share of one processor that they have taken is added to `shares`."""
    for n in range(line.nodes):
        quiet(*line.inside(n, "ip", "route", "flush", "proto", "boot"), check=False)
    daemons = Daemons(line, routed) if state in ("stopped", "running") else None
    try:
        if state == "static":
            line.static_routes()
        elif state == "copied":
            for n, routes in enumerate(copied):
                line.set_routes(n, routes)
        elif state == "stopped":
            daemons.signal(signal.SIGSTOP)
        line.reachable()
        out, begin, before = [], time.monotonic(), daemons and daemons.worked()
        for load in options.loads:
            if load == "tcp":
                out.append(measure(line, traffic, "tcp", 0, 0, options.seconds)["mbit"])
            else:
                out.append(measure(line, traffic, "udp", int(load), 0, options.seconds)["kpps"])
        if state == "running":
            shares.append((daemons.worked() - before) / (time.monotonic() - begin))
        return out
    finally:
        if daemons:
            daemons.end(line)


def beside(ratios):
    """The median of ratios to `static`, with its quartiles; there are none if nothing arrived in that state."""
    if not ratios:
        return " x -"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return f" x {middle:.3f} ({low:.2f}-{high:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routers", type=int, default=8)
    parser.add_argument("--loads", nargs="+", default=["160", "1470", "tcp"], help="bytes of a datagram's payload, or tcp")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1)
    options, routed, traffic = parsed(parser)
    figures, shares = {state: [] for state in STATES}, []
    with Line(options.routers, options.urgent) as line:
        daemons = Daemons(line, routed)
        copied = routes_of(line)
        daemons.end(line)
        for turn in range(options.turns):
            for state in STATES[:: -1 if turn % 2 else 1]:
                figures[state].append(measured_in(line, state, copied, routed, traffic, options, shares))
                print(f"turn {turn}, {state}: {' '.join(f'{figure:.1f}' for figure in figures[state][-1])}", file=sys.stderr, flush=True)
    if options.json:
        save("routing_parts", {"routers": options.routers, "loads": options.loads, "figures": figures, "daemons": shares}, options.json)
    rows = []
    for state in STATES:
        row = [state]
        for k in range(len(options.loads)):
            ratios = [some[k] / base[k] for some, base in zip(figures[state], figures["static"]) if base[k]]
            row.append(f"{statistics.median(some[k] for some in figures[state]):.0f}" + (beside(ratios) if state != "static" else ""))
        rows.append(row)
    print(table([f"{options.routers} routers"] + ["TCP, Mbit/s" if load == "tcp" else f"UDP {load} B, kpps" for load in options.loads], rows))
    print(f"\nthe {options.routers + 2} daemons took {statistics.median(shares):.1%} of one processor, HELLO {FAST[1]}, TC {FAST[3]}")


if __name__ == "__main__":
    main()
