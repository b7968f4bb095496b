#!/usr/bin/python3
"""A small Raft over UDP that agrees on a list of numbers: something to be tested.

    raft.py NAME PEER...              a replica; what must survive a crash is in /var/lib/raft
    raft.py --forgetful NAME PEER...  one with a mistake: after a crash it no longer knows its term and its vote

Left out: snapshots and changes of membership. The paper: Ongaro and Ousterhout, "In Search of an Understandable
Consensus Algorithm", USENIX ATC 2014, figure 2."""

import json
import os
import pathlib
import random
import select
import socket
import sys
import time

PORT = 7000
HEARTBEAT = 0.05
PATIENCE = (0.15, 0.3)  # without a word from the leader
STATE = pathlib.Path("/var/lib/raft/state")
BATCH = 50


class Replica:
    def __init__(self, name, peers, forgetful):
        self.name, self.peers = name, peers
        self.address = {peer: (socket.gethostbyname(peer), PORT) for peer in peers}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", PORT))
        # Entries are [term, number]; the first stands for the beginning.
        self.term, self.vote, self.log = 0, None, [[0, None]]
        if STATE.exists():
            self.term, self.vote, self.log = json.loads(STATE.read_text())
            if forgetful:
                self.term, self.vote = 0, None
        self.committed, self.leader, self.votes = 0, None, set()
        self.next, self.match, self.clients = {}, {}, {}
        self.wait()

    def save(self):
        """Must be done before anybody is told."""
        STATE.parent.mkdir(parents=True, exist_ok=True)
        with open(STATE.with_suffix(".new"), "w") as file:
            json.dump([self.term, self.vote, self.log], file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, STATE)

    def wait(self):
        self.deadline = time.monotonic() + random.uniform(*PATIENCE)

    def send(self, peer, **message):
        self.socket.sendto(json.dumps({**message, "term": self.term, "sender": self.name}).encode(), self.address[peer])

    def answer(self, client, **message):
        self.socket.sendto(json.dumps(message).encode(), client)

    def run(self):
        while True:
            ready, _, _ = select.select([self.socket], [], [], max(0, self.deadline - time.monotonic()))
            if ready:
                data, source = self.socket.recvfrom(65536)
                message = json.loads(data)
                if "term" in message:
                    self.hear(**message)
                else:
                    self.serve(source, **message)
            if time.monotonic() >= self.deadline:
                if self.leader == self.name:
                    self.spread()
                else:
                    self.campaign()

    # What replicas tell each other.

    def hear(self, kind, sender, term, **message):
        if term > self.term:
            self.term, self.vote, self.leader = term, None, None
            self.save()
        getattr(self, kind)(sender, term, **message)

    def campaign(self):
        self.term, self.vote, self.leader, self.votes = self.term + 1, self.name, None, {self.name}
        self.save()
        self.wait()
        for peer in self.peers:
            self.send(peer, kind="elect", last=[self.log[-1][0], len(self.log)])

    def elect(self, sender, term, last):
        up_to_date = last >= [self.log[-1][0], len(self.log)]
        granted = term == self.term and self.vote in (None, sender) and up_to_date
        if granted:
            self.vote = sender
            self.save()
            self.wait()
        self.send(sender, kind="voted", granted=granted)

    def voted(self, sender, term, granted):
        if not granted or term != self.term or self.vote != self.name or self.leader is not None:
            return
        self.votes.add(sender)
        if 2 * len(self.votes) > len(self.peers) + 1:
            print(f"{time.monotonic() - 3600:.3f} leads term {self.term}", flush=True)
            self.leader = self.name
            self.next, self.match = dict.fromkeys(self.peers, len(self.log)), dict.fromkeys(self.peers, 0)
            self.clients = {}
            # An entry of its own term, by which those before it are committed.
            self.add(None)

    def add(self, number):
        self.log.append([self.term, number])
        self.save()
        self.spread()

    def spread(self):
        self.deadline = time.monotonic() + HEARTBEAT
        for peer in self.peers:
            before = self.next[peer] - 1
            entries = self.log[before + 1 : before + 1 + BATCH]
            self.send(peer, kind="append", before=[before, self.log[before][0]], entries=entries, committed=self.committed)

    def append(self, sender, term, before, entries, committed):
        if term < self.term:
            return self.send(sender, kind="appended", known=0, ok=False)
        self.leader = sender
        self.wait()
        index, of_term = before
        if index >= len(self.log) or self.log[index][0] != of_term:
            return self.send(sender, kind="appended", known=min(index, len(self.log)) - 1, ok=False)
        for at, entry in enumerate(entries, index + 1):
            if at < len(self.log) and self.log[at][0] != entry[0]:
                del self.log[at:]
            if at == len(self.log):
                self.log.append(entry)
        if entries:
            self.save()
        known = index + len(entries)
        self.committed = max(self.committed, min(committed, known))
        self.send(sender, kind="appended", known=known, ok=True)

    def appended(self, sender, term, known, ok):
        if self.leader != self.name or term != self.term:
            return
        self.next[sender] = known + 1
        if not ok:
            return
        self.match[sender] = max(self.match[sender], known)
        everywhere = sorted([*self.match.values(), len(self.log) - 1], reverse=True)
        majority = everywhere[len(everywhere) // 2]
        if majority > self.committed and self.log[majority][0] == self.term:
            for index in range(self.committed + 1, majority + 1):
                self.tell(index)
            self.committed = majority

    # What clients ask for.

    def tell(self, index):
        for client in self.clients.pop(index, []):
            self.answer(client, number=self.log[index][1], index=index)

    def serve(self, client, kind, number=None):
        if kind == "dump":
            return self.answer(client, name=self.name, log=[entry[1] for entry in self.log[1 : self.committed + 1]])
        if self.leader != self.name:
            return self.answer(client, number=number, leader=self.leader)
        index = next((n for n, entry in enumerate(self.log) if entry[1] == number), len(self.log))
        self.clients.setdefault(index, []).append(client)
        if index <= self.committed:
            self.tell(index)
        elif index == len(self.log):
            self.add(number)


if __name__ == "__main__":
    forgetful = sys.argv[1] == "--forgetful"
    own, *others = sys.argv[2 if forgetful else 1 :]
    Replica(own, [other for other in others if other != own], forgetful).run()
