"""One simulation in several processes: the same bytes as in one, one end for all of them, whoever ends it."""

import os
import signal
import subprocess

import pytest
import yaml
from conftest import EXAMPLES, execute, experiment, until
from sameness import assert_same

from .test_workers import draw_experiment, program  # noqa: F401 (a fixture)


@pytest.mark.parametrize("seed", [101, 102, 103, *(pytest.param(n, marks=pytest.mark.slow) for n in range(104, 140))])
def test_cells_make_no_difference(belljar, workdir, program, seed):  # noqa: F811
    drawn = draw_experiment(seed, program)
    drawn.setdefault("belljar", {})["metrics"] = {"interval": "100 ms"}
    (workdir / "experiment.yaml").write_text(yaml.safe_dump(drawn, sort_keys=False))
    one = ("--parallelism", "1")
    assert_same(belljar, workdir, workdir / "experiment.yaml", one, (*one, "--cells", "2"), ("--parallelism", "4", "--cells", "3"))


@pytest.mark.parametrize("name", ["first", "faults"])
def test_examples_in_cells(belljar, programs, workdir, name):
    assert_same(belljar, workdir, EXAMPLES / f"{name}.yaml", ("--pcap",), ("--pcap", "--cells", "3"))


SLEEPERS = experiment(
    {f"host{n}": (0, [{"path": "/bin/sleep", "args": "100000"}, {"path": "/bin/echo", "args": "early"}]) for n in range(4)}
)
SLEEPERS["general"]["stop_time"] = "1000000 s"
# Something that happens all the time: the run neither ends nor jumps to its end.
SLEEPERS["hosts"]["host0"]["processes"].append({"path": "/bin/sh", "args": ["-c", "while :; do sleep 0.001; done"]})


@pytest.fixture
def running(belljar, workdir):
    """A run in three cells under way, and the pids of the other two."""
    (workdir / "long.yaml").write_text(yaml.safe_dump(SLEEPERS, sort_keys=False))
    process = subprocess.Popen(
        [belljar, "run", workdir / "long.yaml", "-o", workdir / "data", "--cells", "3"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )
    try:
        until(lambda: [file.read_text() for file in (workdir / "data").glob("hosts/*/echo.*.stdout")] == ["early\n"] * 4 or process.poll() is not None)
        assert process.poll() is None
        children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True)
        cells = [int(line.split()[0]) for line in children.stdout.splitlines() if " run " in line]
        assert len(cells) == 2, children.stdout
        yield process, cells
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def assert_gone(pids):
    left = lambda: [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    until(lambda: not left(), left, patience=120)


def test_interrupted(running, workdir):
    process, cells = running
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130 and "interrupted" in (out + err).lower(), out + err
    assert_gone(cells)
    for n in range(4):
        (written,) = (workdir / "data").glob(f"hosts/host{n}/echo.*.stdout")
        assert written.read_text() == "early\n"
    assert "host3" in (workdir / "data/sim-stats.json").read_text()


def test_a_cell_that_is_killed_ends_the_run(running, workdir):
    process, cells = running
    os.kill(cells[0], signal.SIGKILL)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 1 and "was killed by signal 9" in err and "incomplete" in err, err
    assert_gone(cells)
    assert "host0" in (workdir / "data/sim-stats.json").read_text()


def test_cells_end_with_the_run_that_is_killed(running):
    process, cells = running
    process.kill()
    process.wait()
    assert_gone(cells)


@pytest.mark.parametrize("args, said", [
    (("--cells", "0"), "0 is not in 1..=64"),
    (("--cells", "2", "--profile"), "--profile measures one process: leave out --cells"),
])
def test_what_cannot_be(belljar, workdir, args, said):
    (workdir / "two.yaml").write_text(yaml.safe_dump(SLEEPERS, sort_keys=False))
    done = execute([belljar, "run", workdir / "two.yaml", "-o", workdir / "data", *args])
    assert done.status == 2 and said in done.err, done
