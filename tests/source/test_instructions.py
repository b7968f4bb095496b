"""Instructions of units of work, held to the committed counts (benches/instructions/counts.json): a change that costs fails when it lands."""

import ctypes
import json
import os
import struct
import subprocess
import sys

import pytest
from conftest import ROOT, execute

sys.path.append(str(ROOT / "benches"))
import counts  # noqa: E402

BENCH = ROOT / "benches" / "instructions.py"
NOTHING_TO_COMPARE = 77

pytestmark = pytest.mark.needs("gcc", "nm", "readelf")


@pytest.mark.parametrize("workload", ["p2p", "flow", "getppid", "lseek", "p4", "switch", pytest.param("router", marks=pytest.mark.slow)])
def test_as_committed(belljar, workload):
    done = execute([sys.executable, BENCH, "--check", "--workload", workload], env={**os.environ, "BELLJAR_BIN": str(belljar)})
    if done.status == NOTHING_TO_COMPARE:
        pytest.skip(done.out.strip())
    if done.status != 0:
        pytest.fail(done.out + done.err, pytrace=False)


def test_as_a_table(belljar, workdir):
    command = [sys.executable, BENCH, "--workload", "lseek", "--json", workdir / "result.json"]
    done = execute(command, env={**os.environ, "BELLJAR_BIN": str(belljar)})
    if done.status == NOTHING_TO_COMPARE:
        pytest.skip(done.out.strip())
    assert done.status == 0, done
    result = json.loads((workdir / "result.json").read_text())["workloads"]["lseek"]
    assert result["units"] == 60 and result["instructions"] > result["lines"] > result["fetched"] > 0, result
    assert result["other"] < 30, "the guest's loop and its C library"
    if any("::" in function["name"] for function in result["functions"]):
        assert "sys_lseek" in {function["name"].rpartition("::")[2] for function in result["functions"] if function["calls"] == 1}


def of(total, **functions):
    return {"instructions": total, "functions": [{"name": name, "instructions": count} for name, count in functions.items()]}


COMMITTED = {"instructions": 1000, "functions": {"parse": 500, "send": 300, "free": 200}}


def test_differences_are_reported():
    def compare(measured, committed=COMMITTED):
        return counts.compare("p2p", "message", measured, committed)

    agrees, said = compare(of(1019, parse=519, send=300, free=200))
    assert agrees and said == "p2p: 1019.0 instructions a message, 19.0 (1.90%) more than the committed 1000.0"
    agrees, said = compare(of(1100, parse=550, send=290, free=200, copy=260))
    assert not agrees and "100.0 (10.00%) more than the committed 1000.0; less than 20.0 are allowed" in said and "--record" in said
    # A function that is not among the committed ones had at most as many as the last of them.
    assert [line.split() for line in said.splitlines()[2:4]] == [["+60.0", "200.0", "260.0", "copy"], ["+50.0", "500.0", "550.0", "parse"]]
    assert "send" not in said
    agrees, said = compare(of(970, parse=500, send=300, free=170))
    assert not agrees and "30.0 (3.00%) fewer" in said and said.splitlines()[2].split() == ["-30.0", "200.0", "170.0", "free"]


def test_a_hundred_instructions_fail_in_a_unit_of_any_length():
    committed = {"instructions": 20_000, "functions": {"parse": 20_000}}
    assert counts.compare("p2p", "message", of(20_099, parse=20_099), committed)[0]
    assert not counts.compare("p2p", "message", of(20_100, parse=20_100), committed)[0]
    assert not counts.compare("p2p", "message", of(19_900, parse=19_900), committed)[0]


def test_other_compilers_and_builds_are_not_compared(belljar, workdir):
    """A binary without a compiler's release in it."""
    (workdir / "release").mkdir()
    for folder, reason in [(workdir, "counts are those of release builds"), (workdir / "release", "no counts of an unknown compiler are committed")]:
        subprocess.run(["objcopy", "--remove-section=.comment", belljar, folder / "belljar"], check=True)
        done = execute([sys.executable, BENCH, "--check"], env={**os.environ, "BELLJAR_BIN": str(folder / "belljar")})
        assert done.status == NOTHING_TO_COMPARE and reason in done.out, done


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
    assert done.returncode == NOTHING_TO_COMPARE and "ptrace(2) is denied" in done.stdout, done
