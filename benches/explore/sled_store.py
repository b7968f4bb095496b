#!/usr/bin/python3
"""A client of the server in sled_store/: what was acknowledged must be there after a crash.

    sled_store.py SERVER"""

import socket
import struct
import sys
import time


def main(server):
    acknowledged = number = 0
    end = time.monotonic() + 35
    while time.monotonic() < end:
        try:
            with socket.create_connection((server, 7040), timeout=2) as connection:
                found = struct.unpack(">Q", connection.recv(8, socket.MSG_WAITALL))[0]
                print(f"lost: {acknowledged} was acknowledged, {found} is there" if found < acknowledged else f"kept {found}", flush=True)
                acknowledged, number = found, max(number, found)
                while time.monotonic() < end:
                    number += 1
                    connection.sendall(struct.pack(">Q", number))
                    acknowledged = struct.unpack(">Q", connection.recv(8, socket.MSG_WAITALL))[0]
                    time.sleep(0.01)
        except (OSError, struct.error):
            time.sleep(0.2)
    print(f"{acknowledged} at the end", flush=True)


main(sys.argv[1])
