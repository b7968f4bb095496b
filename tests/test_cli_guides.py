"""What the guides tell to type works as it stands there."""

import os
import re
import subprocess
import sys

import pytest
from conftest import EXAMPLES, ROOT, execute

GUIDE = ROOT / "docs/guide/analysing-results.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), re.M | re.S)


def test_commands(belljar, workdir):
    (workdir / "belljar").symlink_to(belljar)
    (workdir / "examples").symlink_to(EXAMPLES)
    lines = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ./belljar")]
    assert len(lines) >= 9
    for line in lines:
        done = execute(["sh", "-c", line], 60, cwd=workdir)
        expected = 1 if line.startswith("./belljar diff") else 0
        assert done.status == expected, done


@pytest.mark.needs("curl")
def test_first_python_block(belljar, workdir):
    pytest.importorskip("pandas")
    block = next(b for b in blocks("python") if "exp.run" in b)
    env = {**os.environ, "BELLJAR_BIN": str(belljar), "PYTHONPATH": str(ROOT / "python")}
    program = block + "\nassert results.ok and (results.host('client') / 'page').stat().st_size > 0\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=workdir, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_names_in_the_guide_exist():
    from_package = re.findall(r"`(?:figures\.)?(\w+)\(?[^`|]*\)?`", "\n".join(
        line for line in GUIDE.read_text().splitlines() if re.match(r"\| `(figures\.|\w+\()", line)))
    assert len(from_package) >= 9
    text = "".join((ROOT / "python/belljar" / f"{name}.py").read_text() for name in ("statistics", "figures"))
    missing = [name for name in from_package if f"def {name}(" not in text]
    assert not missing, missing
