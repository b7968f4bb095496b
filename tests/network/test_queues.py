"""What waits before a link and what befalls frames on it: queues, token buckets, loss in bursts, reordering, copies, wrong bits."""

import hashlib
import itertools

import pytest
from conftest import execute
from test_links import python, stats, world

SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 9))
for n in range(int(sys.argv[2])):
    s.send(b"%6d" % n + b"x" * int(sys.argv[3])); time.sleep(float(sys.argv[4]))
"""
# What comes, and when, in microseconds.
RECEIVE = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9)); s.settimeout(3)
try:
    while True:
        data = s.recv(9999); print(int(data[:6]), time.monotonic_ns() // 1000)
except TimeoutError:
    print(open("/proc/net/snmp").read().split("Udp:")[2].split(), file=sys.stderr)
"""


def sent(run_experiment, link, count=1000, size=94, gap=0.001, **more):
    """The numbers of datagrams that have come, the times between them, and what the link says."""
    hosts = {"a": {"processes": [python(SEND, "b", count, size, gap)]}, "b": {"processes": [python(RECEIVE, start="0.9 s")]}}
    done = run_experiment(world(hosts, [{"name": "l", "between": ["a", "b"], **link}], f"{8 + count * gap:.0f} s", **more))
    rows = [tuple(map(int, line.split())) for line in done.text("b").splitlines()]
    return [n for n, _ in rows], [t for _, t in rows], stats(done)["links"]["l"]["a to b"], done


def test_each_impairment_has_its_share_and_disturbs_no_other(run_experiment):
    impairments = {"packet_loss": 0.1, "reordering": {"probability": 0.2, "delay": "5.5 ms"}, "duplication": 0.15, "corruption": 0.05}
    all_on, times, direction, _ = sent(run_experiment, impairments)
    counted = direction["impairments"]
    assert 70 < direction["drops"]["packet_loss"] < 130 and 140 < counted["reordered"] < 220, direction
    assert 100 < counted["duplicated"] < 180 and 25 < counted["corrupted"] < 70, direction
    # an Ethernet header that is wrong leads nowhere, and checksums find the rest
    whole = 1000 - direction["drops"]["packet_loss"]
    assert whole - counted["corrupted"] <= len(set(all_on)) <= whole
    late = [n for n, before in zip(all_on, itertools.accumulate(all_on, max)) if n < before]
    ahead = [max(all_on[:all_on.index(n)]) - n for n in late if n > 20 and all_on.count(n) == 1]
    assert len(ahead) > 50 and set(ahead) <= {1, 2, 3, 4, 5} and ahead.count(5) > len(ahead) / 2
    lost_only, _, direction, _ = sent(run_experiment, {"packet_loss": 0.1})
    assert lost_only == sorted(lost_only) and "impairments" not in direction
    assert set(all_on) <= set(lost_only) and len(lost_only) == whole, "the same ones are lost"
    doubled_only, _, direction, _ = sent(run_experiment, {"duplication": 0.15})
    assert direction["impairments"] == {"duplicated": len(doubled_only) - 1000}
    twice = {n for n in range(1000) if doubled_only.count(n) == 2}
    assert {n for n in lost_only if all_on.count(n) == 2} <= twice, "the same ones are duplicated"


def test_losses_come_in_bursts(run_experiment):
    model = {"to_bad": 0.02, "to_good": 0.25}
    came, _, direction, _ = sent(run_experiment, {"packet_loss": {"gilbert_elliott": model}}, count=3000)
    runs = [len(list(group)) for lost, group in itertools.groupby(n not in set(came) for n in range(3000)) if lost]
    assert 3000 * 0.02 / 0.27 * 0.6 < sum(runs) < 3000 * 0.02 / 0.27 * 1.5, direction
    assert 2.8 < sum(runs) / len(runs) < 5.5, "1 / 0.25 frames long"


