#!/usr/bin/env python3
"""What P4 switches cost in number and in size: memory and start-up for each switch of one experiment, by lines of few and of many with
a ping over each; and memory for each entry, and CPU for each packet, with few and with many entries in a table of each kind of match.

Switches of one program share it. The last entry of a table is the one that packets meet."""

import argparse
import json
import pathlib
import random
import sys

from common import output, remove, results_folder, run_experiment, save

CHAIN = pathlib.Path(__file__).with_name("p4_chain.p4")
KINDS = ["exact", "lpm", "ternary", "range", "optional"]


def switches(count):
    """Lines of at most 50 switches, each between two hosts of which one pings the other."""
    lines = [(n, min(50, count - 50 * n)) for n in range((count + 49) // 50)]
    switch, host, link = [], [], []
    for n, length in lines:
        a, b = f"10.{n}.0.1", f"10.{n}.0.2"
        commands = "".join(f"\n      table_add routes forward {to}/32 => {port}" for port, to in ((1, a), (2, b)))
        switch += [f"  l{n}s{at}:\n    p4: {CHAIN}\n    commands: |{commands}" for at in range(length)]
        ping = f"{{path: ping, args: [-c, '3', {b}], start_time: 1 s}}"
        host += [f"  a{n}: {{interfaces: {{eth0: {a}/24}}, processes: [{ping}]}}", f"  b{n}: {{interfaces: {{eth0: {b}/24}}, processes: []}}"]
        ends = [f"a{n}", *(f"l{n}s{at}" for at in range(length)), f"b{n}"]
        port = lambda name, way: f"{name}:p{way}" if "s" in name else name  # noqa: E731
        link += [f'- {{between: ["{port(x, 2)}", "{port(y, 1)}"], rate: 1 Gbit, latency: 100 us}}' for x, y in zip(ends, ends[1:])]
    text = "general: {stop_time: 6 s}\nswitches:\n" + "\n".join(switch) + "\nhosts:\n" + "\n".join(host) + "\nlinks:\n" + "\n".join(link) + "\n"
    return text, len(lines)


def measure_switches(few, many):
    measured = []
    for count in (few, many):
        text, lines = switches(count)
        results, usage = run_experiment(text, "--parallelism", "1")
        for n in range(lines):
            if "3 received" not in output(results, f"a{n}", "ping"):
                sys.exit(f"the ping over line {n} of {count} switches was not answered:\n{output(results, f'a{n}', 'ping')}")
        said = json.loads((results / "sim-stats.json").read_text())["p4_switches"]
        measured.append((usage, max(switch["memory"] for switch in said.values())))
        remove(results)
    (less, _), (more, state) = measured
    return {"switches": many, "kib_per_switch": (more.peak_kib - less.peak_kib) / (many - few), "state_bytes": state,
            "cpu_ms_per_switch": (more.cpu - less.cpu) / (many - few) * 1e3, "wall": more.wall, "peak_kib": more.peak_kib}


def program(kind):
    return CHAIN.read_text().replace("meta.dst: lpm", f"meta.dst: {kind}").replace("size = 1024", "size = 1048576")


def match(kind, value):
    return {"exact": f"{value}", "lpm": f"{value}/26", "ternary": f"{value}&&&0xffffffc0", "range": f"{value}->{value + 63}",
            "optional": f"{value}&&&0xffffffff"}[kind]


def entries(kind, count):
    """Two hosts at a switch, with so many entries, of which the last are the hosts'."""
    values = [11 << 24 | value << 6 for value in random.Random(1).sample(range(1 << 18), count)]
    rank = {"exact": "", "lpm": ""}.get(kind, " 1")
    lines = [f"table_add routes drop {match(kind, value)} =>{rank}" for value in sorted(values)]
    for port, address in ((1, 10 << 24 | 64), (2, 10 << 24 | 128)):
        lines.append(f"table_add routes forward {match(kind, address)} => {port}{rank}")
    return lines


def measure_entries(kind, few, many, folder, seconds):
    (folder / f"{kind}.p4").write_text(program(kind))
    measured = []
    for count in (few, many):
        commands = folder / f"{kind}-{count}.txt"
        lines = entries(kind, count)
        commands.write_text("\n".join(lines) + "\n")
        for stop in (2, 2 + seconds):
            flow = ("{path: iperf, args: [-s, -f, k], expected_final_state: running}",
                    f"{{path: iperf, args: [-c, 10.0.0.128, -t, '{seconds + 2}'], start_time: 1 s, expected_final_state: any}}")
            text = f"""general: {{stop_time: {stop} s}}
switches: {{s1: {{p4: {folder}/{kind}.p4, commands: {commands}}}}}
hosts:
  h1: {{interfaces: {{eth0: 10.0.0.64/24}}, processes: [{flow[1]}]}}
  h2: {{interfaces: {{eth0: 10.0.0.128/24}}, processes: [{flow[0]}]}}
links:
- {{between: [h1, "s1:p1"], rate: 1 Gbit, latency: 100 us}}
- {{between: ["s1:p2", h2], rate: 1 Gbit, latency: 100 us}}
"""
            results, usage = run_experiment(text, "--parallelism", "1")
            said = json.loads((results / "sim-stats.json").read_text())["p4_switches"]["s1"]
            remove(results)
            if said["tables"]["ingress.routes"]["entries"] != len(lines):
                sys.exit(f"{kind}: {said['tables']} instead of {len(lines)} entries")
            measured.append((usage, said["received"], said["memory"], len(lines)))
    slope = [(long[0].cpu - short[0].cpu) / (long[1] - short[1]) * 1e9 for short, long in zip(measured[::2], measured[1::2])]
    (_, _, less, fewer), (usage, _, more, lines) = measured[0], measured[2]
    return {"kind": kind, "entries": lines, "bytes_per_entry": (more - less) / (lines - fewer), "load_s": usage.cpu - measured[0][0].cpu,
            "ns_per_packet_few": slope[0], "ns_per_packet_many": slope[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switches", type=int, nargs=2, default=[50, 1000], metavar=("FEW", "MANY"))
    parser.add_argument("--entries", type=int, nargs=2, default=[10, 100_000], metavar=("FEW", "MANY"))
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--seconds", type=float, default=4, help="of the flow, simulated")
    parser.add_argument("--json")
    a = parser.parse_args()
    row = measure_switches(*a.switches)
    print(f"{row['switches']} switches: {row['kib_per_switch']:.1f} KiB each, {row['state_bytes']} bytes of them state of the P4 program; "
          f"{row['cpu_ms_per_switch']:.2f} ms of CPU each; {row['wall']:.1f} s, {row['peak_kib'] / 1024:.0f} MiB in all", flush=True)
    print(f"{'':10}{'entries':>9}{'bytes each':>12}{'to load, s':>12}{'ns/packet':>11}{f'with {a.entries[0]}':>11}")
    rows = []
    folder = results_folder()
    for kind in a.kinds:
        rows.append(measure_entries(kind, *a.entries, folder, a.seconds))
        last = rows[-1]
        print(f"{kind:10}{last['entries']:9}{last['bytes_per_entry']:12.0f}{last['load_s']:12.2f}{last['ns_per_packet_many']:11.0f}{last['ns_per_packet_few']:11.0f}",
              flush=True)
    save("p4_scale", {"switches": row, "entries": rows}, a.json)


if __name__ == "__main__":
    main()
