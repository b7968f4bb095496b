"""Draws what the second generation of sequences is made of: descriptors that count, time and signal, epoll's flags, pipes that
are spliced and doubled, descriptors by range. The seeds of the first generation do not come here, so these may change."""

from .drawing import CLOEXEC, flags, nonblock

SEMAPHORE = 1
EDGE, ONESHOT, WAKEUP, EXCLUSIVE = 1 << 31, 1 << 30, 1 << 29, 1 << 28
ADD, DELETE, MODIFY = 1, 2, 3
IN, OUT, RDHUP, PRI = 1, 4, 0x2000, 2
# Ordinary signals and those that queue.
SIGNALS = [10, 12, 14, 17, 34, 35, 36, 40]


def mask(*signals):
    return sum(1 << (n - 1) for n in signals)


MASKS = [mask(10), mask(12), mask(10, 12), mask(34), mask(34, 35, 36), mask(10, 34), mask(*SIGNALS), 0]


# Creators


def counter(d):
    a = d.free()
    d.say("eventfd", a, d.one(0, 1, 2, 5, 0xFFFFFFFF), nonblock(d) | d.one(0, SEMAPHORE, SEMAPHORE) | d.often(0, CLOEXEC, 2, 4))
    d.make("eventfd", a)


def armed(d):
    """A timer that has expired, or never will."""
    a = d.free()
    d.say("timerfd", a, d.often(1, 0, 7, 2, 99), nonblock(d) | d.often(0, CLOEXEC, 1))
    d.make("timerfd", a)
    how = d.often(0, 1, 2)
    d.say("timerfd_settime", a, how, d.one(1, 1, 2, 3), d.often(0, 2) if how == 0 else 0)


def blocked(d):
    """Signals that are blocked, and a descriptor that takes them."""
    a, wanted = d.free(), d.r.choice(MASKS)
    d.say("sigprocmask", 0, wanted, 0)
    d.say("signalfd", a, 0, d.often(wanted, d.r.choice(MASKS)), nonblock(d) | d.often(0, CLOEXEC))
    d.make("signalfd", a)
    for _ in range(d.r.randrange(3)):
        raised(d)


def watching(d):
    """An epoll instance that watches something."""
    a = d.free()
    d.say("epoll", a, d.often(0, CLOEXEC))
    d.make("epoll", a)
    for _ in range(d.one(0, 1, 2, 3)):
        d.say("epoll_ctl", a, ADD, d.held(), wanted_events(d))


def filled(d):
    """A pipe with something in it."""
    a, b = d.free(), d.free()
    d.say("pipe", a, b, nonblock(d) | d.often(0, CLOEXEC, 0o40000))
    d.make("pipe-in", a), d.make("pipe-out", b)
    if d.r.random() < 0.3:
        d.say("fcntl", b, 1031, d.one(4096, 8192, 16384))
    for _ in range(d.one(0, 1, 1, 2)):
        d.say("write", b, d.one(1, 10, 100, 4096, 5000, 65536))


def ends(d):
    a, b = d.free(), d.free()
    kind = d.one(1, 1, 2, 5)
    d.say("socketpair", a, b, kind | nonblock(d) | d.often(0, CLOEXEC), 0)
    d.make(f"unix-{kind}", a, b)


def written(d):
    a = d.free()
    d.say("open", a, d.one(0, 1), d.often(0o102, 0o2102) | nonblock(d), 0o644)
    d.say("write", a, d.one(0, 10, 5000, 10000))
    d.say("lseek", a, d.one(0, 0, 5, 4096), 0)
    d.make("file", a)


# What is done with them


def count(d):
    a = d.held("eventfd")
    match d.one("event_write", "event_write", "event_write", "event_read", "event_read", "event_read", "read", "write", "fcntl", "preadv2"):
        case "event_write":
            d.say("event_write", a, d.one(0, 1, 1, 2, 7, -1, -2, -3, 1 << 32))
        case "event_read":
            d.say("event_read", a)
        case "fcntl":
            d.say("fcntl", a, *d.one((4, 0o4000), (4, 0), (3, 0), (1, 0), (2, 1), (1, 0)))
        case "preadv2":
            d.say(d.one("preadv2", "pwritev2"), a, d.one(8, 4), d.one(0, 8), d.one(-1, 0), d.one(0, 8))
        case name:
            d.say(name, a, d.one(0, 4, 7, 9, 100))


def time(d):
    a = d.held("timerfd")
    match d.one("set", "set", "set", "get", "read", "read", "read", "write", "ioctl"):
        case "set":
            # How often a time that is long past has been reached since depends on the date.
            how = d.often(0, 1, 2, 3, 4)
            d.say("timerfd_settime", a, how, d.one(0, 1, 1, 2, 3, 4), d.often(0, 2, 4) if how == 0 else d.often(0, 4))
        case "get":
            d.say("timerfd_gettime", d.often(a, d.held()))
        case "read":
            d.say("read", a, d.often(8, 16, 7, 0))
        case "write":
            d.say("write", a, 8)
        case _:
            d.say("ioctl", a, d.one(0x541B, 0x5421), d.one(0, 1))


def raised(d):
    """A signal that is blocked, or has a handler: others end the sequence."""
    held = 0
    for line in d.lines:
        words = line.split()
        if words[0] == "sigprocmask" and words[1] == "0":
            held |= int(words[2])
    known = [n for n in SIGNALS if held >> (n - 1) & 1]
    if not known:
        d.say("sigprocmask", 0, MASKS[6], 0)
        known = SIGNALS
    n = d.r.choice(known)
    match d.one("kill", "sigqueue", "sigqueue"):
        case "kill":
            d.say("kill", n, d.one(0, 1))
        case _:
            d.say("sigqueue", n, d.one(0, 7, -1, 1 << 20))


