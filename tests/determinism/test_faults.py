"""Faults of disks, connections, calls, names, links, clocks and processes: the same for any workers, cells and placement, and others for another seed."""

import json

import pytest
import yaml
from conftest import contents_of, execute, experiment, graph
from sameness import MODES, assert_same

PYTHON = "/usr/bin/python3"
# Writes, syncs and reads back, and speaks over connections that break; prints all that it meets.
WORKER = r"""
import os, select, socket, sys, threading, time
def serve():
    listener = socket.create_server(("", 5000))
    while True:
        peer = listener.accept()[0]
        threading.Thread(target=echo, args=(peer,), daemon=True).start()
def echo(peer):
    try:
        while data := peer.recv(4000):
            peer.sendall(data)
    except OSError as error:
        print(time.monotonic_ns(), "server", error.strerror, flush=True)
threading.Thread(target=serve, daemon=True).start()
time.sleep(1)
peer, number = None, 0
while True:
    number += 1
    try:
        file = os.open(f"file{number // 3}", os.O_RDWR | os.O_CREAT)
        os.pwrite(file, bytes([number % 256]) * 6000, 0)
        os.fsync(file)
        print(time.monotonic_ns(), "read", sum(os.pread(file, 6000, 0)), flush=True)
        os.close(file)
    except OSError as error:
        print(time.monotonic_ns(), "disk", error.strerror, flush=True)
    try:
        peer = peer or socket.create_connection((sys.argv[1], 5000), timeout=2)
        peer.sendall(b"x" * 3000)
        print(time.monotonic_ns(), "received", len(peer.recv(3000)), flush=True)
    except OSError as error:
        print(time.monotonic_ns(), "client", error, flush=True)
        peer = None
    time.sleep(0.05)
"""
EVENTS = [
    {"every": "3 s", "disk_fault": {"one_of": "all"}, "sync_time": ["1 ms", "300 ms"], "read_errors": 0.1, "bit_rot": 0.2, "sync_errors": 2, "for": "1 s"},
    {"at": "4 s", "disk_fault": "b", "full": True, "for": "2 s"},
    {"every": "2 s", "connection_reset": ["a", {"one_of": ["b", "c"]}]},
    {"at": "2 s", "call_faults": "all", "results": ["short", "EINTR", "EAGAIN", "EMFILE", "ECONNRESET", "ETIMEDOUT"], "share": 0.1, "for": "10 s"},
    {"every": "4 s", "memory": {"one_of": ["a", "c"]}, "limit": "3 MiB", "for": "500 ms"},
    {"every": "5 s", "kill": "python*", "hosts": {"one_of": ["a", "c"]}, "for": "700 ms"},
    {"every": "3 s", "pause": {"one_of": "all"}, "process": "python*", "for": "400 ms"},
    {"at": "7 s", "cpu": "b", "share": 0.1, "period": "60 ms", "for": "3 s"},
    {"at": "13 s", "crash": "c", "files": "torn", "disk": "any", "for": "1 s"},
]


def written(workdir):
    def worker(peer):
        return {"path": PYTHON, "args": ["-c", WORKER, peer], "expected_final_state": "any"}

    text = experiment({"a": (0, [worker("b")]), "b": (1, [worker("c")]), "c": (2, [worker("a")])},
                      graph((0, 1, "5 ms"), (1, 2, "7 ms"), (0, 2, "9 ms")), stop="16 s")
    file = workdir / "faults.yaml"
    file.write_text(yaml.safe_dump({**text, "events": EVENTS}, sort_keys=False))
    return file


def test_faults_do_not_depend_on_how_the_run_is_computed(belljar, workdir):
    assert_same(belljar, workdir, written(workdir), ("--parallelism", "1"), ("--parallelism", "2"), ("--cells", "2"))


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_do_not_depend_on_placement(belljar, workdir, seed):
    found = []
    for placement in ("near", "far"):
        # In a folder of the same name, which programs see.
        data = workdir / "same.data"
        done = execute([belljar, "run", written(workdir), "-o", data, "--no-progress", "--placement", placement, "--seed", str(seed)])
        assert done.status == 0, done
        data = data.rename(workdir / f"{placement}.data")
        every = contents_of(data)
        found.append({name: content for name, content in every.items() if str(name).startswith("hosts/")})
    assert found[0] == found[1]
    text = b"".join(found[0].values()).decode(errors="replace")
    for seen in ("read ", "disk ", "client ", "server ", "No space left on device", "Input/output error", '"result":"short"'):
        assert seen in text, seen


