"""Events `pause` of processes and `cpu`: what programs see that did not run, and what goes on without them; the same near and far, and for any
workers and cells."""

import json

import pytest
import yaml
from conftest import execute, experiment, graph
from sameness import assert_same

PYTHON = "/usr/bin/python3"
# A child that waits for a timer of 100 ms and for a connection, and its parent, which looks ten times a second what has become of it.
WORKER = r"""
import ctypes, os, select, signal, socket, struct, time
libc = ctypes.CDLL(None)
def say(*what):
    print(f"{time.monotonic() - 3600:.2f}", os.getpid(), *what, flush=True)
for number in (signal.SIGCONT, signal.SIGTSTP, signal.SIGCHLD, signal.SIGUSR1):
    signal.signal(number, lambda number, _: say("signal", number))
child = os.fork()
if child == 0:
    open("/proc/self/comm", "w").write("worker")
    peer = socket.create_server(("", 5000)).accept()[0]
    timer = libc.timerfd_create(1, 0)
    libc.timerfd_settime(timer, 0, struct.pack("qqqq", 0, 100_000_000, 0, 100_000_000), None)
    while True:
        ready = select.select([peer, timer], [], [])[0]
        if timer in ready:
            say("fired", struct.unpack("Q", os.read(timer, 8))[0])
        if peer in ready:
            say("received", len(peer.recv(100_000)))
while True:
    time.sleep(0.1)
    say("child", os.waitid(os.P_PID, child, os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOWAIT | os.WNOHANG))
"""
# Sends 100 bytes every 100 ms, and says how many are not acknowledged 80 ms later: a delayed acknowledgement takes 50 ms.
SENDER = r"""
import fcntl, socket, struct, time
time.sleep(1)
peer = socket.create_connection(("a", 5000))
for _ in range(40):
    peer.sendall(b"x" * 100)
    time.sleep(0.08)
    print(struct.unpack("i", fcntl.ioctl(peer, 0x5411, b"1234"))[0], flush=True)
    time.sleep(0.02)
time.sleep(100)
"""


def world(events, stop="6 s", cpu=None, code=WORKER, state="running"):
    text = experiment({"a": (0, [{"path": PYTHON, "args": ["-c", code], "expected_final_state": state}]),
                       "b": (1, [{"path": PYTHON, "args": ["-c", SENDER], "expected_final_state": "any"}])}, graph((0, 1, "5 ms")), stop=stop)
    if cpu:
        text["hosts"]["a"]["cpu"] = cpu
    return {**text, "events": events}


