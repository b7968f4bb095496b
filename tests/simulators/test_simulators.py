"""Other simulators beside the simulation: the Python middlebox between two hosts, packet generators in C, and simulators that
do what they should not."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml
from conftest import EXAMPLES, ROOT, until

MIDDLEBOX = ROOT / "adapters" / "cosim" / "middlebox.py"
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
    # The middlebox paces nothing: each direction is serialised once, as on one link.
    line = {"rate": "20 Mbit", "reverse": {"rate": "unlimited"}}
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
        done = subprocess.run([belljar, "run", file, "-o", out, "--no-progress", *options], capture_output=True, text=True, timeout=600)
        assert ok is None or (done.returncode == 0) == ok, done.stdout + done.stderr
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
    subprocess.run(["cc", "-O2", "-o", program, ROOT / "adapters" / "cosim" / "pktgen.c"], check=True)
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
    ("import time; time.sleep(6000)", "port 'left': nobody connected to"),
    ("import os, sys; sys.argv.pop(0); sys.path.insert(0, LIB); from belljar_channel import *\n"
     "s = Simulator(); [s.channel(url) for url in sys.argv]; s.at(10**9, os.kill, os.getpid(), 9); s.run()",
     "ended in the middle of the run (signal: 9 (SIGKILL))"),
])
def test_simulators_that_fail_are_named(run, workdir, script, reason):
    file = workdir / "bad.py"
    file.write_text(f"LIB = {str(ROOT / 'adapters' / 'cosim')!r}\n{script}\n")
    exp = cut()
    exp["simulators"]["middlebox"] |= {"command": [sys.executable, str(file), "{left}", "{right}"],
                                        "start_timeout": "2 s" if "nobody connected" in reason else "100000 s"}
    began = time.monotonic()
    _, done = run("bad", exp, ok=False)
    assert reason in done.stderr and "simulator 'middlebox'" in done.stderr, done.stderr
    assert time.monotonic() - began >= 2 or "nobody connected" not in reason
    until(lambda: not subprocess.run(["pgrep", "-f", str(file)], capture_output=True).stdout)


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

    for number in (signal.SIGINT, signal.SIGKILL):
        command = [belljar, "run", file, "-o", workdir / f"{number}.data", "--no-progress"]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(simulators)
        running.send_signal(number)
        running.wait(600)
        until(lambda: not simulators(), simulators, patience=120)


def test_the_example(run):
    out, _ = run("example", EXAMPLES / "middlebox.yaml")
    connected, _ = map(float, (out / "hosts/client").glob("curl.*.stdout").__next__().read_text().split())
    # A round trip is twice 1 + 0.5 + 2 + 0.5 + 1 ms, with ARP before it.
    assert 0.010 <= connected < 0.1 or connected > 1, connected
    assert (out / "hosts/client/GPL-3").read_bytes() == pathlib.Path("/usr/share/common-licenses/GPL-3").read_bytes()


RECORDER = """
import sys
sys.path.insert(0, LIB)
from belljar_channel import Simulator
simulator = Simulator()
left, right = map(simulator.channel, sys.argv[1:3])
def passing(name, to):
    def passes(frame):
        print(simulator.now, name, len(frame), frame[14:34].hex())
        to.send(frame)
    return passes
