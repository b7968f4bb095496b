"""Links of emulations that end at interfaces of this machine."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time

import pytest
from conftest import begun

IS_ROOT = os.geteuid() == 0
MAC = bytes.fromhex("020000000099")
pytestmark = [pytest.mark.waits, pytest.mark.skipif(not IS_ROOT and subprocess.run(["unshare", "-Urn", "true"], capture_output=True).returncode != 0,
                                reason="needs root, or user namespaces, which this machine does not allow")]


def experiment(interface, more=""):
    """A host that ends when the test says so, in its folder, and says when it is there."""
    return f"""
general: {{stop_time: 600 s}}
gateways: {{out: {{interface: "{interface}"{more}}}}}
hosts:
  h:
    interfaces: {{eth0: 10.9.0.2/24}}
    processes: [{{path: sh, args: [-c, ": > begun; until [ -e done ]; do sleep 0.1; done"]}}]
links:
- {{between: [h, out], latency: 10 ms}}
"""


@pytest.fixture
def start(belljar, tmp_path):
    started = []

    def run(text, *arguments, prefix=()):
        (tmp_path / "exp.yaml").write_text(text)
        command = [*prefix, belljar, "emulate", tmp_path / "exp.yaml", "-o", tmp_path / "data", *arguments]
        started.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(run, tmp_path):
    (tmp_path / "data/hosts/h/done").touch()
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 0, out
    return out


def test_a_socket_reaches_an_emulated_host(start, tmp_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(tmp_path / "frames"))
    listener.listen()
    listener.settimeout(600)
    run = start(experiment(f"unix:{tmp_path / 'frames'}"), "--until-done")
    frames, _ = listener.accept()
    frames.settimeout(600)
    begun(run, (tmp_path / "data/hosts/h/begun").exists)
    trips = []
    for _ in range(20):
        began = time.monotonic()
        frames.send(b"\xff" * 6 + MAC + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + MAC + socket.inet_aton("10.9.0.1") + bytes(6) + socket.inet_aton("10.9.0.2"))
        while True:
            reply = frames.recv(2000)
            assert reply, run.communicate()[0]
            if reply[12:14] == b"\x08\x06" and reply[20:22] == b"\x00\x02":
                trips.append(time.monotonic() - began)
                break
    assert min(trips) >= 0.020
    out = finish(run, tmp_path)
    gateway = json.loads((tmp_path / "data/sim-stats.json").read_text())["gateways"]["out"]
    assert gateway["frames_in"] == 20 and gateway["frames_out"] >= 20 and gateway["late"]["max"] >= 0
    assert f"gateway out (unix:{tmp_path / 'frames'}): 20 frames in" in out


@pytest.mark.skipif(not IS_ROOT, reason="only root may open the machine's interfaces from an emulation")
@pytest.mark.needs("ip", "ping", "nsenter")
def test_a_machine_pings_an_emulated_host(start, tmp_path):
    """The machine's network is a namespace here."""
    outside = subprocess.Popen(["unshare", "-n", "sh", "-c", "ip link set lo up; echo up; exec sleep 100000"], stdout=subprocess.PIPE)
    try:
        outside.stdout.readline()
        prefix = ["nsenter", "-t", str(outside.pid), "-n"]
        run = start(experiment("tap:lab0", ", address: 10.9.0.1/24"), "--until-done", prefix=prefix)
        begun(run, (tmp_path / "data/hosts/h/begun").exists)
        done = subprocess.run([*prefix, "ping", "-c", "10", "-i", "0.2", "10.9.0.2"], capture_output=True, text=True)
        times = [float(each) for each in re.findall(r"time=([\d.]+)", done.stdout)]
        assert len(times) >= 8 and min(times) >= 20, done.stdout + done.stderr
        finish(run, tmp_path)
        assert subprocess.run([*prefix, "ip", "link", "show", "lab0"], capture_output=True).returncode != 0, "the interface was left"
    finally:
        outside.kill()
        outside.communicate()


def test_what_cannot_be_opened_is_one_error(start, tmp_path):
    run = start(experiment("none0"))
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 1 and out.count("error: ") == 1 and "error: gateway 'out': " in out, out
    shutil.rmtree(tmp_path / "data")
    run = start(experiment("tap:lab0"), "--tdf", "10")
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 2 and "gateway 'out': time outside is not dilated as that of the hosts\n" in out and "leave '--tdf' out" in out, out
    assert not (tmp_path / "data").exists(), "refused before anything is started"
