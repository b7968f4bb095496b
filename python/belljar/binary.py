"""Where the `belljar` command is."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import shutil


class BelljarError(Exception):
    """Something could not be done; the text says what and what to do."""


def find_binary(given: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """The command: `given`, else what BELLJAR_BIN names, else the launcher of the checkout that this package lies in,
    else the program that was installed with this package, else `belljar` in PATH."""
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
    """The program that this package's wheel has brought, wherever it was installed to."""
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
