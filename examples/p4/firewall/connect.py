#!/usr/bin/env python3
"""connect.py ADDRESS...: says which of them can be reached by TCP, port 9000, within two seconds."""

import socket
import sys

for address in sys.argv[1:]:
    try:
        with socket.create_connection((address, 9000), timeout=2) as sock:
            sock.sendall(b"hello")
        print(f"{address}: open")
    except TimeoutError:
        print(f"{address}: closed")
