"""Draws sequences of calls for interpreter.c: the same seed, the same sequence."""

import random
import socket as s

NONBLOCK, CLOEXEC = 0o4000, 0o2000000
SLOTS = 12
SIZES = [0, 1, 2, 7, 8, 10, 100, 127, 128, 512, 1000, 4095, 4096, 4097, 8192, 10000, 65535, 65536, 65537, 100000, 200000]
SIGNALS = [1, 2, 10, 12, 14, 15, 17, 18, 34, 35, 36, 40]
MASKS = [0, 1 << 9, 1 << 11, (1 << 9) | (1 << 11), 1 << 13, 1 << 33, 1 << 16, (1 << 33) | (1 << 34) | (1 << 9)]
PATH = range(8)
POLL = [1, 4, 5, 0x2001, 0x2, 0x1F]
SOCKET_OPTIONS = [
    (s.SOL_SOCKET, n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 15, 16, 18, 20, 21, 29, 30, 38, 39, 42, 49, 999)
] + [(6, n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 18, 23, 24, 36, 999)] + [
    (0, n) for n in (1, 2, 6, 8, 10, 12, 13, 14, 15, 24, 33, 34, 999)
] + [(41, n) for n in (16, 18, 19, 26, 49, 66, 67, 999)] + [(17, 1), (17, 100), (300, 1)]
# What these say depends on the machine: sizes, congestion control, processors, routes.
# Some differ between Linux's versions (SO_PASSCRED and SO_PASSSEC on what is no UNIX socket).
UNSTABLE = {(1, 16), (1, 34), (1, 7), (1, 8), (1, 49), (6, 2), (6, 11), (6, 10), (0, 14)}


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


# Creators


def pipe(d):
    a, b = d.free(), d.free()
    d.say("pipe", a, b, nonblock(d) | flags(d, CLOEXEC) | d.often(0, 0o40000))
    d.make("pipe-in", a), d.make("pipe-out", b)


def eventfd(d):
    a = d.free()
    d.say("eventfd", a, d.one(0, 1, 5, 0xFFFFFFFE), nonblock(d) | d.one(0, 1, CLOEXEC))
    d.make("eventfd", a)


def open_(d):
    a = d.free()
    how = d.one(0, 1, 2, 2, 2) | d.often(0, 0o100, 0o300, 0o1000, 0o2000, 0o200000, 0o400000, 0o10000000, 0o20200000)
    d.say("open", a, d.r.choice(PATH), how | nonblock(d) | d.often(0, CLOEXEC), d.one(0o644, 0o600, 0o4777))
    d.make("file", a)


def open_beneath(d):
    a = d.free()
    d.say("openat2", a, d.r.choice(PATH), d.one(0, 2, 0o102, 0o200000, 0o10000000, 0o102 | 0o400000), d.often(0, 0o644), d.one(0, 1, 2, 4, 8, 16, 24, 64))
    d.make("file", a)


def unnamed(d):
    a = d.free()
    d.say("open", a, d.one(2, 6), 0o20200000 | d.one(1, 2, 0) | d.often(0, 0o200), 0o600)
    d.make("file", a)
    d.say("name_file", a, d.r.choice(PATH))


def good_file(d):
    a = d.free()
    d.say("open", a, d.one(0, 1), 0o102 | nonblock(d), 0o644)
    d.make("file", a)


def directory(d):
    a = d.free()
    d.say("open", a, d.one(2, 6), 0o200000)
    d.make("directory", a)


def memfd(d):
    a = d.free()
    d.say("memfd", a, d.one(0, 1, 2, 3))
    d.make("file", a)


def sealed(d):
    """A file in memory with something in it."""
    a = d.free()
    d.say("memfd", a, d.often(2, 3))
    d.say("write", a, d.one(1, 100, 5000, 8192))
    d.make("memfd", a)


def socketpair(d):
    a, b = d.free(), d.free()
    kind = d.one(1, 1, 2, 5, 3)
    d.say("socketpair", a, b, kind | nonblock(d) | d.often(0, CLOEXEC), d.often(0, 1, 2))
    d.make(f"unix-{kind}", a, b)


