"""Faults of disks, connections and system calls: what programs find, and what the results say of it."""

import json

import pytest
import yaml
from conftest import execute, experiment, graph

PYTHON = "/usr/bin/python3"


def alone(run_experiment, code, events, stop="20 s", name="data", seed=1, state="running"):
    """What a program on one host prints, by process, and the run."""
    text = experiment({"a": (0, [{"path": PYTHON, "args": ["-u", "-c", code], "expected_final_state": state}])}, graph((0, 0, "10 ms")), stop=stop)
    text["general"]["seed"] = seed
    done = run_experiment({**text, "events": events}, name=name)
    return [stream.read_text().splitlines() for stream in done.streams("a", "python3")], done


def effects(done, host="a"):
    return json.loads((done.path / "sim-stats.json").read_text())["hosts"][host].get("faults", {})


SYNCS = r"""
import mmap, os, time
file = os.open("file", os.O_RDWR | os.O_CREAT)
direct = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
os.write(file, b"x" * 4096)
memory = mmap.mmap(file, 4096)
shm = os.open("/dev/shm/file", os.O_RDWR | os.O_CREAT)
for second in range(4):
    time.sleep(second + 0.5 - (time.time() - 946684800))
    for name, sync in (("fsync", lambda: os.fsync(file)), ("fdatasync", lambda: os.fdatasync(file)), ("sync", os.sync), ("msync", memory.flush),
                       ("write", lambda: os.write(direct, b"12345")), ("shm", lambda: os.fsync(shm))):
        start = (time.time() - 946684800)
        got = sync()
        print(second, name, round(((time.time() - 946684800) - start) * 1000), got)
time.sleep(1000)
"""


def test_slow_syncs(run_experiment):
    [lines], done = alone(run_experiment, SYNCS, [{"at": "2 s", "disk_fault": "a", "sync_time": "50 ms", "for": "1 s"}])
    slow = {tuple(line.split()[:2]) for line in lines if line.split()[2] == "50"}
    assert slow == {("2", name) for name in ("fsync", "fdatasync", "sync", "msync", "write")}, lines
    assert all(line.split()[2] in ("0", "50") for line in lines) and [line for line in lines if " write " in line][2].endswith(" 5")
    assert effects(done) == {"slow_syncs": 5}
    ranged = [{"at": "2 s", "disk_fault": "a", "sync_time": ["20 ms", "200 ms"], "path": "*/file"}]
    [lines], _ = alone(run_experiment, SYNCS, ranged, name="drawn")
    slow = {line.split()[1]: int(line.split()[2]) for line in lines if line.startswith("3 ")}
    assert all(20 <= slow[name] <= 200 for name in ("fsync", "fdatasync", "sync", "msync")) and slow["write"] == 0 and slow["fsync"] != slow["fdatasync"], lines


GATE = r"""
import os, time
if os.path.exists("file"):
    print("found", open("file").read(3), os.path.getsize("file"))
    time.sleep(1000)
file = os.open("file", os.O_RDWR | os.O_CREAT)
other = os.open("file", os.O_RDWR)
folder = os.open(".", os.O_RDONLY)
os.write(file, b"old")
os.fsync(file), os.fsync(folder)
time.sleep(2)
def sync(file):
    try:
        os.fsync(file)
        return "done"
    except OSError as error:
        return os.strerror(error.errno)
os.pwrite(file, b"new", 0)
print(sync(file), sync(file), sync(other), sync(other), os.pread(file, 3, 0).decode())
if AGAIN:
    os.pwrite(file, b"new", 0)
    print(sync(file))
time.sleep(1000)
"""


