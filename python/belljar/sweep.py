"""Sweeps: many runs over seeds and parameters, on this machine or on others. Completed runs are reused."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import inspect
import itertools
import json
import os
import pathlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import backends, progress as bars, showing
from .backends import On
from .binary import BelljarError
from .experiment import Experiment, RunOptions
from .keywords import check_keywords
from .results import Results
from .run import RunFailed
from .sites import located, located_in_file
from .statistics import FailureRate, failure_rate
from .until import HalfWidth
from .worker import Inputs, Outcome, Task, WorkersDiffer, fingerprint, identity, run_task, unpack

if TYPE_CHECKING:
    import pandas as pd

Parameters = dict[str, Any]
#: Measurement of a run: a number, or several by name.
Measure = Callable[[Results], Union[float, Mapping[str, Any]]]


@dataclasses.dataclass
class Point:
    """Run of a sweep."""

    parameters: Parameters
    seed: int
    path: pathlib.Path
    ok: bool
    #: Reason of the failure.
    problem: str | None = None
    #: True if the run was reused.
    reused: bool = False
    #: Real time of the run in seconds, and the machine that executed it.
    seconds: float = 0.0
    machine: str = ""

    @property
    def name(self) -> str:
        """Parameters and seed as errors name them."""
        return _point_name(self.parameters, self.seed)

    @property
    def results(self) -> Results:
        """Results, opened on each access: those of many runs would not fit into memory."""
        return Results(self.path)

    @property
    def has_results(self) -> bool:
        """True if there are results: a run that exceeded its timeout has none."""
        return (self.path / "sim-stats.json").is_file()


class Sweep:
    """Runs of a sweep, ordered by parameters and seeds."""

    def __init__(self, points: list[Point], measure: Measure | None = None) -> None:
        self.points, self.measure = points, measure

    def __repr__(self) -> str:
        return showing.sweep_line(self)

    def _repr_html_(self) -> str:
        return showing.sweep_html(self)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def failed(self) -> list[Point]:
        return [p for p in self.points if not p.ok]

    def failure_rate(self, confidence: float = 0.95) -> FailureRate:
        """Share of runs that did not end as expected, with its interval."""
        return failure_rate(len(self.failed), len(self.points), confidence)

    def frame(self, measure: Callable[[Results], Any], *, failed: bool = False) -> pd.DataFrame:
        """Tidy table: `measure` returns a dict (a row), or an iterable of dicts or a frame (rows) for each run;
        parameters and seed are prepended. Failed runs are omitted unless `failed`, which adds a column `ok`."""
        import pandas as pd

        parts = []
        for point in self.points:
            if not point.has_results or not point.ok and not failed:
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

    def save(self, folder: str | os.PathLike[str]) -> pathlib.Path:
        """Writes `report.html`, a page about all runs, and `table.csv` (and `table.parquet`, if pyarrow is installed)
        with a row per run. Returns the page's path."""
        from . import report

        return report.save(self, pathlib.Path(folder))


def grid(parameters: Mapping[str, Sequence[Any]] | Sequence[Parameters] | None) -> list[Parameters]:
    """All combinations of named values; a sequence of combinations is unchanged."""
    if parameters is None:
        return [{}]
    if isinstance(parameters, Mapping):
        return [dict(zip(parameters, values)) for values in itertools.product(*parameters.values())]
    return [dict(p) for p in parameters]