def socket(d):
    a = d.free()
    domain, kind = d.one((1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2), (2, 5), (99, 1))
    d.say("socket", a, domain, kind | nonblock(d), d.often(0, 6, 17))
    d.make({1: f"unix-{kind}", 2: "tcp" if kind == 1 else "udp", 10: "tcp6" if kind == 1 else "udp6"}.get(domain, "none"), a)


def stream_of(domain):
    def tcp_connection(d):
        """A listener, a client and the accepted connection."""
        a, b, c = d.free(), d.free(), d.free()
        d.say("socket", a, domain, 1 | nonblock(d), 0)
        d.say("bind", a, *{1: (4, d.r.randrange(3)), 2: (0, 0), 10: (1, 0)}[domain])
        d.say("listen", a, d.one(0, 1, 5))
        d.say("socket", b, domain, 1 | nonblock(d), 0)
        d.say("connect", b, 2, a)
        d.say("accept", c, c, 0) if d.r.random() < 0.1 else d.say("accept", a, c, nonblock(d))
        kind = {1: "unix-1", 2: "tcp", 10: "tcp6"}[domain]
        d.make(kind, b, c), d.make(kind, a)

    return tcp_connection


def udp_pair(d):
    a, b = d.free(), d.free()
    d.say("socket", a, 2, 2 | nonblock(d), 0)
    d.say("bind", a, 0)
    d.say("socket", b, 2, 2 | nonblock(d), 0)
    d.say("connect", b, 2, a)
    d.make("udp", a, b)


def udp6_pair(d):
    """Of both families: what one socket of IPv6 has from each."""
    a, b = d.free(), d.free()
    d.say("socket", a, 10, 2 | nonblock(d), 0)
    d.say("setsockopt", a, 41, 26, d.one(0, 1), 4, 0)
    d.say("bind", a, *d.one((1, 0), (0, 0)))
    d.say("socket", b, d.one(2, 10), 2 | nonblock(d), 0)
    d.say("connect", b, 2, a)
    d.make("udp6", a, b)


def shared_port(d):
    """Two sockets that want one port."""
    a, b = d.free(), d.free()
    kind = d.one(1, 2)
    for slot in (a, b):
        d.say("socket", slot, d.one(2, 10), kind | NONBLOCK, 0)
        if d.r.random() < 0.6:
            d.say("setsockopt", slot, 1, d.one(2, 15), 1, 4, 0)
        if d.r.random() < 0.3:
            d.say("setsockopt", slot, 41, 26, 1, 4, 0)
        family = d.often(2, 10)
        d.say("bind_port", slot, family, slot if slot == a else a, d.one(0, 1))
        if kind == 1 and d.r.random() < 0.5:
            d.say("listen", slot, 1)
    d.make("tcp" if kind == 1 else "udp", a, b)


def epoll(d):
    a = d.free()
    d.say("epoll", a, d.often(0, CLOEXEC, 1))
    d.make("epoll", a)


def timerfd(d):
    a = d.free()
    d.say("timerfd", a, d.one(0, 1, 7, 3), nonblock(d))
    d.make("timerfd", a)


def signalfd(d):
    old = d.r.random() < 0.3
    a = d.held("signalfd") if old else d.free()
    d.say("signalfd", a, old, d.r.choice(MASKS), nonblock(d))
    d.make("signalfd", a)


def inotify(d):
    a = d.free()
    d.say("inotify", a, nonblock(d))
    d.say("inotify_add", a, d.one(2, 6, 0), 0xFFF)
    d.make("inotify", a)


def watch(d):
    """What is watched, and looking what has come."""
    a = d.held("inotify")
    options = d.often(0, 1 << 31, 1 << 26, 1 << 24, 1 << 25, 1 << 29, 1 << 28, 3 << 28, 1 << 29 | 1 << 26)
    match d.one("add", "add", "read", "read", "read", "rm"):
        case "add":
            d.say("inotify_add", a, d.r.choice(PATH), d.often(0xFFF, 0, 2, 0x300, 0xC0, 8, 0x400, 0x18, 4) | options)
        case "read":
            d.say("read", a, d.often(10000, 16, 100, 0, 48))
        case _:
            d.say("inotify_rm", a, d.one(1, 2, 3, 0, -1))