def test_another_seed_brings_other_faults(belljar, workdir):
    found = set()
    for seed in (1, 2):
        execute([belljar, "run", written(workdir), "-o", workdir / f"{seed}.data", "--no-progress", "--seed", str(seed)])
        found.add((workdir / f"{seed}.data/hosts/a/call_faults.jsonl").read_bytes())
    assert len(found) == 2


# Looks up names, asks the next host and shows its clock again and again; the second program takes the first one's place.
ROUNDS = "trap 'echo signalled' USR1; while :; do date +%s.%N; getent hosts b www.example.org || echo none; ping -c 1 -W 1 NEXT | grep time=; sleep .3; done"
SECOND = "while :; do echo second; date +%s.%N; ping -c 1 -W 1 NEXT | grep time=; sleep .2; done"
WORLD_EVENTS = [
    {"at": "2 s", "upgrade": 0, "hosts": {"one_of": "all"}, "to": 1, "grace": "500 ms", "for": "4 s"},
    {"at": "7 s", "upgrade": "sh", "hosts": {"one_of": ["a", "b"]}, "to": "bash", "grace": "1 s"},
    {"every": "1 s", "dns_answers": {"one_of": "all"}, "names": "*", "answer": "NXDOMAIN", "for": "500 ms"},
    {"every": "1500 ms", "dns_answers": {"one_of": "all"}, "names": "b", "answer": "192.0.2.9", "for": "700 ms"},
    {"at": "3 s", "dns_down": "c", "for": "1 s"},
    {"every": "2 s", "clock": {"one_of": "all"}, "step": "3 s"},
    {"every": "2 s", "probability": 0.5, "clock": {"one_of": "all"}, "drift_ppm": 20000, "for": "1 s"},
    {"every": "1500 ms", "link_down": {"from": "a", "to": "b"}, "for": "700 ms"},
    {"at": "5 s", "partition": [["a"], ["b", "c"]], "for": "1200 ms"},
    {"every": "2 s", "probability": 0.7, "signal": "SIGUSR1", "hosts": "all", "process": 0},
    {"every": "5 s", "crash": {"one_of": "all"}, "for": "500 ms"},
]


def world(workdir):
    def host(node, following):
        programs = [{"path": f"/bin/{shell}", "args": ["-c", text.replace("NEXT", following)], "expected_final_state": "any", **more}
                    for shell, text, more in (("sh", ROUNDS, {}), ("bash", SECOND, {"start_time": "never"}))]
        return node, programs

    text = experiment({"a": host(0, "b"), "b": host(1, "c"), "c": host(2, "a")}, graph((0, 1, "5 ms"), (1, 2, "7 ms"), (0, 2, "9 ms")), stop="12 s")
    text["belljar"] = {"dns": {"records": ["www.example.org. A 192.0.2.7"]}}
    file = workdir / "world.yaml"
    file.write_text(yaml.safe_dump({**text, "events": WORLD_EVENTS}, sort_keys=False))
    return file


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_of_the_world_do_not_depend_on_how_the_run_is_computed(belljar, workdir, seed):
    found = assert_same(belljar, workdir, world(workdir), *((*mode, "--seed", str(seed)) for mode in MODES))
    said = b"".join(content for name, content in found.items() if name.endswith(".stdout")).decode()
    for seen in ("signalled", "second", "none", "192.0.2.9 ", "192.0.2.7 ", "time="):
        assert seen in said, seen
    # The clock of some host is ahead of the run's end.
    assert max(float(line) for line in said.splitlines() if line.startswith("9466848")) > 946684812
    statistics = json.loads(found["sim-stats.json"])["packets"]
    assert {"link_down", "partition"} <= {reason for element in statistics.values() for reason in element.get("drops", {})}, statistics
