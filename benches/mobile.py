#!/usr/bin/env python3
"""OLSR on mobile stations: delivery, control overhead and delay against speed, with belljar-routed as a guest in Belljar, and with ns-3's own models
on the same movement files, if Debian's libns3-dev is installed.

    benches/mobile.py [--nodes 50] [--speeds 1,5,10,20] [--seeds 3] [--seconds 120] [--json FILE]

Stations move by random waypoint (steady state, no pause) in an area in which each has some ten neighbours; a fifth of them send four datagrams of 64
bytes a second to another one half way round. Both channels are limited to 250 m, 11 Mbit/s, 2 Mbit/s for broadcasts.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import yaml
from common import BUILT, ROOT, belljar

START, TAIL = 30, 5
MODULES = ("applications", "core", "flow-monitor", "internet", "mobility", "network", "olsr", "wifi")


def routed():
    """belljar-routed: BELLJAR_ROUTED, or the release build."""
    path = pathlib.Path(os.environ.get("BELLJAR_ROUTED", ROOT / "target/release/belljar-routed"))
    if not path.exists():
        sys.exit(f"{path} does not exist: `cargo build --release -p belljar-routed` builds it, or BELLJAR_ROUTED names another")
    return path.resolve()


def experiment(nodes, speed, seconds, side, flows, options):
    names = [f"n{n + 1:04}" for n in range(nodes)]
    daemon = {"path": str(routed()), "args": ["olsr", "-i", "eth0", *options], "expected_final_state": "running"}
    hosts = {name: {"forwarding": True, "routes": [], "processes": [daemon]} for name in names}
    for n in range(flows):
        to = names[(n + nodes // 2) % nodes]
        hosts[to]["processes"] = [daemon, {"model": {"type": "sink", "port": 9, "protocol": "udp"}}]
    for n in range(flows):
        to = names[(n + nodes // 2) % nodes]
        flow = {"type": "constant_rate", "to": f"{to}:9", "rate": "2048 bit", "datagram_size": "64 B", "duration": f"{seconds - TAIL - START - n / 10:g} s"}
        hosts[names[n]]["processes"] = [*hosts[names[n]]["processes"], {"model": flow, "start_time": f"{START + n / 10:g} s"}]
    movement = {"area": [side, side], "speed": [max(0.1, speed / 2), 1.5 * speed], "steady_state": True}
    radio = {"stations": ["n*"], "range": 250, "mobility": {"random_waypoint": movement}}
    return {"general": {"stop_time": f"{seconds} s"}, "belljar": {"route_log": True}, "hosts": hosts, "radios": {"air": radio}}


def run_belljar(file, seed, folder):
    begin = time.monotonic()
    done = subprocess.run([belljar(), "run", file, "--seed", str(seed), "-o", folder, "--no-progress", "--pcap"], capture_output=True, text=True)
    wall = time.monotonic() - begin
    if done.returncode not in (0, 1) or not (folder / "sim-stats.json").exists():
        sys.exit(f"belljar run failed: {done.stdout}{done.stderr}")
    with open(folder / "flows.csv") as table:
        rows = list(csv.DictReader(table))
    sinks = [row for row in rows if row.get("datagrams") and row["mean_delay"]]
    received = sum(int(row["datagrams"]) for row in sinks)
    delay = sum(float(row["mean_delay"]) * int(row["datagrams"]) for row in sinks) / max(received, 1)
    sent = sum(int(row["bytes_out"]) // 64 for row in rows if row["model"] == "constant_rate")
    return {"sent": sent, "received": received, "delay": delay, "wall": wall}


def control(folder):
    """OLSR's packets and the bytes of their frames, by the capture of each that sent them."""
    shown = subprocess.run([belljar(), "inspect", folder, "--routing", "--json"], capture_output=True, text=True, check=True)
    sent = [host.get("control", {}).get("OLSR", {"packets": 0, "bytes": 0}) for host in json.loads(shown.stdout)["hosts"].values()]
    return sum(s["packets"] for s in sent), sum(s["bytes"] for s in sent)


