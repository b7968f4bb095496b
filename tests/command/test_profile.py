"""`belljar run --profile`: what the real time of a run went to."""

import json

import yaml
from conftest import contents_of, execute, experiment, graph, measured, timely

SPINS = "import hashlib\nfor n in range(60000): hashlib.sha256(b'x' * 3000).digest()"
THREADS = """
import os, threading
there, back = os.pipe(), os.pipe()
def answer():
    while byte := os.read(there[0], 1):
        os.write(back[1], byte)
thread = threading.Thread(target=answer)
thread.start()
for _ in range(3000):
    os.write(there[1], b"x")
    os.read(back[0], 1)
os.close(there[1])
thread.join()
"""
CALLS = "import os\nfor n in range(3000): os.urandom(20000)"


def busy():
    hosts = {
        "computes": (0, [("/usr/bin/python3", "-c", SPINS)]),
        "calls": (1, [("/usr/bin/python3", "-c", CALLS), ("/bin/sh", "-c", "for n in 1 2 3 4 5 6 7 8; do /bin/true; done")]),
        "web": (0, [{"model": {"type": "http_server"}}]),
        "user": (1, [{"model": {"type": "http", "to": "web", "count": 300}}]),
    }
    return {**experiment(hosts, graph((0, 1, "5 ms")), stop="20 s"), "host_option_defaults": {"pcap_enabled": True}}


@measured(4)
def test_what_the_time_went_to(run_experiment, workdir):
    done = run_experiment(busy(), args=["--profile", "--parallelism", "2"])
    report = json.loads((done.path / "profile.json").read_text())
    phases = {line["name"]: line["seconds"] for line in report["phases"]}
    assert {"guests", "system calls"} <= set(phases) <= {
        "building the world", "starting programs", "guests", "system calls", "network", "traffic models", "rest of the kernel",
        "writing results", "engine", "waiting for others"}
    total = sum(phases.values())
    # All of the time of both workers is somewhere.
    simulated = report["wall_seconds"] - report["loading_seconds"] - report["concluding_seconds"]
    timely(abs(total - 2 * simulated) < 0.2 * total + 0.2 and report["looks"] > 10, report)
    assert report["workers"] == 2
    hosts = {line["name"]: line for line in report["hosts"]}
    timely(hosts["computes"]["parts"]["guests"] > 0.5 * hosts["computes"]["seconds"], hosts)
    assert {line["name"] for line in report["programs"]} >= {"python3"} or {line["name"] for line in report["programs"]} & {"python3.11", "python3.12", "python3.13"}
    calls = {line["name"]: line for line in report["syscalls"]}
    assert calls["getrandom"]["count"] >= 3000
    timely(0 < calls["getrandom"]["seconds"] < total, calls)
    assert report["windows"]["count"] > 10 and report["windows"]["run_ns"] > 0
    ways = {way["name"]: way for way in report["ways"]}
    # Each of sh's children makes few calls, most of them once at each place.
    assert ways["true"]["trapped"] > 8 and sum(way["rewritten"] for way in ways.values()) > 3000
    for text in ("of the workers' time", "for hosts, switches and routers", "for programs", "in system calls", "calls that came by a trap", "getrandom", " times",
                 "profile: 16 workers"):
        assert text in done.out, done.out


def test_calls_of_threads_hardly_ever_trap(run_experiment):
    done = run_experiment(experiment({"a": (0, [("/usr/bin/python3", "-c", THREADS)])}, graph((0, 0, "1 ms")), stop="20 s"), args=["--profile"])
    (way,) = json.loads((done.path / "profile.json").read_text())["ways"]
    # Reading is another place in glibc as soon as there are threads.
    assert way["rewritten"] > 12_000 and way["trapped"] < 0.05 * way["rewritten"], way


def test_it_changes_nothing_and_is_not_there_unasked(belljar, run_experiment):
    plain, watched = run_experiment(busy()), run_experiment(busy(), args=["--profile"])
    assert not (plain.path / "profile.json").exists() and "workers' time" not in plain.out
    files = [{name: content for name, content in contents_of(done.path).items() if name not in ("profile.json", "processed-config.yaml")} for done in (plain, watched)]
    assert files[0] == files[1] and len(files[0]) > 10
    same = execute([belljar, "diff", plain.path, watched.path])
    assert same.status == 0, same


def test_switches_and_routers_are_named(run_experiment, workdir):
    text = {"general": {"stop_time": "30 s"}, "switches": ["lan"], "routers": ["border"],
            "hosts": {"a": {"processes": [{"model": {"type": "bulk", "to": "b:9", "size": "100 MB"}}]}, "b": {"processes": [{"model": {"type": "sink", "port": 9}}]}},
            "links": [{"between": ["a", "lan"]}, {"between": ["lan", "border"]}, {"between": ["border", "b"]}]}
    (workdir / "links.yaml").write_text(yaml.safe_dump(text))
    done = run_experiment(workdir / "links.yaml", args=["--profile", "--parallelism", "1"])
    report = json.loads((done.path / "profile.json").read_text())
    assert {"a", "b", "lan", "border"} <= {line["name"] for line in report["hosts"]}, report["hosts"]
    assert not report["syscalls"] and not report["programs"]


def test_what_many_run_hardly_traps(run_experiment):
    """Who comes early traps at each place; then the images have been rewritten for all who come, and do what they did."""
    script = "for n in 1 2 3 4; do /bin/true; done; /bin/echo $n; /bin/cat /proc/self/comm"
    hosts = {f"host{n:02}": (0, [("/bin/sh", "-c", script)]) for n in range(40)}
    many = {**experiment(hosts, graph((0, 1, "5 ms")), stop="5 s"), "experimental": {"strace_logging_mode": "deterministic"}}
    done = run_experiment(many, args=["--profile", "--parallelism", "2"])
    # Which hosts come early depends on the workers; it shows nowhere, as little as other placements do.
    for how in (["--parallelism", "1"], ["--cells", "2"], ["--placement", "far"]):
        other = run_experiment(many, args=how)
        assert contents_of(other.path / "hosts") == contents_of(done.path / "hosts"), how
    assert {done.stdout(name) for name in hosts} == {b"4\ncat\n"}
    ways = {way["name"]: way for way in json.loads((done.path / "profile.json").read_text())["ways"]}
    assert 0 < 3 * ways["true"]["trapped"] < ways["true"]["rewritten"], ways
