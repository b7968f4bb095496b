#!/usr/bin/env python3
"""send ADDRESS SECONDS: bytes by TCP to port 9000 for so long. receive: takes one connection and prints its Mbit/s, leaving out
the first fifth of a second."""

import socket
import sys
import time

PORT, START = 9000, 0.2


def send(address, seconds):
    with socket.create_connection((address, PORT)) as sock:
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            sock.sendall(bytes(65536))


def receive():
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
    with connection:
        begin = time.monotonic() + START
        count = 0
        while data := connection.recv(1 << 20):
            now = time.monotonic()
            if now > begin:
                count += len(data)
    print(f"{8 * count / (now - begin) / 1e6:.1f} Mbit/s")


{"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
