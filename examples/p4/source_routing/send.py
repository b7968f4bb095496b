#!/usr/bin/env python3
"""send.py ADDRESS PORT...: a UDP packet to port 4321 that leaves the switches on its way by these ports."""

import socket
import struct
import sys


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


address, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.connect((address, 4321))
    source = sock.getsockname()[0]
message = " ".join(sys.argv[2:]).encode()
udp = struct.pack("!HHHH", 1234, 4321, 8 + len(message), 0) + message
fields = [0x45, 0, 20 + len(udp), 1, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source), socket.inet_aton(address)]
fields[7] = checksum(struct.pack("!BBHHHBBH4s4s", *fields))
route = b"".join(struct.pack("!H", port | 0x8000 * (n == len(ports) - 1)) for n, port in enumerate(ports))
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
    sock.bind(("eth0", 0))
    head = bytes.fromhex("020000000201") + sock.getsockname()[4] + struct.pack("!H", 0x1234)
    sock.send(head + route + struct.pack("!BBHHHBBH4s4s", *fields) + udp)
