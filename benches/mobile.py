#!/usr/bin/env python3
"""OLSR and AODV on mobile stations: delivery, control overhead and delay against speed, and the time that it takes against the number of stations, with
belljar-routed as a guest in Belljar, and with ns-3's own models on the same movement files, if Debian's libns3-dev is installed.

    benches/mobile.py --curve speed [--figures FOLDER]     50 stations, 1 to 20 m/s, five seeds
    benches/mobile.py --curve nodes [--figures FOLDER]     50 to 1,000 stations, 10 m/s
    benches/mobile.py [--protocols olsr,aodv] [--nodes 50,100] [--speeds 1,5,10,20] [--seeds 3] [--seconds 120] [--json FILE]
    benches/mobile.py --read FILE... [--figures FOLDER]    tables and figures of earlier runs

Stations move by random waypoint (steady state, no pause) in an area in which each has some ten neighbours, however many they are; some of them
(--flows, by default a fifth, at most 20) send four datagrams of 64 bytes a second to another one half way round. Larger networks run for a shorter
time, since ns-3's OLSR takes minutes there. Both channels are limited to 250 m, 11 Mbit/s, 2 Mbit/s for broadcasts. Delivery is the share of all
datagrams that were sent, with a route or without. Overhead is what the protocol sends while the flows send, each hop counted, for a datagram that arrives.

Wall and processor time are those of the whole program, its start included: Belljar's with captures of all datagrams and of all that the protocol has
sent, ns-3's with FlowMonitor. Belljar uses as many worker threads as --workers says; ns-3 has one. What is compared runs in turns, one at a time. On a
machine that does other things as well, processor time says more than wall time.

`belljar` is belljar-routed with its defaults. `as ns-3` leaves out what ns-3's models do not have: OLSR's messages as soon as something has changed, and
news of the link layer about neighbours that do not answer. ns-3's AODV has such news, and so `as ns-3` is OLSR's alone. With `no-arp` all stations know all
hardware addresses for ever: Linux asks anew for a neighbour on which its radio has given up, ns-3 does not; ns-3's AODV does not hear of neighbours that ARP
does not find.
"""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import yaml
from common import BUILT, ROOT, belljar

sys.path.insert(0, str(ROOT / "python"))

#: From so many stations on: the length of a run, and when its flows start, in seconds.
LENGTHS = {0: (75, 30), 150: (60, 30), 400: (40, 20), 800: (30, 15)}
TAIL = 5
PROTOCOLS = ("olsr", "aodv")
AS_NS3 = {"olsr": ["--no-triggered", "--no-link-layer"]}
#: What --curve stands for.
CURVES = {"speed": {"nodes": "50", "speeds": "1,5,10,15,20", "seeds": 5}, "nodes": {"nodes": "50,100,200,500,1000", "speeds": "10", "seeds": 1}}
PORTS = {"olsr": 698, "aodv": 654}
#: The simulated clock begins in 2000.
EPOCH = 946684800
#: All stations share one network, of which few are in reach.
ALWAYS = {"aodv": ["--mesh"]}
MODULES = ("aodv", "applications", "core", "flow-monitor", "internet", "mobility", "network", "olsr", "wifi")


def routed():
    """belljar-routed: BELLJAR_ROUTED, or the release build."""
    path = pathlib.Path(os.environ.get("BELLJAR_ROUTED", ROOT / "target/release/belljar-routed"))
    if not path.exists():
        sys.exit(f"{path} does not exist: `cargo build --release -p belljar-routed` builds it, or BELLJAR_ROUTED names another")
    return path.resolve()


