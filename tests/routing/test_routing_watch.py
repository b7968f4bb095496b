"""Watching routing: route logs, and what `belljar inspect --routing` makes of them."""

import json

import pytest
from conftest import EXAMPLES, execute
from test_links import echo, exchange, python, world
from routed_nodes import routed  # noqa: F401 (a fixture)


def ip(args, at):
    return {"path": "ip", "args": args, "start_time": at}


def log(done, host):
    return [json.loads(line) for line in (done.path / "routes" / f"{host}.jsonl").read_text().splitlines()]


@pytest.mark.needs("ip")
def test_each_change_is_logged_at_its_time(run_experiment):
    changes = [ip("route add 10.9.0.0/16 via 10.0.0.2", "1 s"), ip("route replace 10.9.0.0/16 via 10.0.0.3", "2 s"), ip("route del 10.9.0.0/16", "3 s"),
               ip("route add blackhole 10.8.0.0/16 metric 7", "4 s")]
    hosts = {"a": {"processes": changes}, "b": {"processes": []}}
    events = [{"at": "5 s", "link_down": "l", "for": "1 s"}, {"at": "7 s", "crash": "a", "for": "1 s"}]
    done = run_experiment(world(hosts, [{"name": "l", "between": ["a", "b"]}], events=events, belljar={"route_log": True}), status=None)
    said = log(done, "a")
    own = {"to": "10.0.0.0/24", "metric": 0, "protocol": 2, "hops": [{"dev": "eth0"}]}
    assert said[:2] == [{"time": 0, "reset": True}, {"time": 0, **own}]
    assert said[2:8] == [
        {"time": 1, "to": "10.9.0.0/16", "metric": 0, "protocol": 3, "hops": [{"dev": "eth0", "via": "10.0.0.2"}]},
        {"time": 2, "to": "10.9.0.0/16", "metric": 0, "protocol": 3, "hops": [{"dev": "eth0", "via": "10.0.0.3"}]},
        {"time": 3, "to": "10.9.0.0/16", "metric": 0},
        {"time": 4, "to": "10.8.0.0/16", "metric": 7, "protocol": 3, "kind": "blackhole", "hops": []},
        {"time": 5, "dev": "eth0", "carrier": False}, {"time": 6, "dev": "eth0", "carrier": True}]
    assert [line for line in said[8:] if "reset" in line or line.get("to") == "10.0.0.0/24"] == [{"time": 7, "reset": True}, {"time": 7, **own}]
    assert log(done, "b")[:2] == said[:2]


@pytest.mark.needs("ip")
def test_loops_are_found_with_their_times(run_experiment, belljar):
    names = ["a", "b", "c"]
    hosts = {name: {"routes": [], "forwarding": True, "processes": []} for name in names}
    # c's address by each other, from 2 s to 3 s
    hosts["a"]["processes"] = [ip("route add 10.0.1.2 via 10.0.0.2", "1 s")]
    hosts["b"]["processes"] = [ip("route add 10.0.1.2/32 via 10.0.0.1", "2 s"), ip("route del 10.0.1.2/32", "3 s")]
    done = run_experiment(world(hosts, [{"between": ["a", "b"]}, {"between": ["b", "c"]}], belljar={"route_log": True}), status=None)
    found = json.loads(execute([belljar, "inspect", done.path, "--routing", "--json"]).out)
    assert found["loops"] == [{"from": 2, "until": 3, "destination": "c", "hosts": ["a", "b"]}], found["loops"]
    shown = execute([belljar, "inspect", done.path, "--routing"]).out
    assert all(heading in shown for heading in ("routes\n", "convergence\n", "loops\n", "paths over time\n")), shown


def analysed(belljar, done):
    return json.loads(execute([belljar, "inspect", done.path, "--routing", "--json"]).out)