def same_file(d):
    """A file opened twice: whose locks are whose."""
    a, b = d.free(), d.free()
    path = d.one(0, 1)
    d.say("open", a, path, 0o102, 0o644)
    d.say("open", b, path, d.one(2, 2, 0, 1), 0o644)
    d.make("file", a, b)


# What is done with them


def close(d):
    a = d.held()
    d.say("close", a)
    d.kinds.pop(a, None)


def close_some(d):
    a, b = d.held(), d.held()
    d.say("close_range", a, b, d.often(0, 4, 4, 2, 6, 8))


def seal(d):
    a = d.held("memfd")
    match d.one("seal", "seal", "seals", "mmap", "write", "pwrite", "ftruncate", "fallocate", "dup"):
        case "seal":
            d.say("fcntl", a, 1033, d.one(1, 2, 4, 8, 16, 32, 64, 6, 12, 10, 0, -1))
        case "seals":
            d.say("fcntl", a, 1034, 0)
        case "mmap":
            d.say("mmap", d.r.randrange(4), a, d.one(1, 2, 3), d.one(1, 3, 3, 5), d.one(1, 1, 2, 3), d.one(0, 4096))
        case "write":
            d.say("write", a, d.one(1, 100, 5000))
        case "pwrite":
            d.say("pwrite", a, d.one(1, 100, 5000), d.one(0, 4000, 8191, 8192, 20000))
        case "ftruncate":
            d.say("ftruncate", a, d.one(0, 100, 4096, 8192, 8193, 20000))
        case "fallocate":
            d.say("fallocate", a, d.one(0, 1, 3, 16, 17), d.one(0, 100, 4096, 8192), d.one(10, 4096, 8192))
        case _:
            b = d.free()
            d.say("dup", a, b)
            d.make("memfd", b)


def pipe_size(d):
    a = d.held("pipe-in", "pipe-out")
    d.say("fcntl", a, *d.one((1031, 4096), (1031, 8192), (1031, 65536), (1031, 1 << 20), (1031, 0), (1031, 5000), (1031, -1), (1032, 0), (1032, 0)))
    d.say("ioctl", a, 0x541B, 0)


def child_lock(d):
    match d.one("fork_lock", "fork_lock", "kill_child", "lock"):
        case "fork_lock":
            d.say("fork_lock", d.r.randrange(4), d.held("file"), d.one(6, 6, 37), d.one(0, 1, 2), d.one(0, 10, 100), d.one(0, 1, 50))
        case "kill_child":
            d.say("kill_child", d.r.randrange(4), 9)
        case _:
            d.say("lock", d.held("file"), d.one(5, 6, 36, 37), d.one(0, 1), 0, d.one(0, 10, 100), d.one(0, 1, 50))


def duplicate(d):
    a, b = d.held(), d.free()
    how = d.one("dup", "dup2", "dup3", "dupfd")
    if how in ("dup2", "dup3"):
        b = d.held()
        d.say(how, a, b, d.one(0, CLOEXEC, 1))
    else:
        d.say(how, a, b, d.one(0, 20, 50, -1, 5000), d.one(0, 1))
    if a in d.kinds:
        d.make(d.kinds[a], b)


def fcntl(d):
    command, argument = d.one(
        (1, 0), (2, 1), (2, 0), (3, 0), (4, 0), (4, NONBLOCK), (4, 0o2000), (4, 0o2000 | NONBLOCK), (1031, 4096), (1031, 8192), (1031, 100000), (1032, 0),
        (1034, 0), (1033, 1), (1033, 2), (1033, 4), (1033, 8), (9999, 0), (8, 0), (9, 0), (10, 0), (11, 0),
        (1030, 3),
    )
    d.say("fcntl", d.held(), command, argument)


def lock(d):
    a = d.held("file")
    if d.kinds.get(a) != "file":
        return
    command = d.one(5, 6, 7, 36, 37, 38)
    d.say("lock", a, command, d.one(0, 1, 7) if command == 36 else d.one(0, 1, 2, 7), d.one(0, 0, 1, 2, 9), d.one(0, 10, 100, -5), d.one(0, 1, 50, -10))


def flock(d):
    d.say("flock", d.held("file", "directory"), d.one(1, 2, 8, 5, 6, 12, 0))


