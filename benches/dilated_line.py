#!/usr/bin/env python3
"""Sections 3 and 5 of VT-BMv2 (PADS 2023) on the real kernel: TCP by iperf over a line of switches with links of 1 ms, in real time, in
dilated time, and simulated. Gives the rate that the receiver reports once the window covers the path, its share of the payload of the line
rate, how late frames were, the machine's time, what a frame costs a processor for each link that it passes, and the verdict. The switches
are the kernel's bridges, or P4 switches of Belljar's.

A flow is measured from when slow start must be over, for `--seconds` on lines of up to 16 switches and for at least two round trips on longer
ones, where a second costs the more the longer they are. `--ring` has rings of P4 switches with a host each and a flow in each pair of neighbours.

`--readings` measures what a reading of the clock and other calls cost in dilated time against native; `--barriers` what a barrier costs
with so many hosts that all want a processor. `--full` is the paper's table, by `--tdf auto`. `--figure` draws the shares."""

import argparse
import json
import math
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import p4_chain
from common import ROOT, belljar, compile_c, iperf_rates, save

sys.path.insert(0, str(ROOT / "python"))
from belljar.figures import COLOURS  # noqa: E402

PAYLOAD = p4_chain.PAYLOAD
# The time between two lines of iperf's report.
INTERVAL = 0.1
# Seconds before the measurement at least: programs have to be started, on a machine that may be busy.
LEAST_WARM = 0.5
# Lines of up to so many switches are measured for the whole time.
SHORT = 16
# Round trips beyond slow start before lines of more than so many are measured. The factor changes while the window grows, and with it the
# round trip in the machine's time, by which the kernel's timers of retransmission go: one that fires too early costs a round trip.
LONG, LATER = 64, 6


def round_trip(count, rate):
    """Seconds of a round trip over a line of so many switches."""
    return (count + 1) * 2 * (p4_chain.LATENCY + 1514 * 8 / (rate * 1e6))


def warm_time(count, rate):
    """Seconds until the window covers a line's path."""
    return p4_chain.slow_start(rate, count + 1) + (LATER * round_trip(count, rate) if count > LONG else 0)


def measured(count, rate, seconds):
    """Seconds for which a line is measured."""
    trip = round_trip(count, rate)
    return seconds if count <= SHORT else min(seconds, math.ceil(max(2 * trip, 0.5) / INTERVAL) * INTERVAL)


def paced(text, warm, seconds, trip):
    """An experiment whose flows end with the measurement, and report often. The receiver's clock begins when the flow's first bytes are there,
    so `trip`, the time of a round trip, passes some times before."""
    warm = math.ceil(max(warm, LEAST_WARM) / INTERVAL) * INTERVAL
    text = re.sub(r"-i, 1(?=[],])", f"-i, {INTERVAL}", text)
    text = text.replace("stop_time: ", f"stop_time: {1 + warm + seconds + 3 * trip + INTERVAL:.1f} s  # ")
    return re.sub(r"stop_time: ([\d.]+ s) [^}]*", r"stop_time: \1", text), warm


def growing(flight):
    """Sysctls with which the kernel grows windows by itself up to twice as many bytes as fit into the path: half of a buffer is for data.
    Not all namespaces have the limits of buffers that programs ask for."""
    return {"net.ipv4.tcp_congestion_control": "reno", "net.ipv4.tcp_rmem": f"4096 131072 {4 * flight}", "net.ipv4.tcp_wmem": f"4096 131072 {4 * flight}"}


def bridges(count, rate, seconds):
    """A line of the kernel's bridges between two hosts."""
    links = [("h1", "s1"), *((f"s{n}", f"s{n + 1}") for n in range(1, count)), (f"s{count}", "h2")]
    flight = p4_chain.bytes_in_flight(rate, count + 1)
    warm = warm_time(count, rate)
    server, client = (without_windows(text) for text in p4_chain.flow("10.0.0.2", flight, math.ceil(warm + seconds + 1)))
    return f"""
general: {{stop_time: {math.ceil(warm + seconds + 2)} s}}
host_option_defaults: {{sysctls: {json.dumps(growing(flight))}}}
switches: [{", ".join(f"s{n}" for n in range(1, count + 1))}]
hosts:
  h1: {{interfaces: {{eth0: 10.0.0.1/24}}, processes: [{client}]}}
  h2: {{interfaces: {{eth0: 10.0.0.2/24}}, processes: [{server}]}}
links:
""" + "\n".join(f"- {{between: [{a}, {b}], rate: {rate} Mbit, latency: 1 ms, queue: {{bytes: {max(flight, 200_000)} B}}}}" for a, b in links) + "\n", warm