def movement_file(file, seed, out):
    """The ways that the seed draws, as ns-2 writes them."""
    planned = yaml.safe_load(subprocess.run([belljar(), "plan", file, "--seed", str(seed)], capture_output=True, text=True, check=True).stdout)
    units = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    lines = []
    for n, way in enumerate(planned["radios"]["air"]["stations"].values()):
        at = [(float(t.split()[0]) * units[t.split()[1]], x, y) for t, x, y in way["path"]]
        lines += [f"$node_({n}) set X_ {at[0][1]}", f"$node_({n}) set Y_ {at[0][2]}", f"$node_({n}) set Z_ 0.0"]
        for (t, x, y), (u, v, w) in zip(at, at[1:]):
            if u > t and (x, y) != (v, w):
                lines.append(f'$ns_ at {t:.9f} "$node_({n}) setdest {v} {w} {math.hypot(v - x, w - y) / (u - t):.9f}"')
    out.write_text("\n".join(lines) + "\n")


def ns3():
    """The scenario in ns-3, compiled; None without it."""
    found = subprocess.run(["pkg-config", "--cflags", "--libs", *(f"ns3-{module}" for module in MODULES)], capture_output=True, text=True)
    if found.returncode != 0:
        return None
    # Debian's description names libraries of packages that ns-3's does not need, each by its file.
    flags = [flag for flag in found.stdout.split() if not flag.startswith("/") or os.path.exists(flag)]
    source, out = ROOT / "benches/mobile/olsr.cc", BUILT / "olsr-ns3"
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-std=c++17", "-O2", source, "-o", out, *flags], check=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--speeds", default="1,5,10,20", help="mean speeds in m/s")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--routed", nargs="*", default=[], metavar="OPTION", help="options of belljar-routed, without their dashes")
    parser.add_argument("--no-ns3", action="store_true", help="Belljar alone")
    parser.add_argument("--ns3", type=pathlib.Path, help="the program that is made of benches/mobile/olsr.cc, if it is there already")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the results here")
    options = parser.parse_args()
    # Ten neighbours each, on average.
    side = round(math.sqrt(options.nodes * math.pi * 250**2 / 10))
    flows = max(1, options.nodes // 5)
    work = options.keep or BUILT / "mobile"
    subprocess.run(["rm", "-rf", work], check=True)
    work.mkdir(parents=True)
    peer = None if options.no_ns3 else options.ns3 or ns3()
    if peer is None and not options.no_ns3:
        print("ns-3 is not installed (apt install libns3-dev): Belljar alone")
    rows = []
    for speed in map(float, options.speeds.split(",")):
        for seed in range(1, options.seeds + 1):
            file = work / "mobile.yaml"
            file.write_text(yaml.safe_dump(experiment(options.nodes, speed, options.seconds, side, flows, [f"--{o}" for o in options.routed]), sort_keys=False))
            folder = work / f"data-{speed:g}-{seed}"
            mine = run_belljar(file, seed, folder)
            packets, size = control(folder)
            row = {"speed": speed, "seed": seed, "belljar": {**mine, "control_packets": packets, "control_bytes": size}}
            if peer:
                movement_file(file, seed, work / "movement.tcl")
                begin = time.monotonic()
                said = subprocess.run([peer, f"--nodes={options.nodes}", f"--flows={flows}", f"--seconds={options.seconds}", f"--mobility={work / 'movement.tcl'}",
                                       f"--run={seed}", f"--start={START}"], capture_output=True, text=True, check=True).stdout
                row["ns-3"] = {**json.loads(said), "wall": time.monotonic() - begin}
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, options)


def show(rows, options):
    """Means over the seeds, with the spread."""
    print(f"\n{options.nodes} stations, {options.seeds} seeds, {options.seconds} s; mean (least to greatest)")
    print(f"{'m/s':>5} {'':10} {'delivered %':>22} {'delay ms':>22} {'OLSR kB/s':>22} {'wall s':>8}")
    for speed in sorted({row["speed"] for row in rows}):
        for who in ("belljar", "ns-3"):
            mine = [row for row in rows if row["speed"] == speed and who in row]
            if not mine:
                continue
            band = lambda values: f"{statistics.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"
            delivered = [100 * row[who]["received"] / max(row[who]["sent"], 1) for row in mine]
            delay, size = [1000 * row[who]["delay"] for row in mine], [row[who]["control_bytes"] / options.seconds / 1000 for row in mine]
            print(f"{speed:5g} {who:10} {band(delivered):>22} {band(delay):>22} {band(size):>22} {statistics.mean(row[who]['wall'] for row in mine):8.1f}")


if __name__ == "__main__":
    main()
