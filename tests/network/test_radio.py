"""Radio channels: hosts that share one, where they are, and how they move."""

import csv
import json
import re
from xml.etree import ElementTree

import pytest
import yaml
from conftest import EXAMPLES, execute
from test_links import check_captures, python, stats
from routed_nodes import routed  # noqa: F401 (a fixture)

BROADCAST = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.bind(("", 9))
s.settimeout(0.05)
begin = time.monotonic_ns()
until = time.monotonic() + float(sys.argv[1])
turn = 0
while time.monotonic() < until:
    turn += 1
    s.sendto(b"x" * 400, ("10.0.0.255", 9))
    try:
        while True:
            data, who = s.recvfrom(2000)
            print(time.monotonic_ns() - begin, who[0], flush=True)
    except TimeoutError:
        pass
"""
FLOOD = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    s.sendto(b"x" * 972, (sys.argv[1], 9))
    time.sleep(0.0005)
"""
COUNT = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9)); n = 0\nwhile True: s.recv(2000); n += 1; print(n, flush=True)"


def air(stations, hosts=None, stop="10 s", events=(), **settings):
    """Hosts with these processes, at these places."""
    hosts = hosts or {}
    members = {name: {"processes": hosts.get(name, [])} for name in sorted({*hosts, *(s.partition(":")[0] for s in stations if "*" not in s)})}
    experiment = {"general": {"stop_time": stop}, "hosts": members, "radios": {"air": {"stations": stations, **settings}}}
    return {**experiment, "events": list(events)} if events else experiment


def station(done, name):
    return stats(done)["radios"]["air"]["stations"][f"{name}:eth0"]


@pytest.mark.needs("ping")
def test_pings_take_the_airtime_of_frames(run_experiment):
    ping = {"path": "ping", "args": "-n -c 3 10.0.0.2", "start_time": "1 s"}
    done = run_experiment(air({"a": [0, 0], "b": [100, 0]}, {"a": [ping]}), pcap=True)
    times = [float(t) for t in re.findall(r"time=([\d.]+)", done.text("a", "ping"))]
    # 98 bytes of Ethernet and 22 more at 11 Mbit/s after 192 us, twice; and 10 us four times. Backoffs of 20 us may come before.
    least = (2 * (192 + 120 * 8 / 11) + 40) / 1000
    assert len(times) == 3 and all(least - 0.001 <= t <= least + 2 * 0.7 for t in times[1:]), times
    assert station(done, "a")["acknowledged"] == station(done, "a")["unicasts"] >= 3
    assert (done.path / "radios" / "air" / "p1.pcap").exists()
    check_captures(done)


def test_who_is_out_of_reach_is_a_failed_neighbour(run_experiment):
    # An entry that was right before b went away; the daemon's view is what `ip monitor` prints.
    watch = {"path": "ip", "args": "monitor neigh", "expected_final_state": "running"}
    ping = {"path": "ping", "args": "-n -c 8 10.0.0.2", "start_time": "1 s", "expected_final_state": "any"}
    move = {"at": "4.5 s", "move": "b", "to": [900, 0]}
    done = run_experiment(air({"a": [0, 0], "b": [100, 0]}, {"a": [watch, ping]}, events=[move]))
    said = done.text("a", "ip")
    assert re.search(r"10\.0\.0\.2 dev eth0 lladdr .*\n(.*\n)*10\.0\.0\.2 dev eth0 +FAILED", said), said
    assert done.text("a", "ping").count("time=") == 4
    assert station(done, "a")["drops"]["given_up"] >= 1 and station(done, "a")["retries"] >= 7


def test_hidden_stations_collide_and_carrier_sense_helps(run_experiment):
    def received(**settings):
        # Both at once would lose even their ARP requests to each other, each time.
        hosts = {"a": [python(FLOOD, "10.0.0.2", 4)], "c": [python(FLOOD, "10.0.0.2", 4, start="1.3 s")], "b": [python(COUNT, start="0 s")]}
        done = run_experiment(air({"a": [0, 0], "b": [200, 0], "c": [400, 0]}, hosts, "6 s", **settings))
        return int((done.text("b").split() or ["0"])[-1]), station(done, "b")["drops"].get("collided", 0)
    (hidden, collided), (sensed, few) = received(), received(carrier_sense_range=500)
    # Whoever gives a frame up is quiet until ARP has found b again, and leaves the channel to the other meanwhile.
    assert 0 < hidden < 0.87 * sensed and collided > 2 * few and few < 0.1 * sensed, (hidden, sensed, collided, few)


def test_mobility_files_move_stations(run_experiment, belljar, workdir):
    # b comes into reach at 3 s and leaves it at 6 s
    (workdir / "ns2.tcl").write_text(
        "$node_(0) set X_ 0\n$node_(0) set Y_ 0\n$node_(1) set X_ 400\n$node_(1) set Y_ 0\n"
        '$ns_ at 1.5 "$node_(1) setdest 200 0 100"\n$ns_ at 5.5 "$node_(1) setdest 400 0 100"\n')
    (workdir / "bonn").write_text("0 0 0\n0 400 0 1.5 400 0 3.5 200 0 5.5 200 0 7.5 400 0\n")
    heard = []
    for mobility in ({"ns2": str(workdir / "ns2.tcl")}, {"bonnmotion": str(workdir / "bonn")}):
        hosts = {name: [python(BROADCAST, 8, start="0 s")] for name in ("a", "b")}
        done = run_experiment(air(["a", "b"], hosts, mobility=mobility))
        heard.append(done.text("a"))
        times = [int(line.split()[0]) / 1e9 for line in heard[-1].splitlines() if line.endswith("10.0.0.2")]
        assert 3.0 <= min(times) < 3.1 and 5.9 < max(times) <= 6.0, (min(times), max(times))
    assert heard[0] == heard[1], "the same movement"
    (workdir / "bad.tcl").write_text("# by hand\n$node_(0) set X_ zero\n")
    (workdir / "bad.yaml").write_text(yaml.safe_dump(air(["a", "b"], mobility={"ns2": "bad.tcl"})))
    refused = execute([belljar, "run", workdir / "bad.yaml"])
    assert refused.status == 2 and "'zero' is not a coordinate in metres" in refused.err and "bad.tcl:2:1" in refused.err, refused


