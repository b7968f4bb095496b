"""Plots of a single run, graphs of NetworkX, drawings and the version."""

import re

import pytest
from conftest import ROOT

from belljar import Experiment, Route, __version__, models, plots


def test_the_version_is_that_of_the_program():
    workspace = (ROOT / "Cargo.toml").read_text().split("[workspace.package]")[1]
    assert __version__ == re.search(r'^version = "(.*)"$', workspace, re.M)[1]


@pytest.fixture(scope="module")
def results(tmp_path_factory, belljar):
    exp = Experiment(stop_time="12 s", metrics_interval="100 ms")
    exp.network.edge("here", "there", latency="20 ms", loss=0.003)
    exp.host("client", at="here", bandwidth_up="10 Mbit").model(models.Bulk(to="server:5001", size="4 MB"), start="1 s")
    exp.host("server", at="there").model(models.Sink(port=5001))
    exp.partition("client", "server", at="2 s", lasting="1 s")
    exp.pause("server", at="5 s")
    exp.resume("server", at="6 s")
    return exp.run(tmp_path_factory.mktemp("plots") / "out", pcap=True, check=False, binary=belljar)


def test_tcp(results, workdir):
    pytest.importorskip("matplotlib")
    figure, table = results.plot_tcp(path=workdir / "tcp.png")
    assert len(figure.axes) == 3 and (workdir / "tcp.png").exists() and (workdir / "tcp.csv").exists()
    # The end that receives has no curve.
    assert set(table["host"]) == {"client"} and table["cwnd"].max() > 10 and 5e6 < table["rate"].max() < 2e7


def test_faults(results, workdir):
    pytest.importorskip("matplotlib")
    table = plots.faults(results)
    assert table.values.tolist() == [["partition", "client | server", 2.0, 3.0], ["pause", "server", 5.0, 5.0], ["resume", "server", 6.0, 6.0]]
    figure, _ = results.plot_faults(workdir / "faults.png")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["partition client | server", "pause server", "resume server"]


def test_sequence(results, workdir):
    pytest.importorskip("matplotlib")
    table = plots.sequence(results, "client", "server")
    assert table["label"].tolist()[:3] == ["SYN", "SYN ACK", "ACK"]
    latency = (table["received"] - table["sent"]).dropna()
    assert latency.min() == pytest.approx(0.02, abs=1e-3)
    # Packets of the partition are lost; all others but a few arrive.
    cut = table[(table["sent"] > 2.0) & (table["sent"] < 2.9)]
    assert cut["received"].isna().all() and table["received"].isna().mean() < 0.2
    figure, shown = results.plot_sequence("client", "server", start=2.0, most=10, path=workdir / "sequence.png")
    assert len(shown) == 10 and (workdir / "sequence.png").exists()


@pytest.mark.needs("iptables")
def test_a_sequence_through_nat(workdir, belljar):
    pytest.importorskip("pandas")
    exp = Experiment(stop_time="5 s")
    exp.host("home", interfaces={"eth0": "192.168.0.2/24"}, routes=[Route("default", via="192.168.0.1")]).model(
        models.Bulk(to="203.0.113.9:5001", size="20 KB"), start="1 s")
    exp.host("nat", interfaces={"eth0": "192.168.0.1/24", "eth1": "203.0.113.1/24"}, forwarding=True,
             setup=["iptables -t nat -A POSTROUTING -o eth1 -j MASQUERADE"])
    exp.host("web", interfaces={"eth0": "203.0.113.9/24"}).model(models.Sink(port=5001))
    exp.link("home", "nat:eth0", latency="1 ms")
    exp.link("nat:eth1", "web", latency="2 ms")
    table = plots.sequence(exp.run(workdir / "out", pcap=True, binary=belljar), "home", "web")
    assert table["label"].tolist()[:3] == ["SYN", "SYN ACK", "ACK"] and set(table["source"]) == {"home", "web"}
    assert table["received"].notna().all() and (table["received"] - table["sent"]).min() == pytest.approx(0.003, abs=1e-3)


def test_labels_of_a_sequence_keep_apart():
    pd = pytest.importorskip("pandas")
    sent = pd.DataFrame({"sent": [1.0, 1.1, 1.25, 2.0], "label": ["SYN", "ACK", "PSH", "FIN"]})
    assert plots._labels(sent, 0.2) == [(1.0, "SYN and 1 more"), (1.25, "PSH"), (2.0, "FIN")]


def test_networkx_and_drawings(belljar, workdir):
    networkx = pytest.importorskip("networkx")
    exp = Experiment(stop_time="5 s")
    exp.switch("s1")
    exp.host("alice")
    exp.host("bob")
    exp.link("alice", "s1", latency="3 ms", rate="10 Mbit")
    exp.link("bob", "s1")
    graph = exp.to_networkx()
    assert networkx.is_connected(graph) and graph.nodes["alice"]["kind"] == "host" and graph.nodes["s1"]["kind"] == "switch"
    edge = graph.edges["alice", "s1"]
    assert edge["latency"] == "3 ms" and edge["rate"] == 10_000_000
    assert exp.save_drawing(workdir / "a.svg").read_text().startswith("<svg")
