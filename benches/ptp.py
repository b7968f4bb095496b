#!/usr/bin/env python3
"""The figure of docs/guide/time-synchronisation.md: how far apart the clocks of examples/ptp.yaml are while ptp4l and phc2sys bring them together, what ptp4l
says of it, and both with a path that is 20 us longer in one direction.

    benches/ptp.py [--seconds 60] [--figures FOLDER] [--json FILE]

The clocks are read by phc_ctl and date on both hosts at the same simulated times, which no program on a real network can do."""

import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml
from common import ROOT, belljar

sys.path.insert(0, str(ROOT / "python"))

HOSTS = ("server", "client")
CASES = {"symmetric": {}, "asymmetric": {"reverse": {"latency": "21 us"}}}


def experiment(seconds, link):
    made = yaml.safe_load((ROOT / "examples/ptp.yaml").read_text())
    made = copy.deepcopy(made)
    made["general"]["stop_time"] = f"{seconds} s"
    made["links"][1].update(link)
    for host in HOSTS:
        for second in range(1, seconds):
            made["hosts"][host]["processes"] += [{"path": "phc_ctl", "args": "eth0 get", "start_time": f"{second} s"},
                                                 {"path": "date", "args": "+%s%N", "start_time": f"{second} s"}]
    return made


def readings(data, host):
    """Readings of the hardware clock and of the system's clock each second, in nanoseconds."""
    def all_of(program):
        files = (data / "hosts" / host).glob(f"{program}.*.stdout")
        return [file.read_text() for file in sorted(files, key=lambda file: int(file.name.split(".")[1]))]

    hardware = [re.search(r"clock time is (\d+)\.(\d{9})", text).groups() for text in all_of("phc_ctl")]
    return [int(seconds) * 10**9 + int(ns) for seconds, ns in hardware], [int(text) for text in all_of("date")]


def measure(seconds, link, folder):
    file, data = folder / "experiment.yaml", folder / "data"
    file.write_text(yaml.safe_dump(experiment(seconds, link), sort_keys=False))
    subprocess.run([belljar(), "run", file, "-o", data, "--no-progress"], check=True, stdout=subprocess.DEVNULL)
    (of_server, _), (of_client, of_system) = readings(data, "server"), readings(data, "client")
    (log,) = (data / "hosts/client").glob("ptp4l.*.stdout")
    said = re.findall(r"ptp4l\[([\d.]+)\]: master offset\s+(-?\d+)", log.read_text())
    first = float(re.search(r"ptp4l\[([\d.]+)\]", log.read_text()).group(1))
    return {
        "hardware": [client - server for client, server in zip(of_client, of_server)],
        "system": [client - server for client, server in zip(of_system, of_server)],
        "said": [(float(at) - first, int(offset)) for at, offset in said],
    }


def figure(results, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from belljar.figures import COLOURS

    drawn, axes = plt.subplots(1, len(results), figsize=(10, 4), sharey=True)
    for axis, (name, result) in zip(axes, results.items()):
        times = range(1, len(result["hardware"]) + 1)
        axis.plot(times, result["hardware"], color=COLOURS[0], label="hardware clocks, client - server")
        axis.plot(times, result["system"], color=COLOURS[1], label="client's system clock - server's hardware clock")
        axis.plot(*zip(*result["said"]), ".", color=COLOURS[2], label="what ptp4l says")
        axis.set(title=name, xlabel="simulated time (s)", yscale="symlog")
        axis.set_yscale("symlog", linthresh=10)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("offset (ns)")
    axes[0].legend(fontsize="small")
    drawn.tight_layout()
    drawn.savefig(folder / "ptp.png", dpi=110, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--figures", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    for name, link in CASES.items():
        with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
            results[name] = measure(options.seconds, link, pathlib.Path(folder))
        last = results[name]["hardware"][-options.seconds // 4:]
        print(f"{name:11} the hardware clocks end within {min(last)} to {max(last)} ns, ptp4l says {results[name]['said'][-1][1]} ns")
    if options.json:
        options.json.write_text(json.dumps(results))
    if options.figures:
        figure(results, options.figures)


if __name__ == "__main__":
    main()
