#!/usr/bin/env python3
"""send.py ADDRESS COUNT: ten datagrams a second to UDP port 4321 that ask the switches for their traces: an IP option."""

import socket
import struct
import sys
import time

# Type 31, four bytes, no traces yet.
MRI = struct.pack("!BBH", 31, 4, 0)


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


address, count = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.connect((address, 4321))
    source = sock.getsockname()[0]
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
    for n in range(count):
        message = f"{n}".encode()
        udp = struct.pack("!HHHH", 1234, 4321, 8 + len(message), 0) + message
        # Six words of header.
        fields = [0x46, 0, 24 + len(udp), n, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source), socket.inet_aton(address)]
        fields[7] = checksum(struct.pack("!BBHHHBBH4s4s", *fields) + MRI)
        sock.sendto(struct.pack("!BBHHHBBH4s4s", *fields) + MRI + udp, (address, 0))
        time.sleep(0.1)
