"""Settings of a host's kernel, given by the experiment."""

import re

from conftest import ROOT
from test_links import python, world

SERVER = "import socket; l = socket.create_server(('', 7), backlog=BACKLOG)\n"
SHOW = "/proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_ecn"


def test_they_are_what_programs_see(run_experiment):
    show = {"path": "/bin/cat", "args": SHOW}
    hosts = {
        "a": {"processes": [show], "host_options": {"sysctls": {"net.ipv4.tcp_congestion_control": "dctcp", "net.ipv4.tcp_rmem": "4096 8192 16384"}}},
        "b": {"processes": [show]},
    }
    options = {"sysctls": {"net.ipv4.tcp_congestion_control": "reno", "net.ipv4.tcp_ecn": 1}}
    done = run_experiment(world(hosts, [{"between": ["a", "b"]}], host_option_defaults=options))
    assert done.text("a") == "dctcp\n4096\t8192\t16384\n1\n" and done.text("b").startswith("reno\n") and done.text("b").endswith("\n1\n")


def test_a_full_accept_queue_may_reset(run_experiment):
    """A backlog of 1 takes two connections. Where one waits and two begin at once, the last ACK of one of these is dropped, or
    answered by a reset."""
    connect = """import socket, time
first = socket.create_connection(("10.0.0.2", 7))
both = [socket.socket(), socket.socket()]
for s in both: s.setblocking(False); s.connect_ex(("10.0.0.2", 7))
time.sleep(0.5)
for s in both:
    try:
        s.settimeout(0.5); s.recv(1)
    except OSError as error:
        print(type(error).__name__)
"""
    def said(value):
        hosts = {"a": {"processes": [python(connect)]}, "b": {
            "processes": [python(SERVER.replace("BACKLOG", "1") + "import time; time.sleep(9)", start="0 s")],
            "host_options": {"sysctls": {"net.ipv4.tcp_abort_on_overflow": value}}}}
        return sorted(run_experiment(world(hosts, [{"between": ["a", "b"]}])).text("a").split())
    assert said(0) == ["TimeoutError", "TimeoutError"] and said(1) == ["ConnectionResetError", "TimeoutError"]


def test_cookies_keep_options_and_count(run_experiment):
    """With tcp_syncookies=2 every connection begins by a cookie; timestamps carry window scale and SACK."""
    serve = SERVER.replace("BACKLOG", "5") + "import struct\nc, _ = l.accept(); total = 0\nwhile data := c.recv(99999): total += len(data)\n" \
        "info = c.getsockopt(socket.IPPROTO_TCP, 11, 104); print(total, info[5] & 7, info[6])\n" \
        "print(open('/proc/net/netstat').read().split('TcpExt:')[2].split()[:3])"
    send = "import socket; s = socket.create_connection(('b', 7)); s.sendall(b'x' * 1_000_000); s.close()"
    hosts = {"a": {"processes": [python(send)]}, "b": {"processes": [python(serve, start="0 s")], "host_options": {"sysctls": {"net.ipv4.tcp_syncookies": 2}}}}
    done = run_experiment(world(hosts, [{"between": ["a", "b"], "rate": "100 Mbit", "latency": "10 ms"}], "20 s"))
    received, options, scales = done.text("b").splitlines()[0].split()
    # timestamps, SACK and window scale are on, the scale of the peer is Linux's
    assert (received, options) == ("1000000", "7") and int(scales) & 0xf == 7, done.text("b")
    assert re.search(r"'1', '1', '0'", done.text("b")), done.text("b")


def test_the_table_of_settings_is_true(run_experiment):
    """docs/sysctls.md: what it calls absent is not there, and the rest is."""
    rows = re.findall(r"^\| `(net\.\S+)` \| (works|no effect|read only|absent) \|", (ROOT / "docs/sysctls.md").read_text(), re.M)
    assert len(rows) > 250
    names = {name.replace("*", scope).replace(".", "/"): state for name, state in rows for scope in ("all", "default", "eth0")}
    look = "import os, sys\nfor name in sys.stdin.read().split(): print(name, os.access('/proc/sys/' + name, os.F_OK), os.access('/proc/sys/' + name, os.W_OK))"
    hosts = {"a": {"processes": [{"path": "sh", "args": ["-c", f"/usr/bin/python3 -c \"$0\" <<END\n{chr(10).join(names)}\nEND", look]}]}, "b": {"processes": []}}
    said = run_experiment(world(hosts, [{"between": ["a:eth0", "b"]}], belljar={"ipv6": True})).text("a", "sh")
    there = {name: (exists == "True", writable == "True") for name, exists, writable in (line.split() for line in said.splitlines())}
    wrong = [(name, state) for name, state in names.items() if there[name][0] != (state != "absent") or state in ("works", "no effect") and not there[name][1]]
    assert not wrong
