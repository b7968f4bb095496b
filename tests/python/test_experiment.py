"""Writing experiments, running them and reading results."""

import os
import sys

import pytest
import yaml
from conftest import ROOT, execute

from belljar import BelljarError, Experiment, Network, Results, RunFailed, exponential, find_binary, models, run


def small(**general):
    e = Experiment(stop_time="20 s", metrics_interval="100 ms", **general)
    e.network.edge("here", "there", latency="20 ms", loss=0.01, jitter="1 ms")
    e.host("server", at="here").run("/usr/bin/python3", "-u", "-m", "http.server", "80", "--directory", "/usr/share/common-licenses",
                                    expect="running")
    e.host("client", at="there", bandwidth_down="10 Mbit").run(
        "/usr/bin/curl", "-sS", "-o", "got", "-w", "%{time_total}\n", "http://server/GPL-3", start="1 s")
    return e


@pytest.mark.needs("curl")
def test_from_an_experiment_to_frames(workdir):
    pd = pytest.importorskip("pandas")
    results = small(seed=3).run(workdir / "out", strace=True, pcap=True)
    assert results.ok and results.seed == 3 and results.hosts == ["client", "server"]
    assert float(results.stdout("client", "curl")) > 0.08
    assert (results.host("client") / "got").read_text().startswith("                    GNU GENERAL PUBLIC LICENSE")

    processes = results.processes().set_index("host")
    assert processes.loc["client", "state"] == "exited 0" and processes.loc["client", "started"] == 1.0
    assert pd.isna(processes.loc["server", "ended"])
    traffic = results.traffic().set_index("host")
    assert traffic.loc["server", "bytes_out"] > 35_000 and traffic.loc["client", "address"] == "11.0.0.1"
    assert results.syscall_counts().sum() == sum(results.statistics["syscalls"].values())

    calls = results.calls("client")
    connect = calls[(calls["call"] == "connect") & calls["arguments"].str.contains("11.0.0.2:80")]
    assert len(connect) == 1 and connect["time"].iloc[0] >= 1.0
    packets = results.packet_frame("client")
    assert len(packets) == traffic.loc["client", "packets_in"] + traffic.loc["client", "packets_out"]
    assert packets["time"].is_monotonic_increasing and packets["time"].iloc[0] >= 1.0
    assert set(packets["protocol"]) == {"tcp"} and 80 in set(packets["destination_port"])

    sampled = results.series()
    assert sampled.groupby("host")["bytes_out"].last().to_dict() == traffic["bytes_out"].to_dict()
    regular = results.series(every=0.5)
    assert len(regular) == 2 * 40 and regular.groupby("host")["bytes_out"].last().to_dict() == traffic["bytes_out"].to_dict()
    at_half = regular[(regular["host"] == "client") & (regular["time"] == 0.5)]
    assert at_half["bytes_out"].iloc[0] == 0, "nothing was sent before the start"
    assert results.tcp()["cwnd"].max() >= 10


def test_the_yaml_is_understood(belljar, workdir):
    e = small()
    e.host("third", at="here", ip_addr="10.1.2.3", pcap=True).run("/bin/sleep", 100, stop="5 s", expect="SIGTERM", env={"A": "b c"})
    done = execute([belljar, "run", e.save(workdir / "exp.yaml"), "--show-config"])
    assert done.status == 0, done
    shown = yaml.safe_load(done.out)["hosts"]["third"]
    assert shown["ip_addr"] == "10.1.2.3" and shown["host_options"]["pcap_enabled"] is True
    process = shown["processes"][0]
    assert process["args"] == ["100"] and process["environment"] == {"A": "b c"}
    assert process["expected_final_state"] == {"signaled": "SIGTERM"}


def test_models_and_their_flows(workdir):
    pytest.importorskip("pandas")
    e = Experiment(stop_time="30 s", seed=4)
    e.network.edge("here", "there", latency="10 ms")
    e.host("server", at="here").model("http_server", response_size={"uniform": ["1 KB", "20 KB"]}).model("sink", port=5001)
    e.host("users", at="there").model("http", to="server", count=5, pause={"exponential": "1 s"}, start="1 s")
    e.hosts["users"].model("bulk", to="server:5001", size="1 MB", start="2 s")
    flows = e.run(workdir / "out").flows()
    done = flows[(flows["host"] == "users") & (flows["outcome"] == "done")]
    assert len(done) == 6 and (done["ended"] > done["started"]).all() and done["started"].min() >= 1
    plain = Experiment(stop_time="1 s")
    plain.host("a").run("/bin/true")
    with pytest.raises(BelljarError, match="has a model"):
        plain.run(workdir / "plain").flows()