def without_windows(text):
    return re.sub(r", -w, \d+", "", text)


def p4(count, rate, seconds):
    """The same line of P4 switches. Queues are those of the links: in an emulation the switches have none."""
    later = warm_time(count, rate) - p4_chain.slow_start(rate, count + 1)
    text = without_windows(queues_of_links(p4_chain.line(count, rate, math.ceil(later + seconds))[0]))
    sysctls = json.dumps(growing(p4_chain.bytes_in_flight(rate, count + 1)))
    text, times = re.subn(r"^host_option_defaults: .*$", f"host_option_defaults: {{sysctls: {sysctls}}}", text, flags=re.MULTILINE)
    assert times == 1
    return text, warm_time(count, rate)


def ring(count, rate, seconds):
    """A ring of P4 switches, each with a host, and a flow from each odd host to the next."""
    return queues_of_links(p4_chain.ring(count, rate, math.ceil(seconds))[0]), p4_chain.slow_start(rate, 3)


def queues_of_links(text):
    queue = next(line for line in text.splitlines() if "queue_bytes" in line).split(":")[1].strip()
    lines = [line for line in text.splitlines() if "queue_bytes" not in line]
    return "\n".join(line.replace("latency: 1 ms}", f"latency: 1 ms, queue: {{bytes: {queue}}}}}") for line in lines) + "\n"


PLANES = {"bridges": bridges, "p4": p4}


def received(output, warm, seconds):
    """Mbit/s of a receiver while it is measured."""
    rows = [row for row in iperf_rates(output.read_text()) if row[1] - row[0] < 1.5 * INTERVAL and warm <= row[0] + 1e-6 and row[1] <= warm + seconds + 1e-6]
    return sum(row[2] for row in rows) / len(rows) if rows else 0.0


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(text, arguments, warm, rate, seconds):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dilated-line-"))
    try:
        (folder / "exp.yaml").write_text(text)
        before, began = processor_seconds(), time.monotonic()
        done = subprocess.run([belljar(), *arguments[:1], folder / "exp.yaml", "-o", folder / "out", "--no-progress", *arguments[1:]],
                              capture_output=True, text=True)
        spent, took = processor_seconds() - before, time.monotonic() - began
        outputs = [output for output in sorted((folder / "out/hosts").glob("*/iperf.*.stdout")) if "Server listening" in output.read_text()]
        if not outputs:
            sys.exit(done.stdout + done.stderr)
        got = min(received(output, warm, seconds) for output in outputs)
        truth = folder / "out/emulation.json"
        truth = json.loads(truth.read_text()) if truth.exists() else {}
        frames = truth.get("frames", 0)
        return {"mbit": got, "share": got / (rate * PAYLOAD), "verdict": truth.get("verdict", "exact"), "reasons": truth.get("reasons", []), "tdf": truth.get("tdf"),
                "late_p99_us": ((truth.get("lateness") or {}).get("p99", 0.0) * 1e6), "busy": truth.get("cpu", {}).get("busy"),
                "short": max(truth.get("cpu", {}).get("short", {}).values(), default=0.0), "quanta": truth.get("quanta"),
                "factors": [[change["at"], change["tdf"]] for change in truth.get("tdf_changes", [])],
                "frames": frames, "us_of_processor_per_frame": spent / frames * 1e6 if frames else None,
                "us_of_lines_per_frame": truth["cpu"]["line_seconds"] / frames * 1e6 if frames else None,
                "real_seconds": truth.get("real_seconds"), "took_seconds": took}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def readings():
    """Nanoseconds of a call, native and dilated (in the machine's time)."""
    program = compile_c(pathlib.Path(__file__).parent / "dilated" / "readings.c", "dilated-readings")
    native = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    text = f"""
general: {{stop_time: 60 s}}
network: {{graph: {{type: 1_gbit_switch}}}}
hosts: {{a: {{network_node_id: 0, processes: [{{path: {program}}}]}}}}
"""
    rows = {line.split()[0]: [float(line.split()[1])] for line in native.splitlines()}
    with tempfile.TemporaryDirectory(prefix="dilated-line-") as folder:
        (pathlib.Path(folder) / "exp.yaml").write_text(text)
        # At a factor of 1 the hosts' time is the machine's.
        subprocess.run([belljar(), "emulate", f"{folder}/exp.yaml", "-o", f"{folder}/out", "--until-done", "--tdf", "1", "--no-progress"],
                       capture_output=True, check=True)
        for line in next(pathlib.Path(folder, "out/hosts/a").glob("*.stdout")).read_text().splitlines():
            rows[line.split()[0]].append(float(line.split()[1]))
    return rows


