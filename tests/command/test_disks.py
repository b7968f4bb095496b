"""Crashes that take what is not synced: what programs find after a restart, and what the results say of it."""

import json
import re

import pytest
from conftest import EXAMPLES, ROOT, execute, experiment, graph

# Writes and syncs in several ways; after a crash it prints what is there.
WRITER = r"""
import ctypes, mmap, os, pathlib, time
folder = pathlib.Path("/var/lib/disk")
if folder.exists():
    for path in sorted(folder.iterdir()):
        print(path.name, path.read_bytes()[:1].decode(), path.stat().st_size)
    print("here", os.path.exists("here"), "read-only", os.path.exists("/etc/passwd"))
    time.sleep(1000)
def sync(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)
folder.mkdir(parents=True)
sync(folder.parent)
(folder / "synced").write_bytes(b"s" * 10_000)
sync(folder / "synced")
(folder / "replaced").write_bytes(b"o" * 10_000)
sync(folder / "replaced")
file = os.open(folder / "direct", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
os.write(file, b"d" * 10_000)
with open(folder / "mapped", "wb+") as mapped:
    mapped.truncate(8192)
    memory = mmap.mmap(mapped.fileno(), 8192)
    memory[:] = b"m" * 8192
    memory.flush()
# A mapping that may be written to only after a while.
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
with open(folder / "protected", "wb+") as mapped:
    mapped.write(b"o" * 8192)
    mapped.flush()
    address = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(8192), mmap.PROT_READ, mmap.MAP_SHARED, mapped.fileno(), ctypes.c_long(0)))
    os.fsync(mapped.fileno())
assert libc.mprotect(address, ctypes.c_size_t(8192), mmap.PROT_READ | mmap.PROT_WRITE) == 0
ctypes.memset(address, ord("p"), 8192)
assert libc.msync(address, ctypes.c_size_t(8192), 4) == 0
sync(folder)
pathlib.Path("here").write_text("x")
(folder / "unsynced").write_bytes(b"u" * 10_000)
(folder / "new").write_bytes(b"n" * 10_000)
os.rename(folder / "new", folder / "replaced")
print("written")
time.sleep(1000)
"""


