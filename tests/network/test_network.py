"""Paths through the graph: latencies add up along the shortest path, loss is as stated, names resolve."""

import re

import pytest
from conftest import EXAMPLES, experiment, graph

ECHO = str(EXAMPLES / "built" / "udp_echo")


def rtts(text):
    return [int(n) for n in re.findall(r": (\d+) ns", text)]


def echo_experiment(gml, size=1000, count=20, client=1, server=0, **options):
    hosts = {
        "client": (client, [{"path": ECHO, "args": f"server {size} {count}", "start_time": "1 s"}]),
        "server": (server, [{"path": ECHO, "expected_final_state": "running"}]),
    }
    return experiment(hosts, gml, **options)


@pytest.mark.parametrize("latency_us", [1, 333, 50_000, 1_000_000])
@pytest.mark.parametrize("mbit", [1, 1000])
def test_round_trip_is_exact(run_experiment, programs, latency_us, mbit):
    done = run_experiment(echo_experiment(graph((0, 1, f"{latency_us} us"), bandwidth=f"{mbit} Mbit")))
    want = 2 * latency_us * 1000 + 4 * (1000 + 28) * 8 * 1000 // mbit
    assert set(rtts(done.text("client"))) == {want}


def test_shortest_path(run_experiment, programs):
    gml = graph((0, 1, "100 ms"), (0, 2, "10 ms"), (2, 3, "10 ms"), (3, 1, "10 ms"), bandwidth="1 Gbit")
    done = run_experiment(echo_experiment(gml))
    assert set(rtts(done.text("client"))) == {2 * 30_000_000 + 4 * 1028 * 8}


def test_self_loop(run_experiment, programs):
    done = run_experiment(echo_experiment(graph((0, 0, "7 ms"), (0, 1, "1 ms"), (1, 1, "1 ms")), client=0))
    assert set(rtts(done.text("client"))) == {2 * 7_000_000 + 4 * 1028 * 8}


LOSSES = r"""
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(3000):
    s.sendto(b"x" * 100, ("sink", 9))
    time.sleep(0.001)
"""


def test_loss_is_as_stated(run_experiment):
    # counted in the captures: every packet leaves, 10 % don't arrive
    hosts = {"source": (0, [("/usr/bin/python3", "-c", LOSSES)]), "sink": (1, [{"path": "/bin/sleep", "args": "50"}])}
    done = run_experiment(experiment(hosts, graph((0, 1, "5 ms", 0.1))), pcap=True)
    sent, arrived = (packets(done.pcap(h), 100 + 28) for h in ("source", "sink"))
    assert sent == 3000
    assert 2610 < arrived < 2790, arrived  # 2700 and 5.5 standard deviations


def packets(path, ip_length):
    """How many IPv4 packets of this length a capture holds."""
    data = path.read_bytes()
    nanos = int.from_bytes(data[:4], "little")
    assert nanos in (0xA1B2C3D4, 0xA1B23C4D), "not a capture"
    link = int.from_bytes(data[20:24], "little")
    skip = {1: 14, 101: 0, 228: 0}[link]
    at, count = 24, 0
    while at < len(data):
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        packet = data[at + 16 + skip : at + 16 + length]
        count += packet[0] >> 4 == 4 and int.from_bytes(packet[2:4], "big") == ip_length
        at += 16 + length
    return count


def test_names_and_addresses(run_experiment):
    code = (
        "import socket; print(socket.gethostbyname('alice'), socket.gethostbyname('bob'), socket.gethostname(), "
        "socket.gethostbyname('localhost'))"
    )
    done = run_experiment(experiment({"alice": (0, [("/usr/bin/python3", "-c", code)]), "bob": (0, [("/bin/true",)])}))
    assert done.text("alice") == "11.0.0.1 11.0.0.2 alice 127.0.0.1\n"


def test_processes_start_when_told(run_experiment):
    process = {"path": "/bin/date", "args": ["-u", "+%s.%N"], "start_time": "12345 ms"}
    done = run_experiment(experiment({"a": (0, [process])}))
    assert done.text("a").startswith("946684812.345")


def test_shutdown_signal(run_experiment):
    script = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *a: sys.exit(print('told', time.time()))); time.sleep(100)"
    process = {"path": "/usr/bin/python3", "args": ["-c", script], "shutdown_time": "3 s"}
    done = run_experiment(experiment({"a": (0, [process])}))
    assert done.text("a").startswith("told 946684803.0")