def transfer(d):
    a = d.held()
    # How much a connection's window takes is another matter.
    small = d.kinds.get(a, "") in ("tcp", "tcp6")
    size = (lambda: d.r.choice(SIZES[:16])) if small else d.size
    match d.one("read", "write", "read", "write", "readv", "writev", "pread", "pwrite", "preadv2", "pwritev2"):
        case "preadv2" | "pwritev2" as name:
            d.say(name, a, size(), size(), d.one(-1, -1, 0, 100, -2), d.one(0, 0, 1, 2, 4, 8, 16, 32, 1 << 20))
        case "read" | "write" as name:
            d.say(name, a, size())
        case "readv":
            d.say("readv", a, size(), size())
        case "writev":
            d.say("writev", a, size(), size(), d.often(2, 0, 1, -1))
        case name:
            d.say(name, d.held("file"), size(), d.one(0, 0, 100, 5000, -1))


def event_value(d):
    a = d.held("eventfd", "timerfd", "signalfd", "inotify")
    d.say("read", a, d.one(8, 8, 128, 256, 4096, 4)) if d.r.random() < 0.6 else d.say("write", a, d.one(8, 4, 9))


def place(d):
    a = d.held("file", "directory")
    match d.one("lseek", "ftruncate", "fallocate", "fsync", "fstat", "fchmod"):
        case "lseek":
            d.say("lseek", a, d.one(0, 10, -1, 5000, 100000, -100), d.one(0, 1, 2, 3, 4, 9))
        case "ftruncate":
            d.say("ftruncate", a, d.one(0, 1, 5000, 4096, 100000, -1))
        case "fallocate":
            d.say("fallocate", a, d.one(0, 1, 3, 2, 16, 17, 0x80), d.one(0, 100, 4096, -1), d.one(10, 4096, 8192, 0, -1))
        case "fchmod":
            d.say("fchmod", a, d.one(0o600, 0o4755, 0o7777, 0))
        case name:
            d.say(name, d.held(), d.one(0, 1))


def move(d):
    match d.one("sendfile", "splice", "splice", "tee", "vmsplice", "copy_file_range"):
        case "sendfile":
            d.say("sendfile", d.held(), d.held("file"), d.size(), d.one(-1, 0, 10, 100000))
        case "splice":
            a, b = (d.held("pipe-in"), d.held()) if d.r.random() < 0.5 else (d.held(), d.held("pipe-out"))
            d.say("splice", a, b, d.size(), d.one(2, 2, 0, 6), d.often(-1, 0, 5), d.often(-1, 0, 5))
        case "tee":
            d.say("tee", d.held("pipe-in"), d.held("pipe-out"), d.size(), d.one(2, 2, 0))
        case "vmsplice":
            d.say("vmsplice", d.held("pipe-out"), d.size(), d.one(2, 2, 0))
        case _:
            d.say("copy_file_range", d.held("file"), d.held("file"), d.size(), d.often(0, 1))


def ioctl(d):
    d.say("ioctl", d.held(), d.one(0x541B, 0x541B, 0x5421, 0x5421, 0x5411, 0x8905, 0x5450, 0x5451, 0x5413, 0x5401, 0x8904, 0x9999, 0x894B), d.one(0, 1))


def poll(d):
    d.say("poll", d.held(), d.held(), d.r.choice(POLL), d.one(0, 0, 5))


def select(d):
    d.say("select", d.held(), d.held(), d.held(), d.one(0, 0, 3000))


def epoll_use(d):
    a = d.held("epoll")
    if d.r.random() < 0.55:
        events = d.r.choice([1, 4, 5, 0x2005]) | d.often(0, 1 << 31, 1 << 30, (1 << 31) | (1 << 30), 1 << 28, (1 << 28) | (1 << 31))
        d.say("epoll_ctl", a, d.one(1, 1, 1, 3, 3, 2, 9), d.held(), events)
    else:
        d.say("epoll_wait", a, d.often(10, 1, 2, 0, -1), d.often(0, 5, 0, 5))


# Sockets

SOCKETS = ("unix-1", "unix-2", "unix-5", "tcp", "udp", "tcp6", "udp6")
SEND_FLAGS = (0x4000, 0x40, 0x8000, 0x80)
RECV_FLAGS = (2, 0x20, 0x100, 0x40, 0x40000000)


