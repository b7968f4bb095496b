"""Execution of experiments by the `belljar` command."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import progress as bars
from .binary import BelljarError, find_binary
from .experiment import Experiment
from .results import Results
from .sites import located


#: Exit status of a command that refuses its input.
_REFUSED = 2


class RunFailed(BelljarError):
    """The run did not end as the experiment expects. `results` are its results, if any; `late` is true if it exceeded
    its timeout, `killed` if the command was killed from outside."""

    def __init__(self, message: str, results: Results | None, output: str, *, late: bool = False, killed: bool = False) -> None:
        super().__init__(message)
        self.results, self.output, self.late, self.killed = results, output, late, killed


@dataclasses.dataclass(kw_only=True)
class Options:
    """Options of a run: see `run`."""

    seed: int | None = None
    settings: Mapping[str, Any] | None = None
    strace: bool = False
    pcap: bool = False
    choices: str | os.PathLike[str] | None = None
    record_choices: str | os.PathLike[str] | None = None
    parallelism: int | None = None
    check: bool = True
    overwrite: bool = False
    timeout: float | None = None
    progress: bool | None = None
    binary: str | os.PathLike[str] | None = None
    arguments: Sequence[str] = ()


def run(
    experiment: Experiment | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    strace: bool = False,
    pcap: bool = False,
    choices: str | os.PathLike[str] | None = None,
    record_choices: str | os.PathLike[str] | None = None,
    parallelism: int | None = None,
    check: bool = True,
    overwrite: bool = False,
    timeout: float | None = None,
    progress: bool | None = None,
    binary: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
) -> Results:
    """Runs an experiment or an experiment file. Results are written to the folder `output`; by default to a new folder
    in `belljar.data`, named by `results.path`. A folder that exists is an error; with `overwrite`, that of an earlier
    run is replaced.

    `settings` maps dotted paths to values (`{"general.stop_time": "5 s"}`). With `check`, RunFailed is raised if a
    process did not end as the experiment expects. `choices` is a file of choices that are forced, `record_choices` one that all
    choices of the run are written to. `timeout` is in seconds of real time. `progress` shows a bar (by
    tqdm, if installed); the default is to show it in notebooks and terminals."""
    options = Options(seed=seed, settings=settings, strace=strace, pcap=pcap, choices=choices, record_choices=record_choices,
                      parallelism=parallelism, check=check, overwrite=overwrite, timeout=timeout, progress=progress, binary=binary, arguments=arguments)
    data = new_folder() if output is None else pathlib.Path(output)
    if isinstance(experiment, Experiment):
        text = experiment.to_yaml()
        try:
            return run_text(text, data, options)
        except RunFailed as failed:
            failed.args = (located(str(failed), text, experiment),)
            raise failed.with_traceback(None) from None
    return _run([os.fspath(experiment)], None, data, options, None, False)


def run_text(text: str, data: pathlib.Path, options: Options, *, directory: str | None = None, bound: bool = False) -> Results:
    """Runs an experiment from its text; relative paths start at `directory`. A `bound` run is killed when this
    process ends for any reason."""
    return _run(["-"], text, data, options, directory, bound)


def _run(
    source: list[str], stdin: str | None, data: pathlib.Path, options: Options, directory: str | None, bound: bool
) -> Results:
    binary = str(find_binary(options.binary))
    command = [binary, "launch-simulator", str(os.getpid())] if bound else []
    command += [binary, "run", "--no-progress", "-o", os.path.abspath(data) if directory else str(data), *source]
    command += ["--force"] if options.overwrite else []
    command += ["--seed", str(options.seed)] if options.seed is not None else []
    command += ["--strace"] if options.strace else []
    command += ["--pcap"] if options.pcap else []
    # A run may have another current directory.
    command += ["--choices", os.path.abspath(options.choices)] if options.choices is not None else []
    command += ["--record-choices", os.path.abspath(options.record_choices)] if options.record_choices is not None else []
    command += ["--parallelism", str(options.parallelism)] if options.parallelism is not None else []
    for key, value in (options.settings or {}).items():
        # JSON is valid YAML; unquoted text could be parsed as another type.
        command += ["--set", f"{key}={json.dumps(value)}"]
    command += list(options.arguments)
    # Otherwise the results of an earlier run would be returned as those of one that could not begin.
    if not options.overwrite and os.path.lexists(data):
        raise RunFailed(f"the results folder {data} exists already: replace it with overwrite=True, or give another", None, "")
    status, said = _execute(command, stdin, data, options, directory)
    # What is refused was not run: what is in the folder then is of an earlier run.
    ran = status != _REFUSED and (data / "sim-stats.json").is_file()
    results = Results(data, output=said) if ran else None
    if results is None:
        killed = status in (-signal.SIGKILL, -signal.SIGTERM)
        raise RunFailed(f"belljar could not run the experiment (exit status {status}):\n{said}", None, said, killed=killed)
    if options.check and status != 0:
        raise RunFailed(f"not as expected (results in {data}):\n{said}", results, said)
    return results


_numbers = itertools.count(1)


def new_folder() -> pathlib.Path:
    """New folder in `belljar.data` of the current directory, named by the time, so that the newest sorts last."""
    now = time.strftime("%Y%m%d-%H%M%S")
    return pathlib.Path("belljar.data") / f"{now}-{os.getpid()}-{next(_numbers)}"


def _execute(
    command: list[str], stdin: str | None, data: pathlib.Path, options: Options, directory: str | None
) -> tuple[int, str]:
    """Exit status and output of the command, which never outlives this call."""
    timeout, progress = options.timeout, options.progress
    late = None if timeout is None else time.monotonic() + timeout
    given = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    # One run is one process, even if mpirun or srun started this program as one of several.
    environment = {"BELLJAR_NO_RANKS": "1", **os.environ}
    with subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          cwd=directory, env=environment) as process:
        bar = None
        try:
            while True:
                try:
                    out, err = process.communicate(stdin, timeout=0.2)
                    return process.returncode, out + err
                except subprocess.TimeoutExpired:
                    # The input was passed in whole or in part; the next communicate() continues it.
                    stdin = None
                if late is not None and time.monotonic() > late:
                    raise RunFailed(f"still running after {timeout} s of real time", None, "", late=True)
                reached = None if progress is False else bars.simulated(data)
                if reached is None:
                    continue
                if bar is None:
                    # Short runs get no bar: it would be gone before it can be read.
                    bar = bars.bar(progress, total=reached[1], unit=" s", desc="simulated", leave=False)
                    progress = False if bar is None else progress
                if bar is not None:
                    bar.update(reached[0] - bar.n)
        except BaseException:
            # An orderly termination first: an interrupted run keeps its partial results, and removes its namespaces
            # and sockets.
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        finally:
            if bar is not None:
                bar.close()
