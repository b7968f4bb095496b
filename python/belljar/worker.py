"""Execution of one run of a sweep by a worker: a thread of this process, a job of a batch system, or another machine."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Literal

from .binary import BelljarError, find_binary
from .results import Results
from .run import Options, RunFailed, run_text


class WorkersDiffer(BelljarError):
    """A worker has another program or other input files than the others: its results are not comparable."""


@dataclasses.dataclass
class Task:
    """Run to execute, as plain data for transfer to a worker."""

    #: Experiment as text, and the base directory of its paths.
    text: str
    directory: str
    seed: int
    #: Results folder on a shared file system.
    path: str
    #: Options of `belljar.run`.
    options: dict[str, Any]
    #: `identity()` of the process that started the sweep; None: not checked.
    program: str | None
    #: Path and content of a file that exists if the file system is shared.
    token: tuple[str, str]


@dataclasses.dataclass
class Outcome:
    """Outcome of a run, as data: batch systems transfer exceptions as text."""

    #: "done"; "lost" if it was ended from outside and can be repeated; "mistake" if the experiment cannot be run;
    #: "differs" if the worker has another program.
    kind: Literal["done", "lost", "mistake", "differs"]
    #: Reason why a completed run did not end as expected.
    problem: str | None = None
    #: Real time of the run in seconds.
    seconds: float = 0.0
    #: Machine that executed the run.
    machine: str = ""
    #: Results folder as a compressed archive, if the file system is not shared.
    archive: bytes | None = None
    #: True if the run exceeded its timeout.
    late: bool = False


_identities: dict[tuple[str, int, int], str] = {}


def identity(binary: str | os.PathLike[str] | None = None) -> str:
    """Version and build of the program: its SHA-256; for a checkout's launcher, that of the binary that it built."""
    path = find_binary(binary)
    told = subprocess.run([path, "--version"], capture_output=True, text=True)
    if told.returncode != 0:
        raise BelljarError(f"{path} --version failed: {told.stderr.strip()}")
    version = told.stdout.strip()
    if path.read_bytes()[:2] == b"#!":
        # For a checkout's launcher, the built binary is found by asking the launcher, because the caller may choose
        # the target directory.
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or path.parent / "target")
        built = target / "release" / "belljar"
        # Any other script stands for itself.
        path = built if built.is_file() else path
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _identities:
        _identities[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{version}, build {_identities[key][:16]}"


def run_task(task: Task) -> Outcome:
    """Executes the run."""
    machine = platform.node()
    if task.program is not None:
        try:
            found = identity(task.options.get("binary"))
        except (BelljarError, OSError) as error:
            return Outcome("differs", f"{machine} cannot run the program: {error}", machine=machine)
        if found != task.program:
            why = f"{machine} has {found}, the sweep was started with {task.program}: install the same there"
            return Outcome("differs", why, machine=machine)
    token = pathlib.Path(task.token[0])
    if token.is_file() and token.read_text() == task.token[1]:
        return _run_into(pathlib.Path(task.path), task, machine)
    with _scratch() as scratch:
        # The same last path components, so that the folder path visible to guests differs as little as possible
        # between runs.
        path = pathlib.Path(scratch, *pathlib.Path(task.path).parts[-2:])
        outcome = _run_into(path, task, machine)
        if outcome.kind == "done" and path.is_dir():
            outcome.archive = _packed(path)
        return outcome


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """Temporary folder. If this process is killed, a later `belljar` removes the folder, since its lock is free then."""
    while True:
        with tempfile.TemporaryDirectory(prefix=f"belljar-scratch-{os.getpid()}-", ignore_cleanup_errors=True) as folder:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # Another process may have swept the folder before it was locked.
                if os.path.isdir(folder):
                    yield folder
                    return
            finally:
                os.close(lock)


def _run_into(path: pathlib.Path, task: Task, machine: str) -> Outcome:
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    problem, late = None, False
    try:
        options = Options(seed=task.seed, progress=False, **task.options)
        run_text(task.text, path, options, directory=task.directory if os.path.isdir(task.directory) else None, bound=True)
    except RunFailed as failure:
        if failure.killed:
            return Outcome("lost", f"the program was killed on {machine}", machine=machine)
        # A run without results indicates an error in the experiment, which all other runs share, unless it exceeded
        # its timeout.
        if failure.results is None and not failure.late:
            return Outcome("mistake", str(failure), machine=machine)
        problem, late = str(failure), failure.late
    return Outcome("done", problem, time.monotonic() - began, machine, late=late)


def _packed(path: pathlib.Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(path, arcname=".")
    return data.getvalue()


def unpack(archive: bytes, path: pathlib.Path) -> None:
    """Installs the results folder sent by a worker."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as content:
        # A results folder contains at most links into itself and socket names.
        content.extractall(path, filter="tar") if hasattr(tarfile, "tar_filter") else content.extractall(path)


def manifest(results: Results | pathlib.Path) -> dict[str, str]:
    """Files of this machine that a run has read, and their SHA-256."""
    file = (results if isinstance(results, pathlib.Path) else results.path) / "manifest.sha256"
    if not file.is_file():
        return {}
    lines = (line.split("  ", 1) for line in file.read_text(errors="surrogateescape").splitlines())
    return {path: digest for digest, path in (line for line in lines if len(line) == 2)}


class Inputs:
    """Input files of a sweep. All runs must have read identical ones."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}
        self._here: dict[str, str | None] = {}

    def add(self, path: pathlib.Path, machine: str) -> None:
        """Adds a run's manifest; raises WorkersDiffer if a file differs from that of an earlier run."""
        read = manifest(path)
        for name, digest in read.items():
            before = self.known.setdefault(name, (digest, machine))
            if before[0] != digest:
                raise WorkersDiffer(
                    f"{name} on {machine} is not what it was on {before[1]} (SHA-256 {digest[:16]}..., {before[0][:16]}...), so their runs cannot "
                    "be put side by side: make the files the same, or sweep into another folder")

    def is_current(self, path: pathlib.Path) -> bool:
        """True if the files that a run has read are unchanged on this machine."""
        return all(self._digest(name) == digest for name, digest in manifest(path).items())

    def _digest(self, name: str) -> str | None:
        if name not in self._here:
            try:
                self._here[name] = hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()
            except OSError:
                self._here[name] = None
        return self._here[name]


def fingerprint(task: Task) -> str:
    """Fingerprint of a run's inputs. Execution options that only affect speed are excluded."""
    made_from = {k: v for k, v in task.options.items() if k not in ("parallelism", "timeout", "check", "binary")}
    text = task.text + json.dumps([task.seed, made_from], default=str, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
