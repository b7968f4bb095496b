"""belljar-routed: OLSR, AODV and the bridge as guests."""

import json
import re

import pytest
from conftest import EXAMPLES
from routed_nodes import guests, routed  # noqa: F401, the fixtures
from test_links import check_captures


@pytest.mark.needs("ping")
def test_stations_are_told_of_no_shorter_way_by_redirects(run_experiment, routed):
    """n2 sends on by the interface that packets come by, which makes Linux tell n1 to send to n3 itself, out of its reach."""
    daemon = {"path": str(routed), "args": ["olsr", "-i", "eth0"], "expected_final_state": "running"}
    hosts = {f"n{n}": {"forwarding": True, "routes": [], "processes": [daemon]} for n in range(1, 4)}
    hosts["n1"]["processes"] = [daemon, {"path": "ping", "args": ["-n", "-c", "5", "10.0.0.3"], "start_time": "20 s"}]
    radios = {"air": {"range": 250, "stations": {"n1": [0, 0], "n2": [200, 0], "n3": [400, 0]}}}
    done = run_experiment({"general": {"stop_time": "30 s"}, "hosts": hosts, "radios": radios})
    said = done.text("n1", "ping")
    assert "5 received" in said and "Redirect" not in said, said


@pytest.mark.parametrize("protocol", ["olsr", "aodv"])
def test_guests_give_the_same_bytes_for_any_number_of_workers(run_experiment, routed, protocol):
    experiment = guests(5, routed, protocol)
    experiment["hosts"]["n0"]["processes"].append(
        {"path": "ping", "args": ["-n", "-c", "5", "10.9.3.2"], "start_time": "20 s", "expected_final_state": {"exited": 0}})
    runs = []
    for workers in (1, 2):
        done = run_experiment(experiment, pcap=True, args=["--parallelism", str(workers)], name=f"with{workers}")
        files = sorted(file for file in (done.path / "hosts").rglob("*") if file.is_file())
        runs.append({str(file.relative_to(done.path)): file.read_bytes() for file in files})
    assert runs[0].keys() == runs[1].keys() and not [name for name in runs[0] if runs[0][name] != runs[1][name]]
    assert "5 received" in done.text("n0", "ping")
    check_captures(done)


@pytest.mark.needs("ping")
@pytest.mark.parametrize("protocol, options", [("olsr", ["--no-link-layer"]), ("aodv", ["--mesh"])])
def test_stations_out_of_reach_are_found(run_experiment, routed, protocol, options):
    daemon = {"path": str(routed), "args": [protocol, "-i", "eth0", *options], "expected_final_state": "running"}
    pinging = {"path": "ping", "args": ["-n", "-c", "20", "10.0.0.4"], "start_time": "20 s", "expected_final_state": "any"}
    hosts = {f"n{n}": {"forwarding": True, "routes": [], "processes": [daemon, *([pinging] if n == 1 else [])]} for n in range(1, 5)}
    places = {"n1": [0, 0], "n2": [200, 100], "n3": [200, -100], "n4": [400, 0]}
    events = [{"at": "25.5 s", "move": "n2", "to": [9000, 0]}]
    radios = {"air": {"range": 250, "stations": places}}
    done = run_experiment({"general": {"stop_time": "45 s"}, "hosts": hosts, "radios": radios, "events": events})
    answered = {int(n) for n in re.findall(r"icmp_seq=(\d+) .*time=", done.text("n1", "ping"))}
    assert {1, 2, 3, 4, 5, 17, 18, 19, 20} <= answered, answered
    # the link layer tells AODV at once when n2 was its way; OLSR was told not to listen and waits for Hello messages
    if protocol == "aodv":
        assert len(answered) >= 18, answered


def test_aodv_reports_what_it_does_not_find(run_experiment, routed):
    experiment = guests(3, routed, "aodv", stop="60 s", end="50 s")
    experiment["hosts"]["n0"]["processes"].append(
        {"path": "ping", "args": ["-n", "-c", "1", "-W", "40", "10.77.0.1"], "start_time": "2 s", "expected_final_state": {"exited": 1}})
    done = run_experiment(experiment)
    assert "Destination Host Unreachable" in done.text("n0", "ping")
    assert json.loads(done.streams("n1", "belljar-routed")[1].read_text())["routes"] == []


@pytest.mark.needs("ping")
def test_bridges_example(run_experiment, routed):
    done = run_experiment(EXAMPLES / "bridges.yaml", pcap=True)
    times = [float(ms) for ms in re.findall(r"time=([\d.]+)", done.text("s1", "ping"))]
    assert len(times) == 3 and times[1:] == pytest.approx([8.1, 8.1], abs=0.05), "four links of 1 ms there and back, and ARP before"
    shown = done.streams("b1", "belljar-routed")[1].read_text()
    assert "routes: 2" in shown and "oversize 0" in shown, shown


@pytest.mark.needs("ping", "ip")
def test_olsr_example(run_experiment, routed):
    done = run_experiment(EXAMPLES / "olsr.yaml", pcap=True)
    said = done.text("n1", "ping")
    times = {int(n): float(ms) for n, ms in re.findall(r"icmp_seq=(\d+) .*time=([\d.]+)", said)}
    # 8 ms by n2; 30 ms by n5 and n4 from the very next ping on when the carrier goes; back; and once more the long way, but
    # only after some seconds, when nothing but silence tells of the failure
    assert [times.get(n) for n in (5, 13, 30, 50, 75)] == [8, 30, 30, 8, 30], said
    lost = [n for n in range(1, 76) if n not in times]
    assert lost and min(lost) >= 51 and len(lost) <= 8, lost
    shown, routes = done.text("n1", "belljar-routed.1002"), [file.read_text() for file in done.streams("n1", "ip")]
    assert re.search(r"10\.0\.23\.3/32 +10\.0\.12\.2 +eth0 +2", shown), shown
    assert "10.0.23.3 via 10.0.12.2 dev eth0" in routes[0] and "10.0.23.3 via 10.0.51.5 dev eth1" in routes[1]
    check_captures(done)