@pytest.mark.needs("ip")
def test_paths_lose_what_their_links_lose(run_experiment, belljar):
    """a - b - c: from 3 s to 6 s b's packets to c are all lost, from 6 s on half of them. What programs see agrees."""
    hosts = {"a": {"routes": [], "processes": [ip("route add 10.0.1.0/24 via 10.0.0.2", "500 ms"), *exchange("10.0.1.2", count=40)["processes"]]},
             "b": {"routes": [], "forwarding": True, "processes": []}, "c": {"routes": [{"to": "10.0.0.0/24", "via": "10.0.1.1"}], **echo()}}
    events = [{"at": "3 s", "link_change": {"link": "far", "from": "b"}, "packet_loss": 1.0}, {"at": "6 s", "link_change": {"link": "far", "from": "b"}, "packet_loss": 0.5}]
    done = run_experiment(world(hosts, [{"name": "near", "between": ["a", "b"]}, {"name": "far", "between": ["b", "c"]}], events=events, belljar={"route_log": True}), status=None)
    at = {round(sample["time"]): sample for sample in analysed(belljar, done)["paths"]}
    shown = {second: [at[second][key] for key in ("connected", "working", "lost", "delivered")] for second in (2, 4, 8)}
    # from a and b to c: two of the six pairs
    assert shown == {2: [6, 6, 0, 1], 4: [6, 4, 2, 4 / 6], 8: [6, 6, 0, 5 / 6]}, shown
    [output] = (done.path / "hosts/a").glob("python3.*.stdout")
    answers = output.read_text().split()
    lost = [n for n, answer in enumerate(answers) if answer == "lost"]
    # An exchange takes 0.1 s, a lost one 1.1 s.
    assert all(answers[n] != "lost" for n in range(18)) and lost[0] in (18, 19, 20) and lost[1:3] == [lost[0] + 1, lost[0] + 2], answers
    table = execute([belljar, "inspect", done.path, "--routing"]).out.split("paths over time\n")[1].splitlines()
    assert "delivered" in table[0] and [line.split()[2:6] for line in table if line.split()[0] == "4"] == [["66.7", "%", "66.7", "%"]], table


def test_the_network_is_written_with_its_schedule(run_experiment, belljar):
    """A loop of switches, of which the spanning tree excludes one link until another one fails; a partition; losses in bursts, of a radio channel after
    all retransmissions, and none in the bootstrap phase."""
    hosts = {"a": {"processes": [{"path": "sleep", "args": "9"}]}, "b": {"processes": []}, "c": {"processes": []}}
    burst = {"gilbert_elliott": {"to_bad": 0.1, "to_good": 0.3}}
    links = [{"name": "a", "between": ["a", "s1"]}, {"name": "b", "between": ["b", "s2"], "packet_loss": burst, "reverse": {"packet_loss": 0}},
             {"name": "s12", "between": ["s1", "s2"]}, {"name": "s23", "between": ["s2", "s3"], "packet_loss": 0.5}, {"name": "s13", "between": ["s1", "s3"]}]
    events = [{"at": "4 s", "link_down": "s12", "for": "3 s"}, {"at": "8 s", "partition": [["a"], ["b"]], "for": "1 s"}]
    radios = {"air": {"range": 100, "packet_loss": 0.5, "retries": 2, "stations": {"b": [0, 0], "c": [50, 0]}}}
    done = run_experiment({**world(hosts, links, events=events, belljar={"route_log": True}), "switches": ["s1", "s2", "s3"], "radios": radios,
                           "general": {"stop_time": "10 s", "bootstrap_end_time": "2 s"}}, status=None)
    written = json.loads((done.path / "routes/network.json").read_text())
    found = {":".join(end[0] for end in link["ends"]): link for link in written["links"]}
    assert found["b:s2"]["loss"] == [[[0, 0], [2, 0.25]], [[0, 0]]]
    assert found["s1:s2"]["loss"] == [[[0, 0], [4, 1], [7, 0]]] * 2 and found["s1:s2"]["unused"] == [[4, 7]]
    excluded = [name for name in ("s2:s3", "s1:s3") if found[name].get("unused") == [[0, 4], [7, None]]]
    assert len(excluded) == 1, found
    assert written["partitions"] == [{"from": 8, "until": 9, "groups": [["a"], ["b"]]}]
    assert written["radios"][0]["loss"] == 0.125
    assert {node["name"]: node["kind"] for node in written["nodes"]} == {"a": "host", "b": "host", "c": "host", "s1": "switch", "s2": "switch", "s3": "switch", "air": "radio"}
    at = {round(sample["time"]): sample for sample in analysed(belljar, done)["paths"]}
    # From a to b, from b to a and from b to c; the others have no routes. b's packets to a lose a quarter, and half of it where s2-s3 stands in for s1-s2.
    delivered = {second: [at[second][key] for key in ("connected", "working", "delivered")] for second in (1, 3, 5, 8, 9)}
    expected = {1: (3, 1 + 1 + 0.875), 3: (3, 1 + 0.75 + 0.875), 5: (3, 0.5 + 0.375 + 0.875), 8: (1, 0.875), 9: (3, 1 + 0.75 + 0.875)}
    assert delivered == {second: [6, working, pytest.approx(sum / 6)] for second, (working, sum) in expected.items()}, delivered