def sweep(
    make: Experiment | Callable[..., Experiment] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    seeds: int | Iterable[int],
    parameters: Mapping[str, Sequence[Any]] | Sequence[Parameters] | None = None,
    on: On = "local",
    workers: int | None = None,
    measure: Measure | None = None,
    until: HalfWidth | None = None,
    retries: int = 2,
    same_inputs: bool = True,
    slurm: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    on_done: Callable[[Point], None] | None = None,
    **options: Any,
) -> Sweep:
    """Runs `make(**parameters)` (or one experiment, or an experiment file with parameters as settings) for all
    parameters and seeds (a number counts from 1), `workers` at a time, each on one thread. `on` selects the backend:
    "local", "slurm" (with `slurm` for submitit), "dask", "dask:ADDRESS", or an executor.

    The results of a run are in `folder/<parameters>/<seed>`. An existing run of the same experiment and version is
    reused, so an interrupted sweep continues. A run that does not end as expected is kept and marked, and does not
    end the sweep. A run whose worker is lost is repeated, at most `retries` times. Workers must have the same
    program, and the files that runs read must be identical everywhere (`same_inputs`). At the end the folder contains
    `report.html` and `table.csv` (see `Sweep.save`), with the results of `measure` for each run. `until` adds seeds:
    see `half_width`. `options` are those of `belljar.run`."""
    # Of a run's options, a sweep has two of its own.
    known = set(RunOptions.__annotations__) - {"seed"} | set(inspect.signature(sweep).parameters)
    check_keywords("sweep", options, known - {"options"})
    options.setdefault("parallelism", 1)
    wanted = list(range(1, seeds + 1) if isinstance(seeds, int) else seeds)
    wave = [(values, seed) for values in grid(parameters) for seed in wanted]
    folders: set[tuple[str, int]] = set()
    for values, seed in wave:
        if (_name(values), seed) in folders:
            raise BelljarError(f"{_point_name(values, seed)} is asked for twice, and a run has a folder of its own: leave one out")
        folders.add((_name(values), seed))
    if isinstance(make, (str, os.PathLike)):
        # An unreadable file is an error before workers start.
        _source(make, {})
    campaign = _Campaign(pathlib.Path(folder), on, workers, dict(slurm or {}), retries, same_inputs, options, on_done)
    if until is not None and measure is None:
        raise BelljarError("until= needs measure=: what is to be known that narrowly?")
    bar = bars.bar(progress, total=len(wave), unit=" runs", desc="sweep")
    campaign.bar = bar
    try:
        points = campaign.run([(_source(make, values), values, seed) for values, seed in wave])
        while until is not None and measure is not None:
            wave = until.more(points, measure)
            if not wave:
                break
            if bar is not None:
                bar.total += len(wave)
            points += campaign.run([(_source(make, values), values, seed) for values, seed in wave])
    except RunFailed as failed:
        # The message names the run and the line; the calls within the package do not.
        raise failed.with_traceback(None) from None
    finally:
        campaign.close()
        if bar is not None:
            bar.close()
    order = {_name(values): n for n, values in enumerate(grid(parameters))}
    # Seeds added later are grouped with their parameters, in the order of the requests.
    made = Sweep(sorted(points, key=lambda p: order[_name(p.parameters)]), measure)
    made.save(folder)
    return made


@dataclasses.dataclass(frozen=True)
class _Source:
    """Experiment of a run as text, with the base directory of its paths and its parameters as settings."""

    text: str
    directory: str
    settings: dict[str, Any]
    origin: Experiment | pathlib.Path

    def located(self, said: str) -> str:
        """Output of a run, whose positions on standard input are replaced by those in the user's program or file."""
        if isinstance(self.origin, Experiment):
            return located(said, self.text, self.origin)
        return located_in_file(said, self.origin)


def _source(make: Any, values: Parameters) -> _Source:
    if isinstance(make, (str, os.PathLike)):
        file = pathlib.Path(make)
        if file.exists() and not (file.is_file() or file.is_dir()):
            # Opening a FIFO without a writer does not return, and reading a device does not end.
            raise BelljarError(f"{file} cannot be read: it is not a regular file")
        try:
            return _Source(file.read_text(), str(file.resolve().parent), values, file)
        except OSError as error:
            raise BelljarError(f"{file} cannot be read: {error.strerror}") from error
    experiment = make if isinstance(make, Experiment) else make(**values)
    return _Source(experiment.to_yaml(), os.getcwd(), {}, experiment)


def _point_name(values: Parameters, seed: int) -> str:
    text = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"{text} with seed {seed}" if text else f"seed {seed}"


def _name(values: Parameters) -> str:
    text = ",".join(f"{key}={value}" for key, value in values.items())
    plain = "".join(c if c.isalnum() or c in "=,.-_" else "_" for c in text)
    if plain != text or len(plain) > 100:
        plain = plain[:90] + "-" + hashlib.sha256(text.encode()).hexdigest()[:8]
    return plain or "all"


_Job = tuple[_Source, Parameters, int]


@dataclasses.dataclass
class _Pending:
    """Submitted run."""

    task: Task
    source: _Source
    point: Point
    future: backends.Future
    lost: int = 0