def experiment(protocol, nodes, speed, seconds, start, flows, options):
    # Ten neighbours each, on average.
    side = round(math.sqrt(nodes * math.pi * 250**2 / 10))
    names = [f"n{n + 1:04}" for n in range(nodes)]
    daemon = {"path": str(routed()), "args": [protocol, "-i", "eth0", *options], "expected_final_state": "running"}
    hosts = {name: {"forwarding": True, "routes": [], "processes": [daemon]} for name in names}
    for n, host in enumerate(hosts.values()):
        own = f"10.0.{(n + 1) >> 8}.{(n + 1) & 255}"
        host["host_options"] = {"pcap_enabled": True, "pcap_filter": {"eth0": f"udp port 9 or (udp port {PORTS[protocol]} and src host {own})", "lo": False}}
    for n in range(flows):
        to = names[(n + nodes // 2) % nodes]
        hosts[to]["processes"] = [daemon, {"model": {"type": "sink", "port": 9, "protocol": "udp"}}]
    for n in range(flows):
        to = names[(n + nodes // 2) % nodes]
        flow = {"type": "constant_rate", "to": f"{to}:9", "rate": "2048 bit", "datagram_size": "64 B", "duration": f"{seconds - TAIL - start - n / 10:g} s"}
        hosts[names[n]]["processes"] = [*hosts[names[n]]["processes"], {"model": flow, "start_time": f"{start + n / 10:g} s"}]
    movement = {"area": [side, side], "speed": [max(0.1, speed / 2), 1.5 * speed], "steady_state": True}
    radio = {"stations": ["n*"], "range": 250, "mobility": {"random_waypoint": movement}}
    return {"general": {"stop_time": f"{seconds} s"}, "hosts": hosts, "radios": {"air": radio}}


def with_addresses(described, work):
    """The experiment with hosts that know all hardware addresses."""
    addresses = [f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}" for n in range(1, len(described["hosts"]) + 1)]
    lines = [f"neigh replace 10.0.{n >> 8}.{n & 255} lladdr {address} dev eth0 nud permanent\n" for n, address in enumerate(addresses, start=1)]
    (work / "neighbours").write_text("".join(lines))
    learn = {"path": "ip", "args": ["-force", "-batch", str(work / "neighbours")]}
    hosts = {name: {**host, "interfaces": {"eth0": {"mac": address}}, "processes": [*host["processes"], learn]}
             for (name, host), address in zip(described["hosts"].items(), addresses)}
    return {**described, "hosts": hosts}


def timed(command):
    """Runs a program. Gives its status, what it has written, its wall and processor time, and its memory in MiB."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return process.returncode, out.read(), {"wall": time.monotonic() - begin, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss / 1024}


def run_belljar(file, seed, folder, workers):
    status, said, times = timed([belljar(), "run", file, "--seed", str(seed), "-o", folder, "--no-progress", *(["--parallelism", str(workers)] if workers else [])])
    if status not in (0, 1) or not (folder / "sim-stats.json").exists():
        sys.exit(f"belljar run failed: {said}")
    with open(folder / "flows.csv") as table:
        rows = list(csv.DictReader(table))
    sinks = [row for row in rows if row.get("datagrams") and row["mean_delay"]]
    received = sum(int(row["datagrams"]) for row in sinks)
    delay = sum(float(row["mean_delay"]) * int(row["datagrams"]) for row in sinks) / max(received, 1)
    sent = sum(int(row["bytes_out"]) // 64 for row in rows if row["model"] == "constant_rate")
    return {"sent": sent, "received": received, "delay": delay, **times}


def control(folder, protocol, start, end):
    """The protocol's packets and the bytes of their frames while the flows send, by the capture of each that sent them."""
    packets = size = 0
    for capture in sorted(folder.glob("hosts/*/eth0.pcap")):
        data = capture.read_bytes()
        at = 24
        while at + 16 <= len(data):
            second, _, kept, length = struct.unpack_from("<IIII", data, at)
            # Ethernet, IPv4 without options, UDP's destination port.
            if start <= second - EPOCH < end and int.from_bytes(data[at + 52 : at + 54], "big") == PORTS[protocol]:
                packets, size = packets + 1, size + length
            at += 16 + kept
    return packets, size


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
    parser.add_argument("--curve", choices=CURVES, help="other defaults of --nodes, --speeds and --seeds: " + "; ".join(
        f"{curve}: " + ", ".join(f"{key} {value}" for key, value in settings.items()) for curve, settings in CURVES.items()))
    parser.add_argument("--protocols", default="olsr,aodv")
    parser.add_argument("--nodes", default="50")
    parser.add_argument("--flows", type=int)
    parser.add_argument("--speeds", default="1,5,10,20", help="mean speeds in m/s")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--start", type=int, help="when the flows start, in seconds")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="of these, those that there are [default: all]")
    parser.add_argument("--workers", type=int, help="worker threads of Belljar [default: its own]")
    parser.add_argument("--routed", nargs="*", default=[], metavar="OPTION", help="options of belljar-routed, without their dashes")
    parser.add_argument("--routed-with", nargs="+", action="append", default=[], metavar="OPTION", help="one more variant of belljar-routed, with these options (without their dashes)")
    parser.add_argument("--ns3-with", nargs="+", action="append", default=[], metavar="ATTRIBUTE",
                        help="one more variant of ns-3, with options and attributes: ns3::aodv::RoutingProtocol::AllowedHelloLoss=20")
    parser.add_argument("--radio", type=yaml.safe_load, default={}, metavar="YAML", help="more settings of the radio channel: '{capture: none}'")
    parser.add_argument("--no-ns3", action="store_true", help="Belljar alone")
    parser.add_argument("--ns3", type=pathlib.Path, help="the program that is made of benches/mobile/mesh.cc, if it is there already")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--figures", type=pathlib.Path, metavar="FOLDER", help="curves with bands; they need pandas and matplotlib")
    parser.add_argument("--read", type=pathlib.Path, nargs="+", metavar="JSON", help="show earlier results, and run nothing")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the results here")
    parser.set_defaults(**CURVES.get(parser.parse_known_args()[0].curve, {}))
    options = parser.parse_args()
    if options.read:
        rows = [row for file in options.read for row in json.loads(file.read_text())]
    else:
        rows = measure(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)
    compare(rows)
    if options.figures:
        draw(rows, options.figures)


def measure(options):
    work = options.keep or BUILT / "mobile"
    subprocess.run(["rm", "-rf", work], check=True)
    work.mkdir(parents=True)
    peer = None if options.no_ns3 else options.ns3 or ns3()
    if peer is None and not options.no_ns3:
        print("ns-3 is not installed (apt install libns3-dev): Belljar alone")
    rows = []
    cases = itertools.product(options.protocols.split(","), map(int, options.nodes.split(",")), map(float, options.speeds.split(",")),
                              range(options.first_seed, options.first_seed + options.seeds))
    for protocol, nodes, speed, seed in cases:
        rows.append(one_case(protocol, nodes, speed, seed, options, peer, work))
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def one_case(protocol, nodes, speed, seed, options, peer, work):
    seconds, start = next(length for least, length in reversed(LENGTHS.items()) if nodes >= least)
    seconds, start = options.seconds or seconds, options.start or start
    flows = options.flows or max(1, min(20, nodes // 5))
    row = {"protocol": protocol, "nodes": nodes, "flows": flows, "seconds": seconds, "start": start, "speed": speed, "seed": seed}
    extra = [*ALWAYS.get(protocol, []), *(f"--{o}" for o in options.routed)]
    wanted = options.variants.split(",")
    variants = {"belljar": extra, "belljar no-arp": extra}
    if protocol in AS_NS3:
        variants |= dict.fromkeys(("as ns-3", "as ns-3 no-arp"), [*AS_NS3[protocol], *extra])
    variants = {name: args for name, args in variants.items() if name in wanted}
    variants |= {" ".join(["belljar", *more]): [*(f"--{o}" for o in more), *extra] for more in options.routed_with}
    file = work / "mobile.yaml"
    described = experiment(protocol, nodes, speed, seconds, start, flows, extra)
    described["radios"]["air"] |= options.radio
    file.write_text(yaml.safe_dump(described, sort_keys=False))
    if peer:
        movement_file(file, seed, work / "movement.tcl")
    for variant, args in variants.items():
        for host in described["hosts"].values():
            host["processes"][0]["args"] = [protocol, "-i", "eth0", *args]
        known = with_addresses(described, work) if variant.endswith(" no-arp") else described
        file.write_text(yaml.safe_dump(known, sort_keys=False))
        folder = work / f"data-{protocol}-{variant}-{nodes}-{speed:g}-{seed}".replace(" ", "-")
        row[variant] = run_belljar(file, seed, folder, options.workers)
        row[variant]["control_packets"], row[variant]["control_bytes"] = control(folder, protocol, start, seconds - TAIL)
        if not options.keep:
            subprocess.run(["rm", "-rf", folder], check=True)
    theirs = [attributes for attributes in [[], ["no-arp"]] if " ".join(["ns-3", *attributes]) in wanted]
    for attributes in [*theirs, *options.ns3_with] if peer else []:
        status, said, times = timed([peer, f"--protocol={protocol}", f"--nodes={nodes}", f"--flows={flows}", f"--seconds={seconds}",
                                     f"--mobility={work / 'movement.tcl'}", f"--run={seed}", f"--start={start}", *(f"--{a}" for a in attributes)])
        if status != 0:
            sys.exit(f"ns-3 failed: {said}")
        row[" ".join(["ns-3", *attributes])] = {**json.loads(said), **times}
    return row


#: What is compared, by its column: a name, and its value of one run.
VALUES = {
    "delivered": ("delivered %", lambda run, row: 100 * run["received"] / max(run["sent"], 1)),
    "delay": ("delay ms", lambda run, row: 1000 * run["delay"]),
    "packets": ("control packets/datagram", lambda run, row: run["control_packets"] / max(run["received"], 1)),
    "bytes": ("control bytes/datagram", lambda run, row: run["control_bytes"] / max(run["received"], 1)),
    "wall": ("wall s", lambda run, row: run["wall"]),
    "cpu": ("processor s", lambda run, row: run["cpu"]),
    "memory": ("MiB", lambda run, row: run.get("memory", math.nan)),
}


#: The variants that are there without further options.
VARIANTS = ("belljar", "as ns-3", "as ns-3 no-arp", "ns-3", "ns-3 no-arp")


def tidy(rows):
    return [{"protocol": row["protocol"], "nodes": row["nodes"], "speed": row["speed"], "seed": row["seed"], "who": who,
             **{name: value(run, row) for name, (_, value) in VALUES.items()}}
            for row in rows for who, run in row.items() if isinstance(run, dict)]


def show(rows):
    """Means over the seeds, with the half of Student's interval of 95 %, or with the least and the greatest of few seeds."""
    from belljar.statistics import FEWEST_RUNS, mean_band

    runs = tidy(rows)
    print("\nmean +- half of the interval of 95 %, or (least to greatest)")
    wide = max(len(run["who"]) for run in runs)
    print(f"{'':>5} {'nodes':>5} {'m/s':>5} {'':{wide}} {'seeds':>5} " + " ".join(f"{title:>24}" for title, _ in VALUES.values()))
    key = lambda run: (run["protocol"], run["nodes"], run["speed"], run["who"])
    for protocol, nodes, speed, who in sorted(dict.fromkeys(map(key, runs)), key=lambda k: (PROTOCOLS.index(k[0]), k[1], k[2])):
        mine = [run for run in runs if key(run) == (protocol, nodes, speed, who)]
        cells = []
        for name in VALUES:
            values = [run[name] for run in mine]
            band = mean_band(values) if len(values) >= FEWEST_RUNS else None
            cells.append(f"{statistics.mean(values):.1f} " + (f"+- {band.high - band.mean:.1f}" if band else f"({min(values):.1f} to {max(values):.1f})"))
        print(f"{protocol:>5} {nodes:5} {speed:5g} {who:{wide}} {len(mine):5} " + " ".join(f"{cell:>24}" for cell in cells))
        places = [(row[who].get("lost", {}), row[who]["sent"]) for row in rows if who in row and key({**row, "who": who}) == (protocol, nodes, speed, who)]
        shares = {place: 100 * sum(lost.get(place, 0) for lost, _ in places) / sum(sent for _, sent in places) for place in sorted({p for lost, _ in places for p in lost})}
        if shares:
            print(f"{'':18} lost, in % of what was sent: " + ", ".join(f"{place} {share:.1f}" for place, share in shares.items()))


def compare(rows):
    """Belljar beside ns-3 on the same movement files: the difference in delivery, and how many times as long ns-3 takes."""
    from belljar.statistics import FEWEST_RUNS, mean_band

    print("\nbeside ns-3, run by run: points of delivery more (+) or fewer (-), mean +- half of the interval of 95 % or (least to greatest); times as much as it takes")
    cells = {}
    for row in rows:
        runs = {who: {name: value(run, row) for name, (_, value) in VALUES.items()} for who, run in row.items() if isinstance(run, dict)}
        for who, theirs in itertools.product(runs, runs):
            if theirs.startswith("ns-3") and not who.startswith("ns-3"):
                key = PROTOCOLS.index(row["protocol"]), row["nodes"], row["speed"], who, theirs
                cells.setdefault(key, []).append((runs[who]["delivered"] - runs[theirs]["delivered"], *(runs[theirs][name] / runs[who][name] for name in ("wall", "cpu"))))
    for (protocol, nodes, speed, who, theirs), found in sorted(cells.items()):
        points, wall, cpu = zip(*found)
        band = mean_band(points) if len(points) >= FEWEST_RUNS else None
        spread = f"+- {band.high - band.mean:.1f}" if band else f"({min(points):+.1f} to {max(points):+.1f})"
        print(f"{PROTOCOLS[protocol]:>5} {nodes:5} {speed:5g} {who:>10} - {theirs:12} {statistics.mean(points):+6.1f} {spread:18} wall {statistics.median(wall):5.1f}, processor {statistics.median(cpu):5.1f}")


def draw(rows, folder):
    """A figure for each number of nodes with several speeds, and one for each speed with several numbers: a panel for each protocol and value, with
    the table of all points beside them."""
    import matplotlib
    import pandas as pd

    matplotlib.use("Agg")

    folder.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(tidy(rows))
    for nodes, part in frame.groupby("nodes"):
        if part["speed"].nunique() > 1:
            panels(part, "speed", "mean speed / m/s", ("delivered", "packets", "bytes", "delay")).savefig(folder / f"mobile-{nodes}.png", dpi=110)
    for speed, part in frame.groupby("speed"):
        if part["nodes"].nunique() > 1:
            panels(part, "nodes", "stations", ("delivered", "wall", "cpu")).savefig(folder / f"mobile-{speed:g}mps.png", dpi=110)
    frame.sort_values(["protocol", "nodes", "speed", "who", "seed"]).round(4).to_csv(folder / "mobile.csv", index=False)


def panels(frame, along, title, shown):
    """Curves of each value along a column, with the bands of Student's interval where there are enough seeds."""
    import matplotlib.pyplot as plt
    from belljar.statistics import mean_band

    protocols = list(dict.fromkeys(frame["protocol"]))
    figure, axes = plt.subplots(len(shown), len(protocols), figsize=(4.2 * len(protocols), 2.6 * len(shown)), squeeze=False, sharex=True)
    for (row, name), (column, protocol) in itertools.product(enumerate(shown), enumerate(protocols)):
        panel = axes[row][column]
        for who, mine in frame[frame["protocol"] == protocol].groupby("who", sort=False):
            curve = mine.groupby(along)[name].agg(list)
            bands = [mean_band(values) for values in curve]
            panel.plot(curve.index, [band.mean for band in bands], marker="o", markersize=3, label=who)
            panel.fill_between(curve.index, [band.low for band in bands], [band.high for band in bands], alpha=0.2)
        panel.set_title(f"{protocol.upper()}: {VALUES[name][0]}", fontsize="small")
        if along == "nodes":
            panel.set_xscale("log")
        if name in ("wall", "cpu"):
            panel.set_yscale("log")
        else:
            panel.set_ylim(bottom=0)
    for panel in axes[-1]:
        panel.set_xlabel(title)
    for panel in axes[0]:
        panel.legend(frameon=False, fontsize="small")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main()
