"""`python -m belljar`: the program, and sweeps without Python code."""

import csv
import os
import subprocess
import sys

import pytest

from belljar import BelljarError, Experiment, Results, command


def call(*arguments, cwd, **environment):
    return subprocess.run([sys.executable, "-m", "belljar", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=600,
                          env={**os.environ, **environment})


@pytest.fixture
def file(workdir):
    exp = Experiment(stop_time="5 s")
    exp.network.edge("a", "b", latency="10 ms")
    exp.host("client", at="a").run("/bin/sh", "-c", "echo took $(od -An -N1 -tu1 /dev/urandom) ms", start="1 s")
    exp.host("server", at="b").run("/bin/sleep", "100", expect="running")
    return exp.save(workdir / "exp.yaml")


def test_the_program(workdir, belljar):
    done = call("exec", "--", "date", "+%Y", cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "2000\n")
    assert call("--version", cwd=workdir).stdout == subprocess.run([belljar, "--version"], capture_output=True, text=True).stdout
    done = call("--version", cwd=workdir, BELLJAR_BIN="/no/such/file")
    assert done.returncode == 1 and done.stderr == "error: BELLJAR_BIN is /no/such/file, which is not a program\n"


def test_a_sweep(workdir, file):
    options = ["sweep", file.name, "--seeds", "1,3-4", "--vary", "general.stop_time=[3 s, 5 s]", "--set", "hosts.server.bandwidth_up=1 Mbit",
               "--measure", "took=stdout:client", "--measure", r"same=stdout:client:took\s+(\d+)", "--measure", "pid=hosts.client.processes.0.pid"]
    done = call(*options, cwd=workdir)
    assert done.returncode == 0 and done.stdout.startswith("6 runs in exp.sweep: 0 of 6 runs failed"), done.stdout + done.stderr
    rows = list(csv.DictReader((workdir / "exp.sweep/table.csv").open()))
    assert [(r["general.stop_time"], r["seed"]) for r in rows] == [(stop, seed) for stop in ("3 s", "5 s") for seed in "134"]
    assert all(r["took"] == r["same"] and r["pid"] == "1000.0" for r in rows) and len({r["took"] for r in rows}) > 1
    results = Results(next((workdir / "exp.sweep").glob("*3_s*/1")))
    assert "1 Mbit" in (results.path / "processed-config.yaml").read_text()
    before = (workdir / "exp.sweep/report.html").stat().st_mtime_ns
    again = call(*options, cwd=workdir)
    assert again.stdout == done.stdout and (workdir / "exp.sweep/report.html").stat().st_mtime_ns > before


def test_failures_are_the_exit_status(workdir, file):
    done = call("sweep", file.name, "--seeds", "2", "--set", "hosts.client.processes.0.expected_final_state={exited: 7}", "-o", "out", cwd=workdir)
    assert done.returncode == 1 and "2 of 2 runs failed" in done.stdout and (workdir / "out/report.html").is_file()


@pytest.mark.parametrize("arguments, said", [
    (["missing.yaml"], "error: missing.yaml cannot be read: No such file or directory"),
    (["exp.yaml", "--seeds", "many"], "'many' is neither a number of seeds nor seeds such as 5-9 or 1,4,7-9"),
    (["exp.yaml", "--seeds", "0"], "'0' names no seed, or one twice"),
    (["exp.yaml", "--seeds", "9-5"], "'9-5' names no seed"),
    (["exp.yaml", "--seeds", "1,1"], "or one twice"),
    (["exp.yaml", "--vary", "general.seed=[1, 1]"], "is asked for twice"),
    (["exp.yaml", "--vary", "general.seed=3"], '--vary takes a list, such as general.seed="[1, 2]"'),
    (["exp.yaml", "--set", "stop"], "'stop' is not KEY=VALUE"),
    (["exp.yaml", "--set", "a=[1"], "the value of 'a' is not YAML"),
    (["exp.yaml", "--until", "5 %"], "error: --until needs --measure"),
    (["exp.yaml", "--until", "narrow"], "half_width('narrow'): give a number above 0"),
    (["exp.yaml", "--measure", "x=stdout:client:took"], "'took' must have one group, the number"),
    (["exp.yaml", "--measure", "x=stdout:client:("], "'(' is no regular expression"),
    (["exp.yaml", "--on", "mars"], 'error: on= is "mars": it can be "local"'),
    (["exp.yaml", "--seeds", "1", "--set", "general.stop_time=soon"], "'stop_time': \"soon\" is not a time"),
    (["exp.yaml", "--seeds", "1", "--measure", "x=hosts.nobody.bytes"], "sim-stats.json has no number there"),
    (["exp.yaml", "--seeds", "1", "--measure", "x=stdout:server"], "nothing matches in what server wrote"),
])
def test_mistakes(workdir, file, arguments, said):
    done = call("sweep", *arguments, cwd=workdir)
    assert done.returncode in (1, 2) and said in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_numbers_are_found_at_the_end():
    name, measure = command._measure("x=stdout:h")

    class Said:
        path = "r"

        def __init__(self, text):
            self.text = text

        def stdout(self, host):
            return self.text

    for text, number in (("a 1 b -2.5 ms\n", -2.5), ("9", 9), ("x 1e3\n\n", 1000)):
        assert measure(Said(text)) == number
    with pytest.raises(BelljarError):
        measure(Said("none"))
