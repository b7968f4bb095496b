"""What `events:` does to running programs: connections, files, clocks and processes, the same for every worker count."""

import re
import sys

import pytest
from conftest import EXAMPLES, ROOT, execute, experiment, graph
from determinism.test_determinism import contents


def test_faults(run_experiment):
    done = run_experiment(EXAMPLES / "faults.yaml")
    lines = done.text("client", "asker").splitlines()
    answer = re.compile(r"(\d+) (\d+) ([\d.]+) ms, clocks differ by (-?[\d.]+) s")
    found = {int(m[1]): (int(m[2]), float(m[3]), float(m[4])) for m in map(answer.fullmatch, lines) if m}
    missing = {n for n in range(55)} - set(found)
    assert missing == {20, 21, 22, 23, 24, 30, 31, 32, 33, 34}, lines  # the partition, the crash
    for number, (_, took, apart) in found.items():
        round_trip = 100 if 5 <= number < 10 else 400 if 12 <= number < 17 else 40
        assert round_trip <= took < round_trip + 1, lines[number]
        step = 3600 if number >= 40 else 0
        # three seconds ahead, half a millisecond more each second; the store's clock is read one way earlier
        assert apart == pytest.approx(3 + took / 2000 + number * 0.0005 - step, abs=0.02), lines[number]
    # one after another, in spite of the crash: requests that never arrived are not counted
    before = [value for number, (value, _, _) in found.items() if number < 45]
    assert before == list(range(1, len(before) + 1))
    assert found[45][0] == 1001
    store = "".join(f.read_text() for f in done.streams("store", "store.py"))
    assert store == "starting with nothing up for 0\nstarting with 25 up for 0\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_faults_are_the_same_again(run_experiment, workers, reference={}):
    done = run_experiment(EXAMPLES / "faults.yaml", pcap=True, name="same", args=["--parallelism", str(workers)])
    found = contents(done)
    assert reference.setdefault("bytes", found) == found


CRASHED = r"""
import os, pathlib, socket, sys
for place in ("/var/lib/kept", "/run/gone", "/tmp/gone", "here"):
    path = pathlib.Path(place)
    print(place, path.exists())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
server = socket.create_server(("", 80))
connection, _ = server.accept()
print("accepted", connection.recv(10))
connection.recv(10)
"""
CLIENT = r"""
import socket, time
connection = socket.create_connection(("server", 80))
connection.sendall(b"hello")
time.sleep(20)
try:
    connection.sendall(b"anybody?")
    print("answer", connection.recv(10))
except OSError as error:
    print(type(error).__name__, round(time.monotonic() - 3600))
"""


@pytest.mark.parametrize("files", ["kept", "lost"])
def test_a_crash_closes_nothing_and_leaves_what_is_on_disk(run_experiment, files):
    text = experiment(
        {
            "server": (0, [{"path": "/usr/bin/python3", "args": ["-u", "-c", CRASHED],
                            "expected_final_state": "running"}]),
            "client": (0, [{"path": "/usr/bin/python3", "args": ["-u", "-c", CLIENT], "start_time": "1 s"}]),
        },
        graph((0, 0, "10 ms")),
        stop="60 s",
    )
    text["events"] = [{"at": "10 s", "crash": "server", "files": files, "for": "5 s"}]
    done = run_experiment(text)
    first, second = (f.read_text().splitlines() for f in done.streams("server", "python3"))
    assert first[-1] == "accepted b'hello'"
    assert all(line.endswith("False") for line in first[:4])
    kept = {"/var/lib/kept", "here"} if files == "kept" else set()
    assert {line.split()[0] for line in second if line.endswith("True")} == kept, second
    # the restarted server knows nothing of the connection
    assert done.text("client", "python3") == "ConnectionResetError 21\n"


