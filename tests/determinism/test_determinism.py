"""The same experiment and seed give the same bytes; another seed gives others."""

import os
import shutil
import subprocess

import pytest
from conftest import EXAMPLES, experiment, graph

LOSSY = graph((0, 1, "20 ms", 0.02), (1, 2, "35 ms", 0.01), bandwidth="20 Mbit")

RANDOM = r"""
import ctypes, os, random, socket, threading, time, uuid, tempfile
print(os.urandom(16).hex(), random.random(), uuid.uuid4(), os.getpid(), hash("text"), id(object()))
print(time.time(), time.monotonic(), socket.gethostname(), os.stat("/etc/passwd").st_ino)
print(sorted(os.environ.items()), os.listdir("/etc")[:20])
with tempfile.NamedTemporaryFile(dir=".") as f: print(f.name)
s = socket.socket(); s.bind(("", 0)); print(s.getsockname())
add_key = 248
print([ctypes.CDLL(None).syscall(add_key, b"user", bytes([65 + n]), b"secret", 6, -2) for n in range(5)], open("/proc/keys").read())
lines = []
def work(n):
    for i in range(20): lines.append((n, i)); time.sleep(random.random() / 100)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(lines)
print(open("/proc/self/maps").read())
"""

EXPERIMENTS = {
    "first": EXAMPLES / "first.yaml",
    "udp-and-threads": EXAMPLES / "echo.yaml",
    "random": experiment({"a": (0, [("/usr/bin/python3", "-c", RANDOM)])}),
    "lossy": experiment(
        {
            "server": (0, [{"path": "/usr/bin/python3", "args": "-u -m http.server 80 --directory /usr",
                            "expected_final_state": "running"}]),
            **{f"client{i}": (1 + i % 2, [{"path": "/usr/bin/curl", "start_time": "2 s",
                                           "args": "-sS -v -o out http://server/lib/x86_64-linux-gnu/libc.so.6"}])
               for i in range(4)},
        },
        LOSSY,
        stop="200 s",
    ),
}
SEED_SHOWS = {"random", "lossy"}  # what the seed draws can be seen in the results


def contents(results):
    """Every file a guest or a capture has written, by name; the results make room for another run in the same place,
    since a guest sees the path of the folder that it runs in."""
    found = {}
    for file in sorted((results.path / "hosts").rglob("*")):
        if file.is_file() and not file.is_symlink():
            found[str(file.relative_to(results.path))] = file.read_bytes()
    shutil.rmtree(results.path)
    return found


@pytest.mark.parametrize("case", EXPERIMENTS)
def test_same_seed_same_bytes(run_experiment, programs, case):
    runs = [contents(run_experiment(EXPERIMENTS[case], seed=7, pcap=True, name="same")) for _ in range(2)]
    assert list(runs[0]) == list(runs[1])
    assert any(name.endswith((".stdout", ".stderr")) and len(b) > 80 for name, b in runs[0].items())
    assert case == "random" or any(name.endswith(".pcap") and len(b) > 1000 for name, b in runs[0].items())
    differing = [name for name in runs[0] if runs[0][name] != runs[1][name]]
    assert not differing, differing


@pytest.mark.parametrize("case", sorted(SEED_SHOWS))
def test_another_seed_differs(run_experiment, case):
    one, other = (contents(run_experiment(EXPERIMENTS[case], seed=s, pcap=True, name="seed")) for s in (1, 2))
    assert any(one[name] != other.get(name) for name in one if name.endswith((".pcap", ".stdout")))


def test_adding_a_host_leaves_the_draws_of_others(run_experiment):
    draw = ("/usr/bin/od", "-An", "-tx1", "-N32", "/dev/urandom")
    alone = run_experiment(experiment({"m": (0, [draw])}))
    among = run_experiment(experiment({"a": (0, [draw]), "m": (0, [draw]), "z": (0, [draw])}))
    assert alone.stdout("m") == among.stdout("m")
    assert among.stdout("a") != among.stdout("m") != among.stdout("z")


