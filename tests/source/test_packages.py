"""tests/packages, the table of what ./test installs: it names what the tests need, and a package is missed by what they use of it."""

import ast
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from programs.cases import CASES

TESTS = ROOT / "tests"
ROWS = [line.split(None, 3) for line in (TESTS / "packages").read_text().splitlines() if line and not line.startswith("#")]
# Programs that every Debian has, in packages marked essential or required; and those that nobody installs for the tests.
EVERYWHERE = {"bash", "ipcmk", "ldd", "nsenter", "objdump", "python3", "readelf", "runuser", "script", "setpriv", "start-stop-daemon", "su", "unshare", "apt-get"}
NOT_PACKAGED = {"tgen", "oniontrace", "tornettools", "tgentools", "oniontracetools"}


def programs_of(probes):
    return {probe.split(":")[1] for probe in probes.split(",") if probe.startswith(("program:", "static:"))}


def needed():
    """Files below tests/, and the programs that their tests are marked to need."""
    for file in sorted(TESTS.rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "needs":
                for program in call.args:
                    if isinstance(program, ast.Constant):
                        yield str(file.relative_to(TESTS)), program.value


def is_named(file, tests):
    """True if the last column of a row names the file, or a folder that it is in."""
    return tests == "*" or any(file == name or file.startswith(name + "/") for name in tests.split())


def test_rows_are_well_formed():
    for row in ROWS:
        assert len(row) == 4 and row[0] in ("base", "test", "all", "pypi"), row
        for probe in row[2].split(","):
            kinds = ("venv", "stubs") if row[0] == "pypi" else ("program", "static", "header", "file", "python", "/usr/bin/python3")
            assert re.fullmatch(rf"({'|'.join(kinds)}):\S+", probe), row
        assert row[3] == "*" or all((TESTS / name).exists() for name in row[3].split()), row
    packages = [package for _, package, _, _ in ROWS]
    assert len(packages) == len(set(packages))


def test_every_program_that_tests_need_is_installed():
    wanting = set()
    for file, program in needed():
        rows = [row for row in ROWS if program in programs_of(row[2])]
        if program not in EVERYWHERE | NOT_PACKAGED and not any(is_named(file, row[3]) for row in rows):
            wanting.add((program, file))
    assert not wanting, "tests/packages has no row with this program and file, or the file is not among its tests"


def test_programs_of_the_table_of_compatibility_are_installed():
    packages = {package for _, package, _, tests in ROWS if is_named("programs/test_compatibility.py", tests)}
    # Cargo is not installed by apt, util-linux is everywhere, nginx-light is an nginx.
    wanting = {package for case in CASES for package in case.packages.split()} - packages - {"cargo", "util-linux", "nginx"}
    assert not wanting


@pytest.fixture
def machine(workdir):
    """A machine on which a Debian is missing nothing but what the test takes away: tests/install --list there, its lines by package."""
    tools = workdir / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "cat", "echo", "grep", "sed", "uname", "id"):
        (tools / tool).symlink_to(shutil.which(tool))
    root = workdir / "a tree"
    (root / "tests").mkdir(parents=True)
    shutil.copy(TESTS / "install", root / "tests")

    def program(name, script="exit 0"):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)

    def missing(table, *options):
        (root / "tests/packages").write_text(table)
        done = subprocess.run([root / "tests/install", "--list", *options], env={"PATH": str(tools)}, capture_output=True, text=True)
        assert done.stderr == "", done
        return done.returncode, done.stdout.splitlines()

    missing.program, missing.folder = program, workdir
    return missing


def test_a_package_is_missed_by_what_it_brings(machine):
    # A neighbour is there: the compiler without headers, Python without ensurepip, busybox with shared libraries.
    machine.program("cc", "read line; [ \"$line\" = '#include <there.h>' ]")
    machine.program("python3", "exit 1")
    machine.program("busybox")
    machine.program("ldd", "echo 'libc.so.6 => /lib/libc.so.6 (0x0)'")
    (machine.folder / "server-15").touch()
    status, lines = machine(
        "# a comment\n\n"
        "base cc        program:cc                    *\n"
        "base libc-dev  header:not-there.h            *\n"
        "base venv      python:no_such_module         *\n"
        "test dev       header:there.h                test_there.py\n"
        "test busybox   static:busybox                test_one.py test_two.py\n"
        f"test server    file:{machine.folder}/server-*,program:cc  test_there.py\n"
        f"test client    file:{machine.folder}/client-*,program:cc  test_three.py\n"
        "test both      program:cc,program:not-there  python\n"
        "all  later     program:not-there             test_slow.py\n")
    assert status == 1 and lines == [
        "  libc-dev: all tests", "  venv: all tests", "  busybox: test_one.py test_two.py", "  client: test_three.py", "  both: python"]
    machine.program("ldd", "echo 'not a dynamic executable'; exit 1")
    table = "test busybox static:busybox test_one.py\nall later program:not-there test_slow.py\npypi own venv:own test_own.py\n"
    assert machine(table) == (0, ["  own: test_own.py"])
    assert machine("test tool program:not-there *\n") == (0, ["  tool: tests in most files"])
    assert machine(table, "--all") == (0, ["  later: test_slow.py", "  own: test_own.py"])


def test_without_pytest_nothing_can_run(machine):
    machine.program("python3")
    assert machine("pypi pytest venv:pytest *\n") == (1, ["  pytest: all tests"])
