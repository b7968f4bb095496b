#!/usr/bin/python3
"""A node of a Raft whose leader changes the members one at a time, and at once; with --own only when it has committed an entry of its own term, with which it begins.

    raft_members.py NODE NODES... [--own]
    raft_members.py change NODES...

The first four nodes are members in the beginning."""

import random
import sys

from raft_count import Node, ask, serve


class Member(Node):
    def __init__(self, name, nodes, own):
        super().__init__(name, nodes, own=True)
        self.initial, self.begins = nodes[:4], own
        self.configure()

    def members(self):
        """The last members in the log, committed or not, and the number of their entry."""
        for number in range(len(self.log), 0, -1):
            if isinstance(self.log[number - 1][1], list):
                return self.log[number - 1][1], number
        return self.initial, 0

    def configure(self):
        members, _ = self.members()
        self.others = [node for node in members if node != self.name]
        self.majority = len(members) // 2 + 1
        if self.role == "leader":
            for node in self.others:
                self.matching.setdefault(node, 0)
                self.next.setdefault(node, len(self.log))

    def tick(self):
        if self.role != "leader" and self.name not in self.members()[0]:
            self.due = self.election()
            return
        super().tick()

    def held(self):
        own = [len(self.log)] if self.name in self.members()[0] else []
        return [*own, *(self.matching[node] for node in self.others)]

    def vote(self, message):
        if message["from"] in self.others:
            super().vote(message)

    def append(self, message):
        super().append(message)
        self.configure()

    def leads(self):
        super().leads()
        if self.begins:
            self.log.append([self.term, None])
            self.save()

    def write(self, value, source):
        members, number = self.members()
        if self.role != "leader" or number > self.commit:
            return
        if self.begins and (self.commit == 0 or self.log[self.commit - 1][0] != self.term):
            return
        members = [node for node in members if node != value] if value in members else [*members, value]
        if len(members) < 3:
            return
        super().write(members, source)
        self.configure()


if sys.argv[1] == "change":
    # Adds and removes nodes, one after the other.
    ask(sys.argv[2:], iter(lambda: random.choice(sys.argv[2:]), None), "changed", 1)
else:
    serve(Member)
