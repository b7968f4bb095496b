"""TCP Fast Open with real programs: what it saves, what counts it, and that cookies follow from the seed."""

import re

import pytest
from test_links import python, world

ON = {"host_options": {"sysctls": {"net.ipv4.tcp_fastopen": 3}}}
LINK = [{"between": ["a", "b"], "latency": "10 ms", "rate": "1 Gbit"}]
SERVE = """
import socket
l = socket.create_server(("", 7))
l.setsockopt(socket.IPPROTO_TCP, 23, 5)  # TCP_FASTOPEN
for _ in range(3):
    c, _ = l.accept()
    print(c.getsockopt(socket.IPPROTO_TCP, 11, 104)[5] & 0xE0)  # TCPI_OPT_SYN_DATA and TCPI_OPT_TFO_CHILD
    c.sendall(c.recv(9999))
    c.close()
print(open("/proc/sys/net/ipv4/tcp_fastopen_key").read().strip())
"""
ASK = """
import socket, time
for _ in range(3):
    s = socket.socket()
    before = time.monotonic()
    s.sendto(b"x" * 1000, 0x20000000, ("10.0.0.2", 7))  # MSG_FASTOPEN
    assert s.recv(9999) == b"x" * 1000
    print(round((time.monotonic() - before) * 1000))
    s.close()
"""
COUNTERS = """
def fast_open():
    names, values = [line.split() for line in open("/proc/net/netstat") if line.startswith("TcpExt")]
    return {name[11:]: int(value) for name, value in zip(names, values) if name.startswith("TCPFastOpen") and value != "0"}
print(fast_open())
"""


def run(run_experiment, **more):
    hosts = {"a": {"processes": [python(ASK + COUNTERS)]}, "b": {"processes": [python(SERVE + COUNTERS, start="0 s")], **ON}}
    return run_experiment(world(hosts, LINK), **more)


def test_data_in_the_syn_saves_a_round_trip(run_experiment):
    """The first connection asks by ARP, then for a cookie; the others use it: one round trip of 20 ms instead of two."""
    done = run(run_experiment)
    first, second, third, counted = done.text("a").splitlines()
    assert (first, second, third) == ("60", "20", "20"), done.text("a")
    assert counted == "{'Active': 2}"
    assert done.text("b").splitlines()[:3] == ["0", "160", "160"] and done.text("b").splitlines()[4] == "{'Passive': 2, 'CookieReqd': 1}"


def test_cookies_follow_from_the_seed(run_experiment):
    key = lambda **more: re.search(r"^([0-9a-f]{8}-?){4}$", run(run_experiment, **more).text("b"), re.M).group()
    assert key(seed=1) == key(seed=1) != key(seed=2)


@pytest.mark.needs("curl")
def test_curl(run_experiment):
    """curl --tcp-fastopen uses TCP_FASTOPEN_CONNECT: the second one opens with its request."""
    serve = """
import http.server, socket
class Server(http.server.ThreadingHTTPServer):
    def server_activate(self):
        self.socket.setsockopt(socket.IPPROTO_TCP, 23, 16)
        super().server_activate()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers(); self.wfile.write(b"hello")
Server(("", 80), Handler).serve_forever()
"""
    ask = "for i in 1 2; do curl -s --tcp-fastopen -w ' %{time_total}\\n' http://10.0.0.2/; done; grep TcpExt /proc/net/netstat"
    hosts = {"a": {"processes": [{"path": "/bin/sh", "args": ["-c", ask], "start_time": "3 s"}]}, "b": {"processes": [python(serve, start="0 s")], **ON}}
    done = run_experiment(world(hosts, LINK))
    first, second, names, values = done.text("a").splitlines()
    times = [float(line.split()[1]) for line in (first, second)]
    assert first.startswith("hello ") and second.startswith("hello ") and abs(times[0] - times[1] - 0.04) < 0.002, done.text("a")
    counters = dict(zip(names.split(), values.split()))
    assert counters["TCPFastOpenActive"] == "1", counters
