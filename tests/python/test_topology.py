"""Explicit topologies by the Python package."""

import shutil

import pytest
import yaml
from belljar import (Experiment, Interface, Route, codel, drop_tail, exponential, fq_codel, gilbert_elliott, link_from, models, one_of,
                     one_way, pareto, priority, red, run, uniform)
from conftest import execute

networkx = pytest.importorskip("networkx")

# One of everything that links, switches, routers, models and their events have, as the file says it.
WRITTEN = """
general: {stop_time: 4 s, seed: 3}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 label "cloud" host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
        edge [ source 0 target 0 latency "2 ms" ]
      ]
belljar: {metrics: {interval: 100 ms}}
switches: {lan: {ageing: 60 s}, spare: {}}
routers:
  border:
    interfaces: {eth0: 192.168.1.1/24, eth1: {addresses: [10.9.0.1/30], mac: "02:00:00:00:00:09"}}
    routes: [{to: 10.77.0.0/16, via: [192.168.1.10, 192.168.1.11], metric: 7}, {to: 10.78.0.0/16, dev: eth1}]
    routing: shortest_path
    clamp_mss: 1300
hosts:
  gate:
    network_node_id: 0
    forwarding: true
    clock: {offset: -1 s, drift_ppm: 20}
    processes: [{model: {type: dns_server, delay: {uniform: [1 ms, 2 ms]}}}]
  outside:
    network_node_id: 0
    host_options: {pcap_enabled: true, pcap_capture_size: 80 B, sysctls: {net.ipv4.tcp_ecn: 1}}
    processes:
    - {model: {type: dns, names: [user, gate], to: gate, count: 2, timeout: 1 s, retries: 1, pause: 100 ms}, start_time: 1}
    - {model: {type: constant_rate, name: calls, to: "server:5000", rate: 80 Kbit, datagram_size: 200 B, duration: 1 s}, start_time: never}
  server:
    routing: static
    routes: [{to: default, via: 192.168.1.1}]
    processes:
    - {model: {type: http_server, port: 8080, response_size: {pareto: {mean: 5 KB, shape: 1.5, max: 1 MB}}, delay: 1 ms}}
    - {model: {type: sink, port: 5000}}
    - {model: {type: sink, name: heard, port: 5000, protocol: udp}}
    - {model: {type: source, port: 9, size: 20 KB}, shutdown_time: 3 s}
  user:
    interfaces: {eth0: [192.168.1.11/24]}
    processes:
    - {model: {type: http, to: ["server:8080"], path: /x, request_size: 10 B, keep_alive: false, timeout: 2 s, count: 3, interval: {exponential: 200 ms}}}
    - {model: {type: bulk, to: "server:5000", size: 100 KB}, start_time: 500 ms}
    - {model: {type: bulk, name: down, to: "server:9", direction: down}, start_time: 1}
    - {model: {type: on_off, to: "server:5000", rate: 100 Kbit, burst: 100 ms, silence: 50 ms, duration: 1 s}}
links:
- {between: [user, lan], rate: 100 Mbit, latency: 50 us, queue: {packets: 50}}
- {between: [server, lan], jitter: 2 us, packet_loss: 0.01, overhead: 24 B, queue: {bytes: 64 KB}}
- {between: ["border:eth0", lan], name: up, cost: 3, mtu: 1400, queue: {codel: {target: 5 ms}}}
- {between: ["border:eth1", "gate:eth1"], name: uplink, rate: 10 Mbit, latency: 1 ms, reverse: {rate: 2 Mbit, packet_loss: 0.001}}
- between: [lan, spare]
  latency: 10 us
  packet_loss: {gilbert_elliott: {to_bad: 0.01, to_good: 0.3, loss_bad: 0.9}}
  reordering: {probability: 0.1, delay: 1 ms}
  duplication: 0.01
  corruption: 0.02
  queue: {priority: {bands: [{packets: 5}, {fq_codel: {flows: 16}}, {red: {min: 2 KB, max: 9 KB, limit: 20 KB}}], dscp: {46: 0}, default: 1}}
  token_bucket: {rate: 10 Mbit, burst: 32 KB}
events:
- {at: 1 s, link_down: up, for: 200 ms}
- {at: 2 s, link_change: {link: uplink, from: gate}, rate: 1 Mbit, latency: 3 ms}
- {at: 2500 ms, link_reset: "up*"}
- {at: 1 s, start: calls, hosts: outside, for: 1500 ms}
- {every: 1 s, stop: http, hosts: {one_of: [user]}, for: 100 ms, probability: 0.5}
- {at: 1500 ms, link_change: {from: outside, to: gate}, packet_loss: 0.1, for: 500 ms}
- {at: 3 s, partition: [[border], [server]], for: 300 ms}
"""


