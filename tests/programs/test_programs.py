"""`belljar exec` with programs of a Debian system: shells, interpreters, tools."""

import os
import subprocess

import pytest
from conftest import experiment


def lines(run):
    assert run.status == 0, str(run)
    return run.out.splitlines()


def test_date_is_in_2000(exec_guest):
    assert lines(exec_guest(["date", "-u", "+%Y-%m-%d"])) == ["2000-01-01"]


def test_bash_loops(exec_guest):
    script = "s=0; for i in $(seq 1 100); do s=$((s + i)); done; echo $s; for f in a b; do echo $f; done | tr a-z A-Z"
    assert lines(exec_guest(["bash", "-c", script])) == ["5050", "A", "B"]


def test_bash_builtins_only(exec_guest):
    script = "s=0; for ((i = 1; i <= 1000; i++)); do s=$((s + i)); done; echo $s; [[ abc == a* ]] && printf '%s\\n' yes"
    assert lines(exec_guest(["bash", "-c", script])) == ["500500", "yes"]


def test_python(exec_guest):
    assert lines(exec_guest(["/usr/bin/python3", "-c", "import json; print(json.dumps({'a': [1, 2.5]}))"])) == ['{"a": [1, 2.5]}']


def test_python_of_a_virtual_environment(run_experiment, exec_guest, workdir, monkeypatch):
    """It finds its packages by the place that it believes to be run from, `argv[0]` looked for in `PATH`."""
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", workdir / "venv"], check=True)
    next((workdir / "venv").glob("lib/python3*/site-packages")).joinpath("only_here.py").write_text("print('found')\n")
    monkeypatch.setenv("PATH", f"{workdir}/venv/bin:{os.environ['PATH']}")
    results = run_experiment(experiment({"a": (0, [("python3", "-m", "only_here")])}))
    assert results.text("a") == "found\n"
    assert lines(exec_guest(["python3", "-m", "only_here"])) == ["found"]


def test_a_day_passes_at_once(exec_guest):
    code = "import time; t = time.time(); time.sleep(86400); print(round(time.time() - t))"
    assert lines(exec_guest(["/usr/bin/python3", "-c", code])) == ["86400"]


def test_ls(exec_guest):
    out = lines(exec_guest(["ls", "-l", "/usr/share/common-licenses"]))
    assert any(line.endswith(" GPL-3") for line in out) and out[0].startswith("total ")


@pytest.mark.needs("git")
def test_git(exec_guest):
    assert lines(exec_guest(["git", "--version"]))[0].startswith("git version ")


@pytest.mark.needs("java")
def test_java(exec_guest):
    run = exec_guest(["java", "-version"])
    assert run.status == 0 and "version" in run.err, str(run)


@pytest.mark.needs("go")
def test_go(exec_guest):
    assert lines(exec_guest(["go", "version"]))[0].startswith("go version go")


@pytest.mark.needs("node")
def test_node(exec_guest):
    code = "setTimeout(() => console.log('later'), 1000); console.log([3, 1, 2].sort())"
    assert lines(exec_guest(["node", "-e", code])) == ["[ 1, 2, 3 ]", "later"]


@pytest.mark.needs("busybox")
def test_busybox_static(exec_guest):
    assert lines(exec_guest(["busybox", "sh", "-c", "echo $((6 * 7))"])) == ["42"]


def test_standard_input(exec_guest, workdir):
    (workdir / "in").write_text("one\ntwo\n")
    with open(workdir / "in") as stdin:
        assert lines(exec_guest(["cat"], stdin=stdin)) == ["one", "two"]


def test_output_to_both(exec_guest):
    run = exec_guest(["sh", "-c", "echo out; echo err >&2"])
    assert (run.out, run.err, run.status) == ("out\n", "err\n", 0)


@pytest.mark.needs("openssl")
def test_openssl(exec_guest):
    out = lines(exec_guest(["openssl", "dgst", "-sha256", "/usr/share/common-licenses/GPL-3"]))
    assert out[0].endswith("3972dc9744f6499f0f9b2dbf76696f2ae7ad8af9b23dde66d6af86c9dfb36986")


def test_clock_spinner_ends(exec_guest):
    code = "import time\nend = time.monotonic() + 0.2\nn = 0\nwhile time.monotonic() < end: n += 1\nprint(n > 1000)"
    assert lines(exec_guest(["/usr/bin/python3", "-c", code])) == ["True"]


def test_a_sleep_is_exact(exec_guest):
    code = "import time\na = time.monotonic_ns()\ntime.sleep(0.1)\nprint(time.monotonic_ns() - a)"
    assert lines(exec_guest(["/usr/bin/python3", "-c", code])) == ["100000000"]