@pytest.mark.parametrize("disk", ["ordered", "any"])
@pytest.mark.parametrize("again", [False, True])
def test_a_failed_sync_counts_as_written_and_is_not(run_experiment, disk, again):
    crash = {"at": "10 s", "crash": "a", "files": "unsynced", "disk": disk, "for": "1 s"}
    for seed in range(3):
        code = GATE.replace("AGAIN", str(again))
        (first, second), done = alone(run_experiment, code, [{"at": "1 s", "disk_fault": "a", "sync_errors": 1}, crash], seed=seed, name=f"run{seed}")
        assert first[0] == "Input/output error done Input/output error done new"
        assert second == [f"found {'new' if again else 'old'} 3"]
        assert effects(done) == {"failed_syncs": 1}


FULL = r"""
import os, time
def attempt(name, what):
    try:
        got = what()
        print(name, "done" if name != "append" else got)
    except OSError as error:
        print(name, error.strerror)
open("file", "w").write("x" * 5000)
os.mkdir("folder")
for second in (1, 3, 5):
    time.sleep(second - (time.time() - 946684800))
    attempt("append", lambda: os.write(os.open("file", os.O_WRONLY | os.O_APPEND), b"y" * 4096))
    attempt("append again", lambda: os.write(os.open("file", os.O_WRONLY | os.O_APPEND), b"y" * 4096) and None)
    attempt("overwrite", lambda: os.write(os.open("file", os.O_WRONLY), b"y" * 5000))
    attempt("allocate", lambda: os.posix_fallocate(os.open("file", os.O_WRONLY), 0, 1 << 20))
    attempt("create", lambda: open(f"new{second}", "w"))
    attempt("mkdir", lambda: os.mkdir(f"folder{second}"))
    attempt("rename", lambda: os.rename("folder" if second == 1 else f"was{second - 2}", f"was{second}"))
    attempt("memory", lambda: open(f"/dev/shm/new{second}", "w").write("x"))
    os.truncate("file", 5000)
time.sleep(1000)
"""


def test_full_disks(run_experiment):
    events = [{"at": "2 s", "disk_fault": "a", "full": True}, {"at": "4 s", "disk_heal": "a"}]
    [lines], done = alone(run_experiment, FULL, events)
    failing = {line.removesuffix(" No space left on device") for line in lines if line.endswith("No space left on device")}
    assert failing == {"append again", "allocate", "create", "mkdir"}, lines
    # There is room up to the end of the last block.
    assert [line for line in lines if line.startswith("append") and "again" not in line] == ["append 4096", "append 3192", "append 4096"], lines
    assert len(lines) == 24 and all(line.endswith("done") for line in lines[1:8] + lines[17:]), lines
    assert effects(done)["no_room"] == 4
    # The output of a program that starts has room.
    restart = [*events[:1], {"at": "3 s", "crash": "a", "for": "1 s"}, {"at": "6 s", "disk_heal": "a"}]
    (_, second), _ = alone(run_experiment, "import os, time; print(os.getpid()); time.sleep(1000)", restart, name="restart")
    assert second == ["1001"]


READS = r"""
import os, time
open("own", "wb").write(bytes(1000))
open("spared", "wb").write(bytes(1000))
file, spared, machine = os.open("own", os.O_RDONLY), os.open("spared", os.O_RDONLY), os.open("/etc/passwd", os.O_RDONLY)
for second in range(1, 5):
    time.sleep(second - (time.time() - 946684800))
    for name, one in (("own", file), ("spared", spared), ("machine", machine)):
        try:
            print(second, name, sum(byte.bit_count() for byte in os.pread(one, 500, 0)) if name != "machine" else len(os.pread(one, 10, 0)))
        except OSError as error:
            print(second, name, error.strerror)
time.sleep(1000)
"""