def address(d, a):
    kind = d.kinds.get(a, "")
    if kind.startswith("unix"):
        return d.one((2, d.held(kind)), (2, d.held(kind)), (4, d.r.randrange(3)), (4, d.r.randrange(3)), (5, d.r.randrange(3)), (6, 0), (7, 0), (0, 0))
    if kind.endswith("6"):
        return d.one((2, d.held(kind)), (2, d.held(kind)), (1, 0), (1, 0), (7, 0), (8, 0), (2, d.held("tcp", "udp")))
    return d.one((2, d.held(kind)), (2, d.held(kind)), (3, d.held(kind)), (0, 0), (0, 0), (7, 0), (8, 0), (9, 0), (10, 0))


def name_socket(d):
    a = d.held(*SOCKETS)
    match d.one("bind", "connect", "connect", "listen", "accept", "accept", "getsockname", "getpeername", "shutdown"):
        case "bind" | "connect" as name:
            d.say(name, a, *address(d, a))
        case "listen":
            d.say("listen", a, d.one(0, 1, 5, -1))
        case "accept":
            b = d.free()
            d.say("accept", a, b, nonblock(d) | d.often(0, CLOEXEC, 1), d.often(0, 1))
            d.make(d.kinds.get(a, "none"), b)
        case "shutdown":
            d.say("shutdown", a, d.one(0, 1, 2, 3))
        case name:
            d.say(name, a)


def send(d):
    a = d.held(*SOCKETS)
    to = address(d, a) if d.r.random() < 0.4 else (-1, 0)
    kind = d.kinds.get(a, "")
    how = flags(d, 0x4000) | d.often(0x40, 0, 0x80) | (d.often(0, 0x8000) if kind == "udp" else 0)
    # How much a window takes, and what of a large datagram is said first, is another matter.
    size = d.size() if kind.startswith("unix") else d.r.choice(SIZES[:16])
    if d.r.random() < 0.6:
        d.say("send", a, size, how, *to)
    else:
        d.say("sendmsg", a, size, how, d.one(0, 0, 1, 1, 2, 3, 4, 5) if kind.startswith("unix") else 0, d.held(), *to)


def pass_along(d):
    """Descriptors and credentials."""
    a = d.held("unix-1", "unix-2", "unix-5")
    match d.one("setsockopt", "sendmsg", "sendmsg", "sendmsg", "recvmsg", "recvmsg", "recvmsg", "peercred", "recv"):
        case "setsockopt":
            d.say("setsockopt", a, 1, 16, d.often(1, 0), 4, 0)
        case "sendmsg":
            to = address(d, a) if d.r.random() < 0.2 else (-1, 0)
            d.say("sendmsg", a, d.one(1, 10, 100, 0, 5000), flags(d, 0x4000) | 0x40, d.one(1, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9), d.held(), *to)
        case "recvmsg":
            how = d.often(0x40, 0x42, 0x60, 0x40000040, 0x100)
            d.say("recvmsg", a, d.one(1, 5, 100, 10000, 0), how, d.one(0, 16, 20, 24, 28, 32, 48, 56, 128, 128), d.free())
        case "recv":
            d.say("recv", a, d.one(0, 1, 5, 100), d.often(0x40, 0x42), d.one(0, 1))
        case _:
            d.say("peercred", a)


def ending(d):
    """How connections end, and how long calls wait."""
    a = d.held(*SOCKETS)
    match d.one("shutdown", "shutdown", "linger", "timeout", "close", "recv", "send", "read"):
        case "shutdown":
            d.say("shutdown", a, d.one(0, 1, 2))
        case "linger":
            d.say("linger", a, d.often(1, 0), d.often(0, 1, -1))
        case "timeout":
            d.say("timeout", a, d.one(20, 20, 21), d.one(2000, 2000, 0, 999999, -1))
        case "close":
            d.say("close", a)
            d.kinds.pop(a, None)
        case "recv":
            d.say("recv", a, d.one(1, 100, 10000, 0), d.often(0, 0x40, 0x100, 2), d.one(0, 1))
        case "send":
            d.say("send", a, d.one(1, 100, 0, 5000), d.often(0x4000, 0), -1, 0)
        case _:
            d.say("read", a, d.one(1, 100, 10000))