# Packets of protocols without ports, by raw sockets and on the link; and of RIPng, whose source is the link-local address.
CONTROL = """
import socket, time
for number, count in ((2, 1), (88, 2), (89, 3), (112, 4), (1, 5)):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, number)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('10.0.0.1'))
    for _ in range(count):
        s.sendto(bytes([0x11]) + bytes(27), ('224.0.0.200', 0))
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0))
own = link.getsockname()[4]
for destination, kind, payload in (('0180c2000014', 38, 'fefe03'), ('0180c2000000', 38, '424203'), ('ffffffffffff', 0x88b5, ''), ('ffffffffffff', 0x1234, '')):
    link.send(bytes.fromhex(destination) + own + kind.to_bytes(2, 'big') + bytes.fromhex(payload) + bytes(38))
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 521))
s.sendto(bytes(24), ('ff02::9', 521, 0, socket.if_nametoindex('eth0')))
"""


def test_control_packets_are_known_without_ports(run_experiment, belljar):
    hosts = {"a": {"processes": [python(CONTROL, start="3 s", expected_final_state={"exited": 0})]}, "b": {"processes": []}}
    done = run_experiment(world(hosts, [{"between": ["a", "b"]}], belljar={"route_log": True, "ipv6": True}), pcap=True)
    control = {host: {name: sent["packets"] for name, sent in found["control"].items()} for host, found in analysed(belljar, done)["hosts"].items()}
    listed = {name: control["a"].pop(name, 0) for name in ("MLD", "ICMPv6 router discovery")}
    assert control["a"] == {"IGMP": 1, "EIGRP": 2, "OSPF": 3, "VRRP": 4, "IS-IS": 1, "STP": 1, "belljar-routed bridge": 1, "RIPng": 1}, (control, listed)
    assert not set(control["b"]) - {"MLD", "ICMPv6 router discovery"}, "what b has received is not b's"
    shown = execute([belljar, "inspect", done.path, "--routing"]).out
    assert "IGMP, IS-IS, OSPF" in shown, shown


def test_without_a_log_the_remedy_is_named(run_experiment, belljar):
    done = run_experiment(world({"a": {"processes": []}, "b": {"processes": []}}, [{"between": ["a", "b"]}]))
    refused = execute([belljar, "inspect", done.path, "--routing"])
    assert refused.status == 2 and "there are no route logs in" in refused.err and "--set belljar.route_log=true" in refused.err, refused


@pytest.mark.needs("ping", "ip")
def test_olsr_is_watched(run_experiment, belljar, routed):  # noqa: F811
    done = run_experiment(EXAMPLES / "olsr.yaml", pcap=True, args=["--set", "belljar.route_log=true"])
    found = json.loads(execute([belljar, "inspect", done.path, "--routing", "--json"]).out)
    events = {event["event"]: event for event in found["convergence"]}
    start, down = events["start"], next(event for name, event in events.items() if name.startswith("link_down"))
    assert start["hosts"] == 5 and 1 < start["seconds"] < 30, start
    assert down["changes"] > 0 and down["seconds"] < 25, down
    for name, host in found["hosts"].items():
        assert host["control"]["OLSR"]["packets"] > 50 and host["routes"] >= 4, (name, host)
    at = {round(sample["time"]): sample for sample in found["paths"]}
    assert (at[29]["connected"], at[29]["working"], at[29]["stretch"]) == (20, 20, 1)
    assert (at[50]["connected"], at[50]["working"]) == (20, 20), "the other way round"