def test_reads_fail_and_find_wrong_bits(run_experiment):
    fault = {"at": "1.5 s", "disk_fault": "a", "read_errors": 1, "for": "1 s"}
    [lines], done = alone(run_experiment, READS, [fault])
    assert [line for line in lines if "error" in line] == ["2 own Input/output error", "2 spared Input/output error"], lines
    assert effects(done) == {"failed_reads": 2}
    rot = {"at": "1.5 s", "disk_fault": "a", "bit_rot": 1, "path": "*/own", "for": "2 s"}
    [lines], done = alone(run_experiment, READS, [rot], name="rot")
    assert [line.split()[2] for line in lines if " own " in line] == ["0", "1", "2", "2"], lines
    assert {line.split()[2] for line in lines if " spared " in line} == {"0"} and effects(done) == {"rotten_bits": 2}
    machine = {"at": "1.5 s", "disk_fault": "a", "read_errors": 1, "path": "/etc/passwd"}
    [lines], _ = alone(run_experiment, READS, [machine], name="machine")
    assert [line for line in lines if "error" in line] == [f"{second} machine Input/output error" for second in (2, 3, 4)], lines


SERVER = r"""
import socket, time
listener = socket.create_server(("", 5000))
peer = listener.accept()[0]
try:
    print(round((time.time() - 946684800), 1), peer.recv(10))
    while peer.send(b"x"):
        time.sleep(1)
except OSError as error:
    print(round((time.time() - 946684800), 1), error.strerror)
time.sleep(1000)
"""
CLIENT = r"""
import socket, time
peer = socket.create_connection(("b", 5000))
try:
    LATE or print(round((time.time() - 946684800), 1), peer.recv(10))
except OSError as error:
    print(round((time.time() - 946684800), 1), error.strerror)
if LATE:
    time.sleep(7 - (time.time() - 946684800))
    try:
        for _ in range(3):
            peer.send(b"late")
            time.sleep(0.5)
    except OSError as error:
        print(round((time.time() - 946684800), 1), error.strerror)
time.sleep(1000)
"""


def resets(run_experiment, event, late=False, name="data"):
    text = experiment({
        "a": (0, [{"path": PYTHON, "args": ["-u", "-c", CLIENT.replace("LATE", str(late))], "start_time": "1 s", "expected_final_state": "running"}]),
        "b": (1, [{"path": PYTHON, "args": ["-u", "-c", SERVER], "expected_final_state": "running"}]),
        "c": (1, [{"path": PYTHON, "args": ["-c", "import time; time.sleep(1000)"], "expected_final_state": "running"}])}, graph((0, 1, "10 ms")), stop="20 s")
    done = run_experiment({**text, "events": [event]}, name=name)
    return {host: done.text(host, "python3").splitlines() for host in "ab"}, {host: effects(done, host) for host in "abc"}


def test_connections_are_reset(run_experiment):
    reset = "Connection reset by peer"
    said, counted = resets(run_experiment, {"at": "5 s", "connection_reset": ["a", "b"]})
    assert said == {"a": [f"5.0 {reset}"], "b": [f"5.0 {reset}"]}
    assert counted == {"a": {"connection_resets": 1}, "b": {"connection_resets": 1}, "c": {}}
    said, counted = resets(run_experiment, {"at": "5 s", "connection_reset": ["a", "all"], "ends": "first"}, name="first")
    assert said == {"a": [f"5.0 {reset}"], "b": []} and counted["a"] == {"connection_resets": 1}, said
    # The other end is half open until it hears a reset.
    said, _ = resets(run_experiment, {"at": "5 s", "connection_reset": [["a", "c"], "b"], "ends": "second"}, late=True, name="second")
    assert said["b"] == [f"5.0 {reset}"] and said["a"] == [f"7.5 {reset}"], said
    said, counted = resets(run_experiment, {"at": "5 s", "connection_reset": ["a", "c"]}, name="none")
    assert said == {"a": [], "b": []} and counted == {"a": {}, "b": {}, "c": {}}


