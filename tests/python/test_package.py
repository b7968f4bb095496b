"""The package as its users get it: installed into an environment of its own, and complete in its types."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

TYPED = """
from belljar import Experiment, Results, one_of, sweep
from belljar.statistics import FailureRate

def cluster(loss: float) -> Experiment:
    exp = Experiment(stop_time="10 s", seed=2)
    exp.network.edge("here", "there", latency="20 ms", loss=loss)
    exp.host("alice", at="here").run("/bin/true", start="1 s").run("/bin/sleep", 5, expect="any")
    exp.crash(one_of("alice"), every="2 s", between=["1 s", 5], lasting="500 ms", name="monkey")
    return exp.link_down(exp.network.between("here", "there"), at=3.5, lasting="1 s")

rate: FailureRate = sweep(cluster, "out", seeds=3, parameters={"loss": [0.0, 0.1]}).failure_rate()
results: Results = cluster(0.0).run("one")
text: str = results.stdout("alice", "true")
"""
WRONG = """
from belljar import Experiment
exp = Experiment(stop_time="10 s")
exp.crash("alice", att="1 s")
exp.run(3.5)
"""


@pytest.fixture
def mypy(workdir):
    pytest.importorskip("mypy")

    def run(*arguments):
        command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", str(workdir / "cache"), *map(str, arguments)]
        env = {**os.environ, "MYPYPATH": str(ROOT / "python")}
        return subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, timeout=300)

    return run


def test_types(mypy, workdir):
    (workdir / "typed.py").write_text(TYPED)
    done = mypy(ROOT / "python" / "belljar", "typed.py")
    if "stubs not installed" in done.stdout:
        pytest.skip("the stubs of pandas, scipy or networkx are not installed")
    assert done.returncode == 0, done.stdout
    (workdir / "wrong.py").write_text(WRONG)
    said = mypy("wrong.py").stdout
    assert 'Unexpected keyword argument "att"' in said and 'incompatible type "float"' in said and "Found 2 errors" in said, said


@pytest.mark.slow
def test_installed_by_pip(workdir, belljar):
    # Building writes beside the sources.
    source = workdir / "python"
    shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*_cache"))
    subprocess.run([sys.executable, "-m", "venv", workdir / "venv"], check=True, timeout=120)
    python = workdir / "venv/bin/python"
    installed = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", source, "pytest"],
                               capture_output=True, text=True, timeout=300)
    if installed.returncode != 0 and any(word in installed.stderr for word in ("Temporary failure", "ConnectionError", "No matching distribution")):
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    shutil.rmtree(source)
    (workdir / "pytest.ini").write_text("[pytest]\n")
    (workdir / "test_it.py").write_text(
        "import pathlib, belljar as package\n"
        "def test_it(belljar):\n"
        "    e = package.Experiment(stop_time='5 s')\n"
        "    e.host('a').run('/bin/echo', 'hello')\n"
        "    assert belljar.run(e).stdout('a') == 'hello\\n'\n"
        "    assert pathlib.Path(package.__file__).with_name('py.typed').is_file()\n"
        f"    assert package.__file__.startswith({str(workdir)!r})\n")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"BELLJAR_BIN": str(belljar)}
    done = subprocess.run([python, "-m", "pytest", "-q", "test_it.py"], cwd=workdir, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
