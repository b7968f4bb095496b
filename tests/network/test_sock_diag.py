"""`ss` by NETLINK_SOCK_DIAG: the same lines as from this machine's kernel, filters and all."""

import os
import re
import subprocess
import tempfile

import pytest
from conftest import best, experiment

# A listening socket with a connection that it has not accepted, a connection with bytes to be read, UDP with and
# without a peer, the same in IPv6; then ss with filters, which the kernel runs.
SOCKETS = r"""
import os, socket, time
os.system("ip link set lo up 2>/dev/null")
def tcp(family, host):
    server = socket.create_server((host, 80), family=family, backlog=7)
    one = socket.create_connection((host, 80), source_address=(host, 61001))
    accepted, _ = server.accept()
    one.send(b"hello")
    other = socket.create_connection((host, 80), source_address=(host, 61002))
    return server, one, accepted, other
def udp(family, host):
    named = socket.socket(family, socket.SOCK_DGRAM); named.bind((host, 53))
    joined = socket.socket(family, socket.SOCK_DGRAM); joined.bind((host, 54)); joined.connect((host, 53))
    return named, joined
kept = [tcp(socket.AF_INET, "127.0.0.1"), udp(socket.AF_INET, "127.0.0.1"), %s]
time.sleep(0.5)
for what in ("-tan", "-tln", "-uan", "-tan sport = :80", "-tan dport = :80", "-tan not dport = :80", "-tan sport ge :61002",
             "-tan sport le :80 and dport = :61001", "-tan dst 127.0.0.0/8", "-tan dst 10.0.0.0/8 or sport = :61001",
             "-tan src 127.0.0.1:61002", "-tan state listening", "-tan state close-wait", "-uan state established",
             "-tan dst [::1]", "-tan4 src 127.0.0.1", "-tan6"):
    print("#", what, flush=True)
    os.system(f"ss -H {what} | tr -s ' ' | sort")
print("# -tin", flush=True)
os.system("ss -Htin sport = :61001")
"""
V6 = 'tcp(socket.AF_INET6, "::1"), udp(socket.AF_INET6, "::1")'


def lines(text):
    return [line.strip() for line in text.split("# -tin")[0].splitlines()]


@pytest.mark.needs("ss", "ip", "python3", "unshare")
def test_ss_says_what_linux_says(run_experiment, workdir):
    if os.geteuid() != 0:
        pytest.skip("a namespace of one's own with the real kernel takes root")
    script = SOCKETS % V6
    host = (0, [{"path": "/usr/bin/python3", "args": ["-c", script]}])
    done = run_experiment(experiment({"host": host}, stop="30 s") | {"belljar": {"ipv6": True}}, args=["--strace"])
    said = done.text("host", "python3")

    def on_linux():
        return subprocess.run(["unshare", "-n", "/usr/bin/python3", "-c", script], capture_output=True, text=True, timeout=600)

    native = best(on_linux, lambda native: lines(said) == lines(native.stdout))
    assert native.returncode == 0, native.stderr
    if "[::1]:80" not in native.stdout:
        pytest.skip("no IPv6 here")
    assert lines(said) == lines(native.stdout), (said, native.stdout)
    assert "not supported" not in done.out, str(done)
    details = said.split("# -tin")[1]
    assert re.search(r"ESTAB +0 +0 +127.0.0.1:61001 +127.0.0.1:80", details) and re.search(r"cubic .*mss:\d+ .*bytes_sent:5 ", details), details
    calls = "".join(file.read_text(errors="replace") for file in done.host("host").glob("*.strace"))
    assert "/proc/net/tcp" not in calls, "ss has read /proc/net instead"