def test_the_plan_has_the_ways_that_the_seed_draws(belljar, workdir):
    movement = {"random_waypoint": {"area": [300, 300], "speed": [1, 9], "pause": "1 s"}}
    experiment = air(["a", "b"], mobility=movement, events=[{"at": "3 s", "move": {"one_of": "all"}, "to": [1, 1]}])
    (workdir / "exp.yaml").write_text(yaml.safe_dump(experiment))
    plans = [execute([belljar, "plan", workdir / "exp.yaml", "--seed", seed]).out for seed in ("1", "1", "2")]
    assert plans[0] == plans[1] != plans[2]
    planned = yaml.safe_load(plans[0])
    ways = {name: way["path"] for name, way in planned["radios"]["air"]["stations"].items()}
    assert set(ways) == {"a:eth0", "b:eth0"} and "mobility" not in planned["radios"]["air"]
    assert all(0 <= x <= 300 and 0 <= y <= 300 for way in ways.values() for _, x, y in way)
    assert planned["events"][0]["move"] in ("a", "b", ["a"], ["b"])
    (workdir / "again.yaml").write_text(plans[0])
    assert execute([belljar, "plan", workdir / "again.yaml"]).out == plans[0]


def test_emulation_refuses_radios(belljar, workdir):
    (workdir / "exp.yaml").write_text(yaml.safe_dump(air({"a": [0, 0], "b": [1, 1]})))
    done = execute([belljar, "emulate", workdir / "exp.yaml"])
    assert done.status != 0 and "radio 'air': radio channels are for simulations" in done.err and "run a simulation, or replace it by links" in done.err, done


def test_inspect_and_report_show_radios(run_experiment, belljar):
    hosts = {name: [python(BROADCAST, 2, start="0 s")] for name in ("a", "b")}
    done = run_experiment(air({"a": [0, 0], "b": {"path": [["0 s", 10, 0], ["5 s", 90, 0]]}}, hosts, "5 s"))
    shown = execute([belljar, "inspect", done.path, "radios"]).out
    assert re.search(r"air +a:eth0 +\d+ +0 +0 +\d+", shown), shown
    radio = json.loads((done.path / "topology.json").read_text())["radios"][0]
    assert radio["range"] == 250 and radio["stations"][1]["path"] == [[0, 10, 0, 0], [5, 90, 0, 0]]


def test_flows_as_flow_monitor_writes_them(run_experiment, belljar):
    flow = {"model": {"type": "constant_rate", "to": "b:9", "rate": "80 Kbit", "datagram_size": "1000 B", "duration": "5 s"}, "start_time": "1 s"}
    # Nobody listens at port 10: ICMP comes back, which is no flow.
    refused = {"model": {**flow["model"], "to": "b:10", "duration": "1 s"}, "start_time": "1 s"}
    hosts = {"a": [flow, refused], "b": [{"model": {"type": "sink", "port": 9, "protocol": "udp"}}]}
    done = run_experiment(air({"a": [0, 0], "b": [100, 0]}, hosts, events=[{"at": "4 s", "move": "b", "to": [900, 0]}]), pcap=True, status=None)
    text = execute([belljar, "inspect", done.path, "--flow-monitor"]).out
    tree = ElementTree.fromstring(text)
    number = next(flow.get("flowId") for flow in tree.find("Ipv4FlowClassifier") if flow.get("destinationPort") == "9")
    assert {flow.get("protocol") for flow in tree.find("Ipv4FlowClassifier")} == {"17"}
    flow = next(flow for flow in tree.find("FlowStats") if flow.get("flowId") == number)
    with open(done.path / "flows.csv") as table:
        sink = next(row for row in csv.DictReader(table) if row["host"] == "b")
    received, sent = int(flow.get("rxPackets")), int(flow.get("txPackets"))
    assert received == int(sink["datagrams"]) and sent == received + int(flow.get("lostPackets")) and 29 <= received <= 31 and received < sent
    mean = float(flow.get("delaySum").removesuffix("ns")) / received / 1e9
    # The first datagram waits for ARP before it is captured.
    assert abs(mean - float(sink["mean_delay"])) < 1e-4 and flow.get("timesForwarded") == "0", (mean, sink)
    assert int(flow.get("txBytes")) == sent * 1028


@pytest.mark.needs("ping")
def test_wireless_example(run_experiment, routed):  # noqa: F811
    done = run_experiment(EXAMPLES / "wireless.yaml", pcap=True)
    hops = [64 - int(ttl) + 1 for ttl in re.findall(r"ttl=(\d+)", done.text("walker", "ping"))]
    assert hops[0] == 1 and max(hops) == hops[-1] == 4 and {1, 2, 3, 4} <= set(hops), hops
    assert len(hops) > 70, "most pings are answered on the way"
    check_captures(done)
