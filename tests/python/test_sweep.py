"""Sweeps: resumption, failures, tables."""

import json
import os

import pytest

from belljar import BelljarError, Experiment, RunFailed, sweep


def lossy(loss=0.0, sleep="1"):
    e = Experiment(stop_time="30 s")
    e.network.edge("a", "b", latency="10 ms", loss=loss)
    # Fails with the last bit of a random byte: with the seed, and with nothing else.
    e.host("coin", at="a").run("/bin/sh", "-c", f"sleep {sleep}; exit $(($(od -An -N1 -tu1 /dev/urandom) & 1))")
    return e


def test_a_sweep_goes_on_where_it_was(workdir):
    seen = []
    options = {"seeds": 4, "parameters": {"loss": [0.0, 0.1]}, "on_done": seen.append}
    first = sweep(lossy, workdir / "sweep", **options)
    assert len(first) == 8 and not any(p.reused for p in first.points) and len(seen) == 8
    assert [(p.parameters["loss"], p.seed) for p in first.points] == [(loss, s) for loss in (0.0, 0.1) for s in (1, 2, 3, 4)]
    # One was interrupted: its folder is there, its record is not.
    broken = first.points[2]
    broken.path.with_name(f"{broken.seed}.json").unlink()
    again = sweep(lossy, workdir / "sweep", **options)
    assert [p.reused for p in again.points] == [p is not broken for p in first.points]
    assert [p.ok for p in again.points] == [p.ok for p in first.points]
    # Another experiment under the same parameters is run anew.
    changed = sweep(lambda loss: lossy(loss, sleep="2"), workdir / "sweep", **options)
    assert not any(p.reused for p in changed.points)


def test_failures_are_kept_and_counted(workdir):
    runs = sweep(lossy(), workdir / "sweep", seeds=12)
    failed = [p.seed for p in runs.failed]
    assert 0 < len(failed) < 12, "a coin"
    rate = runs.failure_rate()
    assert rate.failed == len(failed) and rate.low < rate.rate < rate.high
    assert all("expected: exited 0" in p.problem and p.results.path.is_dir() for p in runs.failed)
    again = sweep(lossy(), workdir / "other", seeds=12)
    assert [p.seed for p in again.failed] == failed, "the seed decides"


def test_the_table_is_tidy(workdir):
    pytest.importorskip("pandas")
    runs = sweep(lossy, workdir / "sweep", seeds=[5, 6], parameters=[{"loss": 0.0}, {"loss": 0.2}])
    frame = runs.frame(lambda r: {"ended": r.processes()["ended"].iloc[0]}, failed=True)
    assert list(frame.columns) == ["loss", "seed", "ok", "ended"] and len(frame) == 4
    assert (frame["ended"] >= 1.0).all()
    rows = runs.frame(lambda r: r.traffic()[["host", "bytes_out"]], failed=True)
    assert list(rows.columns) == ["loss", "seed", "ok", "host", "bytes_out"]


def test_a_mistake_ends_the_sweep(workdir):
    def broken():
        e = Experiment(stop_time="1 s")
        e.host("a").run("/no/such/program")
        return e

    with pytest.raises(RunFailed, match="no program"):
        sweep(broken, workdir / "sweep", seeds=3)
    assert not list(workdir.glob("sweep/**/*.json"))


def test_records_say_what_was_run(workdir):
    point = sweep(lossy, workdir / "sweep", seeds=[7], parameters={"loss": [0.5]}).points[0]
    record = json.loads(point.path.with_name("7.json").read_text())
    assert record["parameters"] == {"loss": 0.5} and record["seed"] == 7 and record["ok"] == point.ok


def test_options_that_are_not_known_end_a_sweep_at_once(workdir):
    e = Experiment(stop_time="1 s")
    with pytest.raises(TypeError, match=r"sweep\(\) got an unexpected keyword argument 'progres': did you mean 'progress'\?"):
        sweep(e, workdir / "sweep", seeds=1, progres=False)
    with pytest.raises(TypeError, match=r"'seed': did you mean 'seeds'\?"):
        sweep(e, workdir / "sweep", seeds=1, seed=3)
    assert not (workdir / "sweep").exists()


def test_a_file_without_end_ends_a_sweep_at_once(workdir):
    os.mkfifo(workdir / "fifo")
    for path in (workdir / "fifo", "/dev/zero"):
        with pytest.raises(BelljarError, match=f"{path} cannot be read: it is not a regular file"):
            sweep(path, workdir / "sweep", seeds=1)