def crashed(run_experiment, files, disk, seed=1, name="data"):
    text = experiment(
        {"a": (0, [{"path": "/usr/bin/python3", "args": ["-u", "-c", WRITER], "expected_final_state": "running"}])},
        graph((0, 0, "10 ms")), stop="20 s")
    text["general"]["seed"] = seed
    event = {"at": "10 s", "crash": "a", "files": files, "for": "5 s"}
    text["events"] = [event if disk is None else {**event, "disk": disk}]
    done = run_experiment(text, name=name)
    first, second = (stream.read_text().splitlines() for stream in done.streams("a", "python3"))
    assert first == ["written"]
    return second, [json.loads(line) for line in (done.path / "hosts/a/crashes.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("files", ["unsynced", "torn"])
@pytest.mark.parametrize("disk", ["ordered", "any"])
def test_what_is_synced_is_there_and_the_rest_may_not_be(run_experiment, files, disk):
    found = []
    for seed in range(1, 9):
        lines, losses = crashed(run_experiment, files, disk, seed, f"run{seed}")
        # These were synced, with their names.
        for line in ("synced s 10000", "direct d 10000", "mapped m 8192", "protected p 8192"):
            assert line in lines, (seed, lines)
        replaced = [line for line in lines if line.startswith("replaced ")]
        # What it replaces was synced, so that a name without a file would be a loss.
        assert len(replaced) == 1, lines
        if disk == "ordered":
            assert replaced[0] in ("replaced o 10000", "replaced n 10000"), lines
        assert len(losses) == 1 and losses[0]["time"] == 10, losses
        lost = {one["file"]: one["lost"] for one in losses[0]["lost"]}
        if "unsynced u 10000" not in lines:
            assert "/var/lib/disk/unsynced" in lost, (lines, lost)
        assert ("here True read-only True" in lines) == ("here" not in lost or lost["here"] == "data"), (lines, lost)
        found.append(tuple(lines))
    assert len(set(found)) > 2, found


def test_files_of_the_working_directory_alone_are_replaced_and_lost(run_experiment):
    """A host whose programs write to no absolute path has no layer of its own, in which replaced files would be kept for a crash."""
    program = """
import os, time
if os.path.exists("state"):
    print(open("state").read(), os.path.getsize("log") if os.path.exists("log") else None)
    time.sleep(1000)
for number in range(20):
    with open("state.new", "w") as file:
        file.write(f"state {number}")
    os.rename("state.new", "state")
    with open("log", "a") as file:
        file.write("x" * 5000)
os.sync()
with open("state.new", "w") as file:
    file.write("state 20")
os.rename("state.new", "state")
open("log", "a").write("x" * 5000)
print("written")
time.sleep(1000)
"""
    found = set()
    for seed in range(1, 9):
        text = experiment({"a": (0, [{"path": "/usr/bin/python3", "args": ["-u", "-B", "-c", program], "expected_final_state": "running"}])}, graph((0, 0, "10 ms")), stop="20 s")
        text["general"]["seed"] = seed
        text["events"] = [{"at": "10 s", "crash": "a", "files": "unsynced", "for": "1 s"}]
        done = run_experiment(text, name=f"run{seed}")
        assert "drawn state" not in done.out + done.err
        first, second = (stream.read_text().splitlines() for stream in done.streams("a", "python3"))
        assert first == ["written"]
        found.update(second)
        assert (done.path / "hosts/a/crashes.jsonl").exists()
    # `state` was synced as 19; what came after it may be there.
    assert {"state 19 100000"} < found, found
    assert all(line.startswith(("state 19 ", "state 20 ")) for line in found), found


def test_the_same_seed_loses_the_same(run_experiment):
    assert crashed(run_experiment, "torn", "any", 5, "one") == crashed(run_experiment, "torn", "any", 5, "two")


SQLITE = r"""
import sqlite3, socket, sys
base = sqlite3.connect("/var/lib/base.db", isolation_level=None)
base.execute("pragma journal_mode = " + sys.argv[2])
base.execute("pragma synchronous = " + sys.argv[1])
base.execute("create table if not exists t (n integer primary key, text)")
print(base.execute("pragma integrity_check").fetchone()[0], "holds", base.execute("select coalesce(max(n), 0) from t").fetchone()[0], flush=True)
log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
number = base.execute("select coalesce(max(n), 0) from t").fetchone()[0]
while True:
    number += 1
    base.execute("insert into t values (?, ?)", (number, "x" * 300))
    log.sendto(b"%d" % number, ("witness", 9))
"""
# Each message takes 1 ms of network, so the witness knows what was acknowledged before the crash.
WITNESS = r"""
import socket, time
log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
log.bind(("", 9))
while True:
    number = int(log.recv(20))
    print(f"{time.time() - 946684800:.6f} {number}", flush=True)
"""


def sqlite_promises(run_experiment, synchronous, journal, seed, name):
    """The numbers of crashes after which the base was broken, of those after which committed rows were missing, and of all crashes."""
    text = experiment({
        "base": (0, [{"path": "/usr/bin/python3", "args": ["-c", SQLITE, synchronous, journal], "expected_final_state": "any", "start_time": "1 s"}]),
        "witness": (0, [{"path": "/usr/bin/python3", "args": ["-c", WITNESS], "expected_final_state": "running"}]),
    }, graph((0, 0, "1 ms")), stop="30 s")
    text["general"]["seed"] = seed
    text["hosts"]["base"]["cpu"] = {"syscall": "50 us"}
    text["events"] = [{"every": "500 ms", "between": ["1.6 s", "28 s"], "crash": "base", "files": "torn", "disk": "any", "for": "100 ms", "name": "power"}]
    done = run_experiment(text, name=name, status=None)
    promised = [tuple(map(float, line.split())) for line in done.text("witness", "python3").splitlines()]
    streams = sorted(done.streams("base", "python3"), key=lambda file: int(file.name.split(".")[1]))
    broken = missing = 0
    for turn, stream in enumerate(streams):
        start = 1 if turn == 0 else 1.6 + 0.5 * (turn - 1) + 0.1
        before = [number for at, number in promised if at < start]
        said = re.search(r"(.*) holds (\d+)", stream.read_text())
        if said is None or said[1] != "ok":
            broken += 1
            break  # it stays broken
        missing += int(said[2]) < max(before, default=0)
    return broken, missing, len(streams) - 1


@pytest.mark.needs("python3")
@pytest.mark.parametrize("synchronous, journal", [("full", "wal"), *(pytest.param(synchronous, "delete", marks=pytest.mark.slow) for synchronous in ("extra", "full"))])
def test_sqlite_keeps_its_promise_if_it_syncs(run_experiment, synchronous, journal, request):
    """FULL does not sync the folder after the journal's removal, which commits: SQLite documents that EXTRA does."""
    crashes, seeds = 0, 2 if request.config.getoption("--all") else 1
    for seed in range(1, 1 + seeds):
        broken, missing, turns = sqlite_promises(run_experiment, synchronous, journal, seed, f"full{seed}")
        assert broken == 0, (journal, seed)
        assert missing == 0 or (synchronous, journal) == ("full", "delete"), (journal, seed, missing)
        crashes += turns
    assert crashes >= 50 * seeds, crashes


@pytest.mark.needs("python3")
def test_sqlite_without_syncs_is_caught(run_experiment):
    broken, missing, _ = sqlite_promises(run_experiment, "off", "delete", 1, "off")
    assert broken + missing > 0


@pytest.mark.parametrize("forgotten", [None, "file", "folder"])
def test_the_example_tells_the_versions_apart(belljar, workdir, forgotten):
    version = f"serve --forget {forgotten}" if forgotten else "serve"
    done = execute([belljar, "run", EXAMPLES / "durable.yaml", "-o", "data", "--no-progress", "--set", f"hosts.server.processes.0.args={version}"], cwd=workdir)
    found = {one["name"]: one["holds"] for one in json.loads((workdir / "data/sim-stats.json").read_text())["properties"]}
    assert found.pop("crashes") and found["durable"] == (forgotten is None), (done, found)
    assert done.status == (0 if forgotten is None else 1), done
    lost = [one for line in (workdir / "data/hosts/server/crashes.jsonl").read_text().splitlines() for one in json.loads(line)["lost"]]
    assert lost or forgotten is None, "no crash took anything"
    if forgotten == "folder":
        assert any(one["lost"] == "replacement" and one["file"] == "/var/lib/ledger/number" for one in lost), lost


@pytest.mark.parametrize("event, message", [
    ({"disk": "any"}, "'disk' is not valid without 'files: unsynced' or 'files: torn'"),
    ({"files": "lost", "disk": "any"}, "'disk' is not valid without 'files: unsynced' or 'files: torn'"),
    ({"files": "unsynced", "disk": "ntfs"}, "'ntfs' is not a value of 'disk'"),
    ({"files": "half"}, "'half' is not a value of 'files'"),
])
def test_bad_settings_are_refused(belljar, workdir, event, message):
    text = experiment({"a": (0, [{"path": "/bin/true"}])}, graph((0, 0, "1 ms")), stop="5 s")
    text["events"] = [{"at": "1 s", "crash": "a", **event}]
    (workdir / "exp.yaml").write_text(json.dumps(text))
    done = execute([belljar, "run", "exp.yaml", "-o", "data"], cwd=workdir)
    assert done.status == 2 and message in done.err and "exp.yaml:" in done.err, done


def test_other_backends_refuse_it(belljar, workdir):
    text = experiment({"a": (0, [{"path": "/bin/true"}])}, graph((0, 0, "1 ms")), stop="5 s")
    text["events"] = [{"at": "1 s", "crash": "a", "files": "unsynced", "for": "1 s"}]
    (workdir / "exp.yaml").write_text(json.dumps(text))
    done = execute([belljar, "emulate", "exp.yaml", "-o", "data"], cwd=workdir)
    assert done.status == 2 and "which this machine's page cache keeps" in done.err, done


def test_the_guide_shows_the_example():
    text = (ROOT / "docs/guide/disks-and-crashes.md").read_text()
    assert 'serve --forget folder' in text and "examples/durable.yaml" in text
