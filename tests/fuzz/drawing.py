"""What a sequence of calls is drawn with."""

import random

NONBLOCK, CLOEXEC = 0o4000, 0o2000000
SLOTS = 12
SIZES = [0, 1, 2, 7, 8, 10, 100, 127, 128, 512, 1000, 4095, 4096, 4097, 8192, 10000, 65535, 65536, 65537, 100000, 200000]


class Draw:
    """One sequence being drawn; knows roughly what its slots hold."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.kinds = {}
        self.lines = []

    def one(self, *choices):
        return self.r.choice(choices)

    def often(self, likely, *others):
        return likely if self.r.random() < 0.7 else self.r.choice(others)

    def free(self):
        free = [n for n in range(SLOTS) if n not in self.kinds]
        return self.r.choice(free) if free and self.r.random() < 0.9 else self.r.randrange(SLOTS)

    def held(self, *kinds):
        """A slot that holds one of these kinds, mostly."""
        fitting = [n for n, kind in self.kinds.items() if not kinds or kind in kinds]
        if fitting and self.r.random() < 0.93:
            return self.r.choice(sorted(fitting))
        return self.r.choice(sorted(self.kinds) or [0]) if self.r.random() < 0.8 else self.r.randrange(SLOTS)

    def size(self):
        return self.r.choice(SIZES) if self.r.random() < 0.5 else self.r.choice(SIZES[:12])

    def say(self, name, *arguments):
        self.lines.append(" ".join([name, *map(str, map(int, arguments))]))

    def make(self, kind, *slots):
        for slot in slots:
            self.kinds[slot] = kind


def flags(d, *bits):
    return sum(bit for bit in bits if d.r.random() < 0.4)


def nonblock(d):
    return NONBLOCK if d.r.random() < 0.8 else 0