def in_python():
    e = Experiment(stop_time="4 s", seed=3, metrics_interval="100 ms")
    e.network.edge("cloud", "cloud", latency="2 ms")
    lan, spare = e.switch("lan", ageing="60 s"), e.switch("spare")
    border = e.router("border", interfaces={"eth0": "192.168.1.1/24", "eth1": Interface("10.9.0.1/30", mac="02:00:00:00:00:09")},
                      routes=[Route("10.77.0.0/16", via=["192.168.1.10", "192.168.1.11"], metric=7), Route("10.78.0.0/16", dev="eth1")],
                      routing="shortest_path", clamp_mss=1300)
    gate = e.host("gate", at="cloud", forwarding=True, clock={"offset": "-1 s", "drift_ppm": 20})
    gate.model(models.DnsServer(delay=uniform("1 ms", "2 ms")))
    outside = e.host("outside", at="cloud", pcap=True, pcap_size="80 B", sysctls={"net.ipv4.tcp_ecn": 1})
    outside.model(models.Dns(names=["user", "gate"], to="gate", count=2, timeout="1 s", retries=1, pause="100 ms"), start=1)
    outside.model(models.ConstantRate(name="calls", to="server:5000", rate="80 Kbit", datagram_size="200 B", duration="1 s"), start="never")
    server = e.host("server", routing="static", routes=[Route("default", via="192.168.1.1")])
    server.model(models.HttpServer(port=8080, response_size=pareto("5 KB", 1.5, "1 MB"), delay="1 ms")).model(models.Sink(port=5000))
    server.model(models.Sink(name="heard", port=5000, protocol="udp")).model(models.Source(port=9, size="20 KB"), stop="3 s")
    user = e.host("user", interfaces={"eth0": ["192.168.1.11/24"]})
    user.model(models.Http(to=["server:8080"], path="/x", request_size="10 B", keep_alive=False, timeout="2 s", count=3,
                           interval=exponential("200 ms")))
    user.model(models.Bulk(to="server:5000", size="100 KB"), start="500 ms").model("bulk", name="down", to="server:9", direction="down", start=1)
    user.model(models.OnOff(to="server:5000", rate="100 Kbit", burst="100 ms", silence="50 ms", duration="1 s"))
    e.link(user, lan, rate="100 Mbit", latency="50 us", queue=drop_tail(packets=50))
    e.link("server", "lan", jitter="2 us", packet_loss=0.01, overhead="24 B", queue=drop_tail(bytes="64 KB"))
    e.link("border:eth0", lan, name="up", cost=3, mtu=1400, queue=codel(target="5 ms"))
    e.link(f"{border.name}:eth1", "gate:eth1", name="uplink", rate="10 Mbit", latency="1 ms", reverse={"rate": "2 Mbit", "packet_loss": 0.001})
    e.link(lan, spare, latency="10 us", packet_loss=gilbert_elliott(to_bad=0.01, to_good=0.3, loss_bad=0.9),
           reordering={"probability": 0.1, "delay": "1 ms"}, duplication=0.01, corruption=0.02, token_bucket={"rate": "10 Mbit", "burst": "32 KB"},
           queue=priority([drop_tail(packets=5), fq_codel(flows=16), red(min="2 KB", max="9 KB", limit="20 KB")], dscp={46: 0}, default=1))
    e.link_down("up", at="1 s", lasting="200 ms").link_change(link_from("uplink", "gate"), at="2 s", rate="1 Mbit", latency="3 ms")
    e.link_reset("up*", at="2500 ms").start("calls", on="outside", at="1 s", lasting="1500 ms")
    e.stop("http", on=one_of("user"), every="1 s", probability=0.5, lasting="100 ms")
    e.link_change(one_way("outside", "gate"), loss=0.1, at="1500 ms", lasting="500 ms")
    return e.partition("border", "server", at="3 s", lasting="300 ms")


