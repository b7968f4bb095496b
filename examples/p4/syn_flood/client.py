#!/usr/bin/env python3
"""client.py ADDRESS SECONDS: ten times a second a connection to port 9000. Prints when each began and how many seconds it took
to be open, or that it was not within three."""

import socket
import sys
import threading
import time

# The simulated clock starts in the year 2000.
START = 946684800


def connect(address):
    start = time.time() - START
    try:
        with socket.create_connection((address, 9000), timeout=3):
            print(f"{start:.3f} {time.time() - START - start:.4f}", flush=True)
    except TimeoutError:
        print(f"{start:.3f} failed", flush=True)


for _ in range(10 * int(sys.argv[2])):
    threading.Thread(target=connect, args=(sys.argv[1],)).start()
    time.sleep(0.1)
