#!/usr/bin/env python3
"""Prints the messages that come to UDP port 4321, in tunnels or without, whomever they are addressed to."""

import socket
import struct
import sys

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sock:
    sock.bind(("eth0", 3))
    while True:
        frame, (_, _, direction, *_) = sock.recvfrom(2048)
        if direction == socket.PACKET_OUTGOING:
            continue
        kind, packet, tunnel = struct.unpack("!H", frame[12:14])[0], frame[14:], None
        if kind == 0x1212:
            kind, tunnel = struct.unpack("!HH", packet[:4])
            packet = packet[4:]
        if kind != 0x0800 or packet[9] != socket.IPPROTO_UDP or struct.unpack("!H", packet[22:24])[0] != 4321:
            continue
        length = struct.unpack("!H", packet[24:26])[0]
        how = "routed" if tunnel is None else f"tunnel {tunnel}"
        message = packet[28:20 + length].decode()
        print(f"{how}: '{message}' for {socket.inet_ntoa(packet[16:20])}, ttl {packet[8]}")
        sys.stdout.flush()
