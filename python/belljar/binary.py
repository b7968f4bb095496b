"""Location of the `belljar` command."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import shutil


class BelljarError(Exception):
    """Error of an operation; the message contains the remedy."""


def find_binary(given: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Finds the command: `given`, else BELLJAR_BIN, else the launcher of the checkout that contains this package,
    else the program installed with this package, else `belljar` in PATH."""
    for name, what in ((given, "the given binary"), (os.environ.get("BELLJAR_BIN"), "BELLJAR_BIN")):
        if name:
            path = pathlib.Path(name).resolve()
            if not os.access(path, os.X_OK) or path.is_dir():
                raise BelljarError(f"{what} is {path}, which is not a program")
            return path
    launcher = pathlib.Path(__file__).resolve().parents[2] / "belljar"
    if launcher.is_file() and os.access(launcher, os.X_OK):
        return launcher
    installed = _installed()
    if installed is not None:
        return installed
    found = shutil.which("belljar")
    if found is None:
        raise BelljarError("there is no belljar command: set BELLJAR_BIN, or put it into PATH")
    return pathlib.Path(found)


def _installed() -> pathlib.Path | None:
    """Program installed by this package's wheel."""
    try:
        files = importlib.metadata.files("belljar") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "belljar" and file.parent.name == "bin":
            path = pathlib.Path(str(file.locate())).resolve()
            if os.access(path, os.X_OK):
                return path
    return None
