#!/usr/bin/env python3
"""Convergence of OLSR on lines, in simulation and on the real kernel: the time until all nodes have routes to all addresses.

    benches/routing_convergence.py                                lines of 2, 3, 5 and 8, ten seeds, simulated
    benches/routing_convergence.py --emulate --lines 2 3          the same file by `belljar emulate` as well, and the ratio of medians
    benches/routing_convergence.py --daemons olsrd --olsrd PATH   olsrd, as a guest and emulated

All seeds of a length are one experiment: lines beside each other that have nothing in common, so ten seeds of real time take as long
as one. Each node's `ip -ts monitor route` says when routes came; both ways of running are measured by it, from the start of the line's
last node on: emulated nodes start up to 0.2 s apart. `routed` is belljar-routed with its defaults; `intervals` sends at the intervals of RFC 3626 only, and `rfc` believes in links by hysteresis besides.

An emulation says itself whether it was in time ("truthful", "doubtful", "untruthful"): figures of one that was not are nothing. Medians
of ten lines differ by chance too: those of olsrd on eight nodes by 5 %, from which `--seeds 40` frees them.

Which of its neighbours olsrd gives a route of their own, beside the network's that they are in, its dice decide; such routes lead where the
network's does and are left out where routes are compared.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

from common import BUILT, TARGET, belljar, save, table

OPTIONS = {"routed": [], "intervals": ["--no-triggered"], "rfc": ["--no-triggered", "--hysteresis"], "olsrd": None}
OLSRD = ('DebugLevel 0\nLinkQualityLevel 0\nUseHysteresis no\nLockFile "/tmp/olsrd.lock"\n'
         'Interface {interfaces}\n{{\nHelloInterval 2.0\nHelloValidityTime 6.0\nTcInterval 5.0\nTcValidityTime 15.0\n}}\n')


def experiment(count, seeds, daemon, routed, olsrd, folder, seconds):
    """Lines of `count` nodes, one for each seed, in one experiment."""
    hosts, links = {}, []
    for seed in seeds:
        for n in range(count):
            ends = {"left": f"10.{seed}.{n - 1}.2/24", "right": f"10.{seed}.{n}.1/24"}
            interfaces = {name: ends[name] for name, there in (("left", n > 0), ("right", n < count - 1)) if there}
            if daemon == "olsrd":
                conf = folder / f"olsrd-{'-'.join(interfaces)}.conf"
                conf.write_text(OLSRD.format(interfaces=" ".join(f'"{name}"' for name in interfaces)))
                process = {"path": str(olsrd), "args": ["-f", str(conf), "-nofork"]}
            else:
                named = [o for name in interfaces for o in ("-i", name)]
                process = {"path": str(routed), "args": ["olsr", *named, "--seed", str(1000 * seed + n), *OPTIONS[daemon]]}
            hosts[f"s{seed}n{n}"] = {"forwarding": True, "routes": [], "interfaces": interfaces, "processes": [
                {"path": "ip", "args": ["-ts", "monitor", "route"], "expected_final_state": "running"},
                {"path": "date", "args": ["-u", "+%Y-%m-%dT%H:%M:%S.%N"], "start_time": "1 s"},
                # After both, so that no route is missed.
                {**process, "start_time": "1 s", "expected_final_state": "running"},
                {"path": "ip", "args": ["-j", "route"], "start_time": f"{seconds - 1} s"}]}
            links += [{"between": [f"s{seed}n{n - 1}:right", f"s{seed}n{n}:left"], "latency": "1 ms"}] * (n > 0)
    return {"general": {"stop_time": f"{seconds} s"}, "hosts": hosts, "links": links}


def when(text):
    return datetime.datetime.fromisoformat(text[:26]).timestamp()


def read(folder, count, seed):
    """The time of convergence of a line, and its routes at the end."""
    last, routes = 0.0, []
    hosts = [folder / "hosts" / f"s{seed}n{n}" for n in range(count)]
    start = max(when(next(streams.glob("date.*.stdout")).read_text().strip()) for streams in hosts)
    for n, streams in enumerate(hosts):
        outputs = sorted(streams.glob("ip.*.stdout"))
        final = {route["dst"]: route.get("gateway", "") for route in json.loads(outputs[-1].read_text()) if route.get("protocol") != "kernel"}
        seen = {}
        stamp = None
        for line in outputs[0].read_text().splitlines():
            stamp = re.sub(r"^\[|\].*", "", line) if line.startswith("[") else stamp
            line = re.sub(r"^\[.*?\] *", "", line)
            # The first time that the route is there as it is at the end.
            added = re.match(r"(\S+)(?: via (\S+))? dev", line)
            if added and final.get(added[1]) == (added[2] or ""):
                seen.setdefault(added[1], when(stamp) - start)
        missing = set(final) - set(seen)
        assert not missing, f"seed {seed}, node {n}: nobody said when {missing} came"
        routes.append(final)
        last = max([last, *seen.values()])
    addresses = 2 * (count - 1)
    for n, final in enumerate(routes):
        own = (n > 0) + (n < count - 1)
        # A route to a neighbour's address on the shared link may be the kernel's own.
        assert len(final) >= addresses - own - 2, f"seed {seed}, node {n}: {final}"
    return last, routes


def far(routes):
    """The routes by a gateway that is not the destination itself, of each node."""
    return [{to: gateway for to, gateway in final.items() if gateway not in ("", to)} for final in routes]


def run(mode, file, out, nice=()):
    done = subprocess.run([*nice, str(belljar()), mode, str(file), "-o", str(out)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{mode} {file} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[2, 3, 5, 8])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--daemons", nargs="+", default=["routed", "rfc"], choices=OPTIONS)
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--routed", default=TARGET / "release" / "belljar-routed")
    parser.add_argument("--olsrd", default=os.environ.get("BELLJAR_OLSRD"))
    parser.add_argument("--urgent", action="store_true", help="emulated at real-time priority, for machines that have other work")
    parser.add_argument("--json", help="also write the times there")
    options = parser.parse_args()
    if "olsrd" in options.daemons and not options.olsrd:
        sys.exit("name an olsrd: --olsrd PATH, or BELLJAR_OLSRD")
    folder = BUILT / "routing-convergence"
    folder.mkdir(parents=True, exist_ok=True)
    seeds, rows, times = range(1, options.seeds + 1), [], []
    for daemon in options.daemons:
        for count in options.lines:
            file = folder / f"{daemon}-{count}.yaml"
            described = experiment(count, seeds, daemon, pathlib.Path(options.routed).resolve(), options.olsrd, folder, options.seconds)
            # JSON is YAML.
            file.write_text(json.dumps(described))
            results = {}
            for mode in ("run", "emulate") if options.emulate else ("run",):
                out = folder / f"{daemon}-{count}-{mode}"
                subprocess.run(["rm", "-rf", out], check=True)
                run(mode, file, out, ["chrt", "-r", "10"] if options.urgent and mode == "emulate" else [])
                results[mode] = [read(out, count, seed) for seed in seeds]
            times += [{"daemon": daemon, "nodes": count, "mode": mode, "seconds": [time for time, _ in done]} for mode, done in results.items()]
            median = {mode: statistics.median(time for time, _ in done) for mode, done in results.items()}
            spread = lambda mode: f"{median[mode]:.2f} ({min(t for t, _ in results[mode]):.2f}-{max(t for t, _ in results[mode]):.2f})"
            row = [daemon, count, spread("run")]
            if options.emulate:
                compared = far if daemon == "olsrd" else list
                same = sum(compared(one[1]) == compared(other[1]) for one, other in zip(results["run"], results["emulate"]))
                verdict = json.loads((folder / f"{daemon}-{count}-emulate" / "emulation.json").read_text())["verdict"]
                row += [f"{spread('emulate')}, {verdict}", f"{median['run'] / median['emulate'] - 1:+.1%}", f"{same} of {len(seeds)}"]
            rows.append(row)
            print(*row, flush=True)
    heads = ["daemon", "nodes", "simulated, s"] + (["emulated, s", "difference", "same routes"] if options.emulate else [])
    print(table(heads, rows))
    if options.json:
        save("routing_convergence", times, options.json)


if __name__ == "__main__":
    main()
