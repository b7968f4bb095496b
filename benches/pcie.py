#!/usr/bin/env python3
"""TCP throughput of a host with a network controller, over latencies of its PCI connection.

The host sends to, or receives from, one without a controller over a link of 1 us. Controllers are Belljar's e1000 and, with `--simbricks DIR`, a tree of SimBricks with its
`sims/nic/*` built, its e1000, its behavioural Corundum, and Corundum's RTL if `sims/nic/corundum/corundum_verilator` is there. Throughput is in simulated time: any machine
gives the same."""

import argparse
import json
import pathlib
import shutil

from common import CPU, ROOT, compile_c, run_experiment, save

# When the sender begins: every simulated microsecond costs rounds with the controller.
START_US = 100
FOREIGN = {"SimBricks' e1000": ("e1000", "e1000_gem5/e1000_gem5", "1 Gbit"),
           "SimBricks' Corundum, behavioural": ("corundum", "corundum_bm/corundum_bm", "10 Gbit"),
           "SimBricks' Corundum, RTL": ("corundum", "corundum/corundum_verilator", "10 Gbit")}


def experiment(driver, controller, rate, latency, size, sends, cpu):
    """One transfer: the host with the controller is `a`."""
    program = str(compile_c(ROOT / "benches" / "pcie" / "transfer.c", "transfer"))
    receiver = {"path": program, "args": ["receive", str(size)]}
    sender = {"path": program, "args": ["send", str(size), "b" if sends else "a"], "start_time": f"{START_US} us"}
    stop_us = START_US + 500 + 6 * size * 8 / int(rate.split()[0]) / 1000
    exp = {
        "general": {"stop_time": f"{stop_us:.0f} us"},
        "hosts": {"a": {"devices": [{"pci": "nic0", "driver": driver, "latency": f"{latency} ns"}], "processes": [sender if sends else receiver]},
                  "b": {"processes": [receiver if sends else sender]}},
        "links": [{"between": ["nic0:eth", "b"], "latency": "1 us", "rate": rate}]}
    if cpu:
        exp["hosts"]["a"]["cpu"] = CPU | {"interrupt": "2 us"}
    if controller is None:
        return exp | {"nics": {"nic0": {}}}
    command = [str(controller), "{pci.socket}", "{eth.socket}", "{pci.memory}", "0", "0", "{pci.latency}", "{pci.latency}", "{eth.latency}"]
    # The channel's latency comes on top of the link's.
    ports = {"pci": {"role": "listen"}, "eth": {"role": "listen"}}
    return exp | {"simulators": {"nic0": {"command": command, "latency": f"{latency} ns", "ports": ports}}}


def throughput(*case):
    """Mbit/s."""
    data, _ = run_experiment(json.dumps(experiment(*case)))
    try:
        said = [f.read_text() for f in data.glob("hosts/*/transfer.*.stdout")]
        return float(next(text for text in said if text))
    finally:
        shutil.rmtree(data.parent, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simbricks", metavar="DIR", type=pathlib.Path, help="a tree of SimBricks that is built")
    parser.add_argument("--latencies", type=int, nargs="+", default=[500, 1000], metavar="NS", help="of the PCI connection (%(default)s)")
    parser.add_argument("--cpu", action="store_true", help="measure hosts whose kernel takes time for packets, calls and interrupts too")
    parser.add_argument("--bytes", type=int, default=2_000_000, help="of a transfer (%(default)s)")
    parser.add_argument("--json", help="write the figures there")
    a = parser.parse_args()
    cases = {"e1000": ("e1000", None, "1 Gbit")}
    for name, (driver, program, rate) in FOREIGN.items():
        path = a.simbricks and (a.simbricks / "sims/nic" / program).resolve()
        if path and path.exists():
            cases[name] = (driver, path, rate)
    rows = []
    for name, (driver, program, rate) in cases.items():
        for sends, cpu in [(sends, cpu) for cpu in ([False, True] if a.cpu else [False]) for sends in (True, False)]:
            got = [throughput(driver, program, rate, latency, a.bytes, sends, cpu) for latency in a.latencies]
            rows.append({"controller": name, "sends": sends, "cpu": cpu, "mbits": got})
            change = " ".join(f"{value:>9.1f} ({100 * (value / got[0] - 1):+.1f} %)" for value in got)
            print(f"{name:<34} {'sends' if sends else 'receives':<9} {'with a CPU' if cpu else '':<11} {change}", flush=True)
    save("pcie", {"latencies_ns": a.latencies, "rows": rows}, a.json)


if __name__ == "__main__":
    main()
