"""Benchmarks of the folder above, run as programs of their own."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from common import ROOT


def bench(name: str, *arguments: Any, timeout: float = 36_000) -> Any:
    """The JSON that a benchmark writes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = pathlib.Path(folder, "result.json")
        done = subprocess.run([sys.executable, ROOT / "benches" / f"{name}.py", *map(str, arguments), "--json", out],
                              capture_output=True, text=True, timeout=timeout)
        if not out.exists():
            raise RuntimeError(f"benches/{name}.py: {done.stderr.strip() or done.stdout.strip()}")
        return json.loads(out.read_text())