def receive(d):
    a = d.held(*SOCKETS)
    how = d.often(0x40, 0) | d.often(0, 2, 0x20, 0x100, 0x22, 0x2000)
    if d.r.random() < 0.6:
        d.say("recv", a, d.size(), how, d.one(0, 1))
    else:
        d.say("recvmsg", a, d.size(), how | d.often(0, 0x40000000), d.one(0, 128, 128, 20, 16, 10), d.free())


def option(d):
    level, name = d.r.choice([o for o in SOCKET_OPTIONS if o not in UNSTABLE])
    a = d.held(*SOCKETS)
    if d.r.random() < 0.5:
        d.say("getsockopt", a, level, name, d.often(4, 1, 0, 8, 16))
    else:
        d.say("setsockopt", a, level, name, d.one(0, 1, 1, 2, 10, 64, 1000, -1), d.often(4, 8, 1, 0), d.one(0, 1))


# Names


def names(d):
    p, q = d.r.choice(PATH), d.r.choice(PATH)
    match d.one("mkdir", "mkdir", "rmdir", "unlink", "rename", "rename", "link", "symlink", "readlink", "truncate", "stat", "lstat", "chmod", "access", "getdents", "chdir", "mkfifo", "utimens", "umask"):
        case "mkdir":
            d.say("mkdir", d.often(2, p), d.one(0o755, 0o1777))
        case "mkfifo":
            d.say("mkfifo", d.often(7, p), 0o644)
        case "symlink":
            d.say("symlink", p, d.often(4, q))
        case "rename":
            d.say("rename", p, q, d.often(0, 1, 2, 3, 4, 8))
        case "link":
            d.say("link", p, q, d.often(0, 0x400, 0x1000, 7))
        case "readlink":
            d.say("readlink", d.often(4, p), d.one(100, 1, 0))
        case "truncate":
            d.say("truncate", p, d.one(0, 10, 5000, -1))
        case "chmod":
            d.say("chmod", p, d.one(0o600, 0o755, 0))
        case "access":
            d.say("access", p, d.one(0, 1, 2, 4, 7, 8), 0)
        case "utimens":
            d.say("utimens", p, d.one(1000, 0), d.one(0, 5, 0x3FFFFFFE, 2000000000), d.often(0, 0x100))
        case "umask":
            d.say("umask", d.one(0, 0o22, 0o77, 0o7777))
        case "getdents":
            d.say("getdents", d.held("directory"))
        case "chdir":
            d.say("chdir", p)
        case name:
            d.say(name, p)


# Signals, timers, processes, memory


def handled(d):
    """The signals that do not end the sequence, nor stop it."""
    actions = [line.split()[1:3] for line in d.lines if line.startswith("sigaction")]
    return [n for n, action in actions if action != "0" and n not in ("9", "19")]


def signal(d):
    n = d.r.choice(SIGNALS)
    match d.one("sigaction", "sigaction", "kill", "kill", "sigqueue", "sigprocmask", "sigprocmask", "sigpending", "sigtimedwait", "sigsuspend", "sigaltstack"):
        case "sigaction":
            d.say("sigaction", d.often(n, 9, 0, 65, 19), d.often(2, 1), flags(d, 0x10000000, 0x40000000) | d.often(0, 0x80000000, 0x08000000, 2, 1), d.r.choice(MASKS))
        case "kill":
            # One that nobody has a handler for ends the sequence: that is seldom of use.
            known = handled(d)
            d.say("kill", int(d.r.choice(known)) if known and d.r.random() < 0.97 else d.one(17, 18, 0, 65, -1), d.one(0, 1))
        case "sigqueue":
            known = handled(d)
            d.say("sigqueue", int(d.r.choice(known)) if known else 0, d.one(0, 7, -1))
        case "sigprocmask":
            d.say("sigprocmask", d.often(d.one(0, 1, 2), 3), d.r.choice(MASKS), d.often(0, 1))
        case "sigpending":
            d.say("sigpending")
        case "sigtimedwait":
            d.say("sigtimedwait", d.r.choice(MASKS[1:]), d.one(0, 1000000, -1))
        case "sigsuspend":
            d.say("sigsuspend", d.r.choice(MASKS))
        case _:
            d.say("sigaltstack", d.one(0, 2, 1, 4), d.one(65536, 100, 8192), d.one(0, 1))