left.on_frame, right.on_frame = passing("left", right), passing("right", left)
simulator.run()
"""


def script(workdir, name, text):
    file = workdir / name
    file.write_text(f"LIB = {str(ROOT / 'adapters' / 'cosim')!r}\n{text}\n")
    return file


def test_a_cut_link_is_exact_to_the_picosecond(run, workdir):
    """A wire that writes down the picosecond of each frame stands behind the link, which is whole or cut. Serialisation at 7 Gbit/s takes
    no whole number of nanoseconds."""
    recorder = [sys.executable, str(script(workdir, "recorder.py", RECORDER)), "{left}", "{right}"]
    rate = {"rate": "7 Gbit"}
    behind = [{"between": ["s", "recorder:left"], "latency": "5 us"}, {"between": ["server", "recorder:right"], "latency": "5 us", **rate}]

    def measured(name, links, **simulators):
        exp = experiment(simulators={"recorder": {"command": recorder, "latency": "500 us"}, **simulators}, switches=["s"], links=links + behind)
        out, _ = run(name, exp)
        return (out / "simulators/recorder/stdout").read_text(), of_hosts(out)

    whole = measured("whole", [{"between": ["client", "s"], "latency": "3 ms", **rate}])
    command = [sys.executable, str(MIDDLEBOX), "{left}", "{right}", "--delay", "500"]
    once = {**rate, "reverse": {"rate": "unlimited"}}
    cut_links = [{"between": ["client", "box:left"], "latency": "500 us", **once}, {"between": ["s", "box:right"], "latency": "1 ms", **once}]
    parts = measured("cut", cut_links, box={"command": command, "latency": "500 us"})
    times = [int(line.split()[0]) for line in whole[0].splitlines()]
    # 20 datagrams and their answers, and 300,000 bytes by TCP; most not at whole nanoseconds.
    assert len(times) > 300 and sum(time % 1000 != 0 for time in times) > len(times) / 2
    assert parts[0] == whole[0]
    assert parts[1] == whole[1]


def test_turns_make_no_difference(run):
    """Two simulators that are stopped while nobody waits for them, or never."""
    command = [sys.executable, str(MIDDLEBOX), "{left}", "{right}", "--delay", "20"]
    boxes = {name: {"command": command, "latency": "500 us"} for name in ("one", "two")}
    links = [{"between": ["client", "one:left"]}, {"between": ["one:right", "s"]}, {"between": ["s", "two:left"]}, {"between": ["two:right", "server"]}]
    seen = []
    for turns in ("true", "false"):
        out, done = run(f"turns-{turns}", experiment(simulators=boxes, switches=["s"], links=links), "--simulator-turns", turns, "--trace-channels")
        seen.append(of_hosts(out) | {name: (out / f"simulators/{name}/channels.csv").read_bytes() for name in boxes})
        assert all((out / f"simulators/{name}/stdout").read_text().endswith("0 lost\n") for name in boxes)
    assert seen[0] == seen[1]


def test_channels_are_traced(run, belljar):
    out, _ = run("traced", cut(), "--trace-channels", "--pcap")
    rows = [line.split(",") for line in (out / "simulators/middlebox/channels.csv").read_text().splitlines()]
    assert rows.pop(0) == ["time_ps", "port", "direction", "arrives_ps", "bytes"]
    # In the order of time; what enters on one side leaves on the other after two latencies and the delay.
    assert [int(row[0]) for row in rows] == sorted(int(row[0]) for row in rows)
    to = [(int(row[0]), row[4]) for row in rows if row[1:3] == ["left", "to"]]
    away = [(int(row[0]), row[4]) for row in rows if row[1:3] == ["right", "from"]]
    assert len(to) > 100 and [(time + 2 * 10**9, size) for time, size in to] == away
    done = subprocess.run([belljar, "trace", out, "-o", "-"], capture_output=True, text=True, check=True)
    events = json.loads(done.stdout)["traceEvents"]
    messages = [event for event in events if event.get("cat") == "channel"]
    assert len(messages) == len(rows) and {event["ph"] for event in messages} == {"X", "i"}
    groups = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert {event["pid"] for event in messages} == {groups["simulator middlebox"]}
    assert any(event.get("cat") == "packet" for event in events)


def test_who_waits_for_whom_is_said(run):
    out, done = run("profiled", cut(), "--profile")
    assert "simulators, at each look:" in done.stdout and "middlebox:" in done.stdout and "waiting for the experiment" in done.stdout
    waits = json.loads((out / "profile.json").read_text())["simulators"]
    assert {wait["simulator"] for wait in waits} == {"middlebox"} and {wait["port"] for wait in waits} <= {"left", "right"}
    assert 0.1 < sum(wait["waited_for"] + wait["waits"] for wait in waits) <= 1.001


def test_a_simulator_that_hangs_is_named(run, workdir):
    hangs = ("import sys, time; sys.path.insert(0, LIB); from belljar_channel import *\n"
             "s = Simulator(); [s.channel(url) for url in sys.argv[1:]]; s.at(1_500_000_000_000, time.sleep, 9); s.run()")
    exp = cut()
    exp["simulators"]["middlebox"]["command"] = [sys.executable, str(script(workdir, "hangs.py", hangs)), "{left}", "{right}"]
    for process in (exp["hosts"]["client"]["processes"][0], exp["hosts"]["server"]["processes"][0]):
        process["expected_final_state"] = "running"
    _, done = run("hangs", exp, ok=None)
    notes = [line for line in done.stderr.splitlines() if "stuck or slow?" in line]
    # One after 5 s, and one each time that it has stood for twice as long: 9 s are so much on a busy machine alone.
    stood = [int(re.search(r"for (\d+) s", note)[1]) for note in notes]
    assert stood and all(seconds >= 5 << n for n, seconds in enumerate(stood)), notes
    # It stands where it last said so. The library takes what has come before it sends a SYNC: up to the 2 ms that the links and
    # channels let the experiment be ahead before the event of 1.5 s.
    stands = re.compile(r"note: simulator 'middlebox', port 'left', has stood at 1\.(49[89]|500)\d* s for .* sleeps")
    assert all(stands.fullmatch(note) for note in notes), notes


def test_two_simulators_have_a_channel_of_their_own(run):
    """A host, two middleboxes that are wired to each other, and the other host."""
    command = [sys.executable, str(MIDDLEBOX), "{left}", "{right}", "--delay", "10"]
    for ports in ({}, {"right": {"role": "connect"}}):
        simulators = {"one": {"command": command, "latency": "500 us", "ports": ports}, "two": {"command": command, "latency": "500 us"}}
        links = [{"between": ["client", "one:left"], "latency": "100 us"}, {"between": ["one:right", "two:left"], "latency": "400 us"},
                 {"between": ["two:right", "server"], "latency": "100 us"}]
        out, _ = run(f"wired{len(ports)}", experiment(simulators=simulators, links=links))
        assert (out / "simulators/one/stdout").read_text() == (out / "simulators/two/stdout").read_text()
        whole, _ = run(f"whole{len(ports)}", experiment(links=[{"between": ["client", "server"], "latency": "1620 us"}]))
        assert of_hosts(out) == of_hosts(whole)


def test_joined_simulators_do_not_wait_for_each_other_for_ever(run):
    """A simulator that is far ahead of the experiment still gets its SYNCs: the one behind it needs its clock. Without them
    about every second of these runs stood still."""
    command = [sys.executable, str(MIDDLEBOX), "{left}", "{right}"]
    sleeps = {"processes": [{"path": "sleep", "args": ["2"]}]}
    for latencies in (("5 ms", "500 us"), ("500 us", "5 ms"), ("5 ms", "500 us")):
        simulators = {name: {"command": command, "latency": latency} for name, latency in zip(("one", "two"), latencies)}
        links = [{"between": ["client", "one:left"], "latency": "100 us"}, {"between": ["one:right", "two:left"], "latency": "400 us"},
                 {"between": ["two:right", "server"], "latency": "100 us"}]
        _, done = run("ahead", {"general": {"stop_time": "3 s"}, "hosts": {"client": sleeps, "server": sleeps}, "simulators": simulators,
                                "links": links}, "--force")
        assert "all 2 processes ended as expected" in done.stdout


# Sends a frame every 400 ms up to a time, then ends.
PULSES = """
import sys
sys.path.insert(0, LIB)
from belljar_channel import Simulator
simulator = Simulator()
channel = simulator.channel(sys.argv[1])
ms = 1_000_000_000
def pulse():
    if simulator.now > int(sys.argv[2]) * ms:
        return simulator.stop()
    channel.send(bytes(6 * [255] + 6 * [2] + [8, 0] + 50 * [0]))
    simulator.after(400 * ms, pulse)
