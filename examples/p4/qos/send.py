#!/usr/bin/env python3
"""send.py ADDRESS COUNT: ten datagrams a second to UDP port 4321, each with the time at which it was sent."""

import socket
import sys
import time

address, count = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    for _ in range(count):
        sock.sendto(repr(time.time()).encode(), (address, 4321))
        time.sleep(0.1)