def timer(d):
    t = d.r.randrange(4)
    span = lambda: d.one(0, 1, 1, 2, 2, 3, 4)  # noqa: E731
    match d.one("timer_create", "timer_settime", "timer_settime", "timer_gettime", "timer_delete", "setitimer", "getitimer", "timerfd_settime", "timerfd_settime", "timerfd_gettime"):
        case "timer_create":
            d.say("timer_create", t, d.one(0, 1, 7, 99), d.often(d.one(0, 1, 4), 3), d.often(d.one(34, 35), 0, 99), 0)
        case "timer_settime":
            d.say("timer_settime", t, d.often(0, 1, 2), span(), d.often(0, 2))
        case "setitimer":
            # Processor time passes as it likes: those timers never expire.
            which = d.often(0, 1, 7)
            d.say("setitimer", which, d.one(0, 2) if which == 1 else span(), d.often(0, 2))
        case "getitimer":
            d.say("getitimer", d.often(0, 7))
        case "timerfd_settime":
            d.say("timerfd_settime", d.held("timerfd"), d.often(0, 1, 3, 8), span(), d.often(0, 2))
        case "timerfd_gettime":
            d.say("timerfd_gettime", d.held("timerfd"))
        case name:
            d.say(name, t)


def process(d):
    c = d.r.randrange(4)
    match d.one("fork_exit", "fork_wait", "kill_child", "wait4", "wait4", "waitid", "setpgid", "nanosleep", "rlimit", "prctl", "futex"):
        case "fork_exit":
            d.say("fork_exit", c, d.one(0, 3, 255))
        case "fork_wait":
            d.say("fork_wait", c)
        case "kill_child":
            d.say("kill_child", c, d.one(9, 15, 19, 18, 10, 0, 6))
        case "wait4":
            d.say("wait4", d.often(c, -1, 0), d.often(1, 0, 3, 9, 11, 0x100, 0x40000001))
        case "waitid":
            d.say("waitid", d.often(c, -1), d.one(5, 4, 1, 0x1000005, 7, 9, 0))
        case "setpgid":
            d.say("setpgid", d.one(-1, c))
        case "nanosleep":
            d.say("nanosleep", d.one(0, 0, -1, 1000), d.one(0, 1000, -1, 1000000000))
        case "rlimit":
            d.say("rlimit", d.often(7, 99), d.one(30, 100, 200, 201, 5))
        case "prctl":
            d.say("prctl", d.one(1, 2, 3, 4, 7, 21, 38, 39, 999), d.one(0, 1, 2, 99))
        case _:
            d.say("futex", d.one(0, 128, 1, 129, 9, 99), d.one(5, 4, 0), d.one(0, 1000000, 2000000000), d.one(0, -1))


def memory(d):
    r = d.r.randrange(4)
    match d.one("mmap", "mmap", "munmap", "mprotect", "mremap", "msync", "madvise", "write_from", "read_into"):
        case "mmap":
            anonymous = d.r.random() < 0.5
            d.say("mmap", r, -1 if anonymous else d.held("file"), d.one(1, 2, 5, 0), d.one(1, 3, 3, 0, 5), d.one(1, 2, 2, 3, 0) | (0x20 if anonymous else 0), d.one(0, 0, 4096, 100))
        case "munmap":
            d.say("munmap", r, d.one(0, 1), d.one(1, 2, 0))
        case "mprotect":
            d.say("mprotect", r, d.one(0, 1), d.one(1, 2, 10), d.one(0, 1, 3, 99))
        case "mremap":
            d.say("mremap", r, d.one(1, 3, 8, 0), d.one(1, 1, 0, 2, 8))
        case "msync":
            d.say("msync", r, 0, d.one(1, 3), d.one(4, 1, 2, 5, 8))
        case "madvise":
            d.say("madvise", r, 0, d.one(1, 2), d.one(0, 1, 2, 3, 4, 8, 99))
        case name:
            # Not across a page's end: how much is moved before a fault differs between file systems.
            d.say(name, d.held("file", "pipe-in", "pipe-out"), r, d.one(0, 3000, 4096), d.one(10, 200, 1000))


