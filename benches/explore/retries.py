#!/usr/bin/python3
"""A front end that repeats requests without limit: after its back end was slow for a while, repeated requests keep it busy for ever.

    retries.py back
    retries.py front SERVER [--limit]"""

import heapq
import select
import socket
import sys
import time

PORT, EVERY, SERVICE, PATIENCE = 7020, 0.05, 0.02, 0.2


def back():
    """Needs 20 ms for each request: 50 a second."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.bind(("", PORT))
    while True:
        request, peer = connection.recvfrom(999)
        time.sleep(SERVICE)
        connection.sendto(request, peer)


def front(server, limit):
    """Makes 20 requests a second. One without an answer is repeated every 200 ms; with a limit, once, after a second."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    began, due, open_, number, in_time = time.monotonic(), [], {}, 0, 0
    while True:
        now = time.monotonic()
        if now >= began + number * EVERY:
            open_[number] = now
            heapq.heappush(due, (now, number, 0))
            number += 1
        while due and due[0][0] <= now:
            _, request, times = heapq.heappop(due)
            if request not in open_:
                continue
            if limit and times == 2:
                del open_[request]
                continue
            connection.sendto(b"%d" % request, (server, PORT))
            heapq.heappush(due, (now + (1.0 if limit else PATIENCE), request, times + 1))
        wait = min([began + number * EVERY, *(at for at, _, _ in due[:1])]) - time.monotonic()
        if select.select([connection], [], [], max(0, wait))[0]:
            since = open_.pop(int(connection.recv(999)), None)
            in_time = in_time + 1 if since is not None and time.monotonic() - since < PATIENCE else 0 if since is not None else in_time
            if in_time == 20:
                print("serves", flush=True)
                in_time = 0


if sys.argv[1] == "back":
    back()
else:
    front(sys.argv[2], "--limit" in sys.argv)