@pytest.mark.needs("ipcmk")
def test_a_crash_leaves_no_ipc_objects(run_experiment):
    """They are memory, which a crash takes."""
    script = ("ipcs | grep -c ^0x; ipcmk -Q; ipcmk -M 100; ipcmk -S 2; ipcs | grep -c ^0x;"
              "/usr/bin/python3 -c 'import ctypes; print(ctypes.CDLL(None).mq_open(b\"/queue\", 0o302, 0o600, None) >= 0)'; sleep 100")
    text = experiment({"host": (0, [{"path": "/bin/sh", "args": ["-c", script], "expected_final_state": "running"}])}, stop="30 s")
    text["events"] = [{"at": "10 s", "crash": "host", "for": "5 s"}]
    done = run_experiment(text)
    for file in done.streams("host", "sh"):
        lines = file.read_text().splitlines()
        assert [lines[0], lines[4], lines[5]] == ["0", "3", "True"], lines


def test_sleepers_feel_a_step_of_the_wall_clock_only_where_they_wait_for_it(run_experiment):
    sleeper = r"""
import threading, time
def wait(name, how):
    how()
    print(name, round(time.monotonic() - 3600, 3))
condition = threading.Condition()
begin = time.time()
threads = [
    threading.Thread(target=wait, args=("relative", lambda: time.sleep(20))),
    threading.Thread(target=wait, args=("poll", lambda: __import__("select").select([], [], [], 20))),
]
for t in threads: t.start()
for t in threads: t.join()
print("wall", round(time.time() - begin, 3))
"""
    text = experiment({"a": (0, [("/usr/bin/python3", "-c", sleeper), ("/bin/sh", "-c", "true")])}, graph((0, 0, "1 ms")))
    text["events"] = [{"at": "5 s", "clock": "a", "step": "1 h"}]
    said = run_experiment(text).text("a", "python3")
    assert sorted(said.splitlines()) == ["poll 20.0", "relative 20.0", "wall 3620.0"], said


CONNECTS = r"""
import socket
try:
    socket.create_connection(("b", 80), timeout=30)
except OSError as error:
    print(type(error).__name__)
"""


def syns(done, host):
    """When the host has sent its SYNs, in seconds from the first."""
    sys.path.insert(0, str(ROOT / "python"))
    from belljar import Results

    times = [p.time for p in Results(done.path).packets(host) if p.data[9] == 6 and p.data[33] & 2]
    return [time - times[0] for time in times]


def test_drift_reaches_the_timers_of_tcp(run_experiment):
    text = experiment({name: (0, [{"path": "/usr/bin/python3", "args": ["-c", CONNECTS], "start_time": "1 s"}]) for name in ("fast", "right")}
                      | {"late": (0, [{"path": "/usr/bin/python3", "args": ["-c", CONNECTS], "start_time": "1 s"}]), "b": (0, [])},
                      graph((0, 0, "1 ms")), stop="40 s")
    text["hosts"]["fast"]["clock"] = {"drift_ppm": 100000}
    # In the middle of the second wait, the clock goes a tenth slower.
    text["events"] = [{"at": "0 s", "crash": "b"}, {"at": "2.5 s", "clock": "late", "drift_ppm": -100000}]
    done = run_experiment(text, pcap=True)
    right, fast, late = (syns(done, host) for host in ("right", "fast", "late"))
    assert len(right) >= 6 and right[1] == pytest.approx(1, abs=0.01)
    shared = min(len(right), len(fast))
    assert fast[:shared] == pytest.approx([at / 1.1 for at in right[:shared]], abs=0.001), "all is over a tenth sooner"
    # What was left when the clock slowed down takes a ninth longer.
    slowed = 2.5 - 1
    expected = [at if at <= slowed else slowed + (at - slowed) / 0.9 for at in right]
    assert late[:5] == pytest.approx(expected[:5], abs=0.02)


def test_a_plan_runs_to_the_results_of_its_seed(run_experiment, belljar, workdir):
    text = (EXAMPLES / "faults.yaml").read_text().replace("programs/", f"{EXAMPLES}/programs/")
    text += "- {every: 4 s, probability: 0.5, link_change: [{one_of: all}, store], latency: 90 ms, for: 1 s}\n"
    drawn = contents(run_experiment(text, name="same", args=["--seed", "9"]))
    planned = execute([belljar, "plan", workdir / "same.yaml", "--seed", "9"])
    assert planned.status == 0 and "every" not in planned.out and "one_of" not in planned.out, planned
    assert drawn == contents(run_experiment(planned.out, name="same"))