CALLS = r"""
import ctypes, errno, os, select, signal, socket, time
libc = ctypes.CDLL(None, use_errno=True)
libc.read.argtypes = libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
def call(what):
    got = what()
    return errno.errorcode[ctypes.get_errno()] if got < 0 else got
buffer = ctypes.create_string_buffer(100_000)
signal.signal(signal.SIGHUP, lambda *_: None)
signal.siginterrupt(signal.SIGHUP, RESTARTS)
source, sink = os.pipe()
one, other = socket.socketpair()
other.setblocking(False)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 4000))
udp.setblocking(False)
udp.sendto(b"datagram", ("127.0.0.1", 4000))
watch = select.epoll()
watch.register(one, select.EPOLLIN | select.EPOLLET)
os.write(sink, b"x" * 1000)
time.sleep(3 - (time.time() - 946684800))
for number in range(ROUNDS):
    print("pipe", call(lambda: libc.read(source, buffer, 1000)))
    print("stream", call(lambda: libc.write(other.fileno(), buffer, 1000)))
    print("ready", len(watch.poll(0)))
    print("read", call(lambda: libc.read(one.fileno(), buffer, 1000)))
    print("ready again", len(watch.poll(0)))
    print("datagram", call(lambda: libc.recv(udp.fileno(), buffer, 1000, socket.MSG_PEEK)))
    print("file", call(lambda: libc.open(b"/etc/passwd", 0)))
    print("wait", call(lambda: libc.poll(None, 0, 10)))
    os.write(sink, b"y" * 10)
time.sleep(1000)
"""