class _Campaign:
    """Runs of a sweep in progress."""

    def __init__(
        self, root: pathlib.Path, on: On, workers: int | None, slurm: dict[str, Any], retries: int, same_inputs: bool,
        options: dict[str, Any], on_done: Callable[[Point], None] | None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.retries, self.options, self.on_done = root, retries, options, on_done
        self.inputs = Inputs() if same_inputs else None
        self.program = identity(options.get("binary"))
        self.token = root.resolve() / f".belljar-{uuid.uuid4().hex}"
        self.backend = backends.backend(on, root, workers, slurm)
        self.token.write_text(self.program)
        self.bar: Any = None
        self.failed = 0

    def close(self) -> None:
        """Releases what was started for this sweep only."""
        self.backend.close()
        self.token.unlink(missing_ok=True)

    def run(self, jobs: Sequence[_Job]) -> list[Point]:
        """Executes the missing runs; returns all of them in the order of the jobs."""
        points: list[Point] = []
        new: list[tuple[Task, _Source, Point]] = []
        for source, values, seed in jobs:
            path = self.root / _name(values) / str(seed)
            options = dict(self.options)
            if source.settings:
                options["settings"] = {**options.get("settings", {}), **source.settings}
            task = Task(source.text, source.directory, seed, str(path.resolve()), options, None if self.backend.local else self.program,
                        (str(self.token), self.program))
            known = self._known(task, path)
            point = Point(values, seed, path, True)
            if known is None:
                new.append((task, source, point))
            else:
                point = Point(values, seed, path, known["ok"], known["problem"], True, known["seconds"], known["machine"])
                self._done(point)
            points.append(point)
        self._make(new)
        return points

    def _known(self, task: Task, path: pathlib.Path) -> dict[str, Any] | None:
        """Record of an existing run that can be reused."""
        record = path.with_name(f"{path.name}.json")
        known: dict[str, Any] | None = json.loads(record.read_text()) if record.is_file() and path.is_dir() else None
        # A run that exceeded its timeout is repeated if the timeout has been increased.
        late, given = known.get("late") if known else None, task.options.get("timeout")
        has_more_time = late is not None and (given is None or given > late)
        current = (
            known is not None and not has_more_time and known["fingerprint"] == fingerprint(task) and known.get("version") == self._version()
            and not (self.inputs and self.backend.local and not self.inputs.is_current(path)))
        if not current or known is None:
            record.unlink(missing_ok=True)
            return None
        if self.inputs:
            self.inputs.add(path, known["machine"])
        return known

    def _version(self) -> str:
        return self.program.partition(", build ")[0]

    def _make(self, new: Sequence[tuple[Task, _Source, Point]]) -> None:
        futures = self.backend.submit(run_task, [task for task, _, _ in new])
        pending = [_Pending(*one, future) for one, future in zip(new, futures)]
        try:
            while pending:
                ended = [one for one in pending if one.future.done()]
                if not ended:
                    time.sleep(self.backend.pause)
                    continue
                pending = [one for one in pending if one not in ended]
                pending += [again for one in ended for again in self._end(one)]
        except BaseException:
            for one in pending:
                one.future.cancel()
            raise

    def _end(self, one: _Pending) -> list[_Pending]:
        """Processes the outcome of a run; returns the run if it must be repeated."""
        task, point = one.task, one.point
        try:
            outcome: Outcome = one.future.result()
        except (Exception, concurrent.futures.CancelledError) as error:
            outcome = Outcome("lost", f"{type(error).__name__}: {error}")
        if outcome.kind == "lost":
            if one.lost >= self.retries:
                raise BelljarError(f"the run of {point.name} was lost {one.lost + 1} times with its worker, "
                                   f"the last time so:\n{outcome.problem}")
            again = self.backend.submit(run_task, [task])[0]
            return [dataclasses.replace(one, future=again, lost=one.lost + 1)]
        if outcome.kind == "differs":
            raise WorkersDiffer(outcome.problem or "")
        if outcome.kind == "mistake":
            raise RunFailed(f"{point.name}: {one.source.located(outcome.problem or '')}", None, outcome.problem or "")
        if outcome.archive is not None:
            unpack(outcome.archive, point.path)
        if self.inputs:
            self.inputs.add(point.path, outcome.machine)
        point.ok, point.problem = outcome.problem is None, one.source.located(outcome.problem) if outcome.problem else None
        point.seconds, point.machine = outcome.seconds, outcome.machine
        record = {"fingerprint": fingerprint(task), "version": self._version(), "parameters": point.parameters, "seed": point.seed,
                  "ok": point.ok, "problem": point.problem, "seconds": round(point.seconds, 3), "machine": point.machine,
                  "late": task.options.get("timeout") if outcome.late else None}
        # Written atomically: the record marks the run as complete.
        file = point.path.with_name(f"{point.path.name}.json")
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(record, default=str, indent=1) + "\n")
        temporary.replace(file)
        self._done(point)
        return []

    def _done(self, point: Point) -> None:
        self.failed += not point.ok
        if self.bar is not None:
            self.bar.update(1)
            self.bar.set_postfix_str(f"{self.failed} not as expected")
        if self.on_done is not None:
            self.on_done(point)
