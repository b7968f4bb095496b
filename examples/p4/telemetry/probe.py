#!/usr/bin/env python3
"""send ADDRESS COUNT: a probe each 5 ms. receive: prints each probe's reports as CSV."""

import socket
import struct
import sys
import time

PORT = 9100
# The simulated clock starts in the year 2000, and the switches count from its start.
START = 946684800 * 10**9


def send(address, count):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(int(count)):
            sock.sendto(struct.pack("!HQ", 0, time.time_ns() - START), (address, PORT))
            time.sleep(0.005)


def receive():
    print("sent_us,received_us,hop,switch,ingress_us,egress_us,queued")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("", PORT))
        while True:
            probe = sock.recv(2048)
            received = (time.time_ns() - START) / 1e3
            reports = struct.unpack("!H", probe[:2])[0]
            sent = struct.unpack("!Q", probe[2 + 20 * reports:])[0] / 1e3
            # The last switch's report is the first.
            for hop in range(reports):
                at = 2 + 20 * (reports - 1 - hop)
                switch, times, queued = struct.unpack("!I12sI", probe[at:at + 20])
                came, left = int.from_bytes(times[:6]), int.from_bytes(times[6:])
                print(f"{sent:.3f},{received:.3f},{hop},s{switch},{came},{left},{queued}", flush=True)


{"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
