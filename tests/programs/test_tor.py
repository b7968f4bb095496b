"""A network of Debian's tor: it bootstraps, and files come through circuits and from the onion service."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import EXAMPLES
from test_live import differing

PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
SIZE = sum(len(f"line {n} of a file\n") for n in range(1, 20_001))
pytestmark = [pytest.mark.needs("tor", "tor-gencert", "curl", "python3")]


def make(belljar, folder, *options, path=PATH):
    command = [sys.executable, EXAMPLES / "tor/network.py", folder, *map(str, options)]
    done = subprocess.run(command, env={"PATH": path, "BELLJAR_BIN": str(belljar)}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.search(r"(\d+) tors; the onion service is (\w{56}\.onion)", done.stdout).groups()


def check(ran, tors, onion):
    bootstrapped = [f for f in ran.path.glob("hosts/*/tor.*.stdout") if "Bootstrapped 100% (done)" in f.read_text()]
    assert len(list(ran.path.glob("hosts/*/tor.*.stdout"))) == tors
    # An authority needs no circuits to do its work; all others have them.
    unready = tors - len(bootstrapped)
    assert unready <= len(list(ran.path.glob("hosts/authority*"))), sorted(f.parent.name for f in bootstrapped)
    clients = list(ran.path.glob("hosts/client*"))
    assert clients
    for client in clients:
        fetched = sorted(f.read_text().strip() for f in client.glob("curl.*.stdout"))
        assert [re.sub(r" in .*", "", line) for line in fetched] == sorted(f"http://{name}/file 200 {SIZE} bytes" for name in ("web", onion)), fetched
        took = [float(re.search(r"in ([\d.]+) s", line)[1]) for line in fetched]
        # Three hops there and back, six to the onion service: never as fast as a direct way.
        assert all(0.1 < seconds < 60 for seconds in took), fetched


def test_a_small_network(belljar, workdir, run_experiment):
    options = ("--authorities", 2, "--relays", 5, "--clients", 1, "--stop-time", "90 s", "--fetch-at", "60 s")
    tors, onion = make(belljar, workdir / "tor", *options)
    check(run_experiment(workdir / "tor/network.yaml"), int(tors), onion)


@pytest.mark.slow
def test_the_same_keys_and_the_same_bytes(belljar, workdir, run_experiment):
    options = ("--authorities", 2, "--relays", 5, "--clients", 1, "--stop-time", "90 s", "--fetch-at", "60 s")
    for name in ("one", "two"):
        make(belljar, workdir / name, *options)
    assert differing(workdir / "one", workdir / "two") == []
    contents = []
    for workers in ("1", "3"):
        # In one folder after the other: logs of tor name it.
        ran = run_experiment(workdir / "one/network.yaml", name="run", args=["--parallelism", workers])
        contents.append({str(p.relative_to(ran.path)): p.read_bytes() for p in ran.path.rglob("*") if p.is_file()})
        shutil.rmtree(ran.path)
    first, second = contents
    assert [name for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name)] == []


@pytest.mark.slow
def test_thirty(belljar, workdir, run_experiment):
    tors, onion = make(belljar, workdir / "tor")
    assert tors == "30"
    check(run_experiment(workdir / "tor/network.yaml", timeout=900), 30, onion)


@pytest.mark.slow
@pytest.mark.needs("tgen", "oniontrace", "tornettools", "tgentools", "oniontracetools")
def test_tornettools_reads_it(belljar, workdir):
    options = ("--authorities", 2, "--relays", 5, "--clients", 2, "--measure", "--pause", "5 seconds", "--stop-time", "5 min", "--fetch-at", "60 s")
    path = f"{os.environ['PATH']}:{PATH}"
    make(belljar, workdir / "tor", *options, path=path)
    (workdir / "shadow").symlink_to(belljar)
    for command in (
        ("simulate", "--shadow", workdir / "shadow", "--filename", "network.yaml", "--args", "--parallelism 2", "tor"),
        ("parse", "--converge-time", "60", "tor"),
        ("plot", "tor", "--prefix", "figures"),
    ):
        done = subprocess.run(["tornettools", *command], cwd=workdir, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        assert " failed" not in done.stdout, done.stdout
    found = {file.stem: json.loads(file.read_text()) for file in workdir.glob("tor/tornet.plot.data/*.json")}
    for kind in ("exit", "onionservice"):
        # Six hops to the onion service and back, three through an exit.
        assert len(found[f"round_trip_time.{kind}"]) > 20 and min(found[f"round_trip_time.{kind}"]) > 0.1
        assert len(found[f"time_to_last_byte_recv.{kind}"]["51200"]) > 10 and found[f"perfclient_circuit_build_time.{kind}"]
        assert all(failed < 50 for client in found[f"error_rate.{kind}"]["ALL"] for failed in client)
        assert (workdir / f"figures/round_trip_time.{kind}.pdf").stat().st_size > 1_000
    assert sum(found["relay_goodput"].values()) > 10_000_000 and found["resource_usage"]


def test_what_cannot_be_made_is_said(workdir):
    def said(*options, path="/usr/bin:/bin:/usr/sbin"):
        command = [sys.executable, EXAMPLES / "tor/network.py", workdir / "no", *map(str, options)]
        done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, timeout=600)
        assert done.returncode and not (workdir / "no").exists(), done
        return done.stderr

    assert "at least one authority, three relays and one client are needed" in said("--relays", 2)
    assert "not installed" not in said("--clients", 0)
    if shutil.which("tgen", path=PATH) is None:
        assert "tgen is not installed: https://github.com/shadow/tgen says how" in said("--measure")