def barrier(count, quantum, barriers):
    """What a barrier of so many hosts costs that all want a processor."""
    with tempfile.TemporaryDirectory(prefix="dilated-line-") as folder:
        host = "{processes: [{path: sh, args: [-c, 'while :; do :; done'], expected_final_state: running}], network_node_id: 0}"
        hosts = "\n".join(f"  h{n}: {host}" for n in range(count))
        stop = math.ceil(quantum * barriers) + 100
        (pathlib.Path(folder) / "exp.yaml").write_text(
            f"general: {{stop_time: {stop} ms}}\nnetwork: {{graph: {{type: 1_gbit_switch}}}}\nhosts:\n{hosts}\n")
        done = subprocess.run([belljar(), "emulate", f"{folder}/exp.yaml", "-o", f"{folder}/out", "--quantum", f"{quantum} ms", "--no-progress"],
                              capture_output=True, text=True)
        truth = pathlib.Path(folder, "out/emulation.json")
        if not truth.exists():
            sys.exit(done.stdout + done.stderr)
        return json.loads(truth.read_text())["quanta"] | {"hosts": count}


def panels(rows):
    """What is drawn: titles, names of the axis, and the rows of each panel with their places on the axis. Where lines of one length were
    measured at several rates these are a panel, and where lines of several lengths were at one rate."""
    made = []
    for kind, plane in sorted({(row["kind"], row["plane"]) for row in rows}):
        of_kind = [row for row in rows if (row["kind"], row["plane"]) == (kind, plane)]
        name = "P4 switches" if plane == "p4" else "bridges"
        for count in sorted({row["switches"] for row in of_kind}):
            some = [row for row in of_kind if row["switches"] == count]
            if len({row["rate_mbit"] for row in some}) > 1:
                made.append((f"{kind} of {count} {name}", "rate of the links in Mbit/s", "rate_mbit", some))
        for rate in sorted({row["rate_mbit"] for row in of_kind}):
            some = [row for row in of_kind if row["rate_mbit"] == rate]
            if len({row["switches"] for row in some}) > 1:
                made.append((f"{kind}s of {name} at {rate} Mbit/s", "switches", "switches", some))
        if not any(title.startswith(kind) and name in title for title, *_ in made):
            made.append((f"{kind}s of {name}", "rate of the links in Mbit/s", "rate_mbit", of_kind))
    return made