simulator.after(400 * ms, pulse)
simulator.run()
"""
# Says when frames arrive, up to a time.
HEARS = """
import sys
sys.path.insert(0, LIB)
from belljar_channel import Simulator
simulator = Simulator()
simulator.channel(sys.argv[1], lambda frame: print(simulator.now, flush=True))
simulator.run(int(sys.argv[2]) * 1_000_000_000)
"""


def pulses(workdir, links, until_ms=9000, **more):
    """Two simulators, one of which sends to the other, and nothing else that acts."""
    simulators = {name: {"command": [sys.executable, "-B", str(script(workdir, f"{name}.py", text)), "{out}", *options], "latency": "5 ms"}
                  for name, text, options in (("sends", PULSES, [str(until_ms)]), ("hears", HEARS, ["12000"]))}
    links = [*links, {"between": ["quiet", "other"]}]
    return {"general": {"stop_time": "60 s"}, "hosts": {"quiet": {}, "other": {}}, "simulators": simulators, "links": links, **more}


def test_a_run_goes_on_for_simulators_alone(run, workdir):
    """No host has a program: the run goes on until the simulators have ended, or to its stop time."""
    at_a_switch = [{"between": ["sends:out", "s"]}, {"between": ["s", "hears:out"]}]
    seen = []
    for name, more in (("first", {}), ("again", {}), ("short", {"general": {"stop_time": "5 s"}})):
        out, done = run(name, pulses(workdir, at_a_switch, switches=["s"], **more))
        heard = (out / "simulators/hears/stdout").read_text().split()
        seen.append((heard, re.search(r"([0-9.]+) s simulated", done.stdout)[1]))
    assert seen[0] == seen[1] and len(seen[0][0]) == 22 and 12 <= float(seen[0][1]) < 14, seen[0]
    assert len(seen[2][0]) == 12 and seen[2][1] == "5.000", seen[2]


# A middlebox that ends with a status at a time, and announces it by TERMINATE or not.
ENDS = """
import sys
sys.path.insert(0, LIB)
from belljar_channel import Simulator
simulator = Simulator()
channels = [simulator.channel(url) for url in sys.argv[3:]]
for channel, other in zip(channels, channels[::-1]):
    channel.on_frame = other.send
