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


def on_two(run_experiment, code, sysctls=None, **more):
    """What a Python program says on a host with these settings; the other host has the usual ones."""
    hosts = {"a": {"processes": [python(code)], "host_options": {"sysctls": sysctls or {}}}, "b": {"processes": []}}
    return run_experiment(world(hosts, [{"between": ["a", "b"]}], **more))


def test_echo_requests_are_ignored_on_demand(run_experiment):
    ask = "import subprocess\nfor to in ('10.0.0.2', '10.0.0.1', '::1'): print(subprocess.run(['ping', '-c1', '-W1', to], capture_output=True).returncode)"
    def said(**sysctls):
        hosts = {"a": {"processes": [python(ask)], "host_options": {"sysctls": {}}}, "b": {"processes": [], "host_options": {"sysctls": sysctls}}}
        return run_experiment(world(hosts, [{"between": ["a", "b"]}], belljar={"ipv6": True})).text("a").split()
    assert said() == ["0", "0", "0"]
    assert said(**{"net.ipv4.icmp_echo_ignore_all": 1}) == ["1", "0", "0"]
    own = "import subprocess\nprint(subprocess.run(['ping', '-c1', '-W1', '::1'], capture_output=True).returncode)"
    assert on_two(run_experiment, own, {"net.ipv6.icmp.echo_ignore_all": 1}, belljar={"ipv6": True}).text("a") == "1\n"


def test_any_address_can_be_bound_on_demand(run_experiment):
    bind = "import socket\nfor f, to in ((socket.AF_INET, '192.0.2.7'), (socket.AF_INET6, '2001:db8::7')):\n    try: socket.socket(f).bind((to, 80)); print('bound')\n    except OSError as e: print(e.errno)"
    ipv6 = {"belljar": {"ipv6": True}}
    assert on_two(run_experiment, bind, **ipv6).text("a").split() == ["99", "99"]
    assert on_two(run_experiment, bind, {"net.ipv4.ip_nonlocal_bind": 1}, **ipv6).text("a").split() == ["bound", "99"]
    assert on_two(run_experiment, bind, {"net.ipv6.ip_nonlocal_bind": 1}, **ipv6).text("a").split() == ["99", "bound"]


def test_the_range_of_ephemeral_ports_is_the_programs_to_set(run_experiment):
    code = """import socket
name = "/proc/sys/net/ipv4/ip_local_port_range"
print(open(name).read().split())
for wrong in ("0 9", "9 8", "7", "1 65536"):
    try:
        with open(name, "w") as file: file.write(wrong)
        print("taken", wrong)
    except OSError: pass
with open(name, "w") as file: file.write("40000 40002")
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
for s in sockets:
    try: s.bind(("", 0)); print(s.getsockname()[1])
    except OSError as error: print(error.strerror)
"""
    first, *ports = on_two(run_experiment, code).text("a").splitlines()
    assert first == "['32768', '60999']" and sorted(ports) == ["40000", "40001", "40002", "Address already in use"]


def test_the_receive_buffer_does_not_grow_without_moderation(run_experiment):
    serve = SERVER.replace("BACKLOG", "5") + "c, _ = l.accept(); total = 0\nwhile data := c.recv(99999): total += len(data)\nprint(c.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))"
    send = "import socket; s = socket.create_connection(('b', 7)); s.sendall(b'x' * 8_000_000); s.close()"
    def buffer(**sysctls):
        hosts = {"a": {"processes": [python(send)]}, "b": {"processes": [python(serve, start="0 s")], "host_options": {"sysctls": sysctls}}}
        return int(run_experiment(world(hosts, [{"between": ["a", "b"], "rate": "1 Gbit", "latency": "100 us"}])).text("b"))
    # The round trip is below the resolution of timestamps.
    assert buffer() > 131072 and buffer(**{"net.ipv4.tcp_moderate_rcvbuf": 0}) == 131072


def test_settings_without_effect_are_kept_and_noted(run_experiment):
    code = """name = "/proc/sys/net/ipv4/tcp_adv_win_scale"
print(open(name).read().strip())
for value in ("2", "32", "x", "-31"):
    try:
        with open(name, "w") as file: file.write(value)
    except OSError as error: print(error.strerror)
    print(open(name).read().strip())
"""
    done = on_two(run_experiment, code)
    assert done.text("a").splitlines() == ["1", "2", "Invalid argument", "2", "Invalid argument", "2", "-31"]
    assert "sysctl net.ipv4.tcp_adv_win_scale is accepted without effect" in done.out


def test_what_programs_ask_for_in_vain_is_named(run_experiment):
    code = """import socket
for name in ("/proc/sys/net/ipv4/tcp_none", "/sys/none/at_all", "/sys/firmware/efi/systab", "/nowhere"):
    try: open(name)
    except OSError: pass
s = socket.socket()
for call in (lambda: s.getsockopt(socket.SOL_SOCKET, 81), lambda: s.setsockopt(socket.IPPROTO_TCP, 14, b"x" * 216), lambda: s.getsockopt(socket.IPPROTO_IP, 16),
             lambda: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)):
    try: call()
    except OSError: pass
"""
    done = on_two(run_experiment, code)
    for line in ("python3 found no /proc/sys/net/ipv4/tcp_none", "python3 found no /sys/none/at_all", "python3 got ENOPROTOOPT for the option 81 of SOL_SOCKET",
                 "for the option IP_IPSEC_POLICY of IPPROTO_IP", "for the option TCP_MD5SIG of IPPROTO_TCP"):
        assert line in done.out, done.out
    assert "/nowhere" not in done.out and "systab" not in done.out
    assert "IPV6_V6ONLY" not in done.out, "an IPv4 socket has no options of IPv6 on Linux either"
