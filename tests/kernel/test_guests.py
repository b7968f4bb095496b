"""Every program of tests/guests natively (the oracle) and under Belljar, with the same expectations."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from compiling import compile_newer, compile_to
from conftest import ROOT, TARGET, Run, best, execute, experiment

GUESTS = pathlib.Path(__file__).parents[1] / "guests"
SOURCES = sorted(GUESTS.glob("*.c"))
FLAGS = ["-std=gnu11", "-O1", "-fPIE", "-Wall", "-Wextra", "-Werror", "-pthread", "-Wno-unused-result",
         # on purpose: calls with pointers and lengths that cannot work
         "-Wno-stringop-overflow", "-Wno-stringop-overread", "-Wno-nonnull"]
# linkage: (compiler, flags of the linker). What one compiler has compiled serves all of its linkages.
LINKAGES = {
    "dynamic": ("gcc", []),
    "static": ("gcc", ["-static"]),
    "static-pie": ("gcc", ["-static-pie"]),
    "musl": ("musl-gcc", ["-static"]),
}
GO = {"exe": [], "pie": ["-buildmode=pie"]}
# A static glibc loads its name services at run time, which is not a static program any more.
# paths.c speaks of calls that musl does not wrap; its compiler finds no headers of the kernel, which offloads.c, zerocopies.c, packets.c,
# tuns.c, aios.c, rights.c, netlinks.c, mounts.c, mountspaces.c, fileflags.c, fanotifies.c, timespaces.c, userspaces.c, pidspaces.c, netspaces.c and all of urings.c to uringnew.c need.
NOT = {("names", "static"), ("names", "static-pie"), ("paths", "musl"), ("mounts", "musl"), ("mountspaces", "musl"), ("fileflags", "musl"), ("fanotifies", "musl"), ("timespaces", "musl"), ("userspaces", "musl"), ("pidspaces", "musl"), ("netspaces", "musl"), ("offloads", "musl"), ("zerocopies", "musl"), ("packets", "musl"), ("tuns", "musl"), ("urings", "musl"), ("aios", "musl"),
       ("rights", "musl"), ("netlinks", "musl"), ("uringflow", "musl"), ("uringtask", "musl"), ("uringudp", "musl"), ("uringnew", "musl")}
# These need a network of their own, and privileges in it.
PRIVILEGED = {"checksums", "netlinks", "offloads", "packets", "raws", "sixes", "timestamps", "tuns", "udplites"}
CASES = [(s, k) for s in SOURCES for k in LINKAGES if (s.stem, k) not in NOT]
CASES += [(s, k) for s in sorted(GUESTS.glob("*.go")) for k in GO]
#: Programs that compute for seconds: their instructions are the same in each linkage, so that one of a kind is enough without --all.
LONG = {("processor", "static-pie"), ("processor", "musl"), ("alarms", "static-pie"), ("alarms", "musl"), ("runtime", "pie")}
EACH = [pytest.param(s, k, id=f"{s.stem}-{k}", marks=[pytest.mark.slow] if (s.stem, k) in LONG else []) for s, k in CASES]
#: Calls that each program has made in `test_belljar`.
CALLS = {}


def build(source, linkage):
    """The program's path, compiled when its source is newer."""
    out = TARGET / "guests" / linkage / source.stem
    compiler, flags = ("go", GO[linkage]) if source.suffix == ".go" else LINKAGES[linkage]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    if compiler == "go":
        compile_newer(out, ["go", "build", *flags], source, env={**os.environ, "CGO_ENABLED": "0"})
        return out
    compiled = TARGET / "guests" / compiler / f"{source.stem}.o"
    compile_newer(compiled, [compiler, *FLAGS, "-c"], source, reads=GUESTS.glob("*.h"))
    compile_newer(out, [compiler, *flags, "-pthread"], compiled)
    return out


def test_an_interrupted_compiler_leaves_no_program(workdir):
    out = workdir / "program"
    with pytest.raises(subprocess.CalledProcessError):
        compile_to(out, ["sh", "-c", ': > "$2"; exit 1', "compiler"])
    assert list(workdir.iterdir()) == []
    compile_to(out, ["sh", "-c", 'cp "$3" "$2"', "compiler"], "/bin/true")
    assert subprocess.run([out]).returncode == 0 and list(workdir.iterdir()) == [out]


