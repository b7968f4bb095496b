"""Every program of tests/guests natively (the oracle) and under Belljar, with the same expectations."""

import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import TARGET, execute

SOURCES = sorted((pathlib.Path(__file__).parent / "guests").glob("*.c"))
FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-Wno-unused-result",
         # on purpose: calls with pointers and lengths that cannot work
         "-Wno-stringop-overflow", "-Wno-stringop-overread", "-Wno-nonnull"]
LINKAGES = {
    "dynamic": ["gcc"],
    "static": ["gcc", "-static"],
    "static-pie": ["gcc", "-static-pie"],
    "musl": ["musl-gcc", "-static"],
}
# A static glibc loads its name services at run time, which is not a static program any more.
NOT = {("names", "static"), ("names", "static-pie")}
CASES = [(s, k) for s in SOURCES for k in LINKAGES if (s.stem, k) not in NOT]
IDS = [f"{s.stem}-{k}" for s, k in CASES]


def build(source, linkage):
    compiler, *flags = LINKAGES[linkage]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    out = TARGET / "guests" / linkage / source.stem
    out.parent.mkdir(parents=True, exist_ok=True)
    newest = max(source.stat().st_mtime, (source.parent / "guest.h").stat().st_mtime)
    if not out.exists() or out.stat().st_mtime < newest:
        subprocess.run([compiler, *flags, *FLAGS, source, "-o", out], check=True)
    return out


def judge(run):
    """TAP: all tests of the plan ran and are ok, and the program ended well."""
    results = re.findall(r"^(ok|not ok) (\d+) - (\w+)$", run.out, re.M)
    plan = re.findall(r"^1\.\.(\d+)$", run.out, re.M)
    bad = [name for verdict, _, name in results if verdict != "ok"]
    assert not bad, f"not ok: {', '.join(bad)}\n{run}"
    assert plan == [str(len(results))], f"the program did not come to its end\n{run}"
    assert results and run.status == 0, str(run)


@pytest.mark.parametrize("source, linkage", CASES, ids=IDS)
def test_native(source, linkage, workdir):
    judge(execute([build(source, linkage)], timeout=60, cwd=workdir))


@pytest.mark.parametrize("source, linkage", CASES, ids=IDS)
def test_belljar(source, linkage, exec_guest):
    judge(exec_guest([build(source, linkage)], timeout=60))


def test_a_failing_program_is_seen(workdir):
    """The harness itself: a program whose assertion does not hold must not pass."""
    source = workdir / "canary.c"
    source.write_text('#include "guest.h"\nstatic void canary(void) { SAME(1, 2); }\nGUEST(T(canary))\n')
    binary = workdir / "canary"
    subprocess.run(["gcc", "-I", SOURCES[0].parent, source, "-o", binary], check=True)
    with pytest.raises(AssertionError, match="not ok: canary"):
        judge(execute([binary], timeout=60, cwd=workdir))
