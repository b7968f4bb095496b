"""Does etcd keep what it has acknowledged when its leader crashes? A test for pytest:

    pytest examples/test_etcd.py

Who leads is drawn from the seed like everything else. But a run with the same seed is the same until something is
changed: so a first run tells who will lead, and in the second this member crashes."""

import json
import pathlib

import pytest

from belljar import Experiment

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
MEMBERS = ["etcd1", "etcd2", "etcd3"]


def cluster() -> Experiment:
    exp = Experiment(stop_time="30 s")
    exp.network.edge("rack", "rack", latency="5 ms", loss=0.001)
    for number, name in enumerate(MEMBERS):
        # etcd draws its patience from the clock: members whose clocks agree to the nanosecond would all draw the same.
        exp.host(name, at="rack", clock={"offset": f"{7 * number} ms"}).run(
            "/usr/bin/etcd", "--name", name, "--data-dir", "/var/lib/etcd/cluster",
            "--listen-peer-urls", "http://0.0.0.0:2380", "--initial-advertise-peer-urls", f"http://{name}:2380",
            "--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", f"http://{name}:2379",
            "--initial-cluster", ",".join(f"{member}=http://{member}:2380" for member in MEMBERS), expect="running")
    client = exp.host("client", at="rack").run(PROGRAMS / "etcd_check.py", 16, *MEMBERS, start="3 s")
    endpoints = ",".join(f"{member}:2379" for member in MEMBERS)
    client.run("/usr/bin/etcdctl", "--endpoints", endpoints, "endpoint", "status", "-w", "json", start="9.9 s",
               env={"ETCDCTL_API": "3"}, expect="any")
    return exp


def leader(results) -> str:
    status = json.loads(results.stdout("client", "etcdctl"))
    return next(s["Endpoint"] for s in status if s["Status"]["header"]["member_id"] == s["Status"]["leader"]).split(":")[0]


@pytest.mark.belljar(seeds=20)
def test_the_leader_crashes(belljar):
    # The same seed, and nothing else that differs before: the same leader.
    first = leader(belljar.run(cluster().with_(stop_time="11 s"), check=False))
    exp = cluster()
    exp.clock(first, at="8 s", drift_ppm=500)
    exp.crash(first, at="10 s", lasting="4 s")
    others = [member for member in MEMBERS if member != first]
    exp.partition([others[0]], [others[1], first, "client"], at="15 s", lasting="2 s")
    results = belljar.run(exp)
    assert leader(results) == first
    assert results.stdout("client", "etcd_check.py").endswith("all there, the same on all members\n")
