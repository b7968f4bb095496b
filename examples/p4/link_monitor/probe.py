#!/usr/bin/env python3
"""probe.py PORT...: every 100 ms a probe that leaves the switches by these ports and comes back here. Prints how busy the
ports were since the probe before: time, switch, port, Mbit/s."""

import socket
import struct
import sys
import time

ETHERTYPE_PROBE = 0x0812
ports = [int(port) for port in sys.argv[1:]]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_PROBE)) as sock:
    sock.bind(("eth0", ETHERTYPE_PROBE))
    head = b"\xff" * 6 + sock.getsockname()[4] + struct.pack("!H", ETHERTYPE_PROBE)
    while True:
        time.sleep(0.1)
        sock.send(head + bytes([0, *ports]))
        sock.settimeout(1)
        while True:
            frame, (_, _, direction, *_) = sock.recvfrom(2048)
            if direction != socket.PACKET_OUTGOING:
                break
        # The last switch's report is the first.
        for n in reversed(range(frame[14])):
            report = frame[15 + 18 * n:33 + 18 * n]
            switch, port, count = struct.unpack("!BBI", report[:6])
            before, now = int.from_bytes(report[6:12]), int.from_bytes(report[12:18])
            if before:
                print(f"{now / 1e6:.3f} s{switch & 127}:p{port} {8 * count / (now - before):.3f} Mbit/s", flush=True)
