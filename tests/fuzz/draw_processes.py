"""Draws calls on what is waited for, signals, timers, processes and memory."""

from .drawing import CLOEXEC, flags, nonblock

SIGNALS = [1, 2, 10, 12, 14, 15, 17, 18, 34, 35, 36, 40]
MASKS = [0, 1 << 9, 1 << 11, (1 << 9) | (1 << 11), 1 << 13, 1 << 33, 1 << 16, (1 << 33) | (1 << 34) | (1 << 9)]


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


def epoll_use(d):
    a = d.held("epoll")
    if d.r.random() < 0.55:
        events = d.r.choice([1, 4, 5, 0x2005]) | d.often(0, 1 << 31, 1 << 30, (1 << 31) | (1 << 30), 1 << 28, (1 << 28) | (1 << 31))
        d.say("epoll_ctl", a, d.one(1, 1, 1, 3, 3, 2, 9), d.held(), events)
    else:
        d.say("epoll_wait", a, d.often(10, 1, 2, 0, -1), d.often(0, 5, 0, 5))


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
