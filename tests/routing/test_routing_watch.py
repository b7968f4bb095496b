"""Watching routing: route logs, and what `belljar inspect --routing` makes of them."""

import json

import pytest
from conftest import EXAMPLES, execute
from test_links import world
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
