"""Draws credentials: users, groups, capabilities, programs that change them; and the calls that ask for them."""

from .draw_files import directory, good_file, names, open_, place
from .draw_processes import signal
from .draw_sockets import receive, socketpair
from .drawing import flags

# Root, two users, nobody; -1 leaves an identification as it is.
USERS = [0, 1000, 1000, 2000, 65534, -1]
# CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, LINUX_IMMUTABLE, NET_BIND_SERVICE,
# NET_ADMIN, NET_RAW, SYS_PTRACE, SYS_ADMIN, SYS_NICE.
CAPABILITIES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 19, 21, 23]
SETS = [0, *(1 << n for n in CAPABILITIES), 0xc0, 0xf, 0xfeffffff, 0xffffffff]
ALL = 0xfeffffff
MODES = [0o755, 0o700, 0o644, 0o600, 0o4755, 0o2755, 0o6755, 0o4711, 0o2711, 0o1777, 0o2777, 0o777, 0, 0o2644]


def user(d):
    return d.r.choice(USERS)


def begin(d):
    if not d.lines:
        d.say("begin")
    match d.one("user", "capabilities", "root"):
        case "user":
            who = d.one(1000, 2000)
            d.say("keepcaps", d.one(0, 1))
            d.say("setresgid", who, who, who)
            d.say("setgroups", d.one(0, 1, 2), d.one(0, 1000, 2000), 65534, 0)
            d.say("setresuid", who, who, d.often(who, 0))
        case "capabilities":
            d.say("keepcaps", 1)
            d.say("setresuid", 1000, 1000, d.often(1000, 0))
            kept = d.r.choice(SETS) | d.r.choice(SETS)
            d.say("capset", kept, kept, d.often(0, kept), d.one(0, 1))
        case _:
            d.say("setgroups", d.one(0, 1), d.one(0, 1000, 2000), 0, 0)


def identify(d):
    match d.one("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups"):
        case "setreuid" | "setregid" as name:
            d.say(name, user(d), user(d))
        case "setresuid" | "setresgid" as name:
            d.say(name, user(d), user(d), user(d))
        case "setgroups":
            d.say("setgroups", d.one(0, 1, 2, 3, -1, 65537), user(d), user(d), 7)
        case name:
            d.say(name, user(d))


def limit(d):
    match d.one("capset", "capset", "capset", "keepcaps", "securebits", "bounding", "ambient", "ambient", "no_new_privs", "dumpable"):
        case "capset":
            permitted = d.often(ALL, d.r.choice(SETS), d.r.choice(SETS) | d.r.choice(SETS))
            d.say("capset", d.often(permitted, d.r.choice(SETS)), permitted, d.often(0, permitted, d.r.choice(SETS)), d.often(0, 1))
        case "keepcaps":
            d.say("keepcaps", d.one(0, 1, 1, 2))
        case "securebits":
            d.say("securebits", flags(d, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80) if d.r.random() < 0.8 else 0x1000)
        case "bounding":
            d.say("bounding", d.one(*CAPABILITIES, 63))
        case "ambient":
            d.say("ambient", d.often(2, 1, 3, 4, 9), d.one(*CAPABILITIES, 63))
        case "no_new_privs":
            # It stays, and with it much else does nothing more.
            if d.r.random() < 0.2:
                d.say("no_new_privs")
        case name:
            d.say(name, d.one(0, 1, 2))


def own(d):
    match d.one("chown", "chown", "chmod", "owner", "faccessat2", "fchown"):
        case "chown":
            d.say("chown", d.r.randrange(8), user(d), user(d), d.often(0, 0x100))
        case "chmod":
            d.say("chmod", d.r.randrange(8), d.r.choice(MODES))
        case "owner":
            d.say("owner", d.r.randrange(8))
        case "fchown":
            d.say("fchown", d.held("file", "unix-1"), user(d), user(d))
        case _:
            d.say("faccessat2", d.r.randrange(8), d.one(0, 1, 2, 4, 6, 7), d.one(0, 0x200, 0x100))


def run(d):
    d.say("run_program", user(d), user(d), d.often(d.one(0o4755, 0o2755, 0o6755, 0o755), d.r.choice(MODES)))


def child(d):
    d.say("fork_as", d.r.randrange(4), d.one(-1, 1000, 2000, 0))


def others(d):
    if d.r.random() < 0.2:
        d.say("kill_child", d.r.randrange(4), d.one(0, 0, 10, 18, 9))
    else:
        d.say("on_process", d.one(-1, 0, 1, 2, 3), d.r.randrange(13), d.one(0, 5, -5, 19, -20, 1, 2))


def ask(d):
    what = d.r.randrange(11)
    d.say("asked_of_sockets", what, d.one(1, 80, 1023, 1024, 5000) if what == 10 else d.one(0, 1, 6, 7))


def tell(d):
    d.say("say_who", d.held("unix-1"), d.one(0, 1000, 2000), d.one(0, 1000, 2000), d.often(1, 0))


THEMES = [
    ([begin], [identify] * 10 + [limit] * 6 + [run] * 3),
    ([begin], [limit] * 10 + [identify] * 4 + [run] * 6),
    ([begin, good_file, directory], [own] * 10 + [names] * 8 + [open_, place] * 2 + [identify] * 3 + [limit]),
    ([begin, child, child], [others] * 10 + [child] * 2 + [identify] * 3 + [limit] * 2 + [signal]),
    ([begin, socketpair], [ask] * 8 + [tell] * 5 + [receive] * 4 + [identify] * 3 + [limit] * 3),
    ([begin, good_file, child], [identify, limit, run, own, others, ask] * 3 + [names, open_]),
]
