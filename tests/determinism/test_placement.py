"""Where programs run makes no difference: near, far, some here and some there, as it comes. Compared are all bytes that hosts
leave behind: output, system calls with every pointer in them, packets, files. The first of each is held against the others."""

import json
import pathlib
import shutil
import subprocess

import pytest
import test_guests
from conftest import EXAMPLES, experiment

PLACEMENTS = ("near", "far", "auto")
# What depends most on the platform below; --all compares every guest.
USUAL = {"buffers", "frames", "futexes", "memory", "robust", "signals", "spawn", "startup", "sysvipc", "threads", "filemap", "netspaces", "pidspaces", "userspaces", "whoami"}
EXAMPLE_NEEDS = {
    "crowd": ["curl"], "dns": ["curl"], "echo": [], "faults": ["curl"], "first": ["curl"], "iperf-tcp": ["iperf"],
    "iperf-udp": ["iperf"], "java": ["javac"], "node": ["node"], "python": [], "redis": ["redis-server", "redis-benchmark"],
    "replication": ["redis-server", "redis-cli"], "ssh": ["sshd", "ssh"], "threads": [], "web": ["wget", "lighttpd", "go"],
}
QUICK = {"echo", "threads"}


def contents(done):
    """Every file below hosts/; the results make room for another run in the same place, which guests see the path of."""
    files = (f for f in (done.path / "hosts").rglob("*") if f.is_file() and not f.is_symlink())
    found = {str(f.relative_to(done.path)): f.read_bytes() for f in files}
    shutil.rmtree(done.path)
    return found


def same(runs):
    """The runs by name, which must have the same files."""
    (first, expected), *others = runs.items()
    for name, found in others:
        assert set(found) == set(expected), f"{name}, not {first}: {set(found) ^ set(expected)}"
        differing = sorted(file for file in expected if found[file] != expected[file])
        assert not differing, f"differ between {first} and {name}: {differing}"
    return expected


def guest_programs(linkage):
    sources = [s for s in test_guests.SOURCES if (s.stem, linkage) not in test_guests.NOT]
    return {s.stem: test_guests.build(s, linkage) for s in sources}


def guests(names, placements):
    """A host for each guest program, whose placement is the next one of the list."""
    hosts = {}
    for n, (name, path) in enumerate(sorted(names.items())):
        placement = placements[n % len(placements)]
        hosts[name] = (0, [{"path": str(path), "placement": placement, "expected_final_state": "any"}])
    return experiment(hosts, stop="1000 s")


@pytest.mark.parametrize("linkage, names", [
    ("dynamic", USUAL),
    pytest.param("dynamic", None, marks=pytest.mark.slow),
    pytest.param("static", None, marks=pytest.mark.slow),
], ids=["usual", "all-dynamic", "all-static"])
def test_guests_in_every_placement(run_experiment, linkage, names):
    chosen = {name: path for name, path in guest_programs(linkage).items() if names is None or name in names}
    runs = {}
    for name, placements in {"near": ["near"], "far": ["far"], "mixed": ["far", "near"]}.items():
        done = run_experiment(guests(chosen, placements), args=["--strace"], pcap=True, timeout=600, status=None, name="same")
        assert done.status in (0, 1) and "preempted" not in done.out, str(done)
        runs[name] = contents(done)
    files = same(runs)
    ended = [file for file, said in files.items() if file.endswith(".stdout") and b"1.." in said and b"\nnot ok" not in said]
    assert len(ended) >= len(chosen), sorted(set(chosen) - {file.split("/")[1] for file in ended})
    assert sum(file.endswith(".strace") and len(log) > 500 for file, log in files.items()) >= len(chosen)


def test_who_one_is_however_it_is_asked(run_experiment):
    """Whether a thread answers itself who it is or makes the call, which logs of calls and other programs' debuggers see, makes
    no difference to what it is told, how many calls it has made, or to the clock, which more of them than are free move."""
    program = test_guests.build(test_guests.GUESTS / "whoami.c", "dynamic")
    runs, counts = {}, {}
    for placement in PLACEMENTS:
        for logged in ([], ["--strace"]):
            name = " ".join([placement, *logged])
            done = run_experiment(experiment({"host": (0, [{"path": str(program)}])}), name="same", args=["--placement", placement, *logged])
            counts[name] = json.loads((done.path / "sim-stats.json").read_text())["syscalls"]
            runs[name] = {file: said for file, said in contents(done).items() if not file.endswith(".strace")}
    files = same(runs)
    (said,) = (text for file, text in files.items() if file.endswith(".stdout"))
    assert b"not ok" not in said and b"# it is 9466848" in said, said
    assert all(of == counts["near"] for of in counts.values()), counts
    assert counts["near"]["getpid"] > 5000


def test_vector_state_is_the_guests_own(run_experiment, workdir):
    """What the simulator computes with between two calls of a near guest is not seen by it, not even that it was."""
    program = workdir / "leftovers"
    subprocess.run(["gcc", "-O1", "-Wl,-z,lazy", pathlib.Path(__file__).with_name("leftovers.c"), "-o", program], check=True)
    same({placement: contents(run_experiment(experiment({"host": (0, [{"path": str(program)}])}), name="same",
                                             args=["--strace", "--placement", placement])) for placement in PLACEMENTS})


@pytest.mark.parametrize("example", [pytest.param(e, marks=[] if e in QUICK else [pytest.mark.slow]) for e in EXAMPLE_NEEDS])
def test_examples_in_every_placement(run_experiment, programs, example):
    for program in EXAMPLE_NEEDS[example]:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    same({placement: contents(run_experiment(EXAMPLES / f"{example}.yaml", args=["--strace", "--placement", placement],
                                             pcap=True, timeout=600, status=None, name="same")) for placement in PLACEMENTS})
