"""The pytest plugin, by tests that it runs."""

import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

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
        # Only what is named here, whatever is installed besides.
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-m", "pytest", "-p", "belljar.pytest_plugin", "-p", "no:cacheprovider", "-q", *arguments]
        return subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, timeout=600)

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


@pytest.mark.parametrize(("marker", "message"), [
    ("seds=50", "takes seeds=, a number or a list, not seds=50"),
    ("50", "takes seeds=, a number or a list, not 50"),
    ("seeds='50'", "seeds='50' is neither a number nor a list of numbers"),
    ("seeds=0", "a test runs under one seed at least"),
    ("seeds=[]", "is neither a number nor a list"),
])
def test_a_marker_that_would_be_ignored_is_an_error(run_pytest, workdir, marker, message):
    (workdir / "test_them.py").write_text(f"import pytest\n\n@pytest.mark.belljar({marker})\ndef test_it(belljar):\n    pass\n")
    done = run_pytest()
    said = done.stdout + done.stderr
    assert done.returncode != 0 and message in said and "test_it" in said, said


@pytest.mark.parametrize(("marker", "message"), [
    ("seds=50", "takes seeds=, a number or a list, not seds=50"),
    ("seeds=50", "the marker belljar has no effect on a test without the fixture belljar"),
    ("seeds=0", "a test runs under one seed at least"),
])
def test_a_marker_on_a_test_without_the_fixture_is_an_error(run_pytest, workdir, marker, message):
    (workdir / "test_them.py").write_text(f"import pytest\n\n@pytest.mark.belljar({marker})\ndef test_it():\n    pass\n")
    done = run_pytest()
    said = done.stdout + done.stderr
    assert done.returncode == 4 and message in said and "test_it" in said and "INTERNALERROR" not in said, said


def test_a_marker_of_a_module_is_for_the_tests_that_it_can_act_on(run_pytest, workdir):
    text = "import pytest\n\npytestmark = pytest.mark.belljar({})\n\ndef test_it(belljar):\n    pass\n\ndef test_without():\n    pass\n"
    (workdir / "test_them.py").write_text(text.format("seeds=2"))
    done = run_pytest()
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout
    (workdir / "test_them.py").write_text(text.format("seds=2").replace("(belljar)", "()"))
    done = run_pytest()
    assert done.returncode == 4 and "not seds=2" in done.stdout + done.stderr, done.stdout


def test_installed_and_named_it_is_there_once(workdir):
    """An installed package registers the plugin by its entry point; naming it as well changes nothing."""
    declared = re.search(r"\[project.entry-points.pytest11\]\n(?:#.*\n)*(.*)", (ROOT / "python/pyproject.toml").read_text())[1]
    installed = workdir / "site" / "belljar_installed-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: belljar-installed\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{declared.replace(chr(34), '')}\n")
    (workdir / "test_it.py").write_text("def test_it(belljar):\n    assert belljar.seed == 1\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed.parent), os.environ["PYTHONPATH"]])}
    for more in ([], ["-p", "belljar.pytest_plugin"]):
        for lines in ("", "pytest_plugins = ['belljar.pytest_plugin']\n"):
            (workdir / "conftest.py").write_text(lines)
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "-c", os.devnull, *more, "test_it.py"]
            done = subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
