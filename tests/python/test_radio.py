"""Radio channels and routes by the Python package."""

import pytest
import yaml
from belljar import BelljarError, Experiment, models


def experiment(**options):
    e = Experiment(stop_time="6 s", **options)
    e.host("a").model(models.ConstantRate(to="10.0.0.2:9", rate="8 Kbit", datagram_size="100 B", duration="4 s"), start="1 s")
    e.host("b").model(models.Sink(port=9, protocol="udp"))
    return e.radio("air", {"a": [0, 0], "b": {"path": [["0 s", 100, 0], ["2 s", 100, 0], ["4 s", 600, 0]]}})


def test_radios_are_written_as_the_file_has_them():
    e = Experiment(stop_time="5 s")
    for name in ("n1", "n2", "far"):
        e.host(name)
    e.radio("air", ["n*"], mobility={"random_waypoint": {"area": [100, 100], "speed": [1, 2]}}, range=120, packet_loss=0.1)
    e.radio("other", {"n1": [0, 0], "far": {"path": [["0 s", 1, 1], ["2 s", 5, 1]]}}, log_distance={"exponent": 2.7}, capture="none")
    e.move("n1", [3, 4], speed=2, at="1 s")
    written = yaml.safe_load(e.to_yaml())
    assert written["radios"]["air"] == {
        "stations": ["n*"], "mobility": {"random_waypoint": {"area": [100, 100], "speed": [1, 2]}}, "range": 120, "packet_loss": 0.1}
    assert written["radios"]["other"]["stations"]["far"] == {"path": [["0 s", 1, 1], ["2 s", 5, 1]]}
    assert written["events"] == [{"at": "1 s", "move": "n1", "to": [3, 4], "speed": 2}]
    assert "network" not in written and not any("network_node_id" in host for host in written["hosts"].values())
    with pytest.raises(ValueError, match="radio, gateway, nic or memory 'air' already"):
        e.radio("air", {})
    assert sorted(node.name for node in e.draw().nodes.values()) == ["air", "far", "n1", "n2", "other"] and "2 radios" in repr(e)


def test_stations_positions_and_routes_are_frames(workdir):
    pytest.importorskip("pandas")
    done = experiment(route_log=True).run(workdir / "data")
    stations = done.radio_stations().set_index("host")
    assert 16 <= stations.loc["a", "unicasts"] < 20 and 15 <= stations.loc["b", "received"] < 20, stations
    assert stations.loc["a", "drop_given_up"] >= 1 and 0 < stations.loc["a", "airtime"] < stations.loc["a", "busy"] < 0.1
    places = done.positions(every=0.5).set_index(["host", "time"])
    assert [places.loc[("b", at), "x"] for at in (0, 2, 3, 4, 6)] == [100, 100, 350, 600, 600]
    assert set(done.positions()["radio"]) == {"air"}
    routes = done.routes()
    first = routes[(routes["host"] == "a") & (routes["to"] == "10.0.0.0/24")].iloc[0]
    assert (first["time"], first["dev"], first["protocol"], first["event"]) == (0, "eth0", 2, "added")
    paths = done.routing()["paths"]
    assert [(p["connected"], p["working"]) for p in paths[:2]] == [(2, 2)] * 2 and paths[-1]["connected"] == 0
    plain = experiment().run(workdir / "plain")
    with pytest.raises(BelljarError, match="route_log"):
        plain.routes()
    with pytest.raises(BelljarError, match="route_log"):
        plain.routing()