def judge(run):
    """TAP: all tests of the plan ran and are ok, and the program ended well."""
    results = re.findall(r"^(ok|not ok) (\d+) - (\w+)$", run.out, re.M)
    plan = re.findall(r"^1\.\.(\d+)$", run.out, re.M)
    bad = [name for verdict, _, name in results if verdict != "ok"]
    assert not bad, f"not ok: {', '.join(bad)}\n{run}"
    assert plan == [str(len(results))], f"the program did not come to its end\n{run}"
    assert results and run.status == 0, str(run)


@pytest.mark.parametrize("source, linkage", EACH)
def test_native(source, linkage, workdir):
    own_network = []
    if source.stem in PRIVILEGED:
        own_network = ["unshare", "--user", "--map-root-user", "--net"]
        if shutil.which("unshare") is None or subprocess.run([*own_network, "true"], capture_output=True).returncode != 0:
            pytest.skip("no network namespace can be had here: unshare -Urn fails")
    if source.stem in ("offloads", "tuns") and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun cannot be opened here")
    program = build(source, linkage)

    def natively():
        try:
            return execute([*own_network, program], timeout=200, cwd=workdir)
        except pytest.fail.Exception as hangs:
            return Run([program], "killed", b"", str(hangs).encode())

    # Its tests let another thread or process get somewhere within some milliseconds. Under Belljar it always does.
    run = best(natively, lambda run: run.status in (0, 77))
    if run.status == 77 and run.out.startswith("# skipped: "):
        pytest.skip(run.out.splitlines()[0][len("# skipped: "):])
    judge(run)


@pytest.mark.parametrize("source, linkage", EACH)
def test_belljar(source, linkage, exec_guest, workdir):
    program = build(source, linkage)
    judge(exec_guest([program], env={**os.environ, "BELLJAR_OUTPUT": str(workdir / "results")}))
    CALLS[program] = calls_in(workdir / "results")


def calls_in(results):
    """Names of the system calls that a run's programs have made."""
    return set(json.loads((results / "sim-stats.json").read_text())["syscalls"])


def test_every_fully_supported_call_is_made_by_a_program(run_experiment):
    """A system call is "fully supported" only where a guest program asserts on it. What `test_belljar` has not run before is run here."""
    full = set(re.findall(r"^\| \d+ \| (\w+) \| full \|", (ROOT / "docs/syscalls.md").read_text(), re.M))
    assert len(full) > 150
    programs = [build(s, k) for s, k in CASES if k in ("dynamic", "musl", "exe") and (s.stem, k) not in LONG]
    hosts = {f"{p.stem}-{p.parent.name}": (0, [{"path": str(p), "expected_final_state": "any"}]) for p in programs if p not in CALLS}
    made = set().union(*(CALLS.get(p, set()) for p in programs))
    if hosts:
        made |= calls_in(run_experiment(experiment(hosts, stop="600 s")).path)
    assert not full - made, sorted(full - made)


@pytest.mark.parametrize("name", ["buffers", "checksums", "frames", "messages", "mounts", "mountspaces", "offloads", "pidspaces", "udp", "uringnew", "uringudp", "netspaces", "userspaces", "zerocopies"])
def test_far(name, exec_guest):
    """A process of its own has its memory read and written by other means; tests/determinism compares all of them."""
    program = build(GUESTS / f"{name}.c", "dynamic")
    judge(exec_guest([program], env={**os.environ, "BELLJAR_PLACEMENT": "far"}))


def test_a_failing_program_is_seen(workdir):
    """The harness itself: a program whose assertion does not hold must not pass."""
    source = workdir / "canary.c"
    source.write_text('#include "guest.h"\nstatic void canary(void) { SAME(1, 2); }\nGUEST(T(canary))\n')
    binary = workdir / "canary"
    subprocess.run(["gcc", "-I", GUESTS, source, "-o", binary], check=True)
    with pytest.raises(AssertionError, match="not ok: canary"):
        judge(execute([binary], cwd=workdir))
