#!/usr/bin/python3
"""A list that PySyncObj replicates, and a client that in the end looks for what was acknowledged.

    raft_list.py node [--persist] NODE...
    raft_list.py client [--long] NODE...

The first NODE of a node is itself. With --persist a node keeps its term and its vote over restarts. With --long
the client appends for as long as it runs."""

import json
import os
import socket
import sys
import time

RAFT, SERVICE = 4321, 4322


def node(persist, me, *others):
    from pysyncobj import SyncObj, SyncObjConf, replicated

    class List(SyncObj):
        def __init__(self):
            self.values = []
            conf = SyncObjConf(journalFile="journal", connectionRetryTime=1.0, dnsCacheTime=1e9)
            super().__init__(f"{me}:{RAFT}", [f"{other}:{RAFT}" for other in others], conf)

        @replicated
        def append(self, value):
            self.values.append(value)
            if value % 20 == 0:
                print("applied", value, flush=True)

    class Persistent(List):
        """Keeps term and vote in a file. The names are those of the private attributes of SyncObj."""

        def __init__(self):
            super().__init__()
            self.kept = None
            if os.path.exists("vote"):
                with open("vote") as file:
                    self._SyncObj__raftCurrentTerm, self._SyncObj__votedForNodeId = json.load(file)

        def keep(self):
            kept = [self._SyncObj__raftCurrentTerm, self._SyncObj__votedForNodeId]
            if kept != self.kept:
                with open("vote.new", "w") as file:
                    json.dump(kept, file)
                os.replace("vote.new", "vote")
                self.kept = kept

        def _SyncObj__onMessageReceived(self, peer, message):
            super()._SyncObj__onMessageReceived(peer, message)
            self.keep()

        def _onTick(self, *arguments, **named):
            super()._onTick(*arguments, **named)
            self.keep()

    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("", SERVICE))
    values = (Persistent if persist else List)()
    while True:
        text, peer = listener.recvfrom(999)
        request = json.loads(text)

        def answer(_, error, number=request, peer=peer):
            if error == 0:
                listener.sendto(json.dumps({"done": number}).encode(), peer)

        if request is None:
            listener.sendto(json.dumps({"values": values.values}).encode(), peer)
        else:
            values.append(request, callback=answer)


def client(seconds, *nodes):
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    acknowledged, number = set(), 0
    end = time.monotonic() + seconds
    connection.settimeout(0.05)
    while time.monotonic() < end:
        number += 1
        connection.sendto(json.dumps(number).encode(), (nodes[number % len(nodes)], SERVICE))
        due = time.monotonic() + 0.05
        while time.monotonic() < due:
            try:
                acknowledged.add(json.loads(connection.recv(99999))["done"])
            except OSError:
                pass
    time.sleep(12)
    connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.settimeout(2)
    print(f"{len(acknowledged)} of {number} acknowledged", flush=True)
    found = []
    for name in nodes:
        connection.sendto(b"null", (name, SERVICE))
        found.append(json.loads(connection.recv(99999))["values"])
        lost = sorted(acknowledged - set(found[-1]))
        if lost:
            print(f"lost at {name}: {lost[:20]}", flush=True)
    print("equal" if found[0] == found[1] == found[2] else "diverged", flush=True)


if sys.argv[1] == "node":
    names = [word for word in sys.argv[2:] if word != "--persist"]
    node("--persist" in sys.argv, *names)
else:
    names = [word for word in sys.argv[2:] if word != "--long"]
    client(1e9 if "--long" in sys.argv else 34, *names)
