#!/usr/bin/python3
"""A counter over UDP: each request gets the next number, with the time of the server's clock. The counter is kept in
a file, so that it survives a crash; SIGUSR1 sets it to 1000."""

import pathlib
import signal
import socket
import sys
import time

FILE = pathlib.Path("/var/lib/counter")


def reset(*_):
    FILE.write_text("1000")


def main():
    signal.signal(signal.SIGUSR1, reset)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    print("starting with", FILE.read_text() if FILE.exists() else "nothing", "up for", round(time.monotonic() - 3600))
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", 5000))
    while True:
        _, client = server.recvfrom(64)
        count = int(FILE.read_text()) + 1 if FILE.exists() else 1
        FILE.write_text(str(count))
        server.sendto(f"{count} {time.time():.3f}".encode(), client)


sys.exit(main())
