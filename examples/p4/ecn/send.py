#!/usr/bin/env python3
"""send.py ADDRESS COUNT: ten datagrams a second to UDP port 4321, of a sender that takes part in ECN: ECT(1)."""

import socket
import sys
import time

address, count = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 1)
    for n in range(count):
        sock.sendto(f"{n}".encode(), (address, 4321))
        time.sleep(0.1)