def end():
    if sys.argv[2] == "announces":
        for channel in channels:
            channel.finish(simulator.now)
            channel._put(simulator.now, 1, b"", b"")
    simulator.stop()
simulator.at(1_200_000_000_000, end)
simulator.run()
print("the licence has expired", file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""
SENDS = """
import socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(100):
    udp.sendto(b"%d" % n, ("server", 7))
    time.sleep(0.005)
"""


def ends(workdir, status, how, **more):
    exp = cut()
    exp["simulators"]["middlebox"] |= {"command": [sys.executable, "-B", str(script(workdir, "ends.py", ENDS)), str(status), how, "{left}", "{right}"], **more}
    exp["hosts"]["client"]["processes"][0] |= {"args": ["-B", "-c", SENDS], "expected_final_state": "any"}
    return exp


@pytest.mark.parametrize("how", ["announces", "leaves"])
def test_an_end_in_the_middle_is_reported_whatever_its_status(run, workdir, how):
    for status in (0, 3):
        _, done = run(f"ends{status}", ends(workdir, status, how), ok=False)
        said = f"simulator 'middlebox' ended in the middle of the run (exit status: {status}): the licence has expired"
        assert said in done.stderr and ("give it `ends: with peer`" in done.stderr) == (status == 0), done.stderr
    accepted = []
    for n in range(2):
        out, done = run(f"peer{n}", ends(workdir, 0, how, ends="with peer"), "--parallelism", "12"[n])
        accepted.append(of_hosts(out) | {"stats": (out / "sim-stats.json").read_bytes()})
        assert "simulator 'middlebox': frames that arrived after its end: lost" in done.stdout, done.stdout
    assert accepted[0] == accepted[1]
    _, done = run("fails", ends(workdir, 3, how, ends="with peer"), ok=False)
    assert "ended in the middle of the run (exit status: 3)" in done.stderr and "with peer" not in done.stderr, done.stderr


ASKS = """
import socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(1)
for n in range(20):
    udp.sendto(b"%d" % n, ("10.0.0.2", 7))
    print(udp.recv(99), flush=True)
"""
ANSWERS = """
import socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("", 7))
while True:
    data, who = udp.recvfrom(99)
    print(data, flush=True)
    udp.sendto(data, who)
"""


def half(host, code, peer, role, until, **more):
    """One of two Belljars that are joined by a channel. `peer` is how the other one is called here."""
    process = {"path": "python3", "args": ["-B", "-c", code], "start_time": "1 s", "expected_final_state": {"exited": 0} if code == ASKS else "running"}
    address = "10.0.0.1/24" if host == "client" else "10.0.0.2/24"
    return {"general": {"stop_time": until}, "hosts": {host: {"processes": [process], "interfaces": {"eth0": address}}},
            "simulators": {peer: {"latency": "500 us", "ports": {"p": {"role": role, **more.pop("port", {})}}, **more}},
            "links": [{"between": [f"{host}:eth0", f"{peer}:p"], "latency": "100 us"}]}


@pytest.mark.parametrize("longer", ["first", "second"])
def test_two_belljars_on_a_channel_both_end_well(belljar, workdir, longer):
    """Started apart. Either may end first: the one with the client does after its programs, or the other one at its stop time."""
    until = ("60 s", "5 s") if longer == "first" else ("5 s", "60 s")
    port = {"port": {"socket": str(workdir / "both.sock")}}
    seen = []
    for n in range(2):
        asks, answers = half("client", ASKS, "server", "connect", until[0], ends="with peer", **port), half("server", ANSWERS, "client", "listen", until[1], ends="with peer", **port)
        running = []
        for name, exp in (("asks", asks), ("answers", answers)):
            (workdir / f"{name}.yaml").write_text(yaml.safe_dump(exp))
            command = [belljar, "run", workdir / f"{name}.yaml", "-o", workdir / f"{name}{n}.data", "--no-progress"]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=600) for process in running]
        assert [process.returncode for process in running] == [0, 0], said
        files = [of_hosts(workdir / f"{name}{n}.data") for name in ("asks", "answers")]
        assert all(file["hosts/" + host + "/python3.1000.stdout"].count(b"\n") == 20 for file, host in zip(files, ("client", "server")))
        seen.append(files)
    assert seen[0] == seen[1]