def test_tcp_comes_through_damage(run_experiment):
    send = "import socket\ns = socket.create_connection(('b', 7)); s.sendall(bytes(n * n % 251 for n in range(300_000))); s.shutdown(1); s.recv(1)"
    read = "import socket, hashlib\nl = socket.create_server(('', 7)); c, _ = l.accept()\ndata = b''.join(iter(lambda: c.recv(9999), b'')); print(hashlib.sha256(data).hexdigest())"
    link = {"between": ["a", "b"], "rate": "20 Mbit", "packet_loss": 0.01, "corruption": 0.02, "duplication": 0.02, "reordering": {"probability": 0.05, "delay": "2 ms"}}
    done = run_experiment(world({"a": {"processes": [python(send)]}, "b": {"processes": [python(read, start="0 s")]}}, [link], "60 s"))
    assert done.text("b").strip() == hashlib.sha256(bytes(n * n % 251 for n in range(300_000))).hexdigest()


def test_a_token_bucket_lets_a_burst_pass(run_experiment):
    # frames of 1,000 bytes: four are in the bucket, then one each 8 ms
    link = {"rate": "100 Mbit", "token_bucket": {"rate": "1 Mbit", "burst": "4 KB"}}
    _, times, _, _ = sent(run_experiment, link, count=10, size=952, gap=0)
    gaps = [after - before for before, after in zip(times, times[1:])]
    # ARP has taken a few tokens, so the fourth waits a little
    assert gaps[:2] == [80, 80] and 80 < gaps[2] < 400 and gaps[3:] == [8000] * 6, gaps


def test_events_change_queues_and_impairments(run_experiment):
    events = [
        {"at": "1.25 s", "link_change": "l", "packet_loss": {"gilbert_elliott": {"to_bad": 1, "to_good": 0}}, "for": "0.25 s"},
        {"at": "1.5 s", "link_change": "l", "duplication": 1, "for": "0.1 s"},
        {"at": "1.6 s", "link_change": "l", "token_bucket": {"rate": "100 Kbit", "burst": "2 KB"}, "for": "0.1 s"},
        {"at": "1.75 s", "link_change": "l", "rate": "100 Kbit", "queue": {"packets": 2}},
    ]
    came, times, direction, _ = sent(run_experiment, {}, events=events)
    start = times[0]
    before = [n for n in came if n < 230]
    assert before == list(range(230)) and not [n for n in came if 255 < n < 480], "all of it is lost"
    assert all(came.count(n) == 2 for n in range(505, 560)) and came.count(620) == 1
    assert direction["impairments"]["duplicated"] > 60 and direction["drops"]["egress_full"] > 150, direction
    slow = [after - before for before, after in zip(times, times[1:]) if 610_000 < before - start < 680_000]
    assert slow and max(slow) <= 8 * 142 * 10 + 1


CLASSES = """
import socket, sys
s = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
for one, tos in zip(s, (0x08, 0x00, 0xb8)): one.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
for n in range(30): s[n % 3].sendto(b"%6d" % n + b"x" * 952, ("b", 9))
"""


@pytest.mark.parametrize("queue, order", [
    ({"priority": {"bands": [{"packets": 50}] * 3, "dscp": {46: 0, 2: 2}, "default": 1}}, [2, 1, 0]),
    # by the old meaning of the TOS byte 0xb8 is interactive bulk, the middle
    ({"priority": {"bands": [{"packets": 50}] * 3}}, [1, 0]),
    # a flow each: they take turns
    ({"fq_codel": {"quantum": 1000}}, None),
])
def test_who_waits_leaves_by_class_or_in_turn(run_experiment, queue, order):
    hosts = {"a": {"processes": [python(CLASSES)]}, "b": {"processes": [python(RECEIVE, start="0.9 s")]}}
    links = [{"between": ["a", "r"], "rate": "unlimited"}, {"between": ["r", "b"], "rate": "20 Mbit", "queue": queue}]
    done = run_experiment(world(hosts, links, routers=["r"]))
    came = [int(line.split()[0]) for line in done.text("b").splitlines()]
    assert sorted(came) == list(range(30))
    if order is None:
        assert all({n % 3 for n in came[at:at + 3]} == {0, 1, 2} for at in range(3, 27, 3)), came
    else:
        waited = [n % 3 for n in came[1:]]
        kinds = [kind for kind, _ in itertools.groupby(waited if len(order) == 3 else [min(kind, 1) for kind in waited])]
        assert kinds == order, came