THEMES = {
    "pipes": ([pipe] * 3 + [good_file, socketpair], [transfer] * 8 + [move] * 6 + [ioctl, fcntl, poll, close, duplicate]),
    "tcp": ([stream_of(2)] * 2 + [stream_of(10), socket, shared_port], [name_socket] * 4 + [send] * 6 + [receive] * 6 + [option] * 4 + [ioctl, poll, close, transfer, duplicate]),
    "udp": ([udp_pair] * 3 + [udp6_pair, shared_port, socket], [name_socket] * 4 + [send] * 6 + [receive] * 6 + [option] * 4 + [ioctl, poll, close, transfer]),
    "unix": ([socketpair] * 3 + [stream_of(1), socket, good_file], [name_socket] * 4 + [send] * 7 + [receive] * 7 + [option, option, ioctl, poll, close, transfer, fcntl, duplicate]),
    "epoll": ([epoll] * 2 + [pipe, eventfd, socketpair, stream_of(2), udp_pair, timerfd, good_file], [epoll_use] * 10 + [transfer] * 4 + [send, receive, event_value, close, duplicate, poll, select, timer]),
    "files": ([good_file] * 3 + [directory, open_, open_beneath, unnamed, memfd, inotify], [transfer] * 6 + [place] * 6 + [names] * 8 + [open_] * 4 + [open_beneath, unnamed] + [lock, lock, flock, fcntl, close, duplicate, move, event_value]),
    "signals": ([signalfd, eventfd, pipe, timerfd], [signal] * 12 + [timer] * 4 + [process] * 2 + [event_value, poll, transfer]),
    "timers": ([timerfd] * 2 + [signalfd, epoll], [timer] * 10 + [signal] * 4 + [event_value] * 4 + [epoll_use, poll, select]),
    "rights": ([socketpair] * 3 + [stream_of(1), pipe, good_file, epoll], [pass_along] * 12 + [close, close, poll, transfer, epoll_use, ending, fcntl]),
    "endings": ([stream_of(2)] * 3 + [stream_of(10), stream_of(1), socketpair, epoll], [ending] * 10 + [send, receive, poll, epoll_use, ioctl, option, name_socket]),
    "watches": ([inotify] * 2 + [good_file, good_file, directory, unnamed, open_], [watch] * 8 + [names] * 8 + [transfer, place, open_, close, duplicate, move]),
    "locks": ([same_file] * 3 + [good_file, memfd], [lock] * 6 + [flock] * 4 + [child_lock] * 4 + [close, close, duplicate, close_some, open_]),
    "seals": ([sealed] * 3 + [memfd], [seal] * 12 + [close, transfer, place, memory, memory, move]),
    "capacities": ([pipe] * 4 + [epoll], [pipe_size] * 3 + [transfer] * 6 + [move] * 4 + [epoll_use] * 2 + [poll, ioctl, close, close_some]),
    "processes": ([pipe, signalfd, good_file], [process] * 12 + [signal] * 4 + [lock, transfer, event_value]),
    "memory": ([good_file] * 2 + [memfd, pipe], [memory] * 12 + [transfer] * 3 + [place] * 3),
}
EVERYTHING = [pipe, eventfd, good_file, open_, directory, memfd, socketpair, socket, udp_pair, stream_of(2), epoll, timerfd, signalfd, inotify]
ACTIONS = [close, duplicate, fcntl, lock, transfer, transfer, event_value, place, move, ioctl, poll, select, epoll_use, epoll_use,
           name_socket, send, receive, option, names, signal, timer, process, memory]


def draw(seed, length=40):
    """The lines of a sequence."""
    d = Draw(seed)
    creators, actions = d.r.choice([*THEMES.values(), (EVERYTHING, ACTIONS)])
    for creator in d.r.choices(creators, k=3):
        creator(d)
    while len(d.lines) < length:
        creating = d.r.random() < (0.15 if len(d.kinds) < SLOTS - 2 else 0.02)
        d.r.choice(creators if creating else actions)(d)
    return d.lines
