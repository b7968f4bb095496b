"""Faults of disks, connections and calls: the same for any workers, cells and placement, and others for another seed."""

import pytest
import yaml
from conftest import contents_of, execute, experiment, graph

from .test_cells import assert_same

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
