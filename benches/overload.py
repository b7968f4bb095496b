#!/usr/bin/env python3
"""Verdicts of overloaded emulations: TCP at rates that the machine cannot carry, over lines of 16 and 64 bridges or P4 switches, with one flow
and with one between each pair of neighbours, beside busy processors and beside programs that take and give back memory; and over links
without lines. The share of the links' rate that the slowest flow reaches is what the verdict is held against.

Fails where a verdict is kinder than it should be: "truthful" where a flow reaches less than 90 % of its rate, anything but "untruthful" where it
reaches less than 60 %. A machine that is busy with other work makes verdicts no kinder. `--only` takes the cases whose names match."""

import argparse
import contextlib
import math
import os
import re
import subprocess
import sys

import dilated_line
import p4_chain
from common import save, table

# Shares of the rate below which a run is not truthful, and below which it is untruthful.
TRUTHFUL_SHARE, DOUBTFUL_SHARE = 0.9, 0.6
VERDICTS = ["truthful", "doubtful", "untruthful"]
# Mbit/s of each link. A frame costs the machine microseconds at each: these are several times what two processors carry.
RATES = {("bridges", 16): 2_000, ("bridges", 64): 1_000, ("p4", 16): 500, ("p4", 64): 200}
# What takes memory, in bytes, again and again.
TAKEN = 512 << 20
BUSY = "while True: pass"
MEMORY = f"import mmap\nwhile True:\n    taken = mmap.mmap(-1, {TAKEN})\n    for at in range(0, {TAKEN}, 4096): taken[at] = 1\n    taken.close()"
STRESSES = {"quiet": [], "hogs": [BUSY] * (os.cpu_count() or 1), "memory": [MEMORY]}


@contextlib.contextmanager
def stress(programs):
    """Programs that run beside the emulation."""
    started = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def neighbours(count, rate, seconds):
    """A line of bridges with a host at each, and a flow from each odd one to the next."""
    flight = p4_chain.bytes_in_flight(rate, 3)
    warm = p4_chain.slow_start(rate, 3)
    hosts = {}
    for n in range(1, count, 2):
        hosts[n + 1], hosts[n] = map(dilated_line.without_windows, p4_chain.flow(p4_chain.address(n + 1), flight, math.ceil(warm + seconds + 1)))
    links = [(f"s{n}", f"s{n + 1}") for n in range(1, count)] + [(f"h{n}", f"s{n}") for n in range(1, count + 1)]
    text = p4_chain.experiment(hosts, {}, links, rate, flight, math.ceil(warm + seconds + 2))
    names = ", ".join(f"s{n}" for n in range(1, count + 1))
    return text.replace("switches:\n", f"switches: [{names}]\n", 1), warm


def direct(flows, rate, seconds):
    """Pairs of hosts whose links the kernel provides alone."""
    hosts = {}
    for n in range(1, 2 * flows, 2):
        hosts[n + 1], hosts[n] = map(dilated_line.without_windows, p4_chain.flow(f"10.{n}.0.2", 1, seconds + 2))
    host = "\n".join(f"  h{n}: {{interfaces: {{eth0: 10.{n - 1 + n % 2}.0.{2 - n % 2}/24}}, processes: [{process}]}}" for n, process in hosts.items())
    links = "\n".join(f"- {{between: [h{n}, h{n + 1}], rate: {rate} Mbit}}" for n in range(1, 2 * flows, 2))
    return f"general: {{stop_time: {seconds + 3} s}}\nhosts:\n{host}\nlinks:\n{links}\n", 0.5


def cases(seconds):
    """All runs: name, experiment, seconds until it is measured, rate of its links, stress beside it, further options."""
    for (plane, count), rate in RATES.items():
        one = dilated_line.PLANES[plane]
        many = dilated_line.ring if plane == "p4" else neighbours
        for flows, make in (("one", one), ("many", many)):
            for beside in STRESSES:
                yield f"{plane}-{count}-{flows}-{beside}", *make(count, rate, seconds), rate, beside, []
    for flows in (1, 8):
        yield f"direct-{flows}-quiet", *direct(flows, 40_000, seconds), 40_000, "quiet", []
    for plane in ("bridges", "p4"):
        yield f"{plane}-16-slower-hogs", *dilated_line.PLANES[plane](16, RATES[plane, 16], seconds), RATES[plane, 16], "hogs", ["--tdf", "2"]
        yield f"{plane}-16-narrow-hogs", *dilated_line.PLANES[plane](16, 100, seconds), 100, "hogs", []


def is_too_kind(row):
    """True if the verdict of a run is kinder than what its slowest flow reached."""
    least = 2 if row["share"] < DOUBTFUL_SHARE else 1 if row["share"] < TRUTHFUL_SHARE else 0
    return VERDICTS.index(row["verdict"]) < least


def measure(name, text, warm, rate, beside, options, seconds):
    text, warm = dilated_line.paced(text, warm, seconds, 0.1)
    with stress(STRESSES[beside]):
        got = dilated_line.run(text, ["emulate", *options], warm, rate, seconds)
    return {"name": name, **{key: got[key] for key in ("share", "verdict", "reasons", "busy", "late_p99_us", "took_seconds")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose names match")
    parser.add_argument("--seconds", type=int, default=2, help="time for which flows are measured")
    parser.add_argument("--list", action="store_true", help="names of the cases")
    parser.add_argument("--json", metavar="PATH")
    arguments = parser.parse_args()
    chosen = [case for case in cases(arguments.seconds) if re.search(arguments.only, case[0])]
    if arguments.list:
        print("\n".join(name for name, *_ in chosen))
        return
    rows = []
    for case in chosen:
        row = measure(*case, arguments.seconds)
        rows.append({**row, "too_kind": is_too_kind(row)})
        print(f"{row['name']}: {row['share'] * 100:.0f} % of the rate, {row['verdict']}{': TOO KIND' if rows[-1]['too_kind'] else ''}", flush=True)
    print(table(["run", "share of the rate", "verdict", "first reason"],
                [[row["name"], f"{row['share'] * 100:.0f} %", row["verdict"], (row["reasons"] or [""])[0]] for row in rows]))
    save("overload", {"rows": rows}, arguments.json)
    if kind := [row["name"] for row in rows if row["too_kind"]]:
        sys.exit(f"verdicts that are too kind: {', '.join(kind)}")


if __name__ == "__main__":
    main()
