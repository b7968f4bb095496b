"""README's first command and ./test on a bare machine: a new Debian with the packages that README names, git and Rust."""

import os
import re
import subprocess
import time

import pytest
from bare_machine import FOLDER, Machine
from conftest import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.needs("apt-get", "debootstrap", "git", "setpriv", "unshare"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine is made and entered as root"),
]
# Seconds after which a build, or all tests, hang.
PATIENCE = 4 * 3600


@pytest.fixture(scope="module")
def machine():
    """The machine with a clone of this checkout's HEAD in /srv/belljar, a folder that every user may search."""
    made = Machine()
    try:
        made.install()
        packages = re.search(r"`apt install ([^`]+)`", (ROOT / "README.md").read_text())[1]
        subprocess.run(["git", "-C", ROOT, "bundle", "create", "--quiet", made.of("/srv/belljar.bundle"), "HEAD"], check=True)
        run(made, f"export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq {packages} git", "prerequisites")
        run(made, "git -c advice.detachedHead=false clone --quiet belljar.bundle belljar", "clone", cwd="/srv")
        yield made
    finally:
        made.remove()


def run(machine, command, name, **options):
    """What the command says, and the seconds that it takes. It must succeed."""
    log = FOLDER / f"{name}.log"
    begun = time.monotonic()
    status = machine.run(command, log, timeout=PATIENCE, **options)
    seconds = time.monotonic() - begun
    text = log.read_text(errors="replace")
    assert status == 0, f"{command}: exit status {status}, all of its output is in {log}\n{text[-6000:]}"
    return text, seconds


def test_the_first_run(machine, record_property):
    text, seconds = run(machine, "./belljar run examples/first.yaml", "first", cwd="/srv/belljar")
    record_property("reported", f"bare machine, ./belljar run examples/first.yaml: {seconds:.0f} s with the build")
    assert "all 4 processes ended as expected" in text, text


def test_a_command_that_the_first_build_leaves_out(machine, record_property):
    text, seconds = run(machine, "./belljar p4 --help", "more", cwd="/srv/belljar")
    record_property("reported", f"bare machine, ./belljar p4 --help: {seconds:.0f} s with the build of all commands")
    assert "building the commands that the first build leaves out" in text and "Compile, test and run P4 programs" in text, text


def test_everything(machine, record_property):
    text, seconds = run(machine, "./test", "test", cwd="/srv/belljar")
    counts = re.search(r"^=+ (\d+) passed, .*\d+ skipped.* in .*=+$", text, re.M)
    assert counts and "failed" not in counts[0] and "error" not in counts[0], text[-6000:]
    steps = re.search(r"^ seconds  step\n(?: +\d+  .*\n)+", text, re.M)[0]
    record_property("reported", f"bare machine, ./test: {seconds:.0f} s\n{counts[0]}\n{steps}")
