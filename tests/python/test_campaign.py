"""Sweeps on other machines, with workers that are lost, until enough is known, and what they leave."""

import concurrent.futures
import csv
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import traceback

import pytest
import slurm_cluster
from conftest import measured, timely, until

from belljar import BelljarError, Experiment, RunFailed, curves, half_width, sweep, worker
from belljar.backends import backend


def lossy(loss=0.0, coin=4):
    """Fails by a random byte of the seed; a bulk transfer tells how the network is."""
    exp = Experiment(stop_time="30 s")
    exp.network.edge("a", "b", latency="10 ms", loss=loss)
    exp.host("sender", at="a").run("/bin/sh", "-c", f"exit $(($(od -An -N1 -tu1 /dev/urandom) % {coin} == 0))")
    exp.host("to", at="b").model("sink", port=5001)
    exp.hosts["sender"].model("bulk", to="to:5001", size="20 KB")
    return exp


def ended(results):
    return float(results.flows()["ended"].iloc[0])


OPTIONS = {"parameters": {"loss": [0.0, 0.05]}, "measure": ended}


def table(folder):
    return (folder / "table.csv").read_text()


class Forgetful:
    """An executor that loses the first calls: their futures fail, as those of workers that have died."""

    def __init__(self, losses):
        self.pool, self.losses, self.submitted = concurrent.futures.ThreadPoolExecutor(2), losses, 0

    def submit(self, function, task):
        self.submitted += 1
        if self.losses:
            self.losses -= 1
            future = concurrent.futures.Future()
            future.set_exception(RuntimeError("the worker is gone"))
            return future
        return self.pool.submit(function, task)


def test_what_is_lost_is_made_again(workdir):
    pytest.importorskip("pandas")
    plain = sweep(lossy, workdir / "plain", seeds=4, **OPTIONS)
    executor = Forgetful(3)
    again = sweep(lossy, workdir / "forgetful", seeds=4, on=executor, **OPTIONS)
    assert executor.submitted == 8 + 3 and [p.ok for p in again] == [p.ok for p in plain]
    assert table(workdir / "forgetful") == table(workdir / "plain")
    with pytest.raises(BelljarError, match="(?s)was lost 3 times with its worker, the last time so:.*RuntimeError: the worker is gone"):
        sweep(lossy, workdir / "never", seeds=1, on=Forgetful(100), **OPTIONS)
    assert not list((workdir / "never").glob(".belljar-*")), "what says that the folder is shared has gone"


def test_processes_of_another_executor(workdir):
    pytest.importorskip("pandas")
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        made = sweep(lossy, workdir / "pool", seeds=2, on=pool, **OPTIONS)
    assert len(made) == 4 and all(p.machine and p.seconds > 0 for p in made)


def test_results_are_brought_back_where_nothing_is_shared(workdir, monkeypatch):
    pytest.importorskip("pandas")

    class Elsewhere:
        """Makes the calls where the sweep's folder is another one."""

        def submit(self, function, task):
            task.token, task.path = ("/nonexistent" + task.token[0], task.token[1]), "/nonexistent" + task.path
            future = concurrent.futures.Future()
            outcome = function(task)
            assert outcome.archive
            future.set_result(outcome)
            return future

    sweep(lossy, workdir / "here", seeds=2, **OPTIONS)
    made = sweep(lossy, workdir / "elsewhere", seeds=2, on=Elsewhere(), **OPTIONS)
    assert table(workdir / "elsewhere") == table(workdir / "here")
    for point in made:
        assert (point.path / "sim-stats.json").read_bytes() == (workdir / "here" / point.path.relative_to(workdir / "elsewhere") / "sim-stats.json").read_bytes()
    again = sweep(lossy, workdir / "elsewhere", seeds=2, on=Elsewhere(), **OPTIONS)
    assert all(p.reused for p in again)


def test_a_worker_with_another_program_is_named(workdir, monkeypatch):
    class Other:
        def submit(self, function, task):
            task.program = "belljar 9.9.9, build 0"
            return concurrent.futures.ThreadPoolExecutor(1).submit(function, task)

    with pytest.raises(worker.WorkersDiffer, match=r"has belljar [\d.]+, build [0-9a-f]{16}, the sweep was started with belljar 9.9.9, build 0: install the same"):
        sweep(lossy, workdir / "sweep", seeds=1, on=Other())