# UNIX sockets of all kinds, timers and owners; inode numbers by the names of their sockets.
UNIX = r"""
import os, re, socket, subprocess
os.system("ip link set lo up 2>/dev/null")
names, kept = {}, []
def keep(name, s):
    names[str(os.fstat(s.fileno()).st_ino)] = name
    kept.append(s)
    return s
def make(name, kind=socket.SOCK_STREAM): return keep(name, socket.socket(socket.AF_UNIX, kind))
listening = make("listening"); listening.bind("l.sock"); listening.listen(5)
hidden = make("hidden", socket.SOCK_SEQPACKET); hidden.bind("\0abs\0tract")
first = make("first"); first.connect("l.sock")
accepted = keep("accepted", listening.accept()[0]); accepted.send(b"hello")
waiting = make("waiting"); waiting.connect("l.sock")
one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
keep("one", one); keep("two", two); one.send(b"abc"); one.send(b"defg")
datagrams = make("datagrams", socket.SOCK_DGRAM); datagrams.bind("d.sock")
sender = make("sender", socket.SOCK_DGRAM); sender.connect("d.sock")
half = make("half"); half.shutdown(socket.SHUT_WR)
os.seteuid(1000); owned = make("owned"); os.seteuid(0)
def show(what, text):
    print("#", what)
    lines = [re.sub(r"\b\d{4,}\b", lambda number: names.get(number[0], number[0]), " ".join(line.split())) for line in text.splitlines()]
    # Devices are the machine's; sockets of the shell are no part of it.
    print("\n".join(sorted(re.sub(r"ino:\S+ dev:\S+", "FILE", line) for line in lines if any(name in line.split() for name in names.values()))))
for what in ("-xan", "-xln", "-xane", "-xanm", "-xan src l.sock", "-dan", "-x0an state established"):
    show(what, subprocess.run(["ss", "-H", *what.split()], capture_output=True, text=True).stdout)
show("proc", "\n".join(line.split(":", 1)[1] for line in open("/proc/net/unix").read().splitlines()[1:]))

server = socket.create_server(("127.0.0.1", 80)); kept.append(server)
def tcp(port, uid=0):
    os.seteuid(uid)
    s = socket.socket(); os.seteuid(0)
    s.bind(("127.0.0.1", port)); s.connect(("127.0.0.1", 80))
    pair = s, server.accept()[0]
    kept.append(pair)
    return pair
alive, _ = tcp(62001, 1000)
alive.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1); alive.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 7200 - 3)
gone, other = tcp(62002); gone.close(); other.close()
full, _ = tcp(62003); full.setblocking(False)
try:
    while True: full.send(bytes(65536))
except BlockingIOError: pass
import time; time.sleep(1.5)
for port in (62001, 62002, 62003):
    said = subprocess.run(["ss", "-Htano", f"sport = :{port}"], capture_output=True, text=True).stdout.split()
    print(port, said[0], re.sub(r"persist,.*", "persist", said[-1]))
said = subprocess.run(["ss", "-Htane", "sport = :62001"], capture_output=True, text=True).stdout
print(re.findall(r"uid:\d+", said), [line.split()[7] for line in open("/proc/net/tcp") if ":F231 " in line.split("0050")[0] + " "])
print("62001" in subprocess.run(["ss", "-Htanp", "sport = :62001"], capture_output=True, text=True).stdout)
"""


@pytest.mark.needs("ss", "ip", "python3", "unshare")
def test_unix_sockets_timers_and_owners_are_linuxs(run_experiment, workdir):
    if os.geteuid() != 0:
        pytest.skip("a namespace of one's own with the real kernel takes root")
    done = run_experiment(experiment({"host": (0, [{"path": "/usr/bin/python3", "args": ["-c", UNIX]}])}, stop="30 s"))

    def on_linux():
        place = tempfile.mkdtemp(dir=workdir)
        return subprocess.run(["unshare", "-n", "/usr/bin/python3", "-c", UNIX], capture_output=True, text=True, timeout=600, cwd=place)

    native = best(on_linux, lambda native: native.stdout == done.text("host", "python3"))
    assert native.returncode == 0, native.stderr
    assert done.text("host", "python3").splitlines() == native.stdout.splitlines()
    assert native.stdout.count("listening") > 5 and "not supported" not in done.out, str(done)
