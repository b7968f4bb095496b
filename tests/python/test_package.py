"""The package as its users get it: installed into an environment of its own, and complete in its types."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

TYPED = """
from belljar import (Experiment, Interface, Network, Results, Route, codel, drop_tail, exponential, link_from, models, one_of, one_way,
                     pareto, sweep, uniform)
from belljar.statistics import FailureRate

def cluster(loss: float) -> Experiment:
    exp = Experiment(stop_time="10 s", seed=2)
    exp.network.edge("here", "there", latency="20 ms", loss=loss)
    exp.host("alice", at="here").run("/bin/true", start="1 s").run("/bin/sleep", 5, expect="any")
    exp.crash(one_of("alice"), every="2 s", between=["1 s", 5], lasting="500 ms", name="monkey")
    return exp.link_down(exp.network.between("here", "there"), at=3.5, lasting="1 s")

def routed() -> Experiment:
    exp = Experiment(stop_time="10 s", metrics_interval="100 ms")
    lan = exp.switch("lan", ageing="60 s")
    border = exp.router("border", interfaces={"eth0": Interface(["10.0.0.1/24"])}, routes=[Route("default", via="10.0.0.2")])
    web = exp.host("web", forwarding=True, clock={"drift_ppm": 5.0}, cpu={"syscall": "1 us", "backlog": 99}, pcap=True, pcap_filter={"eth0": "tcp port 80", "lo": False})
    web.model(models.HttpServer(response_size=pareto("20 KB", 1.2)), stop="9 s").model("sink", port=5001)
    user = exp.host("user").model(models.Http(to="web", pause=exponential("1 s"), count="unlimited"), start="never")
    user.model(models.Bulk(to="web:5001", size=uniform("1 KB", "1 MB"), count=3))
    exp.link(web, lan, rate="10 Mbit", queue=codel()).link("user:eth0", lan, queue=drop_tail(packets=9), reverse={"latency": "1 ms"})
    exp.link(lan, border, name="up", cost=2).link_change("up", at=1, rate="1 Mbit").link_down(link_from("up", "lan"), at="2 s")
    return exp.start("http", on="user", at="1 s", lasting="2 s").stop("sink", on="web", at="5 s").link_reset(one_way("a", "b"), at=9)

rate: FailureRate = sweep(cluster, "out", seeds=3, parameters={"loss": [0.0, 0.1]}).failure_rate()
results: Results = cluster(0.0).run("one", progress=False)
text: str = results.stdout("alice", "true") + results._repr_html_() + repr(routed().network)
kept: Results = routed().run()
"""
WRONG = """
from belljar import Experiment, models
exp = Experiment(stop_time="10 s")
exp.crash("alice", att="1 s")
exp.run(3.5)
exp.run(sed=2)
exp.with_(sead=2)
Experiment(stop_time="1 s", parallelizm=2)
exp.host("bob", bandwith_up="1 Mbit").model(models.Http(too="web"))
exp.link("alice", "bob", latancy="1 ms")
"""


@pytest.fixture
def mypy(workdir):
    pytest.importorskip("mypy")

    def run(*arguments):
        command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir", str(workdir / "cache"), *map(str, arguments)]
        env = {**os.environ, "MYPYPATH": str(ROOT / "python")}
        return subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, timeout=600)

    return run


def test_types(mypy, workdir):
    (workdir / "typed.py").write_text(TYPED)
    (workdir / "wrong.py").write_text(WRONG)
    said = mypy(ROOT / "python" / "belljar", "typed.py", "wrong.py").stdout
    if "stubs not installed" in said:
        pytest.skip("the stubs of pandas, scipy or networkx are not installed")
    assert all(line.startswith(("wrong.py:", "Found ")) for line in said.splitlines()), said
    assert all(f'Unexpected keyword argument "{name}"' in said for name in ("att", "sed", "sead", "parallelizm", "bandwith_up", "too", "latancy")), said
    assert 'incompatible type "float"' in said and "Found 8 errors" in said, said


@pytest.fixture
def pyright(workdir):
    pytest.importorskip("pyright")

    def run(*files):
        settings = {"include": [str(f) for f in files], "extraPaths": [str(ROOT / "python")], "typeCheckingMode": "standard"}
        (workdir / "pyrightconfig.json").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(workdir)]
        done = subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=600)
        if not done.stdout.startswith("{"):
            # The package from PyPI brings node, and fetches the checker itself when it first runs.
            pytest.skip(f"pyright cannot run here: {(done.stdout + done.stderr)[-300:]}")
        return [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in json.loads(done.stdout)["generalDiagnostics"]]

    return run


def test_types_by_pyright(pyright, workdir):
    (workdir / "typed.py").write_text(TYPED)
    said = pyright(ROOT / "python" / "belljar", workdir / "typed.py")
    if any("Import \"" in line for line in said):
        pytest.skip("packages or stubs are not installed")
    assert not said, "\n".join(said)
    (workdir / "wrong.py").write_text(WRONG)
    found = pyright(workdir / "wrong.py")
    assert all(any(f'"{name}"' in line for line in found) for name in ("att", "sed", "sead", "parallelizm", "bandwith_up", "too", "latancy")), found
    assert {int(line.split(":")[1]) for line in found} == {4, 5, 6, 7, 8, 9, 10}, found


@pytest.mark.slow
def test_installed_by_pip(workdir, belljar):
    # Building writes beside the sources.
    source = workdir / "python"
    shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*_cache"))
    subprocess.run([sys.executable, "-m", "venv", workdir / "venv"], check=True, timeout=600)
    python = workdir / "venv/bin/python"
    installed = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", source, "pytest"],
                               capture_output=True, text=True, timeout=600)
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
    for more in ([], ["-p", "belljar.pytest_plugin"]):
        command = [python, "-m", "pytest", "-q", *more, "test_it.py"]
        done = subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
