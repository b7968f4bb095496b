"""Commands of a host that run before its processes: `setup:`, simulated and emulated."""

import copy
import os

import pytest
import yaml
from conftest import execute

SETUP = ["ip addr add 192.0.2.1/32 dev lo", "NUMBER=5", "sleep 0.25; echo number $NUMBER", "cat <<END\nseveral\nlines\nEND"]
LOOKS = {"path": "sh", "args": ["-c", "date +%s.%N; ip -o -4 addr show lo | grep -c 192.0.2.1"]}
EXPERIMENT = {
    "general": {"stop_time": "5 s"},
    "network": {"graph": {"type": "1_gbit_switch"}},
    "hosts": {"a": {"network_node_id": 0, "setup": SETUP, "processes": [LOOKS, {**LOOKS, "start_time": "100 ms"}, {**LOOKS, "start_time": "1 s"}]}},
}


@pytest.fixture
def run(belljar, workdir):
    """run(name, experiment, command, *options) -> the results folder, and what was said."""

    def run(name, experiment, *options, command="run"):
        (workdir / f"{name}.yaml").write_text(yaml.safe_dump(experiment))
        done = execute([belljar, command, workdir / f"{name}.yaml", "-o", workdir / name, "--no-progress", *options])
        return workdir / name, done

    return run


def outputs(data, host="a"):
    return [file.read_text() for file in sorted((data / "hosts" / host).glob("sh.*.stdout"), key=lambda file: int(file.name.split(".")[1]))]


def test_processes_start_when_the_setup_has_ended(run):
    """Those whose start time passes meanwhile start then, in their order; the others at their time."""
    data, done = run("ends", EXPERIMENT)
    assert done.status == 0 and "all 4 processes ended as expected" in done.out, done
    assert (data / "hosts/a/setup.1000.stdout").read_text() == "number 5\nseveral\nlines\n"
    times = [float(text.split()[0]) % 1000 for text in outputs(data)]
    assert 0.25 <= times[0] % 800 <= times[1] % 800 < 0.3 and times[2] % 800 == pytest.approx(1, abs=0.01), times
    assert [text.split()[1] for text in outputs(data)] == ["1", "1", "1"]


@pytest.mark.parametrize("options", [["--placement", "far"], ["--parallelism", "2"]])
def test_a_setup_is_the_same_every_time(run, options):
    several = copy.deepcopy(EXPERIMENT)
    several["hosts"] |= {"b": copy.deepcopy(several["hosts"]["a"])}
    one, other = run("one", several)[0], run("other", several, *options)[0]
    assert outputs(one) == outputs(other) and outputs(one, "b") == outputs(other, "b") and outputs(one)


def test_a_setup_that_fails_fails_the_run_and_nothing_else_starts(run):
    failing = copy.deepcopy(EXPERIMENT)
    failing["hosts"]["a"]["setup"] = ["echo first", "ip link set eth9 up", "echo never"]
    data, done = run("fails", failing)
    assert done.status == 1 and "3 of 4 processes did not end as expected" in done.out, done
    assert 'Cannot find device "eth9"' in done.out and "setup: status 1 of: ip link set eth9 up" in done.out, done
    assert done.out.count("not started") == 3 and outputs(data) == []
    assert (data / "hosts/a/setup.1000.stdout").read_text() == "first\n"


def test_a_setup_runs_again_after_a_crash_and_traffic_waits_for_it(run, belljar):
    crashing = copy.deepcopy(EXPERIMENT)
    crashing["hosts"]["a"] = {"network_node_id": 0, "setup": ["sleep 0.25", "date +%s.%N"], "processes": [{"model": {"type": "sink", "port": 9}}]}
    bulk = {"model": {"type": "bulk", "to": "a:9", "size": "9 KB"}}
    crashing["hosts"]["b"] = {"network_node_id": 0, "processes": [{**bulk, "start_time": "200 ms"}, {**bulk, "start_time": "300 ms"}]}
    crashing["events"] = [{"at": "1 s", "crash": "a", "for": "1 s"}]
    data, done = run("crash", crashing)
    times = [float(file.read_text()) % 10 for file in sorted((data / "hosts/a").glob("setup.*.stdout"))]
    assert times == pytest.approx([0.25, 2.25], abs=0.01), (times, done)
    flows = execute([belljar, "inspect", data, "models"]).out
    bulks = [line.split() for line in flows.splitlines() if line.strip().startswith("bulk")]
    # The flow of 200 ms found no listener, that of 300 ms did.
    assert bulks and bulks[0][1:4] == ["2", "1", "1"], flows


def test_the_resolved_experiment_has_the_setup(run):
    data, _ = run("resolved", EXPERIMENT)
    assert yaml.safe_load((data / "processed-config.yaml").read_text())["hosts"]["a"]["setup"] == SETUP


@pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces with addresses needs root")
def test_emulated_hosts_are_set_up_too(run):
    data, done = run("emulated", EXPERIMENT, command="emulate")
    assert "all 4 processes ended as expected" in done.out, done
    assert [text.split()[1] for text in outputs(data)] == ["1", "1", "1"]
    failing = copy.deepcopy(EXPERIMENT)
    failing["hosts"]["a"]["setup"] = ["exit 3"]
    data, done = run("emulated-fails", failing, command="emulate")
    assert done.status == 1 and "exited 3" in done.out and done.out.count("not started") == 3 and outputs(data) == [], done
