"""Compiling the programs that tests run and keep for the next run."""

import os
import subprocess


def compile_to(out, command, *sources, **options):
    """Runs a compiler so that `out` is there only once it is whole: an interrupted compiler leaves an empty program, which
    would be newer than its source."""
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        subprocess.run([*command, "-o", unfinished, *sources], check=True, **options)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