def test_files_that_differ_are_named(workdir):
    text = workdir / "input.txt"
    text.write_text("one\n")
    exp = Experiment(stop_time="5 s")
    exp.host("a").run("/bin/cat", text)
    first = sweep(exp, workdir / "sweep", seeds=2)
    assert str(text) in worker.manifest(first.points[0].path)
    text.write_text("two\n")
    # On this machine what was made from other files is made again.
    again = sweep(exp, workdir / "sweep", seeds=3)
    assert not any(p.reused for p in again) and again.points[0].results.stdout("a") == "two\n"
    text.write_text("three\n")
    with pytest.raises(worker.WorkersDiffer, match=rf"{text} on .* is not what it was on .*\(SHA-256 [0-9a-f]{{16}}\.\.\., "):
        sweep(exp, workdir / "sweep", seeds=4, on=Forgetful(0))
    assert len(sweep(exp, workdir / "sweep", seeds=4, on=Forgetful(0), same_inputs=False)) == 4


def test_a_program_that_is_killed_is_run_again(workdir):
    exp = Experiment(stop_time="1000 h")
    # It goes on until it is to be killed.
    over = workdir / "over"
    exp.host("a").run("/usr/bin/python3", "-c", f"import os, time\nwhile not os.path.exists({str(over)!r}): time.sleep(0.01)")
    killed = []

    def kill():
        until(lambda: list(workdir.glob("sweep/all/1/control.sock")))
        of_us = subprocess.run(["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True).stdout
        pid = next(int(line.split()[0]) for line in of_us.splitlines() if str(workdir) in line)
        os.kill(pid, signal.SIGSTOP)
        over.touch()
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    made = sweep(exp, workdir / "sweep", seeds=1)
    thread.join()
    assert killed and made.points[0].ok


@measured(4)
def test_runs_that_take_too_long_are_failures(workdir):
    def endless(forever):
        exp = Experiment(stop_time="1000 h")
        exp.host("a").run("/bin/sh", "-c", "while :; do read x < /dev/null; done" if forever else "exit 0", expect="any")
        return exp

    made = sweep(endless, workdir / "sweep", seeds=1, parameters={"forever": [True, False]}, timeout=2)
    late, fine = made.points
    assert not late.ok and late.problem == "still running after 2 s of real time"
    timely(fine.ok, fine.problem)
    assert late.problem in made._repr_html_() and late.problem in (workdir / "sweep/report.html").read_text()
    assert all(p.reused for p in sweep(endless, workdir / "sweep", seeds=1, parameters={"forever": [True, False]}, timeout=2))
    again = sweep(endless, workdir / "sweep", seeds=1, parameters={"forever": [True, False]}, timeout=3)
    assert [p.reused for p in again] == [False, True]


def test_seeds_are_added_until_enough_is_known(workdir):
    pytest.importorskip("scipy")
    options = {"seeds": 4, "parameters": {"loss": [0.0, 0.2], "coin": [256]}, "measure": lambda r: {"ended": ended(r), "more": 1}}
    made = sweep(lossy, workdir / "sweep", until=half_width("12 %", "ended", most=60), **options)
    each = {loss: [p.seed for p in made if p.parameters["loss"] == loss] for loss in (0.0, 0.2)}
    # Without loss all runs take the same time.
    assert each[0.0] == [1, 2, 3, 4] and 4 < len(each[0.2]) <= 60 and each[0.2] == list(range(1, len(each[0.2]) + 1))
    again = sweep(lossy, workdir / "sweep", until=half_width("12 %", "ended", most=60), **options)
    assert [(p.parameters, p.seed) for p in again] == [(p.parameters, p.seed) for p in made] and all(p.reused for p in again)
    few = sweep(lossy, workdir / "sweep", until=half_width("0.001 %", "ended", most=6), **options)
    assert len(few) == 4 + 6
    with pytest.raises(BelljarError, match="measure gives no 'took', it gives ended, more"):
        sweep(lossy, workdir / "sweep", until=half_width(1, "took"), **options)
    with pytest.raises(BelljarError, match="until= needs measure="):
        sweep(lossy, workdir / "sweep", seeds=1, until=half_width(1))
    for wrong in ("wide", 0, "-5 %", float("inf")):
        with pytest.raises(ValueError, match="give a number above 0, or a share of the mean"):
            half_width(wrong)


def test_page_and_tables(workdir):
    made = sweep(lambda loss: lossy(loss, coin=2), workdir / "sweep", seeds=8, **OPTIONS)
    rows = list(csv.DictReader((workdir / "sweep/table.csv").open()))
    assert list(rows[0])[:4] == ["loss", "seed", "ok", "failure"] and "value" in rows[0] and "bytes_out" in rows[0] and len(rows) == 16
    assert [row["failure"] for row in rows if row["ok"] == "False"] == ["sender: sh exited 1"] * len(made.failed)
    page = (workdir / "sweep/report.html").read_text()
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page) and "<script" not in page
    for text in ("value against loss", "Failures by signature", "sender: sh exited 1", "Slowest runs", "seed 3", "<polygon" if _has("scipy") else "<polyline"):
        assert text in page, text
    for href in set(re.findall(r'href="([^"]+)"', page)):
        assert (workdir / "sweep" / href).is_dir(), href
    if _has("pyarrow"):
        import pyarrow.parquet

        content = pyarrow.parquet.read_table(workdir / "sweep/table.parquet").to_pylist()
        assert [str(row["seed"]) for row in content] == [row["seed"] for row in rows] and content[0].keys() == rows[0].keys()


def test_scales_have_round_numbers():
    for low, high in ((0, 1), (-0.3052, 0.8408), (0, 116861), (1e-9, 3e-9), (99.5, 100.25), (0, 7)):
        marks = curves.scale(low, high)
        step = marks[1] - marks[0]
        assert 4 <= len(marks) <= 7 and low - step < marks[0] <= low and high * (1 - 1e-12) <= marks[-1] < high + step, marks
        assert all(len(f"{mark:.12g}".replace("-", "").replace(".", "").strip("0").partition("e")[0]) <= 4 for mark in marks), marks


def _has(package):
    try:
        __import__(package)
        return True
    except ImportError:
        return False


def test_what_cannot_be_meant(workdir):
    for on, said in (("sulrm", 'it can be "local", "slurm", "dask", "dask:ADDRESS", or an executor'), (3, r"has no submit\(\)"), ("local:2", "it can be")):
        with pytest.raises(BelljarError, match=said):
            backend(on, workdir, None, None)
    with pytest.raises(BelljarError, match='slurm= says how Slurm\'s jobs are made, and on= is "local"'):
        backend("local", workdir, None, {"timeout_min": 5})
    for package, on in (("distributed", "dask"), ("submitit", "slurm")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(BelljarError, match=f"need the package {package}: pip install {package}"):
                backend(on, workdir, None, None)
    with pytest.raises(RunFailed, match="no program"):
        exp = Experiment(stop_time="1 s")
        exp.host("a").run("/no/such/program")
        sweep(exp, workdir / "sweep", seeds=3)
    with pytest.raises(BelljarError, match="missing.yaml cannot be read: No such file"):
        sweep(workdir / "missing.yaml", workdir / "sweep", seeds=1)


def test_errors_of_a_sweep_name_the_run_and_the_line(workdir):
    def make(late=0):
        exp = Experiment(stop_time="2 s")
        exp.host("a").run("/bin/true", start="x s" if late else 0)
        return exp

    wrong = make.__code__.co_firstlineno + 2
    with pytest.raises(RunFailed) as refused:
        sweep(make, workdir / "made", seeds=1, parameters={"late": [0, 1]})
    said = str(refused.value)
    assert said.startswith("late=1 with seed 1: ") and f"{__file__}:{wrong} (line" in said and "standard input" not in said, said
    assert len(traceback.extract_tb(refused.value.__traceback__)) == 2, "this test's line and sweep()"

    file = workdir / "exp.yaml"
    file.write_text("general: {stop_time: 2 s}\nhosts:\n  a:\n    network_node_id: 0\n    processes: [{path: /bin/true, arg: x}]\n")
    with pytest.raises(RunFailed) as refused:
        sweep(file, workdir / "file", seeds=1)
    said = str(refused.value)
    assert said.startswith("seed 1: ") and f"--> {file}:5:35" in said and "standard input" not in said, said


@pytest.fixture
def dask_cluster(workdir):
    """A scheduler and two workers, each a process of its own on loopback."""
    pytest.importorskip("distributed")
    env = {**os.environ, "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
    processes = []

    def start(module, *arguments):
        processes.append(subprocess.Popen([sys.executable, "-m", f"distributed.cli.{module}", *arguments], cwd=workdir, env=env,
                                          stdout=subprocess.DEVNULL, stderr=(workdir / f"{module}.log").open("ab")))
        return processes[-1]

    try:
        start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", "scheduler.json")
        file = workdir / "scheduler.json"
        until(lambda: file.is_file() and file.read_text().strip(), (workdir / "dask_scheduler.log").read_text)
        address = json.loads(file.read_text())["address"]
        workers = [start("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--name", f"w{n}") for n in (1, 2)]
        yield address, workers, lambda n: start("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--name", f"w{n}")
    finally:
        # The workers first: one whose scheduler has gone looks for it as long as it can.
        for process in reversed(processes):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)


def test_dask_with_a_worker_killed_in_the_middle(workdir, dask_cluster):
    pytest.importorskip("pandas")
    address, workers, _ = dask_cluster
    sweep(lossy, workdir / "local", seeds=10, **OPTIONS)
    done = []

    def watch(point):
        done.append(point)
        if len(done) == 5:
            workers[0].kill()

    made = sweep(lossy, workdir / "dask", seeds=10, on=f"dask:{address}", on_done=watch, **OPTIONS)
    assert len(made) == 20 and workers[0].wait(600) != 0 and not any(p.reused for p in made)
    assert table(workdir / "dask") == table(workdir / "local")
    assert all(p.reused for p in sweep(lossy, workdir / "dask", seeds=10, on=f"dask:{address}", **OPTIONS))


@pytest.fixture
def slurm(workdir):
    """A real Slurm on this machine, with a node of two processors."""
    pytest.importorskip("submitit")
    if os.geteuid() != 0:
        pytest.skip("Slurm's node runs as root")
    cluster = slurm_cluster.Cluster(workdir)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in cluster.environment.items():
            patch.setenv(key, value)
        yield cluster
    cluster.stop()


@pytest.mark.slow
@pytest.mark.needs(*slurm_cluster.PROGRAMS)
def test_slurm_with_a_job_killed_in_the_middle(workdir, slurm):
    pytest.importorskip("pandas")
    sweep(lossy, workdir / "local", seeds=20, **OPTIONS)
    done, killed = [], []

    def watch(point):
        done.append(point)
        running = subprocess.run(["squeue", "-h", "-r", "-t", "R", "-o", "%i"], capture_output=True, text=True).stdout.split()
        # One may have come to its end in the meantime, three hardly.
        if len(done) >= 10 and running and len(killed) < 3:
            if subprocess.run(["scancel", "--signal=KILL", running[-1]], capture_output=True).returncode == 0:
                killed.append(running[-1])

    made = sweep(lossy, workdir / "slurm", seeds=20, on="slurm", on_done=watch, **OPTIONS)
    assert len(made) == 40 and killed and not any(p.reused for p in made)
    assert table(workdir / "slurm") == table(workdir / "local")
    jobs = {file.name.split("_")[0] for file in (workdir / "slurm/.slurm").glob("*_submitted.pkl")}
    assert 2 <= len(jobs) <= 4, f"one array, and a job for each run that was lost: {jobs}"
    command = [sys.executable, "-m", "belljar", "sweep", str(workdir / "exp.yaml"), "-o", str(workdir / "command"), "--seeds", "3", "--on", "slurm",
               "--slurm", "timeout_min=5", "--vary", "hosts.a.bandwidth_up=[1 Mbit, 2 Mbit]", "--measure", "end=simulated_seconds"]
    exp = Experiment(stop_time="2 s")
    exp.host("a").run("/bin/sleep", "1")
    exp.save(workdir / "exp.yaml")
    said = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0 and "6 runs in" in said.stdout, said.stdout + said.stderr
