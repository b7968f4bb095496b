"""Explicit topologies: hosts, switches and routers joined by links that carry Ethernet."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import EXAMPLES

PYTHON = "/usr/bin/python3"
RECEIVE = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9))\nwhile True: print(*s.recvfrom(99), flush=True)"
EXCHANGE = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
for i in range(int(sys.argv[3])):
    before = time.monotonic_ns()
    s.sendto(b"x" * int(sys.argv[2]), (sys.argv[1], 7))
    try:
        s.recv(9999)
        print(time.monotonic_ns() - before, flush=True)
    except TimeoutError:
        print("lost", flush=True)
    time.sleep(0.1)
"""
ECHO = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7))\nwhile True: s.sendto(*s.recvfrom(9999))"


def python(code, *args, start="1 s", **more):
    return {"path": PYTHON, "args": ["-c", code, *map(str, args)], "start_time": start, "expected_final_state": "any", **more}


def echo(**more):
    return {"processes": [python(ECHO, start="0 s")], **more}


def exchange(server, size=100, count=3, **more):
    return {"processes": [python(EXCHANGE, server, size, count)], **more}


def world(hosts, links, stop="10 s", **more):
    return {"general": {"stop_time": stop}, "hosts": hosts, "links": links, **more}


def stats(done):
    return json.loads((done.path / "sim-stats.json").read_text())


def check_captures(done):
    """Every capture is sound: tshark finds nothing malformed in it."""
    if shutil.which("tshark") is None:
        return
    for path in done.path.rglob("*.pcap"):
        fields = ["-T", "fields", "-e", "_ws.malformed", "-e", "_ws.expert.message", "-Y", "_ws.malformed or _ws.expert.severity >= 8388608"]
        read = subprocess.run(["tshark", "-r", path, *fields], capture_output=True, text=True, timeout=600)
        assert read.returncode == 0 and not read.stdout.strip(), f"{path}: {read.stdout}{read.stderr}"


