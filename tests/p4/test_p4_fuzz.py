"""Damaged sources, JSONs, P4Runtime and Thrift messages: more than `cargo test` draws, and others. None may
end the compiler, the switch or a server, hang, or take much memory. `BELLJAR_FUZZ_ROUNDS=20000 cargo test -p belljar-p4c damaged` draws any number."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import ROOT

ROUNDS = 4_000
# Kilobytes, as in `rusage`.
MOST_MEMORY = 2 << 20
# A panic or a hang of one input ends the test long before.
LONGEST = 1_800

TESTS = [
    ("belljar-p4c", "compiler", "robustness::damaged_programs_never_panic"),
    ("belljar-p4c", "compiler", "robustness::damaged_json_is_refused_or_runs"),
    ("belljar-p4runtime", "belljar_p4runtime", "tests::mutations::damaged_requests_are_carried_out_or_refused_and_packets_pass_in_between"),
    ("belljar-p4runtime", "belljar_p4runtime", "tests::noise::broken_messages_are_refused_and_the_server_goes_on"),
    ("belljar-p4runtime", "belljar_p4runtime", "tests::thrift::drawn_calls_are_answered_and_damaged_ones_refused"),
]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")]


@pytest.fixture(scope="module")
def binaries():
    """Test binaries, by their targets' names."""
    command = ["cargo", "test", "--locked", "--offline", "--no-run", "--message-format=json", "--quiet"]
    for package in sorted({package for package, _, _ in TESTS}):
        command += ["-p", package]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1_800)
    assert done.returncode == 0, done.stderr
    built = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {own["target"]["name"]: own["executable"] for own in built if own.get("executable")}


@pytest.mark.parametrize("package, target, test", TESTS, ids=[test.rsplit("::", 1)[1] for _, _, test in TESTS])
def test_many_inputs(binaries, workdir, package, target, test):
    log = workdir / "log"
    with log.open("w") as out:
        process = subprocess.Popen(["timeout", str(LONGEST), binaries[target], "--exact", test], stdout=out, stderr=subprocess.STDOUT,
                                   cwd=ROOT / "crates" / package.removeprefix("belljar-"), env=os.environ | {"BELLJAR_FUZZ_ROUNDS": str(ROUNDS)})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    said = log.read_text()
    assert process.returncode == 0 and "1 passed" in said, said[-10_000:]
    assert usage.ru_maxrss < MOST_MEMORY, f"{usage.ru_maxrss} kB"
