#!/usr/bin/python3
"""A client of the nodes in raft_log/: a number that was acknowledged must be in the leader's log in the end.

    raft_log.py NODES..."""

import json
import socket
import sys
import time

WRITING, SETTLING = 30, 12


def ask(node, request):
    with socket.create_connection((node, 7050), timeout=2) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def main(*nodes):
    acknowledged, number, leader = [], 0, 0
    end = time.monotonic() + WRITING
    while time.monotonic() < end:
        number += 1
        try:
            ask(nodes[leader], {"Write": number})
            acknowledged.append(number)
            time.sleep(0.02)
        except (OSError, ValueError):
            leader = (leader + 1) % len(nodes)
            time.sleep(0.1)
    time.sleep(SETTLING)
    while True:
        try:
            held = set(ask(nodes[leader], "Read"))
            break
        except (OSError, ValueError):
            leader = (leader + 1) % len(nodes)
            time.sleep(0.5)
    lost = [each for each in acknowledged if each not in held]
    print(f"lost {len(lost)} of {len(acknowledged)}: {lost[:5]}" if lost else f"kept {len(acknowledged)}", flush=True)


main(*sys.argv[1:])
