"""Other simulators beside the simulation: the Python middlebox between two hosts, packet generators in C, and simulators that
do what they should not."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import yaml
from conftest import EXAMPLES, ROOT

MIDDLEBOX = ROOT / "cosim" / "middlebox.py"
SERVER = """
import socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 7))
tcp = socket.create_server(("", 80))
while True:
    data, who = udp.recvfrom(5000)
    udp.sendto(data[::-1], who)
    if data == b"tcp":
        taken, _ = tcp.accept()
        taken.sendall(bytes(300_000))
        taken.close()
"""
CLIENT = """
import socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(20):
    sent = time.monotonic_ns()
    udp.sendto(b"x" * (40 * n + 1) if n < 19 else b"tcp", ("server", 7))
    got = udp.recv(5000)
    print("udp", n, len(got), time.monotonic_ns() - sent, flush=True)
    time.sleep(0.003)
tcp = socket.create_connection(("server", 80))
total = 0
while data := tcp.recv(65536):
    total += len(data)
    print("tcp", total, time.monotonic_ns(), flush=True)
"""


def experiment(**more):
    process = {"path": "python3", "args": ["-B", "-c", CLIENT], "start_time": "1 s"}
    server = {"path": "python3", "args": ["-B", "-c", SERVER], "expected_final_state": "running"}
    return {"general": {"stop_time": "3 s"}, "host_option_defaults": {"pcap_enabled": True},
            "hosts": {"client": {"processes": [process]}, "server": {"processes": [server]}}, **more}


def cut(*options, role="connect", delay_us=1000):
    """The two hosts with the middlebox between them: 2.5 ms on links, 2 times 0.5 ms on channels, and what it delays."""
    command = [sys.executable, str(MIDDLEBOX), "{left}", "{right}", "--delay", str(delay_us), *options]
    ports = {"left": {"role": role}, "right": {"role": "connect"}}
    line = {"rate": "20 Mbit"}
    return experiment(
        simulators={"middlebox": {"command": command, "latency": "500 us", "ports": ports}},
        links=[{"between": ["client", "middlebox:left"], "latency": "1 ms", **line},
               {"between": ["server", {"simulator": "middlebox", "port": "right"}], "latency": "1500 us", **line}])


@pytest.fixture
def run(belljar, workdir):
    """run(name, experiment, *options) -> the results folder, and what was said."""

    def run(name, exp, *options, ok=True):
        file = exp
        if isinstance(exp, dict):
            file = workdir / f"{name}.yaml"
            file.write_text(yaml.safe_dump(exp))
        out = workdir / f"{name}.data"
        done = subprocess.run([belljar, "run", file, "-o", out, "--no-progress", *options], capture_output=True, text=True, timeout=120)
        assert (done.returncode == 0) == ok, done.stdout + done.stderr
        return out, done

    return run


def of_hosts(out):
    """Everything of the hosts, captures and output, by name."""
    return {str(f.relative_to(out)): f.read_bytes() for f in sorted((out / "hosts").rglob("*")) if f.is_file()}


def test_a_link_cut_by_two_channels_is_the_same_link(run):
    """For ARP, UDP and TCP, in captures and as programs see it."""
    whole, _ = run("whole", experiment(links=[{"between": ["client", "server"], "latency": "4500 us", "rate": "20 Mbit"}]))
    expected = of_hosts(whole)
    said = expected["hosts/client/python3.1000.stdout"].decode()
    assert "tcp 300000" in said and said.count("udp") == 20
    for role in ("connect", "listen"):
        out, _ = run(role, cut(role=role))
        got = of_hosts(out)
        assert sorted(got) == sorted(expected)
        differ = [name for name in got if got[name] != expected[name]]
        assert not differ, differ
        assert (out / "simulators/middlebox/stdout").read_text().endswith("frames passed, 0 lost\n")


def test_runs_are_the_same_for_every_number_of_workers(run):
    seen = None
    for n in range(5):
        out, _ = run(f"run{n}", cut("--loss", "0.03", "--seed", "4"), "--parallelism", "12"[n % 2])
        now = of_hosts(out) | {"stats": (out / "sim-stats.json").read_bytes(), "box": (out / "simulators/middlebox/stdout").read_bytes()}
        assert seen is None or now == seen, [name for name in now if now[name] != seen.get(name)]
        seen = now
    assert b"0 lost" not in seen["box"]


def test_cells_make_no_difference(run):
    one, _ = run("one", cut())
    two, _ = run("two", cut(), "--cells", "2")
    assert of_hosts(one) == of_hosts(two)


def test_it_can_be_run_again_from_its_results(run):
    first, _ = run("first", cut())
    again, _ = run("again", first / "processed-config.yaml")
    assert of_hosts(again) == of_hosts(first)


def test_a_packet_generator_is_heard(run, workdir):
    program = workdir / "pktgen"
    subprocess.run(["cc", "-O2", "-o", program, ROOT / "cosim" / "pktgen.c"], check=True)
    listen = """
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
for n in range(100):
    s.recv(2000)
    print(time.monotonic_ns(), flush=True)