def test_a_belljar_that_another_one_starts_ends_well(run, belljar, workdir):
    """It has the time that it needs; its failure is a warning."""
    inner = half("server", ANSWERS, "outer", "connect", "20 s", ends="with peer", port={"socket": "given"})
    for name, state in (("good", "running"), ("bad", {"exited": 0})):
        inner["hosts"]["server"]["processes"][0]["expected_final_state"] = state
        (workdir / "inner.yaml").write_text(yaml.safe_dump(inner))
        command = [str(belljar), "run", str(workdir / "inner.yaml"), "-o", str(workdir / f"inner-{name}.data"), "--no-progress", "--set", "simulators.outer.ports.p.socket={p.socket}"]
        _, done = run(name, half("client", ASKS, "inner", "listen", "60 s", command=command, ends="with peer"))
        stats = json.loads((workdir / f"inner-{name}.data/sim-stats.json").read_text())
        assert stats["simulated_seconds"] == 20 and "interrupted" not in stats, stats
        assert ("simulator 'inner' ended after the run (exit status: 1)" in done.stdout) == (name == "bad"), done.stdout


def test_simulators_alone_need_no_host(run, workdir):
    at_a_switch = [{"between": ["sends:out", "s"]}, {"between": ["s", "hears:out"]}]
    exp = pulses(workdir, at_a_switch, switches=["s"])
    del exp["hosts"], exp["links"][-1]
    out, done = run("alone", exp)
    assert len((out / "simulators/hears/stdout").read_text().split()) == 22 and "0 hosts" in done.stdout, done.stdout
    again, _ = run("again", out / "processed-config.yaml")
    assert (again / "simulators/hears/stdout").read_bytes() == (out / "simulators/hears/stdout").read_bytes()
    # A failure is reported, with the simulators as the only ones that act, too.
    exp["simulators"]["sends"]["command"] = [sys.executable, "-B", str(script(workdir, "fails.py", PULSES.replace("simulator.stop()", "sys.exit('no more')"))), "{out}", "3000"]
    _, done = run("fails", exp, ok=False)
    assert "simulator 'sends' ended in the middle of the run (exit status: 1): no more" in done.stderr, done.stderr


