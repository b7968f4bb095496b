"""Hosts with a CPU: what work costs delays the host's packets and threads, exactly, and shows in the results."""

import csv
import io

import pytest
import yaml
from conftest import contents_of, execute
from test_links import python, stats, world

RATE = 1_000_000_000
# Answers at once, so a round trip is what the two hosts and the link take.
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7))
while True:
    data, peer = s.recvfrom(2000); s.sendto(data, peer)
"""
ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((sys.argv[1], 7))
for n in range(20):
    then = time.monotonic_ns(); s.send(b"x" * 100); s.recv(2000); now = time.monotonic_ns()
    print(now - then)
    time.sleep(0.001)
"""
# Sends so many datagrams, one every so many microseconds.
FLOOD = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((sys.argv[1], 7))
start = time.monotonic_ns() + 1_000_000
for n in range(int(sys.argv[2])):
    left = start + n * int(sys.argv[3]) * 1000 - time.monotonic_ns()
    if left > 0: time.sleep(left / 1e9)
    s.send(b"x" * 100)
"""
# Reads the clock by calls that cost something, and tells how many it has made until the flood is over.
COUNT = """
import os, sys, time
until = time.monotonic() + float(sys.argv[1]); calls = 0
while time.monotonic() < until:
    for _ in range(10): os.getppid()
    calls += 10
