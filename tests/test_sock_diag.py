"""`ss` by NETLINK_SOCK_DIAG: the same lines as from this machine's kernel, filters and all."""

import os
import re
import subprocess

import pytest
from conftest import experiment

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
    native = subprocess.run(["unshare", "-n", "/usr/bin/python3", "-c", script], capture_output=True, text=True, timeout=60)
    assert native.returncode == 0, native.stderr
    if "[::1]:80" not in native.stdout:
        pytest.skip("no IPv6 here")
    host = (0, [{"path": "/usr/bin/python3", "args": ["-c", script]}])
    done = run_experiment(experiment({"host": host}, stop="30 s") | {"belljar": {"ipv6": True}}, args=["--strace"])
    said = done.text("host", "python3")
    assert lines(said) == lines(native.stdout), (said, native.stdout)
    assert "not supported" not in done.out, str(done)
    details = said.split("# -tin")[1]
    assert re.search(r"ESTAB +0 +0 +127.0.0.1:61001 +127.0.0.1:80", details) and re.search(r"cubic .*mss:\d+ .*bytes_sent:5 ", details), details
    calls = "".join(file.read_text(errors="replace") for file in done.host("host").glob("*.strace"))
    assert "/proc/net/tcp" not in calls, "ss has read /proc/net instead"
