#!/usr/bin/env python3
"""Sets up a tunnel from h1 to h2 and one back, and prints the tunnels' counters each second."""

import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from p4control import Switch  # noqa: E402

s1, s2 = Switch("s1:9559", 1), Switch("s2:9559", 2)
# Tunnel 100 leads from h1 to h2, and 200 back.
for first, last, tunnel, address, station in ((s1, s2, 100, "10.1.2.1", "02:00:00:00:02:01"), (s2, s1, 200, "10.1.1.1", "02:00:00:00:01:01")):
    between = 2 if first is s1 else 3
    first.insert("MyIngress.ipv4_lpm", {"hdr.ipv4.dstAddr": (address, 32)}, "MyIngress.myTunnel_ingress", {"dst_id": tunnel})
    first.insert("MyIngress.myTunnel_exact", {"hdr.myTunnel.dst_id": tunnel}, "MyIngress.myTunnel_forward", {"port": between})
    last.insert("MyIngress.myTunnel_exact", {"hdr.myTunnel.dst_id": tunnel}, "MyIngress.myTunnel_egress", {"dstAddr": station, "port": 1})
print("tunnels are there", flush=True)
for _ in range(4):
    time.sleep(1)
    for name, switch, counter, tunnel in (("s1", s1, "ingress", 100), ("s2", s2, "egress", 100), ("s2", s2, "ingress", 200), ("s1", s1, "egress", 200)):
        packets, size = switch.counter(f"MyIngress.{counter}TunnelCounter", tunnel)
        print(f"{name} {counter} {tunnel}: {packets} packets, {size} bytes", flush=True)
