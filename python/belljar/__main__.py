"""`python -m belljar`: the `belljar` command."""

from __future__ import annotations

import os
import sys

from .binary import BelljarError, find_binary
from .command import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["sweep"]:
        sys.exit(main(sys.argv[1:]))
    try:
        program = str(find_binary())
    except BelljarError as error:
        sys.exit(f"error: {error}")
    os.execv(program, [program, *sys.argv[1:]])
