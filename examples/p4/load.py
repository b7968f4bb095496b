#!/usr/bin/env python3
"""Traffic for the experiments of this folder.

send ADDRESS SECONDS INTERVAL   UDP datagrams of 1400 bytes to port 9000, one each INTERVAL seconds
receive                         takes them
transfer ADDRESS BYTES          so many bytes by TCP to port 9000; says how long they took
accept                          takes connections and what they bring, until the end
"""

import socket
import sys
import time

PORT = 9000


def send(address, seconds, interval):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(round(float(seconds) / float(interval))):
            sock.sendto(bytes(1400), (address, PORT))
            time.sleep(float(interval))


def receive():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", PORT))
        while True:
            sock.recv(2048)


def transfer(address, size):
    start = time.monotonic()
    with socket.create_connection((address, PORT)) as sock:
        sock.sendall(bytes(int(size)))
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)
    print(f"{size} bytes in {time.monotonic() - start:.3f} s")


def accept():
    with socket.create_server(("", PORT)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                while connection.recv(65536):
                    pass


{"send": send, "receive": receive, "transfer": transfer, "accept": accept}[sys.argv[1]](*sys.argv[2:])
