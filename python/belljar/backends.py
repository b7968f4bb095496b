"""Execution backends of sweeps: this machine, a Slurm cluster, a Dask cluster, or any object with a method
`submit(function, argument)` that returns futures: an executor of `concurrent.futures`, a Dask client, an executor of
submitit.

Sweeps use the methods `done()`, `result()` and `cancel()` of a future. For Ray see the guide, which has an adapter of
a few lines."""

from __future__ import annotations

import concurrent.futures
import importlib
import os
import pathlib
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Union

from .binary import BelljarError


class Future(Protocol):
    """Handle of a submitted call."""

    def done(self) -> bool: ...

    def result(self) -> Any: ...

    def cancel(self) -> Any: ...


class Executor(Protocol):
    """Executor of calls elsewhere."""

    def submit(self, function: Callable[[Any], Any], /, *args: Any) -> Any: ...


#: "local", "slurm", "dask", "dask:ADDRESS", or an object with `submit`.
On = Union[str, Executor]


class Backend:
    """Adapter of an executor for sweeps."""

    #: True if the runs execute on this machine, so that they read its files.
    local = False
    #: Interval in seconds at which futures are polled.
    pause = 0.05

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        # A retry is an equal call, which must not be deduplicated.
        self._more = {"pure": False} if hasattr(executor, "scheduler_info") else {}

    def submit(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Future]:
        """Submits one call per task."""
        return [self.executor.submit(function, task, **self._more) for task in tasks]

    def close(self) -> None:
        """Releases what was started for this sweep only."""


class Local(Backend):
    """Threads of this process; each only waits for a simulator process."""

    local = True
    pause = 0.01

    def __init__(self, workers: int | None) -> None:
        super().__init__(concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count() or 1))

    def close(self) -> None:
        self.executor.shutdown()


class Slurm(Backend):
    """Jobs of a Slurm cluster, submitted by submitit; jobs submitted together form job arrays. `settings` are
    submitit's: slurm_partition, timeout_min, mem_gb and so on.

    submitit queries `sacct`, which many small clusters lack, so jobs are monitored by `squeue`: a job that left the
    queue without a result is lost."""

    pause = 0.5
    #: Maximum number of jobs per array, below Slurm's default limit (MaxArraySize is 1001).
    _array = 1000
    #: Interval in seconds at which the queue is polled, and time after which a result delayed by a shared file system
    #: counts as lost.
    _look, _patience = 2.0, 20.0

    def __init__(self, folder: pathlib.Path, workers: int | None, settings: dict[str, Any]) -> None:
        submitit = _imported("submitit", "Slurm")
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
        except RuntimeError as error:
            raise BelljarError(f"there is no Slurm here: {error}") from error
        executor.update_parameters(**{"name": "belljar", "timeout_min": 60, "cpus_per_task": 1,
                                      "slurm_array_parallelism": workers or 256, **settings})
        super().__init__(executor)
        self._queue: set[str] = set()
        self._looked = 0.0

    def submit(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Future]:
        jobs: list[Any] = []
        for first in range(0, len(tasks), self._array):
            part = tasks[first:first + self._array]
            if len(part) == 1:
                jobs += super().submit(function, part)
                continue
            with self.executor.batch():
                jobs += super().submit(function, part)
        self._looked = 0.0
        return [_SlurmJob(job, self) for job in jobs]

    def queue(self) -> tuple[set[str], float]:
        """Pending and running jobs, and the time of the query."""
        now = time.monotonic()
        if now - self._looked > self._look:
            command = ["squeue", "--noheader", "--array", "--format=%i", "--user", str(os.getuid())]
            said = subprocess.run(command, capture_output=True, text=True)
            # A controller that does not answer says nothing about its jobs.
            if said.returncode == 0:
                self._queue, self._looked = set(said.stdout.split()), now
        return self._queue, self._looked

    def patience(self) -> float:
        """Seconds after which a missing result counts as lost."""
        return self._patience


class _SlurmJob:
    """Slurm job as a future."""

    def __init__(self, job: Any, slurm: Slurm) -> None:
        self.job, self.slurm = job, slurm
        self._gone: float | None = None

    def _has_result(self) -> bool:
        return bool(self.job.paths.result_pickle.exists())

    def done(self) -> bool:
        if self._has_result():
            return True
        queue, when = self.slurm.queue()
        if not when or str(self.job.job_id) in queue:
            self._gone = None
            return False
        self._gone = self._gone or when
        return time.monotonic() - self._gone > self.slurm.patience()

    def result(self) -> Any:
        if not self._has_result():
            raise RuntimeError(f"Slurm's job {self.job.job_id} ended without a result; its output is {self.job.paths.stderr}")
        return self.job.result()

    def cancel(self) -> None:
        self.job.cancel(check=False)


class Dask(Backend):
    """Dask cluster at this address, or at the one in Dask's configuration (DASK_SCHEDULER_ADDRESS)."""

    pause = 0.1

    def __init__(self, address: str | None) -> None:
        distributed = _imported("distributed", "Dask")
        if not address and not distributed.client.config.get("scheduler-address", None):
            raise BelljarError("no Dask cluster is named: on=\"dask:tcp://HOST:8786\", or DASK_SCHEDULER_ADDRESS in the environment")
        super().__init__(distributed.Client(address) if address else distributed.Client())

    def close(self) -> None:
        self.executor.close()


def backend(on: On, folder: pathlib.Path, workers: int | None, settings: dict[str, Any] | None) -> Backend:
    """Backend that `on` selects."""
    if not isinstance(on, str):
        if not callable(getattr(on, "submit", None)):
            raise BelljarError(f"on= is {on!r}, which has no submit(): name \"local\", \"slurm\" or \"dask\", or pass an executor")
        return Backend(on)
    kind, _, address = on.partition(":")
    if settings and kind != "slurm":
        raise BelljarError(f"slurm= says how Slurm's jobs are made, and on= is \"{on}\"")
    if kind == "local" and not address:
        return Local(workers)
    if kind == "slurm" and not address:
        return Slurm(folder / ".slurm", workers, dict(settings or {}))
    if kind == "dask":
        return Dask(address or None)
    raise BelljarError(f"on= is \"{on}\": it can be \"local\", \"slurm\", \"dask\", \"dask:ADDRESS\", or an executor")


def _imported(package: str, system: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise BelljarError(f"sweeps on {system} need the package {package}: pip install {package}") from error
