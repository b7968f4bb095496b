"""Explicit topologies by the Python package."""

import shutil

import pytest
from belljar import Experiment, Topology

networkx = pytest.importorskip("networkx")


def test_nodes_and_edges_become_hosts_routers_switches_and_links():
    graph = networkx.path_graph(["A b", "r", "s", "c"])
    graph.nodes["s"]["kind"] = "switch"
    graph.edges["A b", "r"].update(latency=3, loss=0.1, rate="5 Mbit")
    exp = Experiment.from_networkx(graph, stop_time="9 s", seed=4, latency="1 ms")
    entry = exp.to_dict()
    assert isinstance(exp, Topology) and entry["general"]["seed"] == 4 and "network" not in entry
    assert list(entry["hosts"]) == ["a-b", "c"] and entry["routers"] == {"r": {}} and entry["switches"] == {"s": {}}
    assert entry["links"] == [
        {"rate": "5 Mbit", "latency": "3 ms", "packet_loss": 0.1, "between": ["a-b", "r"]} | {},
        {"latency": "1 ms", "between": ["r", "s"]},
        {"latency": "1 ms", "between": ["s", "c"]},
    ]


@pytest.mark.parametrize("graph, said", [
    (networkx.path_graph(2, create_using=networkx.DiGraph), "both ways"),
    (networkx.path_graph(["a", "A"]), "would be called 'a'"),
])
def test_what_cannot_be_a_topology_is_refused(graph, said):
    with pytest.raises(ValueError, match=said):
        Experiment.from_networkx(graph, stop_time=1)


@pytest.mark.skipif(shutil.which("ping") is None, reason="ping is not installed")
def test_a_generated_topology_runs(belljar, workdir, monkeypatch):
    monkeypatch.setenv("BELLJAR_BIN", str(belljar))
    graph = networkx.grid_2d_graph(3, 3)
    graph.add_edges_from([("a", (0, 0)), ("b", (2, 2))])
    exp = Topology.from_networkx(graph, stop_time="5 s", latency="1 ms")
    exp.hosts["a"].run("ping", "-n", "-c", "3", "b", start="1 s")
    results = exp.run(workdir / "out")
    said = next((workdir / "out" / "hosts" / "a").glob("ping.*.stdout")).read_text()
    assert "ttl=59 time=12.0 ms" in said, said
    assert results is not None