def test_experiments_in_python_are_those_of_files(belljar, workdir):
    shown = []
    for name, text in (("written", WRITTEN), ("said", in_python().to_yaml())):
        (workdir / name).write_text(text)
        done = execute([belljar, "run", workdir / name, "--show-config"])
        assert done.status == 0, done
        shown.append(yaml.safe_load(done.out))
        # The results folder has the name of the file.
        assert shown[-1]["general"].pop("data_directory") == f"{name}.data"
    graphs = [one["network"]["graph"].pop("inline") for one in shown]
    assert "cloud" in graphs[0] and "cloud" in graphs[1]
    assert shown[0] == shown[1]


def test_and_they_give_the_same_bytes(belljar, workdir):
    (workdir / "written.yaml").write_text(WRITTEN)
    one, two = run(workdir / "written.yaml", workdir / "one"), in_python().run(workdir / "two", parallelism=2)
    differs = execute([belljar, "diff", one.path, two.path])
    assert "1 of 9 files differ" in differs.out and "processed-config.yaml" in differs.out, "how the graph's text is set"
    for name in ("flows.csv", "sim-stats.json", "metrics/hosts.csv", "hosts/outside/eth0.pcap"):
        assert (one.path / name).read_bytes() == (two.path / name).read_bytes(), name
    flows = pytest.importorskip("pandas") and two.flows()
    totals, sampled = two.links(), two.link_series()
    assert set(totals["link"]) == {"up", "uplink", "user:eth0-lan:p1", "server:eth0-lan:p2", "lan:p4-spare:p1"}, totals
    last = sampled.groupby(["link", "from", "to"])["bytes"].last()
    for _, row in totals[totals["bytes"] > 0].iterrows():
        assert last[(row["link"], *row["direction"].split(" to "))] == row["bytes"], row
    assert sampled["time"].is_monotonic_increasing and {"packet_loss", "link_down", "queue"} <= set(sampled.columns)
    regular = two.link_series(every=0.5)
    assert len(regular) == round(two.statistics["simulated_seconds"] / 0.5) * len(last) and (regular.groupby(["link", "from", "to"])["bytes"].last() == last).all()
    assert (one.path / "metrics/links.csv").read_bytes() == (two.path / "metrics/links.csv").read_bytes()
    assert set(flows[flows["outcome"] == "done"]["model"]) >= {"http", "dns", "bulk", "down", "http_server", "heard"}, flows


def test_nodes_and_edges_become_hosts_routers_switches_and_links():
    graph = networkx.path_graph(["A b", "r", "s", "c"])
    graph.nodes["s"]["kind"] = "switch"
    graph.edges["A b", "r"].update(latency=3, loss=0.1, rate="5 Mbit")
    exp = Experiment.from_networkx(graph, stop_time="9 s", seed=4, latency="1 ms")
    entry = exp.to_dict()
    assert entry["general"]["seed"] == 4 and "network" not in entry
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
    exp = Experiment.from_networkx(graph, stop_time="5 s", latency="1 ms")
    exp.hosts["a"].run("ping", "-n", "-c", "3", "b", start="1 s")
    results = exp.run(workdir / "out")
    said = next((workdir / "out" / "hosts" / "a").glob("ping.*.stdout")).read_text()
    assert "ttl=59 time=12.0 ms" in said, said
    assert results is not None