def run(belljar, workdir, text, *options, name="data"):
    (workdir / "exp.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
    done = execute([belljar, "run", workdir / "exp.yaml", "-o", workdir / name, "--no-progress", *options])
    assert done.status == 0, done
    return workdir / name


def said(data, host="a"):
    """Lines that the programs of a host have printed: time, process, what."""
    (file,) = (data / "hosts" / host).glob("python3.*.stdout")
    rows = [line.split(" ", 2) for line in file.read_text().splitlines()]
    return [(float(at), int(pid), what) for at, pid, what in rows]


PAUSE = {"at": "2050 ms", "pause": "a", "process": "worker", "for": "1 s"}


@pytest.mark.parametrize("placement", ["near", "far"])
def test_a_paused_process_notices_nothing_and_its_host_goes_on(belljar, workdir, placement):
    data = run(belljar, workdir, world([PAUSE]), "--placement", placement)
    lines = said(data)
    parent, child = sorted({pid for _, pid, _ in lines})
    assert not [line for line in lines if "signal" in line[2]]
    # The parent has run all the time, and its child has neither stopped nor continued.
    looks = [(at, what) for at, pid, what in lines if pid == parent]
    assert len(looks) >= 57 and {what for _, what in looks} == {"child None"}, looks
    own = [(at, what) for at, pid, what in lines if pid == child]
    assert not [at for at, _ in own if 2.05 < at < 3.05]
    # The timer has expired ten times meanwhile, and what was sent is there.
    assert [what for at, what in own if at == 3.05] == ["fired 10", "received 1000"], own
    assert all(what in ("fired 1", "received 100") for at, what in own if at != 3.05), own
    acknowledged = (data / "hosts/b").glob("python3.*.stdout")
    assert set(next(acknowledged).read_text().split()) == {"0"}
    assert json.loads((data / "sim-stats.json").read_text())["hosts"]["a"]["faults"] == {"processes_paused": 1}


def test_processes_of_the_list_are_paused_by_index_and_their_children_are_not(belljar, workdir):
    lines = said(run(belljar, workdir, world([{"at": "2050 ms", "pause": "a", "process": 0}, {"at": "3050 ms", "resume": "a", "process": "python*"}])))
    parent, child = sorted({pid for _, pid, _ in lines})
    ran = {pid: len([at for at, own, _ in lines if own == pid and 2.05 < at < 3.05]) for pid in (parent, child)}
    assert ran[parent] == 0 and ran[child] >= 10, ran
    assert len([at for at, own, _ in lines if own == parent and at > 3.05]) >= 28


THREADS = r"""
import os, threading, time
def ticks(number):
    while True:
        time.sleep(0.1)
        print(f"{time.monotonic() - 3600:.2f}", os.getpid(), number, flush=True)
for number in range(3):
    threading.Thread(target=ticks, args=(number,)).start()
"""


@pytest.mark.parametrize("placement", ["near", "far"])
def test_all_threads_stand_still(belljar, workdir, placement):
    lines = said(run(belljar, workdir, world([{"at": "2050 ms", "pause": "a", "process": "python*", "for": "1 s"}], code=THREADS), "--placement", placement))
    assert not [line for line in lines if 2.05 < line[0] < 3.05]
    assert sorted(what for at, _, what in lines if at == 3.05) == ["0", "1", "2"]
    assert all(len([what for at, _, what in lines if what == number]) >= 47 for number in "012"), lines


def test_pauses_of_several_events_end_with_the_last_and_resume_ends_all(belljar, workdir):
    second = {"at": "2500 ms", "pause": "a", "process": "work*", "for": "1500 ms"}

    def gap(*events):
        times = [at for at, _, what in said(run(belljar, workdir, world([PAUSE, second, *events]), name=f"data{len(events)}")) if "fired" in what]
        return max(zip(times, times[1:]), key=lambda pair: pair[1] - pair[0])

    assert gap()[1] == 4.0
    assert gap({"at": "3500 ms", "resume": "a", "process": "worker"})[1] == 3.5


def test_signals_wait_and_kills_do_not(belljar, workdir):
    text = world([{"at": "2050 ms", "pause": "a", "process": 0, "for": "1 s"}, {"at": "2500 ms", "signal": "SIGUSR1", "hosts": "a"},
                  {"at": "4 s", "pause": "a", "process": "worker", "for": "1 s"}, {"at": "4500 ms", "kill": "worker", "hosts": "a"}])
    lines = said(run(belljar, workdir, text))
    signals = [(at, what) for at, _, what in lines if "signal" in what]
    assert signals == [(3.05, "signal 10"), (4.5, "signal 17")], signals


def test_what_is_not_there_is_named(belljar, workdir):
    data = run(belljar, workdir, world([{"at": "2 s", "pause": "a", "process": "wrker", "for": "1 s"}]))
    warnings = " ".join(json.loads((data / "sim-stats.json").read_text())["warnings"])
    assert "event 'pause' that found no process 'wrker'" in warnings


# Calls of each second, after a hundred in which the program is loaded.
CALLS = r"""
import os, time
time.sleep(3700 - time.monotonic())
counts = [0] * 6
while (second := int(time.monotonic() - 3700)) < 6:
    os.getpriority(os.PRIO_PROCESS, 0)
    counts[second] += 1
for second, count in enumerate(counts):
    print(second, count)
"""


@pytest.mark.parametrize("placement", ["near", "far"])
@pytest.mark.parametrize("call, usual", [("1 ms", 1000), ("30 ms", 33)])
def test_calls_take_longer_by_the_share(belljar, workdir, placement, call, usual):
    """Also where one call is longer than a slice: the rest is paid by the next slices."""
    text = world([{"at": "102 s", "cpu": "a", "share": 0.25, "for": "2 s"}], stop="150 s", cpu={"syscall": call}, code=CALLS, state={"exited": 0})
    data = run(belljar, workdir, text, "--placement", placement)
    counts = [int(line.split()[1]) for line in next((data / "hosts/a").glob("python3.*.stdout")).read_text().splitlines()]
    slow = sum(counts[2:4]) / 2
    assert counts[1] == pytest.approx(usual, abs=1) and counts[5] == pytest.approx(usual, abs=1), counts
    assert slow == pytest.approx(usual / 4, rel=0.02, abs=1), counts


ECHO = r"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9))
while True:
    s.sendto(*s.recvfrom(100))
"""
ASKER = r"""
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(500):
    time.sleep(max(0, n / 100 + 1 - (time.monotonic() - 3600)))
    start = time.monotonic()
    s.sendto(b"x", ("a", 9))
    s.recv(100)
    print(f"{start - 3600:.3f} {(time.monotonic() - start) * 1000:.1f}", flush=True)
"""


def test_programs_of_a_host_without_costs_answer_in_their_slices(belljar, workdir):
    text = world([{"at": "2 s", "cpu": "a", "share": 0.1, "for": "2 s"}], code=ECHO)
    text["hosts"]["b"]["processes"] = [{"path": PYTHON, "args": ["-c", ASKER], "expected_final_state": "any"},
                                       {"path": "ping", "args": ["-c", "50", "-i", "0.1", "a"], "expected_final_state": "any"}]
    data = run(belljar, workdir, text)
    rows = [tuple(map(float, line.split())) for line in next((data / "hosts/b").glob("python3.*.stdout")).read_text().splitlines()]
    before, during = [trip for at, trip in rows if at < 1.9], [(at, trip) for at, trip in rows if 2 <= at < 3.9]
    assert set(before) == {10.0}
    # Questions reach the host 5 ms after they leave; it answers in the first 10 ms of each 100.
    for at, trip in during:
        arrived = (at + 0.005) * 1000 % 100
        waits = 0 if arrived < 9.95 else 100 - arrived
        assert trip == pytest.approx(10 + waits, abs=0.2), (at, trip)
    assert len({round(trip) for _, trip in during}) > 1
    # The kernel answers at once.
    trips = [line.split("time=")[1] for line in next((data / "hosts/b").glob("ping.*.stdout")).read_text().splitlines() if "time=" in line]
    assert len(trips) == 50 and len(set(trips)) == 1, trips


EVENTS = [
    {"every": "700 ms", "pause": {"one_of": "all"}, "process": "python*", "for": "400 ms"},
    {"every": "1100 ms", "pause": "a", "process": "worker", "for": "1300 ms"},
    {"every": "900 ms", "cpu": {"one_of": "all"}, "share": 0.1, "period": "30 ms", "for": "800 ms"},
    {"at": "2500 ms", "cpu": "all", "share": 0.3, "for": "1 s"},
    {"at": "3 s", "pause": "a", "for": "350 ms"},
    {"at": "4 s", "crash": "a", "for": "500 ms"},
    {"at": "5 s", "kill": "worker", "hosts": "a"},
]


def test_suspensions_do_not_depend_on_how_the_run_is_computed(belljar, workdir):
    (workdir / "exp.yaml").write_text(yaml.safe_dump(world(EVENTS, cpu={"syscall": "200 us", "packet": "50 us"}), sort_keys=False))
    ways = [("--parallelism", "1"), ("--parallelism", "2"), ("--cells", "2")]
    assert_same(belljar, workdir, workdir / "exp.yaml", *(("--pcap", *way) for way in ways))


def test_suspensions_do_not_depend_on_placement(belljar, workdir):
    (workdir / "exp.yaml").write_text(yaml.safe_dump(world(EVENTS), sort_keys=False))
    assert_same(belljar, workdir, workdir / "exp.yaml", ("--placement", "near"), ("--placement", "far"))


@pytest.mark.parametrize("event, said", [
    ({"at": "1 s", "pause": "a", "process": 0}, "write signal: SIGSTOP"),
    ({"at": "1 s", "cpu": "a", "share": 0.1}, "the processors of emulated hosts are this machine's"),
])
def test_emulations_refuse_them(belljar, workdir, event, said):
    (workdir / "exp.yaml").write_text(yaml.safe_dump(world([event]), sort_keys=False))
    done = execute([belljar, "validate", "--for", "emulate", workdir / "exp.yaml"])
    assert done.status == 2 and said in done.err, done