"""
    exp = experiment(
        simulators={"generator": {"command": [str(program), "{p1}", "--rate", "100", "--count", "100", "--start", "100000"], "latency": "10 us"}},
        links=[{"between": ["client", "generator"], "latency": "90 us"}, {"between": ["client", "server"]}])
    exp["hosts"]["client"]["processes"] = [{"path": "python3", "args": ["-B", "-c", listen], "start_time": 0}]
    out, _ = run("heard", exp)
    times = [int(line) for line in (out / "hosts/client/python3.1000.stdout").read_text().split()]
    # 1,000 bytes at 100 Mbit/s; some that come at one wake-up are read a little later.
    assert len(times) == 100 and times[-1] - times[0] == 99 * 80_000
    assert "100 frames sent" in (out / "simulators/generator/stdout").read_text()


@pytest.mark.parametrize("script, reason", [
    ("import sys; print('no licence', file=sys.stderr); sys.exit(3)", "ended before its channels were there (exit status: 3): no licence"),
    ("import time; time.sleep(60)", "port 'left': nobody connected to"),
    ("import os, sys; sys.argv.pop(0); sys.path.insert(0, LIB); from belljar_channel import *\n"
     "s = Simulator(); [s.channel(url) for url in sys.argv]; s.at(10**9, os.kill, os.getpid(), 9); s.run()",
     "ended in the middle of the run (signal: 9 (SIGKILL))"),
])
def test_simulators_that_fail_are_named(run, workdir, script, reason):
    file = workdir / "bad.py"
    file.write_text(f"LIB = {str(ROOT / 'cosim')!r}\n{script}\n")
    exp = cut()
    exp["simulators"]["middlebox"] |= {"command": [sys.executable, str(file), "{left}", "{right}"], "start_timeout": "2 s"}
    started = time.monotonic()
    _, done = run("bad", exp, ok=False)
    assert reason in done.stderr and "simulator 'middlebox'" in done.stderr, done.stderr
    assert time.monotonic() - started < 30


def test_validate_finds_what_does_not_match(belljar, workdir):
    exp = cut()
    exp["simulators"]["other"] = {"command": "/bin/true"}
    file = workdir / "other.yaml"
    file.write_text(yaml.safe_dump(exp))
    done = subprocess.run([belljar, "validate", file], capture_output=True, text=True)
    assert done.returncode != 0 and "no channel reaches simulator 'other'" in done.stderr
    del exp["simulators"]["other"]
    exp["simulators"]["middlebox"]["command"] += ["listen:a:b:sync=true:latency=100"]
    file.write_text(yaml.safe_dump(exp))
    done = subprocess.run([belljar, "validate", file], capture_output=True, text=True)
    assert done.returncode == 0 and "has a latency of 100 ns, and 'simulators' one of 500 us" in done.stdout
    assert "simulators: 1" in done.stdout


def test_interrupted_runs_leave_no_simulator_behind(belljar, workdir):
    mark = str(10**9 + os.getpid())
    exp = cut("--seed", mark)
    exp["general"]["stop_time"] = "1000 s"
    file = workdir / "long.yaml"
    file.write_text(yaml.safe_dump(exp))

    def simulators():
        return subprocess.run(["pgrep", "-f", f"seed {mark}"], capture_output=True, text=True).stdout.split()

    def becomes(wanted):
        for _ in range(200):
            if bool(simulators()) == wanted:
                return True
            time.sleep(0.05)
        return False

    for number in (signal.SIGINT, signal.SIGKILL):
        command = [belljar, "run", file, "-o", workdir / f"{number}.data", "--no-progress"]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert becomes(True)
        running.send_signal(number)
        running.wait(30)
        assert becomes(False), simulators()


def test_the_example(run):
    out, _ = run("example", EXAMPLES / "middlebox.yaml")
    connected, _ = map(float, (out / "hosts/client").glob("curl.*.stdout").__next__().read_text().split())
    # A round trip is twice 1 + 0.5 + 2 + 0.5 + 1 ms, with ARP before it.
    assert 0.010 <= connected < 0.1 or connected > 1, connected
    assert (out / "hosts/client/GPL-3").read_bytes() == pathlib.Path("/usr/share/common-licenses/GPL-3").read_bytes()
