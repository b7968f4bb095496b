#!/usr/bin/env python3
"""Prints when each datagram to UDP port 4321 comes, and its TOS byte: 0x1 is ECT(1), 0x3 is marked."""

import socket
import time

# The simulated clock starts in the year 2000.
START = 946684800

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    sock.bind(("", 4321))
    while True:
        message, control, _, _ = sock.recvmsg(2048, 64)
        print(f"{time.time() - START:.3f} {message.decode()} tos {control[0][2][0]:#x}", flush=True)
