#!/usr/bin/python3
"""Hands numbers to a Raft cluster, one after another, then compares the replicas' lists with what it was promised:

    raft_check.py SECONDS REPLICA...

Exits with 1 if a number that was acknowledged is missing or out of place, or if replicas disagree."""

import itertools
import json
import socket
import sys
import time


class Cluster:
    def __init__(self, replicas):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addresses = {name: (socket.gethostbyname(name), 7000) for name in replicas}
        self.order = itertools.cycle(replicas)
        self.leader = next(self.order)

    def ask(self, replica, patience, about, **message):
        """The answer that has `about` in it as the question had, or None."""
        self.socket.sendto(json.dumps(message).encode(), self.addresses[replica])
        end = time.monotonic() + patience
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                answer = json.loads(self.socket.recv(65536))
            except TimeoutError:
                break
            if all(answer.get(key) == value for key, value in about.items()):
                return answer
        return None

    def put(self, number):
        """The place of the number in the list, once the cluster has promised to keep it."""
        while True:
            answer = self.ask(self.leader, 0.2, {"number": number}, kind="put", number=number)
            if answer and "index" in answer:
                return answer["index"]
            self.leader = (answer and answer["leader"]) or next(self.order)
            time.sleep(0.02)

    def lists(self, seconds):
        """What each replica holds for agreed on, when all hold the same or the time is over."""
        end = time.monotonic() + seconds
        while True:
            answers = {name: self.ask(name, 0.5, {"name": name}, kind="dump") for name in self.addresses}
            found = {name: answer and answer["log"] for name, answer in answers.items()}
            first, *others = found.values()
            if first is not None and all(other == first for other in others) or time.monotonic() > end:
                return found
            time.sleep(0.1)


def main(seconds, *replicas):
    cluster = Cluster(replicas)
    end = time.monotonic() + float(seconds)
    promised, longest = {}, 0.0
    for number in itertools.count(1):
        begin = time.monotonic()
        if begin > end:
            break
        promised[number] = cluster.put(number)
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.1)
    print(f"{len(promised)} numbers acknowledged, the slowest after {longest:.3f} s")
    wrong = []
    for name, numbers in cluster.lists(10).items():
        if numbers is None:
            wrong.append(f"{name} does not answer")
            continue
        lost = [n for n, index in promised.items() if index > len(numbers) or numbers[index - 1] != n]
        if lost:
            wrong.append(f"{name} has lost {len(lost)} acknowledged numbers, the first is {lost[0]}")
        twice = len(numbers) - len(set(numbers)) - max(0, numbers.count(None) - 1)
        if twice:
            wrong.append(f"{name} has {twice} numbers twice")
    print("\n".join(wrong) or "all there, in the same order everywhere")
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
