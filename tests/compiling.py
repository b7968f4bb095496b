"""Programs that tests and benches compile, each once for all that run beside each other."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess

#: Messages of Go and Cargo where there is no network.
OFFLINE = "dial tcp|Could not resolve|failed to download|lookup "


@contextlib.contextmanager
def locked(path, how=fcntl.LOCK_EX):
    """A lock that processes share: the file at `path`, which is made when it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, how)
        yield


def compile_to(out, command, *sources, **options):
    """Runs a compiler so that `out` is there only once it is whole: an interrupted compiler leaves an empty program, which
    would be newer than its source."""
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        subprocess.run([*command, "-o", unfinished, *sources], check=True, **options)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def compile_newer(out, command, *sources, reads=(), libraries=(), **options):
    """Compiles `out` when it is older than its sources or the headers that it `reads`. A program that is up to date is left as it
    is, since the tests of another worker may be running it."""
    with locked(out.with_name(f".{out.name}.lock")):
        if not out.exists() or out.stat().st_mtime < max(source.stat().st_mtime for source in [*sources, *reads]):
            compile_to(out, command, *sources, *libraries, **options)


def go_module(folder, out):
    """The program of a Go module whose dependencies are in Go's proxy, or a reason to skip."""
    import pytest  # benches run without it

    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    with locked(out.with_name(f".{out.name}.lock")):
        done = subprocess.run(["go", "build", "-buildvcs=false", "-o", out, "."], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0 and re.search(OFFLINE, done.stderr):
        pytest.skip(f"the modules that {folder.name} uses cannot be downloaded")
    assert done.returncode == 0, done.stderr
    return out