def test_times_are_exact(run_experiment):
    links = [{"between": ["a", "b"], "rate": "1 Mbit", "latency": "3 ms", "reverse": {"rate": "2 Mbit", "latency": "5 ms"}}]
    done = run_experiment(world({"a": exchange("b"), "b": echo()}, links), pcap=True)
    first, *rest = map(int, done.text("a").split())
    frame = (100 + 28 + 14) * 8 * 1000
    assert rest == [3_000_000 + 5_000_000 + frame + frame // 2] * 2
    # the first one waits for the answer to ARP
    arp = 42 * 8 * 1000
    assert first == rest[0] + 8_000_000 + arp + arp // 2
    check_captures(done)


@pytest.mark.needs("curl", "ip")
def test_switch_example(run_experiment):
    done = run_experiment(EXAMPLES / "switch.yaml", pcap=True)
    for name in ("alice", "bob"):
        connect, total = map(float, done.text(name, "curl").split())
        # two links and back for ARP and for the handshake; 35 kB at 10 Mbit/s, shared
        assert 0.0004 < connect < 0.002 and 0.028 < total < 1, done.text(name, "curl")
        assert re.search(r"dev eth0 lladdr [0-9a-f:]{17} (REACHABLE|STALE|DELAY)", done.text(name, "ip"))
    links = stats(done)["links"]
    assert links["server:eth0-office:p1"]["server to office"]["bytes"] > 70_000
    check_captures(done)


@pytest.mark.needs("ping")
def test_routers_example(run_experiment):
    done = run_experiment(EXAMPLES / "routers.yaml", pcap=True)
    said = [f.read_text() for f in done.streams("alice", "ping")]
    times = [float(t) for t in re.findall(r"time=([\d.]+)", said[0])]
    # 14 ms by the direct link, 44 ms by r3 for five seconds; the first ones wait for ARP
    assert len(times) == 20 and times[1] == pytest.approx(14, abs=0.1) and times[12] == pytest.approx(44, abs=0.1), said[0]
    assert [round(t) for t in times[10:15]].count(44) >= 4 and round(times[-1]) == 14
    hops = [re.findall(r"From ([\d.]+) icmp_seq=1 Time to live exceeded", text) for text in said[1:]]
    assert hops[0] == ["10.0.0.2"] and hops[1] == ["10.0.2.2"] and hops[2] == ["10.0.3.2"], said
    assert stats(done)["routers"]["r3"]["forwarded"] >= 4
    check_captures(done)


@pytest.mark.needs("traceroute")
def test_traceroute_shows_the_hops(run_experiment):
    routers = [f"r{n}" for n in range(1, 5)]
    ends = ["alice", *routers, "bob"]
    links = [{"between": list(pair), "latency": "1 ms"} for pair in zip(ends, ends[1:])]
    hosts = {"alice": {"processes": [
        {"path": "traceroute", "args": ["-n", "bob"], "start_time": "1 s"},
        {"path": "traceroute", "args": ["-n", "-I", "bob"], "start_time": "20 s"}]}, "bob": {"processes": []}}
    done = run_experiment(world(hosts, links, "40 s", routers=routers))
    for said in (f.read_text() for f in done.streams("alice", "traceroute")):
        hops = re.findall(r"^ *\d+  ([\d.]+)  ([\d.]+) ms", said, re.M)
        assert [ip for ip, _ in hops] == ["10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2", "10.0.4.2"], said


def test_loops_of_switches_are_broken_and_heal(run_experiment):
    # Every switch is joined to every other; what is sent to all arrives once. Then the tree is cut.
    switches = ["s1", "s2", "s3", "s4"]
    links = [{"name": f"{a}{b}", "between": [a, b]} for i, a in enumerate(switches) for b in switches[i + 1:]]
    links += [{"between": ["a", "s2"]}, {"between": ["b", "s4"]}]
    code = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n" \
           "s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\nfor i in range(4): s.sendto(b'%d' % i, ('10.0.0.255', 9)); time.sleep(2)"
    hosts = {"a": {"processes": [python(code)]}, "b": {"processes": [python(RECEIVE, start="0 s")]}}
    events = [{"at": "4 s", "link_down": {"link": "s1s4"}}, {"at": "6 s", "link_down": "s1*"}]
    done = run_experiment(world(hosts, links, switches=switches, events=events))
    assert re.findall(r"b'(\d)'", done.text("b")) == ["0", "1", "2", "3"]


def test_flows_spread_over_equal_paths(run_experiment):
    # Two middle routers; 40 flows from one host.
    code = "import socket\nfor i in range(40): s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('b', 9)); s.sendto(b'y', ('b', 9))"
    links = [{"between": pair} for pair in (["a", "left"], ["left", "up"], ["left", "down"], ["up", "right"], ["down", "right"], ["right", "b"])]
    hosts = {"a": {"processes": [python(code)]}, "b": {"processes": [python(RECEIVE, start="0 s")]}}
    done = run_experiment(world(hosts, links, routers=["left", "right", "up", "down"]))
    forwarded = {name: counts["forwarded"] for name, counts in stats(done)["routers"].items()}
    assert forwarded["up"] + forwarded["down"] == 80 and 16 <= forwarded["up"] <= 64 and forwarded["up"] % 2 == 0, forwarded
    received = re.findall(r"b'(x|y)' \('10.0.0.1', (\d+)\)", done.text("b"))
    assert len(received) == 80


def test_a_queue_overflows_by_bytes_or_packets(run_experiment):
    code = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('b', 9))\n" \
           "s.send(b'first')\nimport time; time.sleep(1)\nfor i in range(30): s.send(b'x' * 958)"
    def lost(queue):
        hosts = {"a": {"processes": [python(code)]}, "b": {"processes": [python(RECEIVE.replace("recvfrom(99)", "recvfrom(1)"), start="0 s")]}}
        links = [{"name": "l", "between": ["a", "r"]}, {"name": "m", "between": ["r", "b"], "rate": "1 Mbit", "queue": queue}]
        done = run_experiment(world(hosts, links, routers=["r"]))
        drops = stats(done)["links"]["m"]["r to b"]["drops"].get("egress_full", 0)
        assert done.text("b").count("\n") == 31 - drops
        return drops
    # a frame has 1,000 bytes; one is on the wire
    assert lost({"packets": 9}) == 30 - 10 and lost({"bytes": "5 KB"}) == 30 - 6 and lost({"packets": 100}) == 0


