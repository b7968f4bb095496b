#!/usr/bin/env python3
"""OLSR and AODV on mobile stations: delivery, control overhead and delay against speed, with belljar-routed as a guest in Belljar, and with ns-3's own
models on the same movement files, if Debian's libns3-dev is installed.

    benches/mobile.py [--protocols olsr,aodv] [--nodes 50] [--speeds 1,5,10,20] [--seeds 3] [--seconds 120] [--json FILE] [--figures FOLDER]

Stations move by random waypoint (steady state, no pause) in an area in which each has some ten neighbours; a fifth of them send four datagrams of 64
bytes a second to another one half way round. Both channels are limited to 250 m, 11 Mbit/s, 2 Mbit/s for broadcasts. Delivery is the share of all
datagrams that were sent, with a route or without.

`belljar` is belljar-routed with its defaults. `as ns-3` leaves out what ns-3's OLSR does not have: messages as soon as something has changed, and
news of the link layer about neighbours that do not answer. ns-3's AODV has such news, as belljar-routed's.
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
AS_NS3 = {"olsr": ["--no-triggered", "--no-link-layer"]}
#: All stations share one network, of which few are in reach.
ALWAYS = {"aodv": ["--mesh"]}
MODULES = ("aodv", "applications", "core", "flow-monitor", "internet", "mobility", "network", "olsr", "wifi")


def routed():
    """belljar-routed: BELLJAR_ROUTED, or the release build."""
    path = pathlib.Path(os.environ.get("BELLJAR_ROUTED", ROOT / "target/release/belljar-routed"))
    if not path.exists():
        sys.exit(f"{path} does not exist: `cargo build --release -p belljar-routed` builds it, or BELLJAR_ROUTED names another")
    return path.resolve()


def experiment(protocol, nodes, speed, seconds, side, flows, options):
    names = [f"n{n + 1:04}" for n in range(nodes)]
    daemon = {"path": str(routed()), "args": [protocol, "-i", "eth0", *options], "expected_final_state": "running"}
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


def control(folder, protocol):
    """The protocol's packets and the bytes of their frames, by the capture of each that sent them."""
    shown = subprocess.run([belljar(), "inspect", folder, "--routing", "--json"], capture_output=True, text=True, check=True)
    sent = [host.get("control", {}).get(protocol.upper(), {"packets": 0, "bytes": 0}) for host in json.loads(shown.stdout)["hosts"].values()]
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
    source, out = ROOT / "benches/mobile/mesh.cc", BUILT / "mesh-ns3"
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-std=c++17", "-O2", source, "-o", out, *flags], check=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocols", default="olsr,aodv")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--speeds", default="1,5,10,20", help="mean speeds in m/s")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--routed", nargs="*", default=[], metavar="OPTION", help="options of belljar-routed, without their dashes")
    parser.add_argument("--no-ns3", action="store_true", help="Belljar alone")
    parser.add_argument("--ns3", type=pathlib.Path, help="the program that is made of benches/mobile/mesh.cc, if it is there already")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--figures", type=pathlib.Path, metavar="FOLDER", help="curves with bands; they need pandas and matplotlib")
    parser.add_argument("--read", type=pathlib.Path, nargs="+", metavar="JSON", help="show earlier results, of one number of stations, and run nothing")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the results here")
    options = parser.parse_args()
    if options.read:
        rows = [row for file in options.read for row in json.loads(file.read_text())]
    else:
        rows = measure(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)
    if options.figures:
        draw(rows, options.figures)


def measure(options):
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
    for protocol in options.protocols.split(","):
        extra = [*ALWAYS.get(protocol, []), *(f"--{o}" for o in options.routed)]
        variants = {"belljar": extra} | ({"as ns-3": [*AS_NS3[protocol], *extra]} if peer and protocol in AS_NS3 else {})
        for speed in map(float, options.speeds.split(",")):
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                row = {"protocol": protocol, "nodes": options.nodes, "seconds": options.seconds, "speed": speed, "seed": seed}
                for variant, args in variants.items():
                    file = work / "mobile.yaml"
                    described = experiment(protocol, options.nodes, speed, options.seconds, side, flows, args)
                    file.write_text(yaml.safe_dump(described, sort_keys=False))
                    folder = work / f"data-{protocol}-{variant}-{speed:g}-{seed}".replace(" ", "-")
                    row[variant] = run_belljar(file, seed, folder)
                    row[variant]["control_packets"], row[variant]["control_bytes"] = control(folder, protocol)
                    if not options.keep:
                        subprocess.run(["rm", "-rf", folder], check=True)
                if peer:
                    movement_file(file, seed, work / "movement.tcl")
                    begin = time.monotonic()
                    said = subprocess.run([peer, f"--protocol={protocol}", f"--nodes={options.nodes}", f"--flows={flows}", f"--seconds={options.seconds}",
                                           f"--mobility={work / 'movement.tcl'}", f"--run={seed}", f"--start={START}"],
                                          capture_output=True, text=True, check=True).stdout
                    row["ns-3"] = {**json.loads(said), "wall": time.monotonic() - begin}
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


#: What is compared, by its column: a name, and its value of one run.
VALUES = {
    "delivered": ("delivered %", lambda run, row: 100 * run["received"] / max(run["sent"], 1)),
    "delay": ("delay ms", lambda run, row: 1000 * run["delay"]),
    "overhead": ("control kB/s", lambda run, row: run["control_bytes"] / row["seconds"] / 1000),
    "wall": ("wall s", lambda run, row: run["wall"]),
}


def tidy(rows):
    return [{"protocol": row["protocol"], "nodes": row["nodes"], "speed": row["speed"], "seed": row["seed"], "who": who,
             **{name: value(row[who], row) for name, (_, value) in VALUES.items()}}
            for row in rows for who in ("belljar", "as ns-3", "ns-3") if who in row]


def show(rows):
    """Means over the seeds, with the spread."""
    runs = tidy(rows)
    print("\nmean (least to greatest)")
    print(f"{'':>5} {'nodes':>5} {'m/s':>5} {'':8} {'seeds':>5} " + " ".join(f"{title:>24}" for title, _ in VALUES.values()))
    key = lambda run: (run["protocol"], run["nodes"], run["speed"], run["who"])
    for protocol, nodes, speed, who in dict.fromkeys(map(key, runs)):
        mine = [run for run in runs if key(run) == (protocol, nodes, speed, who)]
        cells = []
        for name in VALUES:
            values = [run[name] for run in mine]
            cells.append(f"{statistics.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        print(f"{protocol:>5} {nodes:5} {speed:5g} {who:8} {len(mine):5} " + " ".join(f"{cell:>24}" for cell in cells))


def draw(rows, folder):
    """A figure for each protocol and value, against speed, with the table of its points beside it."""
    import pandas as pd

    sys.path.insert(0, str(ROOT / "python"))
    from belljar.figures import parameter_curve

    frame = pd.DataFrame(tidy(rows))
    for protocol, part in frame.groupby("protocol"):
        for name, (title, _) in VALUES.items():
            parameter_curve(part, parameter="speed", value=name, variant="who", xlabel="mean speed / m/s", ylabel=title,
                            path=folder / f"mobile-{protocol}-{name}.png")


if __name__ == "__main__":
    main()
