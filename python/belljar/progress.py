"""Progress bars of runs and sweeps, where there is somebody to see them: notebooks and terminals."""

from __future__ import annotations

import importlib
import os
import pathlib
import socket
import sys
import warnings
from typing import Any


def bar(wanted: bool | None, **settings: Any) -> Any:
    """A bar of tqdm's (for a notebook or a terminal, as it chooses), or None. `wanted` says whether to have one; None leaves it to whether
    somebody could see it."""
    if wanted is None:
        wanted = "ipykernel" in sys.modules or sys.stderr.isatty()
    if not wanted:
        return None
    try:
        # Without ipywidgets a bar of text does in notebooks.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("tqdm.auto").tqdm(**settings)
    except ImportError:
        return None


def simulated(results: pathlib.Path) -> tuple[float, float] | None:
    """The simulated time that a run has reached and the one at which it ends, in seconds; None if it does not say."""
    try:
        folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(1)
            # A socket's path is limited to some hundred bytes, a folder's is not.
            control.connect(f"/proc/self/fd/{folder}/control.sock")
            control.sendall(b"progress\n")
            words = control.recv(100).split()
            return (int(words[1]) / 1e9, int(words[2]) / 1e9) if len(words) == 3 else None
    except OSError:
        return None
    finally:
        os.close(folder)