def calls(run_experiment, events, rounds=1, restarts=False, name="data", seed=1):
    code = CALLS.replace("ROUNDS", str(rounds)).replace("RESTARTS", str(not restarts))
    [lines], done = alone(run_experiment, code, events, name=name, seed=seed)
    record = done.path / "hosts/a/call_faults.jsonl"
    return lines, [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def test_results_of_calls(run_experiment):
    plain = ["pipe 1000", "stream 1000", "ready 1", "read 1000", "ready again 0", "datagram 8", "file 8", "wait 0"]
    lines, record = calls(run_experiment, [])
    assert lines[:6] + lines[7:] == plain[:6] + plain[7:] and record == []
    whole = [line.split()[-1] for line in lines]
    for result, changed in (("short", {0, 1, 3, 4}), ("EINTR", {7}), ("EAGAIN", {1, 2, 3, 5}), ("EMFILE", {6}), ("ENFILE", {6}), ("ENOMEM", set()), ("ECONNRESET", set())):
        lines, record = calls(run_experiment, [{"at": "2.5 s", "call_faults": "a", "results": result, "share": 1, "for": "1 s"}], name=result)
        if result == "EAGAIN":
            # Without a write there is nothing to read: the program stays there.
            assert lines == ["pipe 1000", "stream EAGAIN", "ready 0"] and {one["call"] for one in record} == {"write"}, lines
            continue
        got = [line.split()[-1] for line in lines]
        assert {n for n, (one, other) in enumerate(zip(got, whole, strict=True)) if one != other} == changed, (result, lines)
        if result == "short":
            assert 0 < int(got[0]) < 1000 and 0 < int(got[1]) < 1000 and 0 < int(got[3]) < int(got[1]) and got[4] == "1", lines
        elif changed:
            assert [got[n] for n in changed] == [result] and all(one["result"] == result and one["since"] == 2.5 for one in record), (lines, record)


def test_waits_are_interrupted_as_handlers_would(run_experiment):
    code = r"""
import ctypes, errno, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGINT, signal.SIG_DFL)
if HANDLER:
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.siginterrupt(signal.SIGHUP, not RESTARTS)
source, sink = os.pipe()
def end(*_):
    os.write(sink, b"x")
import threading
threading.Timer(4, end).start()
time.sleep(1)
got = libc.read(source, ctypes.create_string_buffer(9), 9)
print("read", got, errno.errorcode.get(ctypes.get_errno()) if got < 0 else "")
got = libc.poll(None, 0, 10)
print("poll", got, errno.errorcode.get(ctypes.get_errno()) if got < 0 else "")
time.sleep(1000)
"""
    # It ends before the last wait, which Python would repeat at each EINTR.
    event = {"at": "0.5 s", "for": "3.9 s", "call_faults": "a", "results": "EINTR", "share": 1}
    for handler, restarts, expected in ((False, False, ["read 1 ", "poll 0 "]), (True, True, ["read 1 ", "poll -1 EINTR"]), (True, False, ["read -1 EINTR", "poll -1 EINTR"])):
        [lines], _ = alone(run_experiment, code.replace("HANDLER", str(handler)).replace("RESTARTS", str(restarts)), [event], name=f"{handler}-{restarts}")
        assert lines == expected, (handler, restarts, lines)


def test_drawn_results_are_repeated_one_by_one(run_experiment):
    drawn = {"at": "2.5 s", "call_faults": "a", "results": ["short", "EINTR", "EMFILE"], "share": 0.2, "for": "10 s"}
    lines, record = calls(run_experiment, [drawn], rounds=20)
    assert 10 < len(record) < 60 and {one["result"] for one in record} == {"short", "EINTR", "EMFILE"}, record
    one_by_one = [{"at": "2.5 s", "call_faults": "a", "results": one["result"], "for": "10 s", **{key: one[key] for key in ("pid", "call", "number")}} for one in record]
    assert calls(run_experiment, one_by_one, rounds=20, name="forced") == (lines, record)
    assert calls(run_experiment, [drawn], rounds=20, name="other", seed=2)[1] != record


BROKEN = r"""
import os, select, socket, sys, time
listener = socket.create_server(("127.0.0.1", 5000))
peers = [socket.create_connection(("127.0.0.1", 5000)) for _ in range(2)]
ends = [listener.accept()[0] for _ in range(2)]
time.sleep(2)
for peer, end in zip(peers, ends):
    for number in range(2):
        try:
            print("sent", peer.send(b"x"))
        except OSError as error:
            print(error.strerror)
    ready = select.select([end], [], [], 1)[0]
    try:
        print("peer", end.recv(9) if ready else "waits")
    except OSError as error:
        print("peer", error.strerror)
time.sleep(1000)
"""


def test_connections_break_at_calls(run_experiment):
    for result, said in (("ECONNRESET", "Connection reset by peer"), ("ETIMEDOUT", "Connection timed out")):
        one = {"at": "1 s", "call_faults": "a", "results": result, "pid": 1000, "call": "sendto", "number": 1}
        [lines], done = alone(run_experiment, BROKEN, [one], name=result)
        # The peer is not told, and the other connection stays.
        assert lines == [said, "Broken pipe", "peer waits", "sent 1", "sent 1", "peer b'xx'"], lines
        assert effects(done) == {f"calls_{result}": 1}


def test_emulation_refuses(belljar, workdir):
    for key, event in (("disk_fault", {"disk_fault": "a", "full": True}), ("connection_reset", {"connection_reset": ["a", "a"]}),
                       ("call_faults", {"call_faults": "a", "results": "short", "share": 1})):
        text = experiment({"a": (0, [{"path": PYTHON, "args": ["-c", ""]}])}, graph((0, 0, "10 ms")), stop="3 s")
        file = workdir / f"{key}.yaml"
        file.write_text(yaml.safe_dump({**text, "events": [{"at": "1 s", **event}]}))
        done = execute([belljar, "emulate", file, "-o", workdir / "refused", "--no-progress"])
        assert done.status == 2 and f"{key}:" in done.err and "or run a simulation" in done.err, done


PARENT = r"""
import os, pathlib, signal, sys, time
def clock():
    return round(time.time() - 946684800, 1)
if os.path.exists("started"):
    print(clock(), "again", flush=True)
    time.sleep(1000)
open("started", "w")
while True:
    child = os.fork()
    if child == 0:
        pathlib.Path("/proc/self/comm").write_text("worker one")
        time.sleep(1000)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(clock(), "worker", status, flush=True)
"""


def test_kills_by_name_reach_children_and_those_of_the_list_start_again(run_experiment):
    events = [{"at": "2 s", "kill": "worker*", "hosts": "a"}, {"at": "4 s", "kill": "python3*", "hosts": "a", "for": "3 s"}, {"at": "5 s", "kill": 0, "hosts": "a"}]
    said, done = alone(run_experiment, PARENT, events)
    assert said == [["2.0 worker -9"], ["7.0 again"]] and effects(done) == {"processes_killed": 3}, said
    assert "event 'kill' that found no process '0'" in done.out + done.err + (done.path / "sim-stats.json").read_text()
    for placement in ("near", "far"):
        said, _ = alone(run_experiment, PARENT, events[:2], name=placement)
        assert said == [["2.0 worker -9"], ["7.0 again"]], said


def test_a_killed_process_has_ended_as_expected_and_stays_away(run_experiment):
    said, done = alone(run_experiment, PARENT, [{"at": "3 s", "kill": 0, "hosts": "a"}])
    [process] = json.loads((done.path / "sim-stats.json").read_text())["hosts"]["a"]["processes"]
    assert said == [[]] and process["state"] == "signaled SIGKILL" and process["as_expected"], process


EATER = r"""
import ctypes, mmap, os, sys, time
def clock():
    return round(time.time() - 946684800, 1)
def shown(name):
    return int(next(line for line in open("/proc/meminfo") if line.startswith(name)).split()[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
print("total", shown("MemTotal"), os.sysconf("SC_PHYS_PAGES") * 4, open("/proc/sys/vm/overcommit_memory").read().strip(), flush=True)
failed = libc.mmap(None, ctypes.c_size_t(80 << 20), 3, 0x22, -1, ctypes.c_size_t(0))
print("80 MiB", "refused" if failed == 2**64 - 1 else "given", ctypes.get_errno(), flush=True)
free = shown("MemFree")
if os.fork() == 0:
    open("/proc/self/oom_score_adj", "w").write(sys.argv[1])
    own = []
    for n in range(100):
        own.append(bytes([n + 1]) * (1 << 20))
        print("child", n + 1, flush=True)
        if n == 19:
            print("less by", round((free - shown("MemFree")) / 1024), flush=True)
    os._exit(0)
print("child", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
buffer = ctypes.create_string_buffer(4000)
length = libc.syscall(103, 3, buffer, 4000)
print("".join(line.partition("] ")[2] + "\n" for line in buffer.raw[:length].decode().splitlines()), end="", flush=True)
"""


def eaten(run_experiment, score, memory="64 MiB", name="eaten"):
    host = {"network_node_id": 0, "processes": [{"path": PYTHON, "args": ["-u", "-c", EATER, score], "expected_final_state": "any"}], "memory": memory}
    text = experiment({"a": (0, [])}, graph((0, 0, "10 ms")), stop="20 s")
    done = run_experiment({**text, "hosts": {"a": host}}, name=name)
    return done.text("a", "python3").splitlines(), done


def test_the_process_with_the_most_memory_is_killed_and_the_kernel_says_so(run_experiment):
    lines, done = eaten(run_experiment, "0")
    assert lines[:2] == ["total 65536 65536 0", "80 MiB refused 12"], lines
    # What the child shares with its parent counts once.
    assert any(19 <= int(line.split()[2]) <= 22 for line in lines if line.startswith("less by")), lines
    last = max(int(line.split()[1]) for line in lines if line.startswith("child "))
    assert 40 <= last < 64 and "child -9" in lines, lines
    invoked, killed = lines[-2:]
    assert invoked == "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0"
    assert killed.startswith("Out of memory: Killed process 1001 (python3) total-vm:") and killed.endswith("oom_score_adj:0"), killed
    assert effects(done) == {"out_of_memory_kills": 1}
    assert "process 'python3' killed: out of memory, the limit being 67108864 bytes" in done.out + done.err + (done.path / "sim-stats.json").read_text()


def test_oom_score_adj_moves_the_choice(run_experiment):
    # The child may not be killed: its parent, which has less, is.
    lines, done = eaten(run_experiment, "-1000")
    assert not any(line.startswith("child -") for line in lines), lines
    [process] = json.loads((done.path / "sim-stats.json").read_text())["hosts"]["a"]["processes"]
    assert process["state"] == "signaled SIGKILL", process


def test_a_host_without_a_limit_shows_what_it_ever_did(run_experiment):
    lines, done = eaten(run_experiment, "0", memory="4 GiB", name="large")
    assert lines[:2] == ["total 4194304 4194304 0", "80 MiB given 0"] and "child 0" in lines, lines
    [lines], done = alone(run_experiment, EATER.replace("sys.argv[1]", "'0'"), [], state="any", name="none")
    assert lines[:2] == ["total 4194304 4194304 1", "80 MiB given 0"] and "child 0" in lines and effects(done) == {}, lines


GROWS = r"""
import time
def clock():
    return round(time.time() - 946684800, 1)
print(clock(), "starts", flush=True)
own = [bytes([n + 1]) * (1 << 20) for n in range(30)]
while True:
    time.sleep(0.5)
    own.append(b"x" * (1 << 20))
"""


@pytest.mark.parametrize("placement", ["near", "far"])
def test_a_limit_for_a_time_kills_and_revives(run_experiment, placement):
    event = {"at": "5 s", "memory": "a", "limit": "48 MiB", "for": "10 s"}
    host = {"network_node_id": 0, "processes": [{"path": PYTHON, "args": ["-u", "-c", GROWS], "expected_final_state": "running", "placement": placement}]}
    text = experiment({"a": (0, [])}, graph((0, 0, "10 ms")), stop="20 s")
    done = run_experiment({**text, "hosts": {"a": host}, "events": [event]}, name=placement)
    assert [stream.read_text().split() for stream in done.streams("a", "python3")] == [["0.0", "starts"], ["15.0", "starts"]]
    stats = json.loads((done.path / "sim-stats.json").read_text())["hosts"]["a"]
    assert stats["faults"] == {"out_of_memory_kills": 1}


def test_strict_accounting_refuses_early(run_experiment):
    code = """
import mmap
open("/proc/sys/vm/overcommit_memory", "w").write("2")
for mebibytes in (200, 20):
    try:
        mmap.mmap(-1, mebibytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        print(mebibytes, "given")
    except OSError as error:
        print(mebibytes, error.strerror)
"""
    host = {"network_node_id": 0, "memory": "256 MiB", "processes": [{"path": PYTHON, "args": ["-u", "-c", code]}]}
    text = experiment({"a": (0, [])}, graph((0, 0, "10 ms")), stop="20 s")
    done = run_experiment({**text, "hosts": {"a": host}})
    assert done.text("a", "python3").splitlines() == ["200 Cannot allocate memory", "20 given"]


LOOKS_UP = r"""
import socket, time
for second in range(8):
    time.sleep(max(0, second + 0.5 - (time.time() - 946684800)))
    said = []
    for name in ("a", "b", "www.example.org"):
        start = time.time()
        try:
            said.append(socket.getaddrinfo(name, 1, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        except socket.gaierror as error:
            said.append(f"{error.strerror} {time.time() - start:.0f}")
    print(second, *said, sep="; ", flush=True)
    if second == 6:
        time.sleep(40)
"""


def test_lookups_of_names_fail_as_the_event_says(run_experiment):
    events = [
        {"at": "1 s", "dns_answers": "all", "answer": "NXDOMAIN", "for": "1 s"},
        {"at": "2 s", "dns_answers": "a", "names": ["*.example.org"], "answer": "SERVFAIL", "for": "1 s"},
        {"at": "3 s", "dns_answers": "a", "names": "b", "answer": "192.0.2.9", "for": "1 s"},
        {"at": "4 s", "dns_answers": "b", "answer": "REFUSED", "for": "1 s"},
        {"at": "5 s", "dns_answers": "a", "names": "B", "answer": ["2001:db8::1"], "for": "1 s"},
        {"at": "6 s", "dns_answers": "a", "names": "www.*", "answer": "timeout", "for": "40 s"},
    ]
    program = [{"path": PYTHON, "args": ["-u", "-c", LOOKS_UP]}]
    text = experiment({"a": (0, program), "b": (0, [])}, graph((0, 0, "10 ms")), stop="60 s")
    text["belljar"] = {"dns": {"records": ["www.example.org. A 192.0.2.7"]}}
    done = run_experiment({**text, "events": events})
    none, failure = "Name or service not known 0", "Temporary failure in name resolution"
    plain = "11.0.0.1; 11.0.0.2; 192.0.2.7"
    lines = done.text("a", "python3").splitlines()
    assert lines[:6] == [
        f"0; {plain}", f"1; 11.0.0.1; {none}; {none}", f"2; 11.0.0.1; 11.0.0.2; {failure} 0", "3; 11.0.0.1; 192.0.2.9; 192.0.2.7", f"4; {plain}",
        "5; 11.0.0.1; No address associated with hostname 0; 192.0.2.7",
    ], lines
    # Two attempts of five seconds each.
    assert lines[6] == f"6; 11.0.0.1; 11.0.0.2; {failure} 10" and lines[7] == f"7; {plain}", lines


VERSION = r"""
import pathlib, signal, sys, time
def clock():
    return round(time.time() - 946684800, 1)
def end(*_):
    print(clock(), "ends", flush=True)
    sys.exit(0)
if sys.argv[1] != "stubborn":
    signal.signal(signal.SIGTERM, end)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
seen = pathlib.Path("versions")
print(clock(), "starts after", seen.read_text().split() if seen.exists() else [], flush=True)
with seen.open("a") as file:
    file.write(sys.argv[1] + "\n")
time.sleep(1000)
"""


def versions(run_experiment, events, old="old", **options):
    def version(name, **more):
        return {"path": PYTHON, "args": ["-u", "-c", VERSION, name], "expected_final_state": "running", **more}

    text = experiment({"a": (0, [version(old), version("new", start_time="never")])}, graph((0, 0, "10 ms")), stop="40 s")
    done = run_experiment({**text, "events": events}, **options)
    return [stream.read_text().splitlines() for stream in done.streams("a", "python3")]


@pytest.mark.parametrize("placement", ["near", "far"])
def test_upgrades_keep_files_and_last_through_crashes(run_experiment, placement):
    events = [{"at": "5 s", "upgrade": 0, "hosts": "a", "to": 1}, {"at": "10 s", "crash": "a", "for": "2 s"}]
    said = versions(run_experiment, events, name=placement)
    assert said == [["0.0 starts after []", "5.0 ends"], ["5.0 starts after ['old']"], ["12.0 starts after ['old', 'new']"]], said


def test_an_upgrade_is_undone_and_kills_what_does_not_end(run_experiment):
    said = versions(run_experiment, [{"at": "5 s", "upgrade": 0, "hosts": "a", "to": 1, "grace": "3 s", "for": "10 s"}], old="stubborn")
    assert said == [["0.0 starts after []"], ["8.0 starts after ['stubborn']", "15.0 ends"], ["15.0 starts after ['stubborn', 'new']"]], said
    # While the host is down, the restart takes the other program.
    down = [{"at": "5 s", "crash": "a", "for": "2 s"}, {"at": "6 s", "upgrade": 0, "hosts": "a", "to": 1}]
    said = versions(run_experiment, down, name="down")
    assert said == [["0.0 starts after []"], ["7.0 starts after ['old']"]], said
