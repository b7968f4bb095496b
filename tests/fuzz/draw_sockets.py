"""Draws calls on sockets."""

import socket as s

from .drawing import CLOEXEC, NONBLOCK, SIZES, flags, nonblock

SOCKET_OPTIONS = [
    (s.SOL_SOCKET, n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 15, 16, 18, 20, 21, 29, 30, 38, 39, 42, 49, 999)
] + [(6, n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 18, 23, 24, 36, 999)] + [
    (0, n) for n in (1, 2, 6, 8, 10, 12, 13, 14, 15, 24, 33, 34, 999)
] + [(41, n) for n in (16, 18, 19, 26, 49, 66, 67, 999)] + [(17, 1), (17, 100), (300, 1)]
# What these say depends on the machine: sizes, congestion control, processors, routes.
# Some differ between Linux's versions (SO_PASSCRED and SO_PASSSEC on what is no UNIX socket).
UNSTABLE = {(1, 16), (1, 34), (1, 7), (1, 8), (1, 49), (6, 2), (6, 11), (6, 10), (0, 14)}


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
