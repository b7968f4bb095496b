"""P4 switches by the Python package: they are those of files, and what they leave is data frames."""

import pytest
import yaml
from belljar import BelljarError, Experiment, Management
from conftest import EXAMPLES, ROOT, execute

pandas = pytest.importorskip("pandas")
P4 = ROOT / "tests" / "p4"


def experiment(workdir, program=P4 / "learning.json", **more):
    e = Experiment(stop_time="6 s")
    s1 = e.p4_switch("s1", str(program), commands=str(workdir / "first.txt"), cpu_port=510, latency="1 us", queue_bytes="30 KB",
                     queues=4, timestamps="ns", management=Management(device_id=7, port=[9559, 50051], control_latency="1 ms"), **more)
    e.host("a", interfaces={"eth0": "10.1.0.1/24"}).run("ping", "-c", 3, "10.1.0.2", start="1 s")
    e.host("b", interfaces={"eth0": "10.1.0.2/24"})
    e.host("c")
    e.link("a", s1.port(1)).link("b", s1.port(2)).link("c", "s1:mgmt")
    return e.p4("s1", commands=str(workdir / "later.txt"), at="2500 ms")


def test_experiments_and_their_results(belljar, workdir, monkeypatch):
    monkeypatch.setenv("BELLJAR_BIN", str(belljar))
    (workdir / "first.txt").write_text("table_set_default mac flood 5\nmc_mgrp_create 5\nmc_node_create 1 1 2\nmc_node_associate 5 0\n")
    (workdir / "later.txt").write_text("table_set_default mac drop\n")
    e = experiment(workdir, p4info=str(P4 / "learning.p4info.txtpb"))
    results = e.run(workdir / "data")
    tables = results.p4_tables("s1")
    default = tables[(tables["table"] == "MyIngress.mac") & tables["entry"].isna()].iloc[0]
    # ARP and two echoes both ways; the third is dropped.
    assert default["action"] == "MyIngress.drop" and default["hits"] >= 7
    counters = results.p4_counters()
    assert set(counters["index"]) == {1, 2} and counters["packets"].sum() == default["hits"] and list(counters["switch"].unique()) == ["s1"]
    assert len(results.p4_registers()) == 2 and results.p4_registers("s1")["value"].min() > 0
    ports = results.p4_ports().set_index("port")
    assert ports.loc["p1", "packets_in"] + ports.loc["p2", "packets_in"] == default["hits"]
    with pytest.raises(BelljarError, match="there was no P4 switch 's2': the run had s1"):
        results.p4_tables("s2")
    assert results.statistics["p4_switches"]["s1"]["drops"]["ingress"] >= 1


def test_settings_are_those_of_files(belljar, workdir):
    for name in ("first.txt", "later.txt"):
        (workdir / name).write_text("")
    (workdir / "said").write_text(experiment(workdir, EXAMPLES / "p4-bridge.p4", define={"EXTRA": 4}).to_yaml())
    done = execute([belljar, "run", workdir / "said", "--show-config"])
    assert done.status == 0, done
    shown = yaml.safe_load(done.out)["switches"]["s1"]
    assert shown["management"] == {"interface": "mgmt", "address": shown["management"]["address"], "port": [9559, 50051], "thrift_port": 9090, "device_id": 7,
                                   "control_latency": "1 ms"}
    kept = {key: shown[key] for key in ("define", "queue_bytes", "queues", "cpu_port", "timestamps", "latency")}
    assert kept == {"define": {"EXTRA": "4"}, "queue_bytes": "30000 B", "queues": 4, "cpu_port": 510, "timestamps": "ns", "latency": "1 us"}
    # What is shown reads as the same again.
    (workdir / "again").write_text(done.out)
    assert execute([belljar, "run", workdir / "again", "--show-config"]).out == done.out


def test_a_switch_without_program_and_controller_is_refused():
    with pytest.raises(ValueError, match="switch 's1' has neither p4= nor management="):
        Experiment(stop_time=1).p4_switch("s1")