def figure(rows, path):
    """The share of the line rate over the rate and over the length of lines, a line for each world."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    drawn = panels(rows)
    made = Figure(figsize=(3.4 * len(drawn), 3.2), layout="constrained")
    FigureCanvasAgg(made)
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    for axes, (title, name, key, some) in zip(made.subplots(1, len(drawn), squeeze=False, sharey=True)[0], drawn):
        for colour, world, marker in zip(COLOURS, worlds, "so^vD"):
            points = sorted((row[key], row["share"]) for row in some if row["world"] == world)
            if points:
                axes.plot(*zip(*points), marker=marker, color=colour, label=world, alpha=0.8)
        ticks = sorted({row[key] for row in some})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(title, fontsize="medium")
        axes.set(xlabel=name, ylim=(0, 1.08))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    made.axes[0].set_ylabel("received, of the line rate")
    made.axes[0].legend(frameon=False)
    made.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planes", nargs="+", choices=PLANES, default=["bridges"], help="what the switches are")
    parser.add_argument("--switches", type=int, nargs="*", default=[4], help="lengths of lines")
    parser.add_argument("--rates", type=int, nargs="+", default=[100], help="Mbit/s")
    parser.add_argument("--ring", type=int, nargs="*", default=[], help="switches of rings, at the first of --rates")
    parser.add_argument("--worlds", nargs="+", choices=["simulated", "real", "dilated"], default=["simulated", "real", "dilated"], help="what is run")
    parser.add_argument("--tdf", nargs="*", help="factors of dilated runs, 'auto', and 'quantum': 1 ms and factor 1; 8 if left out")
    parser.add_argument("--seconds", type=float, default=3, help="of the measurement, once the window covers the path; less on long lines")
    parser.add_argument("--readings", action="store_true", help="what a reading of the clock costs")
    parser.add_argument("--barriers", type=int, nargs="*", default=[], help="hosts for which the cost of a barrier is measured")
    parser.add_argument("--full", action="store_true", help="the paper's table: 16 switches at 100 to 1000 Mbit/s, lines of 1 to 256 at 500, a ring of 64 at 100, readings and barriers")
    parser.add_argument("--with", dest="before", nargs="*", default=[], help="JSON of earlier runs, whose rows are put before those of this one")
    parser.add_argument("--figure", help="the shares as a picture (PNG)")
    parser.add_argument("--json")
    a = parser.parse_args()
    cells = [("line", plane, count, rate) for plane in a.planes for count in a.switches for rate in a.rates]
    cells += [("ring", "p4", count, a.rates[0]) for count in a.ring]
    if a.full:
        cells = [("line", plane, 16, rate) for plane in PLANES for rate in (100, 200, 500, 1000)]
        cells += [("line", plane, count, 500) for plane in PLANES for count in (1, 4, 64, 256)]
        cells.append(("ring", "p4", 64, 100))
        a.readings, a.barriers, a.tdf = True, [16, 64, 256], a.tdf or ["auto"]
    began = time.monotonic()
    report = {"rows": [], "readings": {}, "barriers": []}
    earlier = [json.loads(pathlib.Path(path).read_text()) for path in a.before]
    if a.readings:
        report["readings"] = readings()
        for name, (native, dilated) in report["readings"].items():
            print(f"{name:16}{native:9.0f} ns native{dilated:9.0f} ns dilated")
    for count in a.barriers:
        row = barrier(count, 1, 300)
        report["barriers"].append(row)
        print(f"barrier of {count:4} hosts: {row['barrier_us'] / 1e3:.2f} ms, {row['barrier_share']:.2%} of the time, {row['most_turns']} turns", flush=True)
    if cells:
        print(f"{'switches':>16}{'Mbit/s':>8}{'world':>12}{'received':>10}{'share':>9}{'late 99 % us':>14}{'factor':>8}{'us/hop':>8}{'s':>7}  verdict")
    for kind, plane, count, rate in cells:
        make = ring if kind == "ring" else PLANES[plane]
        seconds = measured(2 if kind == "ring" else count, rate, a.seconds)
        text, warm = paced(*make(count, rate, seconds), seconds, round_trip(2 if kind == "ring" else count, rate))
        dilated = {tdf: ["--quantum", "1 ms"] if tdf == "quantum" else ["--tdf", tdf] for tdf in a.tdf or ["8"]}
        worlds = {"simulated": ["run"], "real time": ["emulate"]} | {
            tdf if tdf == "quantum" else f"tdf {tdf}": ["emulate", *options] for tdf, options in dilated.items()}
        for world, arguments in worlds.items():
            if {"simulated": "simulated", "real time": "real"}.get(world, "dilated") not in a.worlds:
                continue
            row = run(text, arguments, warm, rate, seconds)
            report["rows"].append({"kind": kind, "plane": plane, "switches": count, "rate_mbit": rate, "world": world, "seconds": seconds, **row})
            print(f"{f'{kind} {plane} {count}':>16}{rate:8}{world:>12}{row['mbit']:10.2f}{row['share']:9.2%}{row['late_p99_us']:14.0f}{row['tdf'] or 1:8.1f}"
                  f"{row['us_of_processor_per_frame'] or 0:8.1f}{row['took_seconds']:7.1f}  {row['verdict']}", flush=True)
    for before in reversed(earlier):
        report = {"rows": before["rows"] + report["rows"], "readings": before["readings"] | report["readings"],
                  "barriers": before["barriers"] + report["barriers"]}
    report["took_seconds"] = sum(before["took_seconds"] for before in earlier) + time.monotonic() - began
    print(f"{report['took_seconds'] / 60:.1f} minutes")
    if a.figure:
        figure(report["rows"], a.figure)
    save("dilated_line", report, a.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