print(calls)
"""


def pair(a, b, cpu_a=None, cpu_b=None, stop="2 s", **more):
    hosts = {"a": {"processes": a}, "b": {"processes": b}}
    for name, cpu in (("a", cpu_a), ("b", cpu_b)):
        if cpu:
            hosts[name]["cpu"] = cpu
    return world(hosts, [{"name": "l", "between": ["a", "b"], "latency": "10 us", "rate": "1 Gbit"}], stop, **more)


def echo(run_experiment, **cpus):
    done = run_experiment(pair([python(ASK, "b", start="1 s")], [python(ECHO, start="0 s")], **cpus))
    times = [int(line) for line in done.text("a").split()]
    assert len(times) == 20
    # The first asks for the neighbour's address; later ones are alike.
    assert len(set(times[5:])) == 1, times
    return times[-1], stats(done)["hosts"]


def test_each_kind_of_work_delays_a_round_trip_by_what_it_costs(run_experiment):
    free, hosts = echo(run_experiment)
    assert "cpu" not in hosts["b"]
    frame = 100 + 8 + 20 + 14
    # A packet comes in by an interrupt and goes out; the call that waits goes on, another one sends.
    for cost, more in [({"packet": "7 us"}, 2 * 7000), ({"byte": "10 ns"}, 2 * 10 * frame), ({"interrupt": "3 us"}, 3000),
                       ({"syscall": "2 us"}, 2 * 2000), ({"syscall": "2 us", "packet": "7 us", "interrupt": "3 us"}, 4000 + 14000 + 3000)]:
        took, hosts = echo(run_experiment, cpu_b=cost)
        assert took - free == more, cost
        cpu = hosts["b"]["cpu"]
        assert {kind for kind, seconds in cpu["seconds"].items() if seconds} == set(cost)
        assert cpu["busy"] == pytest.approx(sum(cpu["seconds"].values()) / 2, rel=1e-9) and cpu["busy"] > 0
    # On the host that asks its own calls count too: send, and recv as it begins to wait and as it goes on.
    took, _ = echo(run_experiment, cpu_a={"syscall": "2 us"})
    assert took - free in (2 * 2000, 3 * 2000)


def flood(run_experiment, count, gap_us, cpu, work=(), stop="3 s"):
    done = run_experiment(pair([python(FLOOD, "b", count, gap_us, start="1 s")], [*work, python(ECHO, start="0 s")],
                               cpu_b=cpu, stop=stop))
    return done, stats(done)["hosts"]["b"]


def test_a_host_saturates_and_its_backlog_overflows(run_experiment):
    # A packet takes 50 us and comes every 20: while 1000 come, 400 can be received at most, and 100 more wait.
    done, host = flood(run_experiment, 1000, 20, {"packet": "50 us", "backlog": 100})
    dropped = host["drops"]["backlog"]
    # Echoes cost as much: every second packet's time goes to them as far as threads get their turn.
    assert 500 < dropped < 800, host
    assert host["cpu"]["longest_backlog"] == 100
    assert host["packets_in"] + dropped >= 1000
    shown = execute([done.command[0], "inspect", done.path, "hosts"]).out
    assert "cpu busy" in shown and " %" in shown and "backlog" in shown
    # Slower than the packets come, nothing is lost.
    _, host = flood(run_experiment, 1000, 200, {"packet": "50 us", "backlog": 100})
    assert "backlog" not in host["drops"] and host["cpu"]["longest_backlog"] <= 2
    assert host["cpu"]["seconds"]["packet"] == pytest.approx(2000 * 50e-6, rel=0.02)


def test_a_flood_leaves_threads_half_of_the_time(run_experiment):
    # Packets take twice the time there is. Without them a call of 10 us can be made 50,000 times in half a second.
    count = {"path": "/usr/bin/python3", "args": ["-c", COUNT, "0.5"], "start_time": "1.01 s"}
    done, host = flood(run_experiment, 60_000, 10, {"packet": "20 us", "syscall": "10 us"}, [count])
    assert host["processes"][0]["state"] == "exited 0"
    calls = int(next(out.read_text() for out in done.streams("b", "python3") if out.read_text()))
    assert 12_000 < calls < 38_000, calls


def test_models_work_too(run_experiment):
    hosts = {"a": {"processes": [{"model": {"type": "bulk", "to": "b:5001", "size": "2 MB"}}]},
             "b": {"processes": [{"model": {"type": "sink", "port": 5001}}]}}
    links = [{"name": "l", "between": ["a", "b"], "latency": "10 us", "rate": "1 Gbit"}]
    took = {}
    for cost in (None, "20 us"):
        if cost:
            hosts["b"]["cpu"] = {"packet": cost}
        done = run_experiment(world(hosts, links, "5 s"))
        rows = csv.DictReader(io.StringIO((done.path / "flows.csv").read_text()))
        took[cost] = next(float(row["ended"]) - float(row["started"]) for row in rows if row["host"] == "a")
    # 1,400 segments of 20 us each, and their acknowledgements.
    assert took[None] < 0.020 and 0.028 < took["20 us"] < 0.060, took


@pytest.mark.parametrize("packet", ["1 ms", "2 ms", "4 ms"])
def test_a_turn_of_threads_may_end_when_a_window_does(run_experiment, packet):
    """More packets than the processor can take, at times that are multiples of what one costs: the run did not end."""
    def host(peer):
        models = [{"type": "sink", "port": 9, "protocol": "udp"}, {"type": "constant_rate", "to": f"{peer}:9", "rate": "8 Mbit", "duration": "200 ms"}]
        return {"network_node_id": 0, "cpu": {"packet": packet}, "processes": [{"model": models[0]}, {"model": models[1], "start_time": "10 ms"}]}

    done = run_experiment({
        "general": {"stop_time": "1 s"}, "network": {"graph": {"type": "1_gbit_switch"}},
        "hosts": {"a": host("b"), "b": {**host("a"), "cpu": {"packet": "1 us"}}},
    }, timeout=60)
    assert stats(done)["simulated_seconds"] == 1
    assert stats(done)["hosts"]["a"]["packets_in"] > 10


def test_the_same_bytes_near_far_and_for_any_number_of_workers(belljar, run_experiment, workdir):
    cpu = {"syscall": "1.3 us", "packet": "2.7 us", "byte": "0.3 ns", "interrupt": "4.1 us", "backlog": 50}
    hosts = {f"h{n}": {"cpu": cpu, "processes": [python(ECHO, start="0 s"),
                                                 python(FLOOD, f"h{(n + 1) % 4}", 400, 9 + n, start="1 s"), python(ASK, f"h{(n + 2) % 4}", start="1 s")]}
             for n in range(4)}
    for host in hosts.values():
        host["processes"][2]["expected_final_state"] = "any"
    links = [{"name": f"l{n}", "between": [f"h{n}", "s"], "latency": "1 us", "rate": "1 Gbit"} for n in range(4)]
    text = world(hosts, links, "2 s")
    text["switches"] = {"s": {}}
    text.setdefault("host_option_defaults", {})["pcap_enabled"] = True
    results = []
    for number, (placement, workers) in enumerate([("near", 1), ("near", 2), ("far", 1), ("far", 2)]):
        text["belljar"] = {**text.get("belljar", {}), "placement": placement}
        file, data = workdir / f"{number}.yaml", workdir / f"{number}.data"
        file.write_text(yaml.safe_dump(text))
        done = execute([belljar, "run", file, "-o", data, "--parallelism", str(workers)])
        assert done.status == 0, str(done)
        results.append(contents_of(data))
    assert any(name.endswith(".pcap") for name in map(str, results[0]))
    for other in results[1:]:
        assert other.keys() == results[0].keys()
        assert [name for name in other if other[name] != results[0][name] and name != "processed-config.yaml"] == []
