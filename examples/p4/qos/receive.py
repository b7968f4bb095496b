#!/usr/bin/env python3
"""Prints how long each datagram to UDP port 4321 took, and its TOS byte."""

import socket
import time

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    sock.bind(("", 4321))
    while True:
        message, control, _, _ = sock.recvmsg(2048, 64)
        print(f"{1000 * (time.time() - float(message)):.2f} ms tos {control[0][2][0]:#x}", flush=True)
