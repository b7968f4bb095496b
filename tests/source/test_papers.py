"""`belljar reproduce`: each experiment of the papers at its smallest size, the command itself, and the page docs/papers.md."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "benches"))
from papers import command, shown  # noqa: E402
from papers.claims import EXPERIMENTS, Claim, Result, Row, correlation, slope  # noqa: E402

#: Those that take more than some seconds at their smallest.
SLOW = {"phantom-tor", "elfs-tor", "vt-adapter", "ns3-planes", "ns3-olsr", "ns3-nodes", "simbricks-generators", "phantom-ns3", "simbricks-latency",
        "simbricks-rtl", "vt-rates", "vt-ring", "ns3-bridge", "phantom-mininet"}


def reproduce(belljar, workdir, *arguments, **environment):
    return subprocess.run([belljar, "reproduce", *map(str, arguments)], capture_output=True, text=True, timeout=1200, cwd=workdir,
                          env={**os.environ, "BELLJAR_BIN": str(belljar), "BELLJAR_PYTHON": sys.executable, **environment})


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in EXPERIMENTS])
def test_each(belljar, workdir, programs, name):
    lacks = EXPERIMENTS[name].lacks()
    if lacks is not None:
        pytest.skip(lacks)
    routed = programs / "belljar-routed"
    if name in ("ns3-planes", "ns3-olsr", "ns3-nodes", "ns3-convergence") and not routed.exists():
        pytest.skip("cargo is not installed, so belljar-routed is not built")
    done = reproduce(belljar, workdir, name, "--small", "-o", "out", BELLJAR_ROUTED=str(routed))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((workdir / "out" / name / "result.json").read_text())
    # What does not depend on the machine's speed holds at any size.
    assert all(holds is not False for _, holds in result["claims"]), result
    assert result["rows"] and (workdir / "out" / name / "report.md").read_text() in done.stdout
    points = workdir / "out" / name / "figure.csv"
    assert not points.exists() or len(points.read_text().splitlines()) > 1


@pytest.mark.needs("iperf")
def test_the_same_values_twice(belljar, workdir):
    """What is measured in simulated time is the same in each run, with any number of workers."""
    seen = []
    for workers in ("1", "3"):
        done = reproduce(belljar, workdir, "phantom-network", "simbricks-accuracy", "--small", "-o", workers, BELLJAR_PARALLELISM=workers)
        assert done.returncode == 0, done.stdout + done.stderr
        seen.append([json.loads((workdir / workers / name / "result.json").read_text())["rows"] for name in ("phantom-network", "simbricks-accuracy")])
    assert seen[0] == seen[1]


def test_the_list_and_wrong_names(belljar, workdir):
    listed = reproduce(belljar, workdir)
    assert listed.returncode == 0 and all(f"  {name} " in listed.stdout for name in EXPERIMENTS), listed.stdout + listed.stderr
    assert not list(workdir.glob("papers.data"))
    wrong = reproduce(belljar, workdir, "phantom-nothing")
    assert wrong.returncode == 2 and "error: no experiment is called 'phantom-nothing': 'belljar reproduce' lists them" in wrong.stderr
    both = reproduce(belljar, workdir, "phantom-load", "--small", "--full")
    assert both.returncode == 2 and "not allowed with" in both.stderr


def test_a_missing_program_is_named(belljar, workdir):
    """The others run all the same."""
    path = workdir / "bin"
    path.mkdir()
    for program in ("gcc", "as", "ld", "env"):
        (path / program).symlink_to(f"/usr/bin/{program}")
    done = reproduce(belljar, workdir, "phantom-network", "simbricks-determinism", "--small", "-o", "out", PATH=str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error: phantom-network: iperf is missing: apt-get install iperf" in done.stderr, done.stderr
    assert (workdir / "out/simbricks-determinism/report.md").exists(), done.stderr


def test_missing_modules_of_python_are_named(belljar, workdir):
    """An interpreter without any package lists nothing, and says what it lacks."""
    bare = workdir / "python"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
    bare.chmod(0o755)
    done = reproduce(belljar, workdir, BELLJAR_PYTHON=str(bare))
    assert done.returncode == 1 and "error: belljar reproduce needs PyYAML (apt install python3-yaml" in done.stderr, done.stderr


def test_a_failing_experiment_is_named(belljar, workdir):
    done = reproduce(belljar, workdir, "simbricks-accuracy", "--small", "-o", "out", BELLJAR_BIN="/bin/false")
    assert done.returncode == 1 and re.search(r"error: simbricks-accuracy: \S*/false run .*\nended with 1", done.stderr), done.stderr


def test_verdicts():
    rows = [Row("speed", "1", "2")]
    verdict = lambda *claims: Result(rows, [Claim("", shown) for shown in claims]).verdict()  # noqa: E731
    assert [verdict(True, None), verdict(True, False), verdict(False), verdict(None), verdict()] == ["shown", "in part", "not shown", "open", "open"]
    assert slope([(0, 1), (1, 3), (2, 5)]) == 2 and correlation([(0, 1), (1, 3), (2, 5)]) == pytest.approx(1) and correlation([(0, 5), (1, 1)]) == pytest.approx(-1)


def test_the_page_is_up_to_date():
    """belljar reproduce --page writes it."""
    text = shown.PAGE.read_text()
    assert f"{shown.BEGIN}\n\n{shown.page()}\n{shown.END}" in text
    measured = json.loads(shown.MEASURED.read_text())
    assert set(measured) <= set(EXPERIMENTS) and all(one["size"] == "usual" for one in measured.values())


def test_results_of_other_sizes_are_not_recorded(tmp_path, monkeypatch):
    kept = tmp_path / "measured.json"
    monkeypatch.setattr(shown, "MEASURED", kept)
    for name, size in (("phantom-load", "usual"), ("phantom-scale", "small")):
        one = {"name": name, "size": size, "took_seconds": 1, "machine": "", "verdict": "shown", "rows": [], "claims": []}
        folder = pathlib.Path(tmp_path, "out", name)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(one))
    assert shown.record(tmp_path / "out") == ["phantom-load"] and list(json.loads(kept.read_text())) == ["phantom-load"]


def test_every_experiment_is_described():
    for one in EXPERIMENTS.values():
        assert one.about.endswith(".") and one.differs and one.full and one.minutes <= 10, one
    assert command.machine().endswith(tuple("0123456789"))
