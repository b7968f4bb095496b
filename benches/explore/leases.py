#!/usr/bin/python3
"""A lock service with leases, measured by the wall clock or by the monotonic one.

    leases.py serve [--monotonic]
    leases.py work SERVER NAME

A client uses the lock for less than the lease, counted from before it asked, and notes when. Two must never use it at once."""

import json
import socket
import sys
import time

PORT, LEASE, USE = 7002, 2.0, 1.5


def serve(clock):
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("", PORT))
    # Leases of a server that was restarted are unknown: they end first.
    owner, ends, starts = "?", clock() + LEASE, 0
    while True:
        text, peer = listener.recvfrom(999)
        request = json.loads(text)
        if request["f"] == "acquire" and (owner is None or clock() >= ends):
            owner, ends, starts = request["name"], clock() + LEASE, starts + 1
            listener.sendto(json.dumps({"n": request["n"], "granted": True}).encode(), peer)
        elif request["f"] == "release":
            if owner == request["name"]:
                owner = None
            listener.sendto(json.dumps({"n": request["n"]}).encode(), peer)
        else:
            listener.sendto(json.dumps({"n": request["n"], "granted": False}).encode(), peer)


def work(server, name):
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.settimeout(0.3)
    history = open("history.jsonl", "a", buffering=1)
    number = 0

    def note(kind, f):
        history.write(json.dumps({"process": name, "type": kind, "f": f}) + "\n")

    def ask(f):
        nonlocal number
        number += 1
        try:
            connection.sendto(json.dumps({"f": f, "name": name, "n": number}).encode(), (server, PORT))
            while True:
                answer = json.loads(connection.recv(999))
                if answer["n"] == number:
                    return answer.get("granted", True)
        except OSError:
            return False

    until = time.monotonic() + 40
    while time.monotonic() < until:
        asked = time.monotonic()
        if ask("acquire") and time.monotonic() < asked + 0.5:
            # It is used now, and no longer before the lease can end.
            note("invoke", "acquire")
            note("ok", "acquire")
            time.sleep(max(0.0, min(1.0, asked + USE - time.monotonic())))
            note("invoke", "release")
            note("ok", "release")
            ask("release")
        time.sleep(0.1)


if sys.argv[1] == "serve":
    serve(time.monotonic if "--monotonic" in sys.argv else time.time)
else:
    work(sys.argv[2], sys.argv[3])