def test_a_network_from_networkx(belljar, workdir):
    networkx = pytest.importorskip("networkx")
    graph = networkx.cycle_graph(4)
    networkx.set_edge_attributes(graph, 5, "latency")
    graph.edges[0, 1].update(latency="70 ms", loss=0.25)
    graph.nodes[2]["host_bandwidth_up"] = "3 Mbit"
    e = Experiment(stop_time="5 s", network=Network.from_networkx(graph))
    for n in range(4):
        e.host(f"h{n}", at=n)
    e.hosts["h0"].run("/bin/true")
    results = e.run(workdir / "out")
    edges = {(edge["source"], edge["target"]): edge for edge in results.topology["edges"]}
    assert len(edges) == 4 and edges[0, 1]["latency_ns"] == 70_000_000 and edges[0, 1]["loss"] == 0.25
    assert {h["name"]: h["bandwidth_up"] for h in results.topology["hosts"]}["h2"] == 3_000_000
    with pytest.raises(ValueError, match="has no 'latency'"):
        Network.from_networkx(networkx.path_graph(2))


def test_mistakes_are_told_where_they_are_made():
    e = small()
    with pytest.raises(ValueError, match="a host 'client' already"):
        e.host("client")
    with pytest.raises(ValueError, match="no place 'nowhere'"):
        e.host("x", at="nowhere")


def test_a_keyword_that_is_not_known_is_an_error():
    e = small()
    with pytest.raises(TypeError, match=r"host\(\) got an unexpected keyword argument 'att': did you mean 'at'\?"):
        e.host("x", att="here")
    for call, said in (
        (lambda: Experiment(stop_time=1, sede=5), r"Experiment\(\) got an unexpected keyword argument 'sede': did you mean 'seed'\?"),
        (lambda: e.with_(sede=4), r"with_\(\) .* 'sede': did you mean 'seed'\?"),
        (lambda: e.host("m").model("http", too="a"), r"model\(\) .* 'too': did you mean 'to'\?"),
        (lambda: e.host("n").model(models.Sink(port=5), prto="udp"), "with the name of a type, and not with a model"),
        (lambda: e.link("a", "b", reverse={"latncy": 1}), r"reverse\(\) .* 'latncy': did you mean 'latency'\?"),
        (lambda: e.host("o", clock={"ofset": "1 s"}), r"clock\(\) .* 'ofset': did you mean 'offset'\?"),
        (lambda: e.host("p", cpu={"sycall": "1 us"}), r"cpu\(\) .* 'sycall': did you mean 'syscall'\?"),
    ):
        with pytest.raises(TypeError, match=said):
            call()
    with pytest.raises(ValueError, match="there is no model 'htp': there are bulk"):
        e.host("q").model("htp")
    with pytest.raises(TypeError, match="'lattency': did you mean 'latency'"):
        e.link("client", "server", lattency="1 ms")
    with pytest.raises(TypeError, match="link_down.*'unil'"):
        e.link_down("client", "server", at="1 s", unil="2 s")
    assert "x" not in e.hosts and not e.links and not e.events


def test_results_are_of_this_run_or_there_are_none(workdir):
    """A folder that exists is an error, also where a failed run is accepted: it has the results of another run."""
    def experiment(text):
        e = Experiment(stop_time="2 s")
        e.host("a").run("/bin/echo", text)
        return e

    assert run(experiment("one"), workdir / "out").stdout("a") == "one\n"
    with pytest.raises(RunFailed, match="out exists already: replace it with overwrite=True") as failure:
        run(experiment("two"), workdir / "out", check=False)
    assert failure.value.results is None
    assert run(experiment("three"), workdir / "out", overwrite=True).stdout("a") == "three\n"
    (workdir / "mine").mkdir()
    (workdir / "mine" / "precious").write_text("")
    with pytest.raises(RunFailed, match="it is not a results folder of Belljar"):
        run(experiment("four"), workdir / "mine", overwrite=True, check=False)
    assert (workdir / "mine" / "precious").exists()
    # What is refused leaves the earlier results.
    e = experiment("five")
    e.general["sed"] = 1
    with pytest.raises(RunFailed, match="sed"):
        run(e, workdir / "out", overwrite=True, check=False)
    assert (workdir / "out" / "hosts" / "a" / "echo.1000.stdout").read_text() == "three\n"


def test_a_run_that_fails_has_results(workdir):
    e = Experiment(stop_time="2 s")
    e.host("a").run("/bin/false")
    with pytest.raises(RunFailed, match="expected: exited 0") as failure:
        e.run(workdir / "out")
    assert failure.value.results.statistics["hosts"]["a"]["processes"][0]["shell_status"] == 1
    assert not run(e, workdir / "again", check=False).ok


def test_an_experiment_that_cannot_run_has_none(workdir):
    e = Experiment(stop_time="2 s")
    e.host("a").run("/no/such/program")
    with pytest.raises(RunFailed, match="no program '/no/such/program'") as failure:
        e.run(workdir / "out")
    assert failure.value.results is None and not (workdir / "out").exists()


