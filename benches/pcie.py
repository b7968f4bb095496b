#!/usr/bin/env python3
"""TCP throughput of a host with a network controller, over latencies of its PCI connection.

The host sends to, or receives from, one without a controller over a link of 1 us. Controllers are Belljar's e1000 and, with `--simbricks DIR`, a tree of SimBricks with its
`sims/nic/*` built, its e1000, its behavioural Corundum, and Corundum's RTL if `sims/nic/corundum/corundum_verilator` is there. Throughput is in simulated time: any machine
gives the same."""

import argparse
import json
import pathlib
import shutil

from common import run_experiment, save

RECEIVE = """
import socket, sys, time
taken, _ = socket.create_server(("", 80)).accept()
total = begin = got = 0
while data := taken.recv(1 << 20):
    total += len(data)
    # Slow start is not measured.
    if not begin and total > int(sys.argv[1]) // 4:
        begin, got = time.monotonic_ns(), total
print((total - got) * 8000 / (time.monotonic_ns() - begin))
"""
SEND = """
import socket, sys
s = socket.create_connection((sys.argv[2], 80))
s.sendall(bytes(int(sys.argv[1])))
"""
FOREIGN = {"SimBricks' e1000": ("e1000", "e1000_gem5/e1000_gem5", "1 Gbit"),
           "SimBricks' Corundum, behavioural": ("corundum", "corundum_bm/corundum_bm", "10 Gbit"),
           "SimBricks' Corundum, RTL": ("corundum", "corundum/corundum_verilator", "10 Gbit")}


def experiment(driver, program, rate, latency, size, sends):
    """One transfer: the host with the controller is `a`."""
    def process(script, *args, **more):
        return {"path": "python3", "args": ["-B", "-c", script, str(size), *args], **more}

    receiver, sender = process(RECEIVE), process(SEND, "b" if sends else "a", start_time="2 ms")
    exp = {
        "general": {"stop_time": "10 s"},
        "hosts": {"a": {"devices": [{"pci": "nic0", "driver": driver, "latency": f"{latency} ns"}], "processes": [sender if sends else receiver]},
                  "b": {"processes": [receiver if sends else sender]}},
        "links": [{"between": ["nic0:eth", "b"], "latency": "1 us", "rate": rate}]}
    if program is None:
        return exp | {"nics": {"nic0": {}}}
    command = [str(program), "{pci.socket}", "{eth.socket}", "{pci.memory}", "0", "0", "{pci.latency}", "{pci.latency}", "{eth.latency}"]
    # The channel's latency comes on top of the link's.
    ports = {"pci": {"role": "listen"}, "eth": {"role": "listen"}}
    return exp | {"simulators": {"nic0": {"command": command, "latency": f"{latency} ns", "ports": ports}}}


def throughput(*case):
    """Mbit/s."""
    data, _ = run_experiment(json.dumps(experiment(*case)))
    try:
        said = [f.read_text() for f in data.glob("hosts/*/python3.*.stdout")]
        return float(next(text for text in said if text))
    finally:
        shutil.rmtree(data.parent, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simbricks", metavar="DIR", type=pathlib.Path, help="a tree of SimBricks that is built")
    parser.add_argument("--latencies", type=int, nargs="+", default=[500, 1000], metavar="NS", help="of the PCI connection (%(default)s)")
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
        for sends in (True, False):
            got = [throughput(driver, program, rate, latency, a.bytes, sends) for latency in a.latencies]
            rows.append({"controller": name, "sends": sends, "mbits": got})
            change = " ".join(f"{value:>9.1f} ({100 * (value / got[0] - 1):+.1f} %)" for value in got)
            print(f"{name:<34} {'sends' if sends else 'receives':<9} {change}", flush=True)
    save("pcie", {"latencies_ns": a.latencies, "rows": rows}, a.json)


if __name__ == "__main__":
    main()