def test_links_and_the_graph_are_one_network(run_experiment):
    # home is a network behind a host that is also on the graph and passes packets on.
    hosts = {
        "gate": {"network_node_id": 0, "forwarding": True, "processes": []},
        "far": {"network_node_id": 0, **echo()},
        "laptop": exchange("far"),
        "phone": echo(),
        "away": {"network_node_id": 0, **exchange("phone")},
    }
    links = [{"between": [name, "hub"], "latency": "2 ms", "rate": "unlimited"} for name in ("gate", "laptop", "phone")]
    done = run_experiment(world(hosts, links, switches=["hub"], network={"graph": {"type": "1_gbit_switch"}}))
    for name in ("laptop", "away"):
        times = [int(t) for t in done.text(name).split()]
        assert len(times) == 3 and 10_000_000 <= times[-1] < 10_010_000, times


def test_programs_change_interfaces_and_routes(run_experiment):
    script = """
ip link set eth0 down; ip addr show eth0 | head -1; ip link set eth0 up
ip addr add 192.168.7.1/24 dev eth0; ip route add 10.50.0.0/16 via 192.168.7.2 metric 5
ip route; ip route get 10.50.1.1; ip addr del 192.168.7.1/24 dev eth0; ip route
ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent; ip neigh
ip route add 10.60.0.0/16 via 172.16.0.1; cat /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv4/ip_forward; cat /proc/sys/net/ipv4/ip_forward; cat /proc/net/arp; ls /sys/class/net
"""
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed")
    hosts = {"a": {"processes": [{"path": "/bin/sh", "args": ["-c", script], "expected_final_state": "any"}]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a", "b"]}]))
    said = done.text("a")
    assert re.search(r"2: eth0: <BROADCAST,MULTICAST> .* state DOWN", said), said
    assert "10.50.0.0/16 via 192.168.7.2 dev eth0 metric 5" in said and "10.50.1.1 via 192.168.7.2 dev eth0 src 192.168.7.1" in said.replace(" proto unspec", ""), said
    assert said.count("192.168.7.0/24 dev eth0") == 1, "gone with the address"
    assert "10.0.0.9 dev eth0 lladdr 02:00:00:00:00:09 PERMANENT" in said, said
    assert "0\n1\n" in said and "10.0.0.9         0x1         0x6         02:00:00:00:00:09     *        eth0" in said, said
    assert said.endswith("eth0\nlo\n"), said
    errors = done.streams("a", "sh", "stderr")[0].read_text()
    assert errors == "Error: Nexthop has invalid gateway.\n", errors


def test_events_change_links(run_experiment):
    links = [{"name": "wire", "between": ["a", "b"], "rate": "unlimited", "latency": "5 ms"}]
    events = [
        {"at": "2.05 s", "link_change": "wire", "latency": "20 ms", "for": "1 s"},
        {"at": "4.05 s", "link_change": {"link": "wire", "from": "b"}, "rate": "100 Kbit"},
        {"at": "6.05 s", "link_down": "wire", "for": "2 s"},
        {"at": "10.05 s", "partition": ["a"], "for": "3 s"},
    ]
    hosts = {"a": exchange("b", count=300), "b": echo()}
    done = run_experiment(world(hosts, links, "15 s", events=events))
    said = [t if t == "lost" else int(t) // 10_000 / 100 for t in done.text("a").split()]
    assert said[1] == 10 and 40 in said and said.count("lost") >= 3, said
    slow = 10 + (100 + 28 + 14) * 8 / 100
    assert pytest.approx(slow, abs=0.02) in said, said
    drops = [d["drops"] for d in stats(done)["links"]["wire"].values()]
    assert sum(d.get("partition", 0) for d in drops) >= 2, drops


def test_a_partition_holds_hosts_apart_across_switches(run_experiment):
    hosts = {"a": exchange("b", count=20), "b": echo(), "c": exchange("b", count=20)}
    links = [{"between": [name, "s"]} for name in hosts]
    events = [{"at": "2 s", "partition": [["a"], ["b"]], "for": "3 s"}]
    done = run_experiment(world(hosts, links, switches=["s"], events=events))
    assert 2 <= done.text("a").count("lost") <= 4 and "lost" not in done.text("c")


def test_resolved_experiment_runs_again(run_experiment, belljar):
    done = run_experiment(EXAMPLES / "routers.yaml")
    again = run_experiment(done.path / "processed-config.yaml")
    assert [f.read_text() for f in again.streams("alice")] == [f.read_text() for f in done.streams("alice")]
    assert yaml.safe_load((done.path / "processed-config.yaml").read_text())["links"][2]["name"] == "direct"