def taken(d):
    a = d.held("signalfd")
    match d.one("read", "read", "read", "readv", "mask", "pending", "timedwait", "write", "fork"):
        case "read":
            d.say("read", a, d.one(128, 128, 256, 384, 1000, 127, 0))
        case "readv":
            d.say("readv", a, d.one(128, 100, 256), d.one(0, 128))
        case "mask":
            d.say("signalfd", a, 1, d.r.choice(MASKS), nonblock(d))
        case "pending":
            d.say("sigpending")
        case "timedwait":
            d.say("sigtimedwait", d.r.choice(MASKS[:-1]), d.one(0, 1000000))
        case "write":
            d.say("write", a, 128)
        case _:
            d.say("fork_exit", d.r.randrange(4), d.one(0, 3))


def wanted_events(d):
    what = d.one(IN, IN, OUT, IN | OUT, IN | RDHUP, PRI, 0)
    return what | d.one(0, EDGE, EDGE, ONESHOT, EDGE | ONESHOT, WAKEUP) | d.often(0, EXCLUSIVE)


def watch(d):
    a = d.held("epoll")
    match d.one("ctl", "ctl", "ctl", "wait", "wait", "wait", "wait", "nest", "poll"):
        case "ctl":
            d.say("epoll_ctl", a, d.one(ADD, ADD, MODIFY, MODIFY, MODIFY, DELETE, 7), d.held(), wanted_events(d))
        case "wait":
            d.say("epoll_wait", a, d.one(10, 10, 1, 2, 0), d.often(0, 5))
        case "nest":
            d.say("epoll_ctl", d.held("epoll"), d.often(ADD, DELETE), d.held("epoll"), wanted_events(d))
        case _:
            d.say("poll", a, d.held(), d.one(IN, IN | OUT, 0x2001), d.one(0, 0, 5))


def moved(d):
    """Bytes that change, or make something else ready."""
    a = d.held("pipe-in", "pipe-out", "unix-1", "unix-2", "unix-5", "eventfd")
    match d.one("read", "read", "write", "write", "shutdown", "close"):
        case "shutdown":
            d.say("shutdown", a, d.one(0, 1, 2))
        case "close":
            d.say("close", a)
            d.kinds.pop(a, None)
        case name:
            d.say(name, a, d.one(1, 1, 10, 100, 5000, 65536))


def spliced(d):
    how = d.one(2, 2, 2, 0, 1, 3, 4, 6, 8, 16)
    size = d.one(0, 1, 5, 100, 4096, 5000, 65536, 200000)
    match d.one("splice-in", "splice-out", "splice-pipes", "tee", "tee", "vmsplice", "sendfile"):
        case "splice-in":
            d.say("splice", d.held("file", "unix-1", "unix-2"), d.held("pipe-out"), size, how, d.one(-1, -1, 0, 5, 4096), d.often(-1, 0))
        case "splice-out":
            d.say("splice", d.held("pipe-in"), d.held("file", "unix-1", "eventfd"), size, how, d.often(-1, 0), d.one(-1, -1, 0, 5, 4096))
        case "splice-pipes":
            d.say("splice", d.held("pipe-in"), d.held("pipe-out"), size, how, -1, -1)
        case "tee":
            d.say("tee", d.held("pipe-in"), d.held("pipe-out"), size, how)
        case "vmsplice":
            d.say("vmsplice", d.held("pipe-out", "pipe-in"), size, d.one(2, 2, 0, 8, 16))
        case _:
            d.say("sendfile", d.held("pipe-out", "unix-1", "file"), d.held("file"), size, d.one(-1, 0, 100))


def described(d):
    """Descriptors: doubled at a place, closed by ranges, told whether they pass on."""
    a, b = d.held(), d.held()
    match d.one("dup3", "dup3", "dup", "dupfd", "close_range", "close_range", "fcntl", "setfl"):
        case "dup3":
            d.say("dup3", a, b, d.often(0, CLOEXEC, CLOEXEC, 0o4000, 1))
            if a in d.kinds:
                d.make(d.kinds[a], b)
        case "dup":
            c = d.free()
            d.say("dup", a, c)
            if a in d.kinds:
                d.make(d.kinds[a], c)
        case "dupfd":
            c = d.free()
            d.say("dupfd", a, c, d.one(0, 3, 20, 500, -1, 1024), d.one(0, 1))
            if a in d.kinds:
                d.make(d.kinds[a], c)
        case "close_range":
            d.say("close_range", a, b, d.one(0, 4, 4, 4, 2, 6, 1, 8))
        case "fcntl":
            d.say("fcntl", a, *d.one((1, 0), (2, 1), (2, 0), (2, 3)))
        case _:
            d.say("fcntl", a, 4, flags(d, 0o4000, 0o2000))


def close(d):
    a = d.held()
    d.say("close", a)
    d.kinds.pop(a, None)


THEMES = [
    ([counter] * 3 + [watching], [count] * 10 + [watch] * 3 + [described, close]),
    ([armed] * 3 + [watching], [time] * 10 + [watch] * 4 + [described, close]),
    ([blocked] * 3 + [watching, armed], [taken] * 6 + [raised] * 6 + [watch] * 3 + [time, described, close]),
    ([filled, ends, counter, armed, blocked, watching, watching], [watch] * 10 + [moved] * 5 + [count] * 2 + [time, raised, taken, described, close]),
    ([filled] * 3 + [written, ends], [spliced] * 10 + [moved] * 4 + [described, close]),
    ([counter, filled, ends, armed, blocked, watching, written], [described] * 8 + [watch] * 4 + [close] * 2 + [count, time, moved, taken, spliced]),
]