def test_the_outside_does_not_show(belljar, workdir, monkeypatch):
    """Neither the caller's environment nor the moment of the run reach a guest."""
    said = []
    for value in ("one", "two"):
        monkeypatch.setenv("OUTSIDE", value)
        monkeypatch.setenv("LD_LIBRARY_PATH", f"/nonexistent/{value}")
        command = [belljar, "exec", "--", "/bin/sh", "-c", "echo $OUTSIDE $LD_LIBRARY_PATH; exec /usr/bin/env"]
        said.append(subprocess.run(command, capture_output=True, cwd=workdir, check=True).stdout)
    assert said[0] == said[1] and b"one" not in said[0]
    dates = {subprocess.run([belljar, "exec", "--", "/bin/date", "+%s.%N"], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(dates) == 1 and 946684800 <= float(dates.pop()) < 946684802


BURST = r"""
import socket, threading, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def send(n):
    for i in range(300):
        out.sendto(b"%d %d" % (n, i) + bytes(1000), ("sink", 7))
        if i % 100 == 99: time.sleep(0.001)
threads = [threading.Thread(target=send, args=(n,)) for n in range(2)]
for t in threads: t.start()
for t in threads: t.join()
print(time.time())
"""
SINK = r"""
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7)); s.settimeout(3)
try:
    while True: print(s.recv(2000).rstrip(b"\0"), time.time())
except TimeoutError: pass
"""


def test_what_is_captured_does_not_show(run_experiment):
    """Captured or not, a host does the same at the same time, also where hundreds of KiB leave it at once."""
    hosts = {"source": (0, [{"path": "/usr/bin/python3", "args": ["-c", BURST], "start_time": "1 s"}]),
             "sink": (1, [("/usr/bin/python3", "-u", "-c", SINK)])}
    two = experiment(hosts, graph((0, 1, "50 ms")), stop="10 s")
    seen = []
    for pcap in (True, False):
        done = run_experiment(two, pcap=pcap, args=["--strace"], name="same")
        if pcap:
            sizes = {host: done.pcap(host).stat().st_size for host in ("source", "sink")}
        seen.append({name: data for name, data in contents(done).items() if not name.endswith(".pcap")})
    assert sizes["source"] > 600 * 1000, sizes
    assert sizes["sink"] > 200 * 1000, sizes
    assert sum(name.endswith(".strace") for name in seen[0]) == 2
    assert seen[0]["hosts/sink/python3.1000.stdout"].count(b"\n") > 200
    assert seen[0] == seen[1]


def test_whoever_writes_it_is_the_same(run_experiment):
    """Where a processor is left, a thread of its own writes captures and logs; without one, each worker does."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("with one processor there is none for a thread that writes")
    hosts = {"source": (0, [{"path": "/usr/bin/python3", "args": ["-c", BURST], "start_time": "1 s"}]),
             "sink": (1, [("/usr/bin/python3", "-u", "-c", SINK)])}
    two = experiment(hosts, graph((0, 1, "50 ms")), stop="10 s")
    seen = []
    try:
        for cpus in ({min(allowed)}, allowed):
            os.sched_setaffinity(0, cpus)
            seen.append(contents(run_experiment(two, pcap=True, args=["--strace", "--parallelism", "1"], name="same")))
    finally:
        os.sched_setaffinity(0, allowed)
    assert sum(len(data) for name, data in seen[0].items() if name.endswith((".pcap", ".strace"))) > 1_000_000
    assert seen[0].keys() == seen[1].keys() and not [name for name in seen[0] if seen[0][name] != seen[1][name]]


def test_pcap_is_read_by_tshark(run_experiment):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    done = run_experiment(EXAMPLES / "first.yaml", pcap=True)
    for host in ("server", "berlin", "boston", "tokyo"):
        said = subprocess.run(
            ["tshark", "-r", done.pcap(host), "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
             "-T", "fields", "-e", "frame.time_epoch", "-e", "ip.src", "-e", "tcp.checksum.status", "-e", "ip.checksum.status",
             "-e", "http.response.code", "-e", "_ws.malformed"],
            capture_output=True, text=True, check=True,
        )
        rows = [line.split("\t") for line in said.stdout.splitlines()]
        assert len(rows) > 10 and all(row[2] in ("1", "Good") and row[3] in ("1", "Good") for row in rows), rows[:5]
        assert any(row[4] == "200" for row in rows) and not any(row[5] for row in rows)
        times = [float(row[0]) for row in rows]
        assert times == sorted(times) and 946684800 <= times[0] < 946684900
