#!/usr/bin/env python3
"""send ADDRESS COUNT BYTES: so many bursts of bytes to port 9000 by one connection, with pauses of random length between them;
prints how many milliseconds each took until it was answered. answer: says of each burst that it is there."""

import random
import socket
import sys
import time

PORT = 9000


def send(address, count, size):
    # The stream of random numbers of the host decides, so seeds differ and runs of one seed do not.
    draw = random.SystemRandom()
    with socket.create_connection((address, PORT)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(int(count)):
            time.sleep(0.03 * draw.random())
            start = time.monotonic()
            sock.sendall(int(size).to_bytes(4, "big") + bytes(int(size)))
            sock.recv(1)
            print(f"{1000 * (time.monotonic() - start):.3f}", flush=True)


def answer():
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
    with connection, connection.makefile("rb") as stream:
        while head := stream.read(4):
            stream.read(int.from_bytes(head, "big"))
            connection.sendall(b"!")


{"send": send, "answer": answer}[sys.argv[1]](*sys.argv[2:])