def test_a_proxy_carries_channels_to_another_machine(run, belljar, workdir):
    """Two proxies on loopback between the experiment and its middlebox: nothing changes."""
    expected, _ = run("near", cut())
    sockets = {port: {"socket": str(workdir / f"{port}.sock")} for port in ("left", "right")}
    exp = cut()
    del exp["simulators"]["middlebox"]["command"]
    exp["simulators"]["middlebox"]["ports"] = sockets
    here = [belljar, "channel-proxy", "--listen", "127.0.0.1:0"] + [f"connect:{sockets[port]['socket']}:sync=true" for port in ("left", "right")]
    far = [str(workdir / f"far-{port}.sock") for port in ("left", "right")]
    started = []
    try:
        started.append(subprocess.Popen(here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        address = started[0].stdout.readline().strip()
        there = [belljar, "channel-proxy", "--connect", address] + [f"listen:{path}:{path}-memory:sync=true" for path in far]
        started.append(subprocess.Popen(there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        box = [sys.executable, str(MIDDLEBOX)] + [f"connect:{path}:sync=true:latency=500000" for path in far] + ["--delay", "1000"]
        started.append(subprocess.Popen(box, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        out, _ = run("far", exp)
        ends = [process.communicate(timeout=600) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert of_hosts(out) == of_hosts(expected)
    assert [process.returncode for process in started] == [0, 0, 0], ends
    assert ends[2][0] == (expected / "simulators/middlebox/stdout").read_text()


def test_a_proxy_says_what_does_not_match(belljar, workdir):
    def both(here, there):
        with subprocess.Popen([belljar, "channel-proxy", "--patience", "20", "--listen", "127.0.0.1:0", *here], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as first:
            address = first.stdout.readline().strip()
            second = subprocess.run([belljar, "channel-proxy", "--patience", "1", "--connect", address, *there], capture_output=True, text=True, timeout=600)
            first.kill()
        return second

    done = subprocess.run([belljar, "channel-proxy", "connect:a:sync=true"], capture_output=True, text=True)
    assert done.returncode == 2 and "--listen" in done.stderr
    done = both(["connect:a:sync=true"], [f"connect:{workdir}/nobody:sync=true"])
    assert done.returncode != 0 and "nobody listens on" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif("BELLJAR_SIMBRICKS" not in os.environ, reason="BELLJAR_SIMBRICKS names no tree of SimBricks that is built")
@pytest.mark.parametrize("roles, command", [
    (("connect", "connect"), ["wire/net_wire", "{left.socket}", "{right.socket}", "1", "500000", "500000"]),
    (("connect", "connect"), ["switch/net_switch", "-S", "500000", "-E", "500000", "-s", "{left.socket}", "-s", "{right.socket}"]),
    (("listen", "listen"), ["switch/net_switch", "-S", "500000", "-E", "500000", "-h", "{left.socket}", "-h", "{right.socket}"]),
    (("listen", "connect"), ["switch/net_switch", "-S", "500000", "-E", "500000", "-h", "{left.socket}", "-s", "{right.socket}"]),
])
def test_simbricks_own_are_exact(run, roles, command):
    whole, _ = run("whole", experiment(links=[{"between": ["client", "server"], "latency": "3500 us", "rate": "20 Mbit"}]))
    exp = cut()
    command = [os.environ["BELLJAR_SIMBRICKS"] + "/sims/net/" + command[0], *command[1:]]
    ports = {port: {"role": role} for port, role in zip(("left", "right"), roles)}
    exp["simulators"]["middlebox"] |= {"command": command, "ports": ports}
    out, _ = run("cut", exp)
    assert of_hosts(out) == of_hosts(whole)


def compiled(source, program):
    """A simulator in C, compiled as the guide says."""
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "adapters/cosim", "-o", program, source], check=True)


def pings(out):
    return [float(ms) for ms in re.findall(r"time=([\d.]+) ms", next((out / "hosts/client").glob("ping.*.stdout")).read_text())]


@pytest.mark.needs("ping")
def test_the_simulator_of_the_tutorial(run, workdir):
    """Program and experiment, as the guide has them; and the same with options from the folder of the headers."""
    text = (ROOT / "docs/guide/writing-simulators.md").read_text()
    source, exp = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("c", "yaml"))
    (workdir / "delay.c").write_text(source)
    compiled(workdir / "delay.c", workdir / "delay")
    (workdir / "tutorial.yaml").write_text(exp)
    out, _ = run("tutorial", workdir / "tutorial.yaml")
    times = pings(out)
    assert len(times) == 5 and times[1:] == [12.4] * 4 and times[0] == 24.8, times
    compiled(ROOT / "adapters/cosim/delay.c", workdir / "delay")
    (workdir / "folder.yaml").write_text((ROOT / "adapters/cosim/delay.yaml").read_text())
    again, _ = run("folder", workdir / "folder.yaml")
    assert pings(again) == times and (again / "simulators/delay/stdout").read_text() == "12 frames passed\n"


@pytest.mark.needs("ping")
@pytest.mark.parametrize("role", ["connect", "listen"])
def test_jumbo_frames_and_jitter_through_a_simulator_in_c(run, workdir, role):
    """Frames of 9,000 bytes whichever end lays out the slots; drawn delays are the same in each run."""
    compiled(ROOT / "adapters/cosim/delay.c", workdir / "delay")
    exp = yaml.safe_load((ROOT / "adapters/cosim/delay.yaml").read_text())
    simulator = exp["simulators"]["delay"]
    simulator["command"] += ["--jitter", "300", "--seed", "7"]
    simulator["ports"] = {port: {"role": role} for port in ("left", "right")}
    exp["hosts"]["client"]["processes"][0]["args"] += ["-s", "8000", "-M", "do"]
    for link in exp["links"]:
        link["mtu"] = 9000
    seen = [pings(run(f"run{workers}", exp, "--parallelism", workers)[0]) for workers in ("1", "3")]
    assert seen[0] == seen[1] and len(set(seen[0][1:])) > 1 and all(12.4 < ms < 13.2 for ms in seen[0][1:]), seen


@pytest.mark.needs("ping")
def test_slots_that_are_too_small_are_refused(run, workdir):
    """bjc_open of a listener has slots of 1,536 bytes, as the guide says."""
    source = (ROOT / "adapters/cosim/delay.c").read_text().replace("arrive, 9216, 1024)", "arrive, 1600, 8192)")
    (workdir / "small.c").write_text(source)
    compiled(workdir / "small.c", workdir / "delay")
    exp = yaml.safe_load((ROOT / "adapters/cosim/delay.yaml").read_text())
    exp["simulators"]["delay"]["ports"] = {port: {"role": "listen"} for port in ("left", "right")}
    for link in exp["links"]:
        link["mtu"] = 9000
    _, done = run("small", exp, ok=False)
    assert "its slots hold frames of 1536 bytes, and its link's are up to 9014: give the link a smaller mtu" in done.stderr, done.stderr
