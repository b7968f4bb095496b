#!/usr/bin/python3
"""A client of Redis Sentinel that writes, and in the end looks for what was acknowledged.

    sentinel.py [--wait] HOST...

It asks the sentinels of the hosts for the master, and keeps its connection as long as that works, as clients do. With --wait a write counts as acknowledged
only after WAIT has said that both replicas have it."""

import socket
import sys
import time


class Redis:
    """A connection to a server that speaks Redis' protocol."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=2)
        self.lines = self.socket.makefile("rb")

    def answer(self):
        line = self.lines.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the connection was closed")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            raise OSError(text.decode())
        if kind == b"$":
            return None if text == b"-1" else self.lines.read(int(text) + 2)[:-2]
        return [self.answer() for _ in range(int(text))] if kind == b"*" else text

    def call(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.answer()


def master(hosts):
    """A connection to the master that the first sentinel names which answers."""
    for host in hosts:
        try:
            address = Redis(host, 26379).call("SENTINEL", "get-master-addr-by-name", "main")
            return Redis(address[0].decode(), int(address[1]))
        except (OSError, TypeError):
            continue
    raise OSError("no sentinel names a master")


def main(with_wait, hosts):
    acknowledged, connection = set(), None
    end = time.monotonic() + 40
    number = 0
    while time.monotonic() < end:
        number += 1
        try:
            connection = connection or master(hosts)
            connection.call("SADD", "numbers", number)
            if not with_wait or connection.call("WAIT", 2, 1000) == b"2":
                acknowledged.add(number)
        except OSError as error:
            print(f"{number}: {error}", flush=True)
            connection = None
        time.sleep(0.1)
    time.sleep(10)
    while True:
        try:
            found = {int(value) for value in master(hosts).call("SMEMBERS", "numbers")}
            break
        except OSError:
            time.sleep(0.5)
    print(f"{len(acknowledged)} acknowledged", flush=True)
    lost = sorted(acknowledged - found)
    print(f"lost {len(lost)}: {lost[:20]}" if lost else "kept", flush=True)


main("--wait" in sys.argv, [word for word in sys.argv[1:] if word != "--wait"])
