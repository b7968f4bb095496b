#!/usr/bin/python3
"""Payments: a request that is repeated after a lost answer is carried out twice, unless it has a key by which the server knows it.

    payments.py serve [--keys]
    payments.py pay SERVER COUNT"""

import json
import os
import socket
import sys
import time

PORT, TIMEOUT = 7001, 1.0


def serve(with_keys):
    """Keeps each payment in a file before it answers."""
    paid = []
    if os.path.exists("paid.jsonl"):
        with open("paid.jsonl") as file:
            paid = [json.loads(line) for line in file.read().splitlines()]
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("", PORT))
    with open("paid.jsonl", "a") as file:
        while True:
            text, peer = listener.recvfrom(999)
            request = json.loads(text)
            if request["f"] == "pay" and not (with_keys and request["key"] in paid):
                paid.append(request["key"])
                file.write(json.dumps(request["key"]) + "\n")
                file.flush()
                os.fsync(file.fileno())
            answer = {"key": request["key"], "count": len(paid)}
            listener.sendto(json.dumps(answer).encode(), peer)


def ask(connection, server, request):
    """Repeats a request until it is answered."""
    while True:
        try:
            connection.sendto(json.dumps(request).encode(), (server, PORT))
            while True:
                answer = json.loads(connection.recv(999))
                if answer["key"] == request["key"]:
                    return answer
        except OSError:
            time.sleep(0.2)


def pay(server, count):
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.settimeout(TIMEOUT)
    for number in range(count):
        ask(connection, server, {"f": "pay", "key": number})
        time.sleep(0.25)
    total = ask(connection, server, {"f": "count", "key": "total"})["count"]
    print(f"charged {total} times for {count} payments", flush=True)


if sys.argv[1] == "serve":
    serve("--keys" in sys.argv)
else:
    pay(sys.argv[2], int(sys.argv[3]))
