"""Runs that are killed (SIGKILL) leave no processes, and nothing outside of their results; what they cannot help to leave, a later one removes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, until

BUSY = "import time\nwhile True: time.sleep(0.001)"
MIDDLEBOX = ROOT / "adapters/cosim/middlebox.py"
pytestmark = pytest.mark.alone


def endless(*, placement="near", **more):
    process = {"path": "python3", "args": ["-c", BUSY], "expected_final_state": "running"}
    return {"general": {"stop_time": "100000 s"}, "belljar": {"placement": placement},
            "hosts": {"a": {"processes": [process]}, "b": {"processes": [process]}}, "links": [{"between": ["a", "b"]}], **more}


def behind_simulators(roles):
    """Two simulators between the hosts, with a channel of their own between them."""
    command = [sys.executable, "-B", str(MIDDLEBOX), "{left}", "{right}"]
    ports = {"left": {"role": roles}}
    return endless(simulators={name: {"command": command, "latency": "500 us", "ports": ports if name == "one" else {}} for name in ("one", "two")},
                   links=[{"between": ["a", "one:left"]}, {"between": ["one:right", "two:left"], "latency": "1 ms"}, {"between": ["two:right", "b"]}])


def descendants(pid):
    """Processes below one, which are no zombies."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rsplit(") ", 1)[1].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            parents.setdefault(int(parent), []).append(int(status.parent.name))
    found, ring = [], [pid]
    while ring:
        ring = [child for process in ring for child in parents.get(process, [])]
        found += ring
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] not in "ZX"
    except OSError:
        return False


def of_belljar():
    """What bears Belljar's name where programs leave things: temporary files, shared memory, namespaces, control groups; and all mounts."""
    folders = [Path(name) for name in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/netns")]
    named = {str(path) for folder in folders if folder.is_dir() for path in folder.iterdir() if "belljar" in path.name}
    groups = {str(path) for path in Path("/sys/fs/cgroup").rglob("belljar-*")}
    return named | groups | set(Path("/proc/self/mounts").read_text().splitlines())


@pytest.fixture
def killed(belljar, workdir):
    """killed(arguments, is_under_way) runs a command with a folder of its own for temporary files and kills it once it is under way.
    Nothing may be left but the results and what is in that folder, which it gives."""

    def run(arguments, is_under_way, number=signal.SIGKILL):
        temporary = workdir / "tmp"
        temporary.mkdir(exist_ok=True)
        before = of_belljar()
        command = [str(word) for word in (belljar, *arguments)]
        with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            until(lambda: is_under_way(running.pid) or running.poll() is not None)
            assert running.poll() is None, "it ended by itself"
            below = descendants(running.pid)
            running.send_signal(number)
        until(lambda: not any(map(is_running, below)), lambda: [pid for pid in below if is_running(pid)])
        until(lambda: not of_belljar() - before, lambda: of_belljar() - before, patience=20)
        return sorted(path.name for path in temporary.iterdir())

    return run


def written(workdir, experiment):
    (workdir / "killed.yaml").write_text(yaml.safe_dump(experiment))
    return workdir / "killed.yaml"


@pytest.mark.parametrize("placement", ["near", "far"])
def test_runs_leave_nothing(killed, workdir, placement):
    file = written(workdir, endless(placement=placement))
    out = workdir / "killed.data"
    assert killed(["run", file, "-o", out, "--no-progress"], lambda pid: list(out.glob("hosts/*/*.stdout"))) == []


@pytest.mark.parametrize("folder", ["short", "long" * 25])
@pytest.mark.parametrize("role", ["connect", "listen"])
def test_runs_with_simulators_leave_nothing(killed, workdir, role, folder):
    """Sockets are in the results, however long their path: simulators have addresses of 107 bytes."""
    out = workdir / folder
    file = written(workdir, behind_simulators(role))
    seen = []

    def is_under_way(pid):
        seen.extend(out.glob(".sockets/*/*"))
        return list(out.glob("hosts/*/*.stdout"))

    assert killed(["run", file, "-o", out, "--no-progress"], is_under_way) == []
    assert seen, "the sockets are in the results"


def test_results_keep_no_sockets(belljar, workdir):
    exp = behind_simulators("connect")
    exp["general"]["stop_time"] = "1 s"
    out = workdir / ("long" * 25)
    done = subprocess.run([belljar, "run", written(workdir, exp), "-o", out, "--no-progress"], capture_output=True, text=True)
    assert done.returncode == 0 and not list(out.glob(".*")), done.stdout + done.stderr


def test_what_exec_leaves_is_swept(killed, belljar, workdir):
    """Its results are temporary. Those in use are left alone."""
    def is_under_way(pid):
        return list(workdir.glob("tmp/belljar-scratch-*/results/hosts/host"))

    left = killed(["exec", sys.executable, "-c", BUSY], is_under_way)
    assert len(left) == 1, left
    tmp = workdir / "tmp"
    (tmp / "belljar-other").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp)}
    command = [belljar, "exec", sys.executable, "-c", BUSY]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        used = until(lambda: [path for path in tmp.glob("belljar-scratch-*/results/hosts/host") if left[0] not in str(path)])
        subprocess.run([belljar, "exec", "true"], env=environment, check=True)
        assert used[0].is_dir() and not (tmp / left[0]).exists() and (tmp / "belljar-other").exists()
        other.terminate()
    assert sorted(path.name for path in tmp.iterdir()) == ["belljar-other"]


def test_a_run_sweeps_too(belljar, workdir):
    left = workdir / "tmp/belljar-scratch-1-0/results"
    left.mkdir(parents=True)
    exp = endless()
    exp["general"]["stop_time"] = "10 ms"
    subprocess.run([belljar, "run", written(workdir, exp), "-o", workdir / "out", "--no-progress"], env={**os.environ, "TMPDIR": str(workdir / "tmp")}, check=True)
    assert not left.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0 and subprocess.run(["unshare", "-Urn", "true"], capture_output=True).returncode != 0,
                    reason="needs root, or user namespaces, which this machine does not allow")
@pytest.mark.parametrize("options", [[], ["--tdf", "2"]])
def test_emulations_leave_nothing(killed, workdir, options):
    """Namespaces, mounts and processes end with the command. An empty control group may stay, which a later emulation removes."""
    file = written(workdir, endless())
    out = workdir / "emulated"
    assert killed(["emulate", file, "-o", out, "--no-progress", *options], lambda pid: list(out.glob("hosts/*/*.stdout"))) == []
