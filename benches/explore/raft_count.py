#!/usr/bin/python3
"""A node of a Raft whose leader commits entries of earlier terms once a majority has them; with --own only along with one of its own term (Raft's figure 8).

    raft_count.py NODE NODES... [--own]
    raft_count.py write NODES..."""

import json
import os
import random
import socket
import sys
import time

PORT, HEARTBEAT, ELECTION = 7070, 0.1, (0.4, 0.8)


class Node:
    def __init__(self, name, nodes, own):
        self.name, self.own = name, own
        self.others = [node for node in nodes if node != name]
        self.majority = len(nodes) // 2 + 1
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", PORT))
        self.term, self.voted, self.log = 0, None, []
        if os.path.exists("state"):
            with open("state") as file:
                self.term, self.voted, self.log = json.load(file)
        self.role, self.leader, self.commit = "follower", None, 0
        self.votes, self.matching, self.waiting = set(), {}, {}
        self.due = self.election()

    def election(self):
        return time.monotonic() + random.uniform(*ELECTION)

    def save(self):
        with open("state.new", "w") as file:
            json.dump([self.term, self.voted, self.log], file)
            file.flush()
            os.fsync(file.fileno())
        os.rename("state.new", "state")
        folder = os.open(".", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def send(self, to, **message):
        try:
            self.socket.sendto(json.dumps({"from": self.name, "term": self.term, **message}).encode(), (to, PORT))
        except OSError:
            pass  # the network is down

    def last(self):
        return [self.log[-1][0] if self.log else 0, len(self.log)]

    def run(self):
        while True:
            self.socket.settimeout(max(self.due - time.monotonic(), 0.001))
            try:
                data, source = self.socket.recvfrom(65536)
            except TimeoutError:
                self.tick()
                continue
            message = json.loads(data)
            if "write" in message:
                self.write(message["write"], source)
                continue
            if message["term"] > self.term:
                self.term, self.voted, self.role, self.leader = message["term"], None, "follower", None
                self.waiting.clear()
                self.save()
            getattr(self, message["kind"])(message)
            if time.monotonic() >= self.due:
                self.tick()

    def tick(self):
        if self.role == "leader":
            for node in self.others:
                self.replicate(node)
            self.due = time.monotonic() + HEARTBEAT
            return
        self.term, self.voted, self.role, self.leader = self.term + 1, self.name, "candidate", None
        self.votes, self.due = {self.name}, self.election()
        self.save()
        for node in self.others:
            self.send(node, kind="ask", last=self.last())

    def ask(self, message):
        is_granted = message["term"] == self.term and self.voted in (None, message["from"]) and message["last"] >= self.last()
        if is_granted:
            self.voted, self.due = message["from"], self.election()
            self.save()
        self.send(message["from"], kind="vote", granted=is_granted)

    def vote(self, message):
        if self.role != "candidate" or message["term"] != self.term or not message["granted"]:
            return
        self.votes.add(message["from"])
        if len(self.votes) >= self.majority:
            self.leads()

    def leads(self):
        print("leads term", self.term, flush=True)
        self.role, self.leader, self.due = "leader", self.name, time.monotonic()
        self.matching = dict.fromkeys(self.others, 0)
        self.next = dict.fromkeys(self.others, len(self.log))

    def held(self):
        """Numbers of entries that the members have."""
        return [len(self.log), *self.matching.values()]

    def replicate(self, node):
        start = self.next[node]
        self.send(node, kind="append", start=start, before=self.log[start - 1][0] if start else 0, entries=self.log[start:start + 50], commit=self.commit)

    def append(self, message):
        if message["term"] < self.term:
            return self.send(message["from"], kind="appended", ok=False, length=0)
        self.role, self.leader, self.due = "follower", message["from"], self.election()
        start = message["start"]
        if start > len(self.log) or (start and self.log[start - 1][0] != message["before"]):
            return self.send(message["from"], kind="appended", ok=False, length=min(start - 1, len(self.log)))
        is_changed = False
        for index, entry in enumerate(message["entries"], start):
            if index < len(self.log) and self.log[index][0] != entry[0]:
                if index < self.commit:
                    print(f"overwrites entry {index}, which is committed: {self.log[index]} becomes {entry}", flush=True)
                del self.log[index:]
            if index == len(self.log):
                self.log.append(entry)
                is_changed = True
        if is_changed:
            self.save()
        length = start + len(message["entries"])
        self.commit = max(self.commit, min(message["commit"], length))
        return self.send(message["from"], kind="appended", ok=True, length=length)

    def appended(self, message):
        node = message["from"]
        if self.role != "leader" or message["term"] != self.term:
            return
        if not message["ok"]:
            self.next[node] = max(message["length"], 0)
            return self.replicate(node)
        self.next[node] = self.matching[node] = max(self.matching[node], message["length"])
        reached = sorted(self.held())[-self.majority]
        if reached > self.commit and (not self.own or self.log[reached - 1][0] == self.term):
            self.commit = reached
            print("commits", self.commit, flush=True)
            for index in [index for index in self.waiting if index <= self.commit]:
                self.socket.sendto(b"true", self.waiting.pop(index))

    def write(self, value, source):
        if self.role == "leader":
            self.log.append([self.term, value])
            self.save()
            self.waiting[len(self.log)] = source
            for node in self.others:
                self.replicate(node)


def ask(nodes, values, done, pause):
    """Asks all nodes, of which the leader writes, for one value after the other, with pauses of up to `pause` seconds."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(0.3)
    for value in values:
        for node in nodes:
            client.sendto(json.dumps({"write": value}).encode(), (node, PORT))
        try:
            client.recv(100)
            print(done, value, flush=True)
        except TimeoutError:
            pass
        time.sleep(random.uniform(0, pause))


def serve(kind):
    kind(sys.argv[1], [word for word in sys.argv[2:] if word != "--own"], "--own" in sys.argv).run()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        ask(sys.argv[2:], range(10**6), "written", 0.4)
    else:
        serve(Node)