def test_red_keeps_a_queue_short(run_experiment):
    """One CUBIC flow: with RED it fills the queue less than a FIFO lets it."""
    def delay(queue):
        hosts = {"a": {"processes": [{"model": {"type": "bulk", "to": "b:9", "size": "4 MB"}, "start_time": "1 s"}]}, "b": {"processes": [{"model": {"type": "sink", "port": 9}}]}}
        links = [{"between": ["a", "r"], "rate": "unlimited"}, {"name": "l", "between": ["r", "b"], "rate": "10 Mbit", "latency": "5 ms", "queue": queue}]
        done = run_experiment(world(hosts, links, "20 s", routers=["r"]))
        return stats(done)["links"]["l"]["r to b"]
    early = delay({"red": {"min": "15 KB", "max": "45 KB", "limit": "400 KB", "probability": 0.1, "weight": 0.01}})
    assert early["drops"]["red"] > 3 and "egress_full" not in early["drops"]
    assert delay({"codel": {"packets": 1000}})["drops"]["codel"] > 0


def test_the_same_seed_gives_the_same_impairments_for_any_number_of_workers(run_experiment, belljar, workdir):
    link = {"packet_loss": {"gilbert_elliott": {"to_bad": 0.1, "to_good": 0.3}}, "corruption": 0.1, "duplication": 0.1,
            "reordering": {"probability": 0.3, "delay": "3 ms"}, "rate": "300 Kbit", "queue": {"red": {"min": "1 KB", "max": "3 KB", "limit": "9 KB"}}}
    *_, one = sent(run_experiment, link, count=300)
    again = execute([belljar, "run", one.path / "processed-config.yaml", "-o", workdir / "again", "--parallelism", "2", "--no-progress"])
    assert again.status in (0, 1)
    assert (workdir / "again/hosts/b").exists()
    for stream in (one.path / "hosts/b").glob("*.stdout"):
        assert stream.read_bytes() == (workdir / "again/hosts/b" / stream.name).read_bytes()


BRIDGE_OF_TWO = """
#include <v1model.p4>
struct none {}
parser p(packet_in b, out none h, inout none m, inout standard_metadata_t s) { state start { transition accept; } }
control c(inout none h, inout none m) { apply {} }
control i(inout none h, inout none m, inout standard_metadata_t s) { apply { s.egress_spec = 9w3 - s.ingress_port; } }
control e(inout none h, inout none m, inout standard_metadata_t s) { apply {} }
control d(packet_out b, in none h) { apply {} }
V1Switch(p(), c(), i(), e(), c(), d()) main;
"""


def test_a_token_bucket_at_a_p4_port_is_that_of_a_switch(run_experiment, workdir):
    (workdir / "two.p4").write_text(BRIDGE_OF_TWO)
    send = ("import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "for n in range(60):\n    s.sendto(b'%6d' % n + b'x' * (n * 37 % 900), ('b', 9))\n    if n % 10 == 9: time.sleep(0.05)")
    events = [
        {"at": "1.12 s", "link_change": {"link": "l", "from": "s1"}, "token_bucket": {"rate": "500 Kbit", "burst": "2 KB"}},
        {"at": "1.2 s", "link_change": {"link": "l", "from": "s1"}, "token_bucket": "none"},
    ]
    links = [{"between": ["a", "s1:p1"], "rate": "1 Gbit"},
             {"between": ["b", "s1:p2"], "name": "l", "rate": "100 Mbit", "reverse": {"rate": "100 Mbit", "token_bucket": {"rate": "1 Mbit", "burst": "4 KB"}}}]
    came = []
    for switch in ({}, {"p4": str(workdir / "two.p4")}):
        hosts = {"a": {"processes": [python(send)]}, "b": {"processes": [python(RECEIVE, start="0.9 s")]}}
        done = run_experiment(world(hosts, links, events=events, switches={"s1": switch}))
        came.append([line.split() for line in done.text("b").splitlines()])
    assert len(came[0]) == 60 and came[0] == came[1]
    times = [int(line[1]) for line in came[0]]
    assert times[-1] - times[0] > 250_000, "the bucket holds them back"
