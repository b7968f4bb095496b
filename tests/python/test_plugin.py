"""The pytest plugin, by tests that it runs."""

import re
import subprocess
import sys

import pytest

TESTS = """
import pytest
from belljar import Experiment

def coin():
    e = Experiment(stop_time="5 s")
    e.host("a").run("/bin/sh", "-c", "od -An -N1 -tu1 /dev/urandom", expect="any")
    return e

@pytest.mark.belljar(seeds=8)
def test_coin(belljar):
    results = belljar.run(coin())
    assert int(results.stdout("a")) % 2 == 0, "odd"

def test_once(belljar):
    assert belljar.run(coin()).seed == belljar.seed == 1

def test_crash(belljar):
    e = Experiment(stop_time="5 s")
    e.host("a").run("/bin/false")
    belljar.run(e)

def test_without():
    pass
"""


@pytest.fixture
def run_pytest(workdir):
    (workdir / "test_them.py").write_text(TESTS)
    (workdir / "pytest.ini").write_text("[pytest]\n")

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "belljar.pytest_plugin", "-p", "no:cacheprovider", "-q", *arguments]
        return subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=120)

    return run


def test_failing_seeds_are_told_and_kept(run_pytest, workdir):
    done = run_pytest()
    summary = re.search(r"test_them.py::test_coin: (\d) of 8 runs failed: .* interval", done.stdout)
    assert summary and 0 < int(summary[1]) < 8, done.stdout
    failed = re.findall(r"again: pytest '(\S+)' --belljar-seed (\d+)", done.stdout)
    assert len(failed) == int(summary[1]) + 1, "and the crash"
    kept = {line.split(": ")[1] for line in re.findall(r"^results: .*", done.stdout, re.M)}
    assert len(kept) == len(failed) and all((workdir / path / "sim-stats.json").is_file() for path in kept)
    assert len(list((workdir / ".belljar").iterdir())) == len(failed), "what passes leaves nothing"
    assert "expected: exited 0" in done.stdout and "pytest_plugin.py:" not in done.stdout
    # The seed alone brings the failure back.
    test, seed = next((t, s) for t, s in failed if "coin" in t)
    again = run_pytest(test, "--belljar-seed", seed)
    assert again.returncode == 1 and "1 failed" in again.stdout, again.stdout


def test_options(run_pytest, workdir):
    done = run_pytest("-k", "once", "--belljar-seeds", "1", "--belljar-keep", "--belljar-folder", "kept")
    assert done.returncode == 0 and list((workdir / "kept").glob("*/run1/sim-stats.json")), done.stdout
    listed = run_pytest("--collect-only", "--belljar-seeds", "3")
    assert listed.stdout.count("test_coin[seed") == 3 and "test_without\n" in listed.stdout, listed.stdout
