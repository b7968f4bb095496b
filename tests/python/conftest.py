"""The package straight from its sources: it needs no installation."""

import os
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture(autouse=True)
def the_binary(belljar, monkeypatch):
    monkeypatch.setenv("BELLJAR_BIN", str(belljar))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python") + os.pathsep + os.environ.get("PYTHONPATH", ""))
