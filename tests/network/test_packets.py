"""Packet scripts against our stack in virtual time, and against this machine's kernel, whose answers they describe."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

HERE = ROOT / "tests" / "packets"
sys.path.insert(0, str(HERE))

from backends import Simulated  # noqa: E402
from language import is_v6  # noqa: E402
from runner import INCONCLUSIVE, Mismatch, Run  # noqa: E402

SCRIPTS = sorted(str(path.relative_to(HERE / "scripts")) for path in (HERE / "scripts").rglob("*.pkt"))
ATTEMPTS = 10  # for a script on the kernel, alone: a busy machine is late now and then


@pytest.fixture(scope="session")
def packet_host():
    """The program around our stack, in the profile in which `cargo test` has built what it is made of."""
    path = f"{os.environ['PATH']}:{pathlib.Path.home()}/.cargo/bin"
    # ./test names the compiler that it has compiled the unit tests with.
    linter = {"RUSTC_WORKSPACE_WRAPPER": os.environ["BELLJAR_LINTER"]} if "BELLJAR_LINTER" in os.environ else {}
    done = subprocess.run(
        ["cargo", "build", "--quiet", "--message-format=json", "--workspace", "--bin", "belljar-packet-host"],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PATH": path, **linter})
    assert done.returncode == 0, done.stderr
    built = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (program,) = [b["executable"] for b in built if b.get("executable") and b["target"]["name"] == "belljar-packet-host"]
    return program


def on_linux(paths):
    """What the kernel makes of scripts, one after the other: (exit status, words) by path."""
    done = subprocess.run([sys.executable, "runner.py", "--each", *map(str, paths)], cwd=HERE, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return {path: (status, words) for path, status, words in map(json.loads, done.stdout.splitlines())}


def judge_linux(path):
    """Fails if the kernel does something else than the script says, while the machine was in time to judge it."""
    failures = 0
    for _ in range(ATTEMPTS):
        status, words = on_linux([path])[str(path)]
        if status == 0:
            return
        failures += status != INCONCLUSIVE
        if failures == 4:
            pytest.fail(words, pytrace=False)
    pytest.skip(f"this machine is too busy for its kernel to be judged: {words}")


def linux_lacks():
    """Why scripts cannot run on this machine's kernel."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare and ip are needed"
    probe = "import fcntl, struct; fcntl.ioctl(open('/dev/net/tun', 'r+b', 0), 0x400454ca, struct.pack('16sH22x', b'tun0', 0x1001))"
    done = subprocess.run(["unshare", "--net", sys.executable, "-c", probe], capture_output=True, text=True)
    if done.returncode != 0:
        return "no privilege to make a network namespace with a TUN device: " + (done.stderr.strip().splitlines() or ["?"])[-1]
    release = tuple(int(n) for n in os.uname().release.split(".")[:2])
    return None if release >= (6, 18) else f"the scripts describe Linux 6.18, this is {os.uname().release}"


@pytest.fixture(scope="session")
def linux_results():
    if reason := linux_lacks():
        return reason
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        parts = pool.map(on_linux, ([HERE / "scripts" / script for script in SCRIPTS[n::4]] for n in range(4)))
        return {path.removeprefix(f"{HERE}/scripts/"): result for part in parts for path, result in part.items()}


@pytest.mark.parametrize("script", SCRIPTS)
def test_belljar(script, packet_host):
    text = (HERE / "scripts" / script).read_text()
    backend = Simulated(packet_host, is_v6(text))
    try:
        Run(backend).run(text)
    except Mismatch as error:
        pytest.fail(f"{script}: {error}", pytrace=False)
    finally:
        backend.close()


@pytest.mark.parametrize("script", SCRIPTS)
def test_linux(script, linux_results):
    if isinstance(linux_results, str):
        pytest.skip(linux_results)
    # Those that differ beside others may be late: they run once more, alone.
    if linux_results[script][0] != 0:
        judge_linux(HERE / "scripts" / script)


def test_linux_notices_a_wrong_expectation(tmp_path):
    if reason := linux_lacks():
        pytest.skip(reason)
    text = (HERE / "scripts" / "handshake" / "accept.pkt").read_text()
    wrong = tmp_path / "wrong.pkt"
    for old, new in (("> P. 1:1001(1000)", "> P. 2:1002(1000)"), ("+0 > P.", "+.1 > P.")):
        assert old in text
        wrong.write_text(text.replace(old, new, 1))
        with pytest.raises(pytest.fail.Exception):
            judge_linux(wrong)


def test_a_wrong_expectation_is_noticed(packet_host):
    """The runner's own canary: each of these changes must make a script fail."""
    text = (HERE / "scripts" / "handshake" / "accept.pkt").read_text()
    for old, new in (("win 64240", "win 64241"), ("> P. 1:1001(1000)", "> P. 2:1002(1000)"), ("= 1000", "= 999"),
                     ("tcpi_snd_cwnd == 10", "tcpi_snd_cwnd == 11"), ("+0 > P.", "+.1 > P."), ("mss 1460", "mss 1461")):
        assert old in text
        backend = Simulated(packet_host)
        try:
            with pytest.raises(Mismatch):
                Run(backend).run(text.replace(old, new, 1))
        finally:
            backend.close()
