"""benches/instructions.py: units of work, stepped instruction by instruction."""

import ctypes
import json
import os
import struct
import subprocess
import sys

import pytest
from conftest import ROOT, execute

BENCH = ROOT / "benches" / "instructions.py"
NOTHING_TO_COUNT = 77

pytestmark = pytest.mark.needs("gcc", "nm", "readelf")


def test_as_a_table(belljar, workdir):
    command = [sys.executable, BENCH, "--workload", "lseek", "--json", workdir / "result.json"]
    done = execute(command, env={**os.environ, "BELLJAR_BIN": str(belljar)})
    if done.status == NOTHING_TO_COUNT:
        pytest.skip(done.out.strip())
    assert done.status == 0, done
    result = json.loads((workdir / "result.json").read_text())["workloads"]["lseek"]
    assert result["units"] == 60 and result["instructions"] > result["lines"] > result["fetched"] > 0, result
    assert result["other"] < 30, "the guest's loop and its C library"
    if any("::" in function["name"] for function in result["functions"]):
        assert "sys_lseek" in {function["name"].rpartition("::")[2] for function in result["functions"] if function["calls"] == 1}


def deny_ptrace():
    """Has ptrace(2) fail with EPERM from now on, as sandboxes do: a seccomp filter."""
    load, equal, give = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0), (equal, 0, 1, 101), (give, 0, 0, 0x0005_0001), (give, 0, 0, 0x7FFF_0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))), 0, 0)


def test_without_ptrace(belljar):
    done = subprocess.run([sys.executable, BENCH, "--workload", "lseek"], env={**os.environ, "BELLJAR_BIN": str(belljar)}, preexec_fn=deny_ptrace,
                          capture_output=True, text=True, check=False)
    assert done.returncode == NOTHING_TO_COUNT and "ptrace(2) is denied" in done.stdout, done