@pytest.mark.parametrize("wrong,said", [
    ("exp.host('b').run('/no/such/program')", "there is no program"),
    ("exp.link('a', 's', rate='fast')", "fast"),
    ("exp.crash('nobody', at='1 s')", "nobody"),
    ("exp.switch('x', ageing='soon')", "soon"),
    ("exp.network.edge('here', 'there', latency='5 parsecs'), exp.host('b', at='here')", "parsecs"),
    ("exp.never('p', '(', files='stdout')", "cannot be compiled"),
    ("exp.host('b', sysctls={'net.ipv4.tcp_ecn': complex(1)})", "hosts.b.host_options.sysctls.net.ipv4.tcp_ecn is (1+0j) of type builtins.complex"),
    ("Experiment.__init__(exp, stop_time='never ever'), exp.host('a').run('/bin/true')", "never ever"),
])
def test_errors_name_the_line_that_made_what_is_wrong(belljar, workdir, wrong, said):
    """The file is Python's: positions in it say nothing to whoever wrote the program."""
    program = workdir / "program.py"
    program.write_text(f"from belljar import Experiment\nexp = Experiment(stop_time='2 s')\nexp.host('a').run('/bin/true')\n"
                       f"exp.switch('s')\nexp.link('a', 's')\n{wrong}\nexp.save_drawing('net.dot') if 'fast' in {wrong!r} else exp.run('out')\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BELLJAR_BIN": str(belljar)}
    done = execute([sys.executable, program], cwd=workdir, env=env)
    assert done.status == 1 and said in done.err and f"{program}:6" in done.err, done.err
    assert "standard input" not in done.err, done.err
    assert done.err.count("python/belljar/") == (2 if "fast" in wrong else 1), done.err


def test_errors_of_the_whole_experiment_name_its_line(workdir):
    e = Experiment(stop_time="2 s")
    e.host("a")
    e.switch("s")
    e.link("a", "s").link("a", "s")
    with pytest.raises(RunFailed, match=rf"(?s)both in the network.*--> {__file__}:\d+\n"):
        e.run(workdir / "out")


def test_settings_reach_the_experiment(workdir):
    e = Experiment(stop_time="2 s")
    e.host("a").run("/bin/echo", "one")
    results = run(e, workdir / "out", seed=9, settings={"hosts.a.processes.0.args": ["a: b", "#c"]})
    assert results.stdout("a") == "a: b #c\n" and results.seed == 9


def test_what_is_missing_is_said_with_what_to_do(workdir, monkeypatch):
    pytest.importorskip("pandas")
    with pytest.raises(BelljarError, match="has no sim-stats.json"):
        Results(workdir)
    e = Experiment(stop_time="1 s")
    e.host("a").run("/bin/true")
    results = e.run(workdir / "out")
    with pytest.raises(BelljarError, match="metrics_interval"):
        results.series()
    with pytest.raises(BelljarError, match="pcap=True"):
        next(results.packets("a"))
    with pytest.raises(BelljarError, match="there are a$"):
        results.stdout("b")
    monkeypatch.setenv("BELLJAR_BIN", "/no/such/belljar")
    with pytest.raises(BelljarError, match="BELLJAR_BIN is /no/such/belljar"):
        find_binary()


def test_numbers_count_seconds():
    """The file needs units of times in Belljar's own keys; Shadow's keys take numbers."""
    e = Experiment(stop_time=9)
    e.host("a").model("bulk", to="b:9", size=1000, pause=exponential(0.5))
    e.host("b", extra={"clock": {"offset": -2}}).run("/bin/true", start=1, env={"at": "3"})
    e.switch("s", ageing=2.5)
    e.link("a", "s", latency=0.001, jitter=1e-5, token_bucket={"rate": "1 Mbit", "burst": 3000}, queue={"codel": {"target": 0.005}})
    e.crash("b", every=0.5, between=[1, "4 s"], lasting=0.25)
    made = e.to_dict()
    assert made["general"]["stop_time"] == 9 and made["hosts"]["b"]["processes"][0]["start_time"] == 1
    assert made["hosts"]["b"]["processes"][0]["environment"] == {"at": "3"} and made["hosts"]["b"]["clock"] == {"offset": "-2 s"}
    assert made["hosts"]["a"]["processes"][0]["model"] == {"type": "bulk", "to": "b:9", "size": 1000, "pause": {"exponential": "0.5 s"}}
    assert made["switches"] == {"s": {"ageing": "2.5 s"}}
    assert made["links"] == [{"between": ["a", "s"], "latency": "0.001 s", "jitter": "0.00001 s", "token_bucket": {"rate": "1 Mbit", "burst": 3000},
                              "queue": {"codel": {"target": "0.005 s"}}}]
    assert made["events"] == [{"every": "0.5 s", "between": ["1 s", "4 s"], "crash": "b", "for": "0.25 s"}]
