"""`belljar import` of P4 networks: topology.json of the P4 tutorials, p4app.json of p4-utils."""

import json
import os
import pathlib
import re
import shutil

import pytest
import yaml
from conftest import EXAMPLES, execute

P4 = EXAMPLES / "p4"


def take(belljar, topology, output, *args):
    done = execute([belljar, "import", topology, "-o", output, *args])
    assert done.status == 0, done
    return yaml.safe_load(output.read_text()), done


def ping(world, host, *targets):
    world["general"]["stop_time"] = "10 s"
    processes = world["hosts"][host].setdefault("processes", [])
    processes += [{"path": "ping", "args": ["-c", "2", "-i", "0.2", target], "start_time": "2 s"} for target in targets]


def pings(done, host):
    return [file.read_text() for file in done.streams(host, "ping")]


@pytest.mark.needs("ip", "ping")
def test_a_topology_of_the_tutorials_runs(belljar, run_experiment, workdir):
    world, done = take(belljar, P4 / "basic/topology.json", workdir / "basic.yaml")
    assert done.err == "", done
    ping(world, "h1", "10.1.2.1", "10.1.3.1")
    (workdir / "basic.yaml").write_text(yaml.safe_dump(world))
    ran = run_experiment(workdir / "basic.yaml")
    to_h2, to_h3 = pings(ran, "h1")
    assert "2 received" in to_h2 and "2 received" in to_h3
    # The link from s1 to s2 takes 5 ms, the others 10 us.
    assert [float(re.search(r"= ([\d.]+)/", said)[1]) > 10 for said in (to_h2, to_h3)] == [True, False]


@pytest.mark.needs("ip", "ping")
def test_a_p4app_runs(belljar, run_experiment, workdir):
    shutil.copytree(P4 / "multicast", workdir / "app/p4src")
    shutil.copy(P4 / "headers.p4", workdir / "app/headers.p4")
    (workdir / "app/s1-commands.txt").write_text(
        "mc_mgrp_create 1\nmc_node_create 0 1 2 3\nmc_node_associate 1 0\ntable_add mac_lookup mac_forward 00:00:0a:00:00:01 => 1\n")
    (workdir / "app/p4app.json").write_text(json.dumps({
        "p4_src": "p4src/multicast.p4", "cli": True, "pcap_dump": True, "enable_log": True,
        "exec_scripts": [{"cmd": "python controller.py"}],
        "topology": {
            "assignment_strategy": "l2", "default": {"auto_arp_tables": False},
            "links": [["h1", "s1"], ["h2", "s1", {"bw": 10, "delay": "5ms"}], ["h3", "s1"]],
            "hosts": {"h1": {}, "h2": {}, "h3": {}}, "switches": {"s1": {"cli_input": "s1-commands.txt"}},
        },
    }, indent=1))
    world, done = take(belljar, workdir / "app/p4app.json", workdir / "out.yaml")
    notes = [re.sub(r"^note: .*p4app.json: line \d+: ", "", line) for line in done.err.splitlines()]
    assert notes == [
        "'cli' of this file is not taken over", "'pcap_dump' of this file is not taken over", "'enable_log' of this file is not taken over",
        "'python controller.py' is not run: add it to the processes of a host"], done
    ping(world, "h1", "10.0.0.2", "10.0.0.3")
    (workdir / "out.yaml").write_text(yaml.safe_dump(world))
    ran = run_experiment(workdir / "out.yaml")
    assert all("2 received" in said for said in pings(ran, "h1")), pings(ran, "h1")


def test_what_cannot_be_taken_over_is_named(belljar, workdir):
    (workdir / "topology.json").write_text('{"hosts": {"h1": {}},\n "switches": {"s1": {}},\n "links": [["h1", "s1-p1"]]}')
    done = execute([belljar, "import", workdir / "topology.json"])
    assert done.status == 2 and "does not say which program switch 's1' runs" in done.err and "add --p4 PROGRAM.p4" in done.err, done
    # An exercise's program is not complete at first: what is wrong with it is said, and the experiment is there.
    (workdir / "start.p4").write_text("#include <core.p4>\n#include <v1model.p4>\nstruct headers { nothing_t nothing; }\nV1Switch() main;\n")
    done = execute([belljar, "import", workdir / "topology.json", "-o", workdir / "out.yaml"])
    assert done.status == 0 and "does not run yet" in done.err and "start.p4" in done.err and "nothing_t" in done.err, done
    assert "s1" in yaml.safe_load((workdir / "out.yaml").read_text())["switches"]
    done = execute([belljar, "import", workdir / "nothing.json"])
    assert done.status == 2 and "cannot be read" in done.err, done
    (workdir / "lab.txt").write_text("")
    done = execute([belljar, "import", workdir / "lab.txt"])
    assert done.status == 2 and "does not tell whose it is" in done.err and "p4-tutorial" in done.err, done


@pytest.mark.skipif("BELLJAR_P4_TUTORIALS" not in os.environ, reason="BELLJAR_P4_TUTORIALS names no checkout of p4lang/tutorials")
@pytest.mark.needs("ip", "ping")
def test_the_tutorials_themselves(belljar, run_experiment, workdir):
    """Their topologies and runtime files with our programs."""
    exercises = workdir / "exercises"
    shutil.copytree(pathlib.Path(os.environ["BELLJAR_P4_TUTORIALS"]) / "exercises", exercises)
    shutil.copy(P4 / "headers.p4", exercises)
    topologies = sorted(exercises.rglob("topology.json"))
    assert len(topologies) >= 13, topologies
    for topology in topologies:
        name = topology.relative_to(exercises).parts[0]
        for program in (exercises / name).glob("*.p4"):
            if (P4 / name / program.name).exists():
                shutil.copy(P4 / name / program.name, program)
        # Mininet ignores the results of commands, of which one adds a route that its interface has made.
        world, done = take(belljar, topology, workdir / f"{name}.yaml", "--tolerate-failures")
        assert "does not run yet" not in done.err, done
        if name in ("basic", "basic_tunnel", "ecn", "mri", "qos", "firewall", "link_monitor", "multicast"):
            others = [host["interfaces"]["eth0"]["addresses"][0].split("/")[0] for other, host in world["hosts"].items() if other != "h1"]
            # The exercise is to add the fourth port to the group.
            others = [address for address in others if (name, address) != ("multicast", "10.0.0.4")]
            ping(world, "h1", *others)
            (workdir / f"{name}.yaml").write_text(yaml.safe_dump(world))
            ran = run_experiment(workdir / f"{name}.yaml", name=f"{name}-{len(others)}-{topology.parent.name}")
            said = pings(ran, "h1")
            assert len(said) == len(others) and all("2 received" in one for one in said), (name, said)
