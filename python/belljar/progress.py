"""Progress bars of runs and sweeps in notebooks and terminals."""

from __future__ import annotations

import importlib
import os
import pathlib
import socket
import sys
import warnings
from typing import Any


def bar(wanted: bool | None, **settings: Any) -> Any:
    """Progress bar of tqdm (which chooses its notebook or terminal form), or None. `wanted` requests or suppresses
    the bar; None shows it in notebooks and terminals only."""
    if wanted is None:
        wanted = "ipykernel" in sys.modules or sys.stderr.isatty()
    if not wanted:
        return None
    try:
        # Without ipywidgets a text bar works in notebooks.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("tqdm.auto").tqdm(**settings)
    except ImportError:
        return None


def simulated(results: pathlib.Path) -> tuple[float, float] | None:
    """Simulated time reached by a run and its end time, in seconds; None if unknown."""
    try:
        folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(1)
            # The path of a socket is limited to about a hundred bytes, unlike that of a folder.
            control.connect(f"/proc/self/fd/{folder}/control.sock")
            control.sendall(b"progress\n")
            words = control.recv(100).split()
            return (int(words[1]) / 1e9, int(words[2]) / 1e9) if len(words) == 3 else None
    except OSError:
        return None
    finally:
        os.close(folder)
