#!/usr/bin/env python3
"""send.py ADDRESS MESSAGE [--tunnel ID]: a UDP packet to port 4321, in a tunnel if one is named."""

import argparse
import socket
import struct

ETHERTYPE_IPV4, ETHERTYPE_TUNNEL = 0x0800, 0x1212


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(source, destination, payload):
    udp = struct.pack("!HHHH", 1234, 4321, 8 + len(payload), 0) + payload
    fields = [0x45, 0, 20 + len(udp), 1, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source), socket.inet_aton(destination)]
    fields[7] = checksum(struct.pack("!BBHHHBBH4s4s", *fields))
    return struct.pack("!BBHHHBBH4s4s", *fields) + udp


def own_address(towards):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((towards, 9))
        return sock.getsockname()[0]


parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("message")
parser.add_argument("--tunnel", type=int)
given = parser.parse_args()
packet = ipv4(own_address(given.address), given.address, given.message.encode())
if given.tunnel is None:
    kind = ETHERTYPE_IPV4
else:
    packet = struct.pack("!HH", ETHERTYPE_IPV4, given.tunnel) + packet
    kind = ETHERTYPE_TUNNEL
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
    sock.bind(("eth0", 0))
    sock.send(b"\xff" * 6 + sock.getsockname()[4] + struct.pack("!H", kind) + packet)
