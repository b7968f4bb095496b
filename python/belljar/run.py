"""Running experiments by the `belljar` command."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from .binary import BelljarError, find_binary
from .experiment import Experiment
from .results import Results


class RunFailed(BelljarError):
    """The run ended, and not as the experiment expects. `results` is what there is of it, if anything."""

    def __init__(self, message: str, results: Results | None, output: str) -> None:
        super().__init__(message)
        self.results, self.output = results, output


def run(
    experiment: Experiment | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    strace: bool = False,
    pcap: bool = False,
    parallelism: int | None = None,
    check: bool = True,
    timeout: float | None = None,
    binary: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
) -> Results:
    """Runs an experiment, or an experiment file, into the folder `output`, which must not exist yet.

    `settings` are dotted paths and what they are set to (`{"general.stop_time": "5 s"}`). With `check`, RunFailed is
    raised where a process did not end as the experiment expects. `timeout` is in real seconds."""
    data = pathlib.Path(output)
    command: list[str] = [str(find_binary(binary)), "run", "--no-progress", "-o", str(data)]
    stdin = None
    if isinstance(experiment, Experiment):
        command.append("-")
        stdin = experiment.to_yaml()
    else:
        command.append(os.fspath(experiment))
    command += ["--seed", str(seed)] if seed is not None else []
    command += ["--strace"] if strace else []
    command += ["--pcap"] if pcap else []
    command += ["--parallelism", str(parallelism)] if parallelism is not None else []
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={_yaml(value)}"]
    command += list(arguments)
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, errors="replace")
    except subprocess.TimeoutExpired as late:
        raise RunFailed(f"still running after {timeout} s of real time", None, str(late)) from late
    said = done.stdout + done.stderr
    results = Results(data, output=said) if (data / "sim-stats.json").is_file() else None
    if results is None:
        raise RunFailed(f"belljar could not run the experiment (exit status {done.returncode}):\n{said}", None, said)
    if check and done.returncode != 0:
        raise RunFailed(f"not as expected (results in {data}):\n{said}", results, said)
    return results


def _yaml(value: object) -> str:
    import json

    # JSON is YAML; text as it is may mean something else there.
    return json.dumps(value)
