#!/usr/bin/env python3
"""Prints the traces of packets to UDP port 4321: switch and depth of its queue, the last switch first."""

import socket
import struct
import time

# The simulated clock starts in the year 2000.
START = 946684800

with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as sock:
    while True:
        packet = sock.recv(2048)
        header = 4 * (packet[0] & 15)
        option = packet[20:header]
        if packet[9] != socket.IPPROTO_UDP or struct.unpack("!H", packet[header + 2:header + 4])[0] != 4321:
            continue
        if option[:1] != b"\x1f":
            print("no traces", flush=True)
            continue
        count = struct.unpack("!H", option[2:4])[0]
        traces = [struct.unpack("!II", option[4 + 8 * n:12 + 8 * n]) for n in range(count)]
        print(f"{time.time() - START:.3f}", " ".join(f"s{switch}:{depth}" for switch, depth in traces), flush=True)
