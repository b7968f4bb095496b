"""A script of another tool is run here, with modules in place of the tool's that record what it makes.

Read by Belljar's importers from standard input of Python, followed by the modules of the tool, with the script and its arguments as
arguments. The last line of standard output is the record, in JSON. What the script itself prints goes to standard error.
"""

import builtins
import functools
import importlib.abc
import importlib.machinery
import inspect
import io
import ipaddress
import itertools
import json
import os
import re
import runpy
import sys
import time
import types

SCRIPT = os.path.abspath(sys.argv[1])
record = {"notes": []}


def line():
    """The line of the script that is being run."""
    frame = sys._getframe(1)
    while frame is not None:
        if os.path.abspath(frame.f_code.co_filename) == SCRIPT:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def note(text, at=None):
    own = {"line": line() if at is None else at, "text": text}
    if own not in record["notes"]:
        record["notes"].append(own)


class Quiet:
    """An object of which every attribute is a function that does nothing."""

    def __init__(self, *args, **options):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **options: None


def run_script():
    """Runs the script. Returns its names, and its failure or None."""
    # Some scripts refuse to run without root.
    os.getuid = os.geteuid = lambda: 0
    builtins.input = lambda *args: ""
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(SCRIPT))
    try:
        return runpy.run_path(SCRIPT, run_name="__main__"), None
    except SystemExit as end:
        return {}, {"line": 0, "text": f"the script ended with status {end.code}"} if end.code not in (None, 0) else None
    except SyntaxError as error:
        python2 = "print" in str(error) or "Missing parentheses" in str(error)
        help = ": it is written for Python 2" if python2 else ""
        return {}, {"line": error.lineno or 0, "text": f"the script cannot be read by Python 3{help}: {error.msg}"}
    except BaseException as error:
        where, trace = 0, error.__traceback__
        while trace is not None:
            if os.path.abspath(trace.tb_frame.f_code.co_filename) == SCRIPT:
                where = trace.tb_lineno
            trace = trace.tb_next
        return {}, {"line": where, "text": f"the script failed here: {type(error).__name__}: {error}"}
