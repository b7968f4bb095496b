#!/usr/bin/env python3
"""send.py ADDRESS FLOWS: three datagrams to UDP port 4321 from each of so many ports."""

import socket
import sys

address, flows = sys.argv[1], int(sys.argv[2])
for flow in range(flows):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", 20000 + flow))
        for n in range(3):
            sock.sendto(f"{n}".encode(), (address, 4321))
