#!/usr/bin/env python3
"""Prints the messages that come to UDP port 4321, and how many hops they have left to live."""

import socket

# Python has no name for it.
IP_RECVTTL = 12

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
    sock.bind(("", 4321))
    while True:
        message, control, _, _ = sock.recvmsg(2048, 64)
        print(f"by ports {message.decode()}: ttl {int.from_bytes(control[0][2][:1], 'little')}", flush=True)
