"""Draws calls on files, pipes, names, and on descriptors of any kind."""

from .drawing import CLOEXEC, NONBLOCK, SIZES, flags, nonblock

PATH = range(8)
POLL = [1, 4, 5, 0x2001, 0x2, 0x1F]


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
