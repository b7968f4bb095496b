"""Clusters whose network splits and whose hosts crash: from YAML, from Python, and under many seeds."""

import os
import re
import subprocess
import sys

import pytest
from conftest import EXAMPLES, ROOT
from determinism.test_determinism import contents


@pytest.mark.needs("etcd", "etcdctl")
def test_etcd(run_experiment):
    done = run_experiment(EXAMPLES / "etcd.yaml")
    said = done.text("client", "etcd_check.py")
    found = re.fullmatch(r"(\d+) writes acknowledged, the slowest after ([\d.]+) s\nall there, the same on all members\n", said)
    assert found and int(found[1]) > 80 and float(found[2]) < 10, said
    status = [line.split(", ") for line in done.text("client", "etcdctl").splitlines()]
    assert [line[0] for line in status] == ["etcd1:2379", "etcd2:2379", "etcd3:2379"]
    assert sum(line[4] == "true" for line in status) == 1, "one leader"
    # It was cut off or crashed more than once.
    assert int(status[0][6]) >= 4, f"term {status[0][6]}"
    for n in (1, 2, 3):
        logs = [f.read_text() for f in done.streams(f"etcd{n}", "etcd", "stderr")]
        assert len(logs) == 2 and "restarting member" in logs[1], "it took up its files"


def test_raft(run_experiment):
    done = run_experiment(EXAMPLES / "raft.yaml")
    said = done.text("checker", "raft_check.py")
    found = re.fullmatch(r"(\d+) numbers acknowledged, the slowest after ([\d.]+) s\nall there, in the same order everywhere\n", said)
    assert found and int(found[1]) > 250 and float(found[2]) < 2, said
    leaders = {}
    for n in (1, 2, 3):
        for file in done.streams(f"raft{n}", "raft.py"):
            for term in re.findall(r"leads term (\d+)", file.read_text()):
                assert leaders.setdefault(term, n) == n, f"two leaders in term {term}"
    assert len(leaders) >= 4


def pytest_of(belljar, workdir, file, *arguments, **environment):
    (workdir / "pytest.ini").write_text("[pytest]\n")
    env = {**os.environ, "BELLJAR_BIN": str(belljar), "PYTHONPATH": str(ROOT / "python"), **environment}
    command = [sys.executable, "-m", "pytest", "-p", "belljar.pytest_plugin", "-p", "no:cacheprovider", "-q",
               "--rootdir", workdir, EXAMPLES / file, *arguments]
    return subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, timeout=600)


def failures(done):
    """How many of how many runs have failed, as the plugin says."""
    found = re.search(r"(\d+) of (\d+) runs failed: [\d.]+ % \(95 % interval [\d.]+ % to [\d.]+ %\)", done.stdout)
    assert found, done.stdout + done.stderr
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("seeds", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_raft_keeps_its_word_under_all_seeds(belljar, workdir, seeds):
    done = pytest_of(belljar, workdir, "test_raft.py", "--belljar-seeds", str(seeds))
    assert failures(done) == (0, seeds), done.stdout


@pytest.mark.slow
def test_a_mistake_is_found_and_its_seed_brings_it_back(belljar, workdir):
    done = pytest_of(belljar, workdir, "test_raft.py", RAFT_OPTIONS="--forgetful")
    failed, runs = failures(done)
    assert runs == 20 and 0 < failed < 20, done.stdout
    assert "acknowledged numbers, the first is" in done.stdout
    seed = re.search(r"again: pytest '\S+test_raft.py::\S+' --belljar-seed (\d+)", done.stdout)[1]
    first = {p: contents_of(p) for p in workdir.glob(f".belljar/*seed{seed}_/run1")}
    assert len(first) == 1
    again = pytest_of(belljar, workdir, "test_raft.py", "--belljar-seed", seed, RAFT_OPTIONS="--forgetful")
    assert "1 failed" in again.stdout, again.stdout
    assert all(contents_of(p) == found for p, found in first.items()), "the same failure"


def contents_of(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.needs("etcd", "etcdctl")
@pytest.mark.parametrize("seeds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_etcd_survives_its_leader(belljar, workdir, seeds):
    done = pytest_of(belljar, workdir, "test_etcd.py", "--belljar-seeds", str(seeds))
    assert done.returncode == 0, done.stdout
    if seeds > 1:
        assert failures(done) == (0, seeds)


@pytest.mark.parametrize("workers", [1, 2])
def test_raft_is_the_same_for_all_workers(run_experiment, workers, reference={}):
    found = contents(run_experiment(EXAMPLES / "raft.yaml", pcap=True, name="same", args=["--parallelism", str(workers)]))
    assert reference.setdefault("bytes", found) == found
