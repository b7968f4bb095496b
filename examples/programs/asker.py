#!/usr/bin/python3
"""Asks a store once a second and prints the answer, how long it took, and how far the clocks are apart:
asker.py HOST COUNT"""

import socket
import sys
import time


def main(host, count):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(0.9)
    begin = time.monotonic()
    for number in range(int(count)):
        client.sendto(b"?", (host, 5000))
        asked = time.monotonic()
        try:
            value, clock = client.recv(64).decode().split()
            took = (time.monotonic() - asked) * 1000
            print(f"{number} {value} {took:.1f} ms, clocks differ by {time.time() - float(clock):.2f} s")
        except TimeoutError:
            print(f"{number} no answer")
        time.sleep(max(0, begin + number + 1 - time.monotonic()))


sys.exit(main(*sys.argv[1:]))
