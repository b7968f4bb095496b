"""Many runs: seeds and parameters in a pool of processes. What was done is not done again."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .experiment import Experiment
from .results import Results
from .run import RunFailed, run
from .statistics import FailureRate, failure_rate

if TYPE_CHECKING:
    import pandas as pd

Parameters = dict[str, Any]


@dataclasses.dataclass
class Point:
    """One run of a sweep."""

    parameters: Parameters
    seed: int
    path: pathlib.Path
    ok: bool
    #: Why it is not ok.
    problem: str | None = None
    #: It was there already.
    reused: bool = False

    @property
    def results(self) -> Results:
        return Results(self.path)


class Sweep:
    """The runs of a sweep, in the order of parameters and seeds."""

    def __init__(self, points: list[Point]) -> None:
        self.points = points

    def __iter__(self) -> Iterable[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def failed(self) -> list[Point]:
        return [p for p in self.points if not p.ok]

    def failure_rate(self, confidence: float = 0.95) -> FailureRate:
        """The share of runs that did not end as expected, with its interval."""
        return failure_rate(len(self.failed), len(self.points), confidence)

    def frame(self, measure: Callable[[Results], Any], *, failed: bool = False) -> pd.DataFrame:
        """A tidy table: `measure` gives for each run a dict (a row), or an iterable of dicts or a frame (rows); the
        run's parameters and seed are put before. Failed runs are left out unless `failed`, which adds a column `ok`."""
        import pandas as pd

        parts = []
        for point in self.points:
            if not point.ok and not failed:
                continue
            measured = measure(point.results)
            if isinstance(measured, Mapping):
                measured = [measured]
            part = measured.copy() if isinstance(measured, pd.DataFrame) else pd.DataFrame(list(measured))
            before = {**point.parameters, "seed": point.seed, **({"ok": point.ok} if failed else {})}
            for key, value in reversed(before.items()):
                part.insert(0, key, [value] * len(part))
            parts.append(part)
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def grid(parameters: Mapping[str, Sequence[Any]] | Sequence[Parameters] | None) -> list[Parameters]:
    """All combinations of named values; a sequence of combinations stays as it is."""
    if parameters is None:
        return [{}]
    if isinstance(parameters, Mapping):
        return [dict(zip(parameters, values)) for values in itertools.product(*parameters.values())]
    return [dict(p) for p in parameters]


def sweep(
    make: Experiment | Callable[..., Experiment],
    folder: str | os.PathLike[str],
    *,
    seeds: int | Iterable[int],
    parameters: Mapping[str, Sequence[Any]] | Sequence[Parameters] | None = None,
    workers: int | None = None,
    on_done: Callable[[Point], None] | None = None,
    **options: Any,
) -> Sweep:
    """Runs `make(**parameters)` (or one experiment) for all parameters and seeds (a number counts from 1), `workers`
    at a time, each on one thread. The results of a run lie in `folder/<parameters>/<seed>`; a run that is there and
    was made from the same experiment is not made again, so an interrupted sweep goes on where it was. A run that does
    not end as expected is kept and marked, it does not end the sweep. `options` are those of `belljar.run`."""
    root = pathlib.Path(folder)
    chosen = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    options.setdefault("parallelism", 1)
    jobs = []
    for values in grid(parameters):
        experiment = make if isinstance(make, Experiment) else make(**values)
        jobs += [(experiment, values, seed) for seed in chosen]

    def do(job: tuple[Experiment, Parameters, int]) -> Point:
        point = _one(root, *job, options)
        if on_done is not None:
            on_done(point)
        return point

    # Threads, since each only waits for the process that simulates.
    with concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        futures = [pool.submit(do, job) for job in jobs]
        try:
            return Sweep([future.result() for future in futures])
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _name(values: Parameters) -> str:
    text = ",".join(f"{key}={value}" for key, value in values.items())
    plain = "".join(c if c.isalnum() or c in "=,.-_" else "_" for c in text)
    if plain != text or len(plain) > 100:
        plain = plain[:90] + "-" + hashlib.sha256(text.encode()).hexdigest()[:8]
    return plain or "all"


def _one(root: pathlib.Path, experiment: Experiment, values: Parameters, seed: int, options: dict[str, Any]) -> Point:
    path = root / _name(values) / str(seed)
    record = path.with_name(f"{seed}.json")
    # What the run is made from; how fast it is made is no part of it.
    made_from = {k: v for k, v in options.items() if k not in ("parallelism", "timeout", "check", "binary")}
    text = experiment.to_yaml() + json.dumps([seed, made_from], default=str, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    if record.is_file() and path.is_dir():
        known = json.loads(record.read_text())
        if known["fingerprint"] == fingerprint:
            return Point(values, seed, path, known["ok"], known["problem"], reused=True)
    record.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    problem = None
    try:
        run(experiment, path, seed=seed, **options)
    except RunFailed as failure:
        # One that has left no results is a mistake in the experiment, and so are all that follow.
        if failure.results is None:
            raise
        problem = str(failure)
    point = Point(values, seed, path, problem is None, problem)
    entry = {"fingerprint": fingerprint, "parameters": values, "seed": seed, "ok": point.ok, "problem": problem}
    # Whole or not at all: it says that the run is done.
    temporary = record.with_suffix(".tmp")
    temporary.write_text(json.dumps(entry, default=str, indent=1) + "\n")
    temporary.replace(record)
    return point
