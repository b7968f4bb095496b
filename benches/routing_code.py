#!/usr/bin/env python3
"""Lines of code for simulation and for real networks, counted as in the thesis on fast prototyping with ns-3: without blank lines and
comments (figures 5.3 and 5.6), and without tests.

    benches/routing_code.py
    benches/routing_code.py --ns3 PATH        with ns-3's OLSR, whose sources are there

"More for a real network" counts what a protocol that runs in simulation needs besides. A data plane that serves any protocol is listed for
itself, as the thesis does not count its module *real routing*.
"""

import argparse
import pathlib
import re

from common import ROOT, save, table

ROUTING, DAEMON = ROOT / "crates" / "routing" / "src", ROOT / "crates" / "routed" / "src"
SHARED = [ROUTING / f"{name}.rs" for name in ("contract", "lib", "outbox", "prefix", "reader", "time")]
SUFFIXES = (".rs", ".cc", ".h")


def lines(path):
    text = path.read_text()
    # The tests of a Rust file are its last module.
    text = re.split(r"\n#\[cfg\(test\)\]\nmod \w+ \{", text)[0]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def count(*places, without=()):
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*")))]
    parts = lambda file: file.relative_to(ROOT).parts if file.is_relative_to(ROOT) else file.parts[-1:]
    skipped = lambda file: any("test" in part for part in parts(file)) or any(file == w or w in file.parents for w in without)
    return sum(lines(file) for file in files if file.suffix in SUFFIXES and not skipped(file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ns3", type=pathlib.Path, help="a checkout of ns-3")
    parser.add_argument("--json", help="also write the numbers there")
    options = parser.parse_args()
    module = ROOT / "adapters" / "ns3"
    # What a script of ns-3's says to the module instead of to ns-3's own helpers of emulation.
    told = r"^#include \"belljar|belljar::RealNetwork|network\.(SetFilter|Link|Start)\("
    said = sum(bool(re.search(told, line)) for line in (module / "olsr-line.cc").read_text().splitlines() if not line.startswith("//"))
    bridge = DAEMON / "bridge.rs"
    rows = [
        ["OLSR", count(ROUTING / "olsr"), 0],
        ["AODV", count(ROUTING / "aodv"), 0],
        ["the bridge, with its data plane in user space", count(ROUTING / "bridge", bridge), 0],
        ["shared by the protocols", count(*SHARED), 0],
        ["the daemon around them: sockets, netlink, updater, control", count(DAEMON, without=[bridge, DAEMON / "plane"]), 0],
    ]
    if options.ns3:
        rows.append(["ns-3's OLSR, by a script with *real routing*", count(options.ns3 / "src" / "olsr" / "model", options.ns3 / "src" / "olsr" / "helper"), said])
    counted = {row[0]: {"lines": row[1], "more": row[2]} for row in rows}
    rows = [[*row[:2], f"{row[2]} ({row[2] / row[1]:.1%})" if row[2] else "none"] for row in rows]
    print(table(["", "lines", "more for a real network"], rows))
    planes = count(DAEMON / "plane", *(ROOT / "crates" / "packetio" / "src" / name for name in ("forward.rs", "bpf.rs", "bpf", "xdp.rs", "xdp")))
    real_routing = count(module / "belljar-real-routing.h", module / "belljar-real-routing.cc")
    print("\n" + table(["for any protocol, on real networks only", "lines"], [
        ["data planes tc-bpf and AF_XDP", planes], ["*real routing* for ns-3", real_routing]]))
    if options.json:
        save("routing_code", {"protocols": counted, "data planes": planes, "real routing": real_routing}, options.json)


if __name__ == "__main__":
    main()
