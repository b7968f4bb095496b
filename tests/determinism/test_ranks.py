"""One simulation over processes that a launcher has started: the same bytes as in one, one folder, one message.

Ranks are started here with the variables that launchers give, so that no MPI is needed; real launchers are at the end. Another machine is a mount namespace
with files of its own: ranks there share neither memory nor results with the others.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
import slurm_cluster
import yaml
from conftest import ROOT, Run, contents_of, execute, experiment, free_port, graph, until

from .test_workers import draw_experiment, program  # noqa: F401 (a fixture)

APART = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
needs_namespaces = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*APART, "true"], capture_output=True).returncode != 0,
    reason="needs root or unprivileged user namespaces: another machine's files are a mount namespace here",
)


def environment(rank, count, **more):
    return {**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(count), "BELLJAR_RENDEZVOUS_TIMEOUT": "300", **more}


class Ranks:
    """Processes that are ranks of one run. `before` and `folders`: what stands before a rank's command, and where it is started."""

    def __init__(self, belljar, workdir, count, *arguments, before=None, folders=None, variables=None):
        before, folders = before or {}, folders or {}
        self.processes = [
            subprocess.Popen(
                [*map(str, before.get(rank, ())), str(belljar), "run", "--no-progress", *map(str, arguments)],
                env=environment(rank, count, **(variables or {})), cwd=folders.get(rank, workdir),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )
            for rank in range(count)
        ]

    def wait(self, timeout=600):
        """A `Run` of each."""
        try:
            end, done = time.monotonic() + timeout, []
            for process in self.processes:
                out, err = process.communicate(timeout=max(1, end - time.monotonic()))
                done.append(Run(process.args, process.returncode, out, err))
            return done
        finally:
            self.kill()

    def ended(self):
        """Whether one of them has."""
        return any(process.poll() is not None for process in self.processes)

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def assert_one_message(done, status, *words, speaker=0):
    """All end with `status`, and `speaker` alone says why."""
    said = "\n".join(map(str, done))
    assert {run.status for run in done if run.status != -signal.SIGKILL} == {status}, said
    for rank, run in enumerate(done):
        assert run.err.count("error: ") == (rank == speaker), said
        assert rank == 0 or not run.out, said
    for word in words:
        assert word in done[speaker].err, f"{word!r}\n{said}"


def alone(belljar, workdir, file, *arguments, statuses=(0, 1)):
    data = workdir / "apart/data"
    done = execute([belljar, "run", "--no-progress", file, "-o", data, *arguments], cwd=workdir)
    assert done.status in statuses and "processes" in done.out, done
    found = contents_of(data)
    shutil.rmtree(data)
    return found, done


def without_real_time(summary):
    return re.sub(r"in [\d.]+ s \([\d.]+x\)", "", summary)


def assert_same(belljar, workdir, file, ways, *arguments):
    expected, one = alone(belljar, workdir, file, "--parallelism", "1", *arguments)
    data = workdir / "apart/data"
    for count, more, how in ways:
        ranks = Ranks(belljar, workdir, count, file, "-o", data, "--rendezvous-file", workdir / "met", *arguments, *more, **how)
        done = ranks.wait()
        said = f"{count} ranks, {more}\n" + "\n".join(map(str, done))
        assert {run.status for run in done} == {one.status}, said
        assert not any(run.out or run.err for run in done[1:]), said
        assert without_real_time(done[0].out) == without_real_time(one.out), said
        found = contents_of(data)
        differing = [name for name in sorted(expected | found) if expected.get(name) != found.get(name)]
        assert not differing, f"{differing}\n{said}"
        assert not (workdir / "met").exists()
        shutil.rmtree(data)


@pytest.fixture
def folder(workdir):
    """A test's folder with one in it whose content other machines do not see."""
    (workdir / "apart").mkdir()
    return workdir


def on_another_machine(folder, size="64m", more=""):
    """The command before that of a rank on another machine: its results are on a disk of its own."""
    script = f'mount -t tmpfs -o size={size} tmpfs "$0" && {more}exec "$@"'
    return [*APART, "sh", "-c", script, folder / "apart"]


TCP = ("--rank-transport", "tcp", "--parallelism", "1")


@pytest.mark.parametrize("seed", [201, *(pytest.param(n, marks=pytest.mark.slow) for n in range(202, 222))])
def test_ranks_make_no_difference(belljar, folder, program, seed, request):  # noqa: F811
    drawn = draw_experiment(seed, program)
    drawn.setdefault("belljar", {})["metrics"] = {"interval": "100 ms"}
    (folder / "drawn.yaml").write_text(yaml.safe_dump(drawn, sort_keys=False))
    ways = [(2, TCP, {}), (4, (), {})]
    if request.config.getoption("--all"):
        ways += [(2, ("--parallelism", "2"), {}), (4, TCP, {})]
    assert_same(belljar, folder, folder / "drawn.yaml", ways, "--pcap")


@pytest.mark.parametrize("placement", ["near", "far"])
def test_placements(belljar, folder, program, placement):  # noqa: F811
    (folder / "drawn.yaml").write_text(yaml.safe_dump(draw_experiment(230, program), sort_keys=False))
    assert_same(belljar, folder, folder / "drawn.yaml", [(3, TCP, {})], "--placement", placement)


@needs_namespaces
def test_results_of_two_machines_come_into_one_folder(belljar, folder, program):  # noqa: F811
    drawn = draw_experiment(240, program)
    (folder / "drawn.yaml").write_text(yaml.safe_dump(drawn, sort_keys=False))
    apart = {"before": {rank: on_another_machine(folder) for rank in (2,)}}
    port = free_port()
    # Without a file that both see.
    given = {**apart, "variables": {"BELLJAR_RENDEZVOUS": f"127.0.0.1:{port}", "BELLJAR_RENDEZVOUS_TOKEN": "a token that nobody guesses"}}
    assert_same(belljar, folder, folder / "drawn.yaml", [(3, (), apart), (3, (), given)], "--pcap", "--strace")


# Something that happens all the time: the run neither ends nor jumps to its end.
SLEEPERS = experiment(
    {f"host{n}": (0, [{"path": "/bin/echo", "args": "early"}, {"path": "/bin/sh", "args": ["-c", "while :; do sleep 0.001; done"]}]) for n in range(4)},
    stop="1000000 s",
)


@pytest.fixture
def running(belljar, folder):
    """A run in three ranks under way."""
    (folder / "long.yaml").write_text(yaml.safe_dump(SLEEPERS, sort_keys=False))
    ranks = Ranks(belljar, folder, 3, "long.yaml", "-o", folder / "data", variables={"BELLJAR_RANK_TRANSPORT": "auto"})
    try:
        until(lambda: [file.read_text() for file in (folder / "data").glob("hosts/*/echo.*.stdout")] == ["early\n"] * 4 or ranks.ended())
        assert not ranks.ended()
        yield ranks
    finally:
        ranks.kill()


@pytest.mark.parametrize("interrupted", [0, 2])
def test_interrupted(running, folder, interrupted):
    running.processes[interrupted].send_signal(signal.SIGINT)
    done = running.wait()
    assert [run.status for run in done] == [130 if interrupted == 0 else 1] * 3 and "interrupted" in done[0].out, "\n".join(map(str, done))
    assert not any(run.out + run.err for run in done[1:])
    for n in range(4):
        (written,) = (folder / "data").glob(f"hosts/host{n}/echo.*.stdout")
        assert written.read_text() == "early\n"
    assert "host3" in (folder / "data/sim-stats.json").read_text() and not (folder / "data/.ranks").exists()


@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_is_killed_ends_all(running, folder, killed):
    running.processes[killed].kill()
    done = running.wait()
    if killed == 0:
        assert_one_message(done, 1, "rank 0 (", "has gone, and with it the results", speaker=1)
    else:
        assert_one_message(done, 1, "rank 1 (", "has gone: the results of its hosts are incomplete")
        assert "host0" in (folder / "data/sim-stats.json").read_text()


def leaving(folder, size="64m"):
    """As `on_another_machine`, whose disk's content is in a folder `left` for a test to look at."""
    script = f'mount -t tmpfs -o size={size} tmpfs "$0" && "$@"; status=$?; mkdir -p {folder}/left && cp -r "$0"/. {folder}/left; exit $status'
    return [*APART, "sh", "-c", script, folder / "apart"]


@needs_namespaces
def test_results_that_rank_0_cannot_take_stay(belljar, folder):
    """Its disk is full; those of another machine stay there. Beside them a machine whose results had room."""
    for n, size in enumerate((1_000, 1_000, 4_000_000)):
        (folder / f"say{n}").write_text(f"print('x' * {size})\n")
    hosts = {f"host{n}": (0, [("/usr/bin/python3", folder / f"say{n}")]) for n in range(3)}
    (folder / "exp.yaml").write_text(yaml.safe_dump(experiment(hosts, stop="1 s"), sort_keys=False))
    arguments = ("exp.yaml", "-o", folder / "apart/data", "--rendezvous-file", folder / "met")
    before = {0: on_another_machine(folder, size="2m"), 1: on_another_machine(folder), 2: leaving(folder)}
    done = Ranks(belljar, folder, 3, *arguments, before=before).wait()
    assert_one_message(done, 1, "no space left on device", "what hosts on the machine of rank 2 (", f") have written is left there in {folder}/apart/data")
    assert "rank 1" not in done[0].err, done[0]
    (said,) = folder.glob("left/data/hosts/host2/python3.*.stdout")
    assert said.stat().st_size == 4_000_001 and not (folder / "left/data/.ranks").exists()


@needs_namespaces
def test_results_of_another_machine_stay_where_rank_0_has_gone(belljar, folder):
    (folder / "long.yaml").write_text(yaml.safe_dump(SLEEPERS, sort_keys=False))
    (folder / "done.yaml").write_text(yaml.safe_dump({**SLEEPERS, "general": {"stop_time": "50 ms"}}, sort_keys=False))

    def ranks(file):
        arguments = (file, "-o", folder / "apart/data", "--rendezvous-file", folder / "met")
        return Ranks(belljar, folder, 3, *arguments, before={2: leaving(folder)})

    running = ranks("long.yaml")
    try:
        # Near the beginning of the run, when all have a folder; what they have written until then differs.
        until(lambda: list((folder / "apart").glob("data/hosts/*/echo.*.stdout")) or running.ended())
        assert not running.ended()
        running.processes[0].kill()
        done = running.wait()
    finally:
        running.kill()
    where = f"; what hosts on the machine of rank 2 ({socket.gethostname()}) have written is left there in {folder}/apart/data"
    assert_one_message(done, 1, "rank 0 (", "all other ranks have stopped" + where, speaker=1)
    assert (folder / "left/data/hosts").is_dir()
    # Nothing is left where rank 0 has all.
    shutil.rmtree(folder / "left")
    shutil.rmtree(folder / "apart/data")
    done = ranks("done.yaml").wait()
    assert "4 of 8 processes did not end as expected" in done[0].out and "error" not in done[0].err, done[0]
    assert (folder / "left").is_dir() and not (folder / "left/data").exists()


def test_ranks_must_run_the_same_experiment(belljar, folder):
    for name, stop in (("here", "1 s"), ("there", "2 s")):
        (folder / name).mkdir()
        (folder / name / "exp.yaml").write_text(yaml.safe_dump({**SLEEPERS, "general": {"stop_time": stop}}))
    common = ("exp.yaml", "--rendezvous-file", folder / "met")
    folders = {0: folder / "here", 1: folder / "here", 2: folder / "there"}
    done = Ranks(belljar, folder, 3, *common, "-o", folder / "data", folders=folders).wait()
    assert_one_message(done, 2, "rank 2 (", "has another exp.yaml than rank 0 (", "--no-ranks")
    # A file that it cannot even load there.
    (folder / "there/exp.yaml").write_text(yaml.safe_dump({**SLEEPERS, "general": 1}))
    done = Ranks(belljar, folder, 3, *common, "-o", folder / "data", folders=folders).wait()
    assert_one_message(done, 2, "rank 2 (", "general")
    shutil.copy(folder / "here/exp.yaml", folder / "there/exp.yaml")
    done = Ranks(belljar, folder, 3, *common, "-o", "data", folders=folders).wait()
    assert_one_message(done, 2, "rank 2 (", f"would write its results to {folder}/there/data", "start all ranks in the same folder")
    seeds = {2: ["env", "BELLJAR_SEED=9"]}
    done = Ranks(belljar, folder, 3, *common, "-o", folder / "data", folders=folders, before=seeds).wait()
    assert_one_message(done, 2, "rank 2 (", "makes another experiment of exp.yaml", "BELLJAR_*")
    (folder / "data").mkdir()
    done = Ranks(belljar, folder, 2, "exp.yaml", "-o", folder / "data", folders=folders).wait()
    assert_one_message(done, 2, "exists already")


@needs_namespaces
def test_machines_must_have_the_same_files(belljar, folder):
    own = folder / "own"
    shutil.copy("/bin/echo", own)
    (folder / "read").write_text("one\n")
    (folder / "other").write_text("two\n")
    hosts = {f"host{n}": (0, [(own, "said"), ("/bin/cat", folder / "read")]) for n in range(2)}
    (folder / "exp.yaml").write_text(yaml.safe_dump(experiment(hosts, stop="1 s"), sort_keys=False))

    def run(changed, to):
        before = {1: on_another_machine(folder, more=f"mount --bind {to} {folder / changed} && ")}
        return Ranks(belljar, folder, 2, "exp.yaml", "-o", folder / "apart/data", "--rendezvous-file", folder / "met", before=before).wait()

    # A program is compared before the start.
    assert_one_message(run("own", "/bin/cat"), 2, "rank 1 (", f"has another {own} than rank 0 (")
    assert not (folder / "apart/data").exists()
    # What else was read is only known afterwards.
    done = run("read", folder / "other")
    assert_one_message(done, 1, "the results are not those of one machine: rank 1 (", f"has another {folder / 'read'} than rank 0 (")
    # The program itself.
    shutil.copy(belljar, folder / "build")
    with (folder / "build").open("ab") as build:
        build.write(b"\0")
    before = {1: ["sh", "-c", f'shift; exec {folder / "build"} "$@"', "sh"]}
    done = Ranks(belljar, folder, 2, "exp.yaml", "-o", folder / "data", before=before).wait()
    assert_one_message(done, 2, "rank 1 (", "runs another program than rank 0 (", "install the same build")


@needs_namespaces
def test_a_full_disk_at_one_rank(belljar, folder):
    server = {"path": "/usr/bin/python3", "args": ["-c", "import socket; s = socket.create_server(('', 80)); c, _ = s.accept()\nwhile c.recv(65536): pass"]}
    sender = ["-c", "import socket; c = socket.create_connection(('host0', 80)); c.sendall(bytes(30_000_000))"]
    hosts = {"host0": (0, [server]), "host1": (1, [{"path": "/usr/bin/python3", "args": sender, "start_time": "1 s"}])}
    (folder / "exp.yaml").write_text(yaml.safe_dump(experiment(hosts, graph((0, 1, "10 ms")), stop="60 s"), sort_keys=False))
    before = {1: on_another_machine(folder, size="2m")}
    arguments = ("exp.yaml", "--pcap", "-o", folder / "apart/data", "--rendezvous-file", folder / "met")
    done = Ranks(belljar, folder, 2, *arguments, before=before).wait()
    assert_one_message(done, 1, "rank 1 (", "cannot write", "no space left on device; make room")


@pytest.mark.parametrize("variables, arguments, said", [
    ({}, ("exp.yaml", "--cells", "2"), "each rank is a cell: leave out --cells"),
    ({}, ("exp.yaml", "--profile"), "--profile measures one process: start it without mpirun or srun"),
    ({}, ("exp.yaml", "--real-time"), "a run in real time has one process: start it without mpirun or srun"),
    ({}, ("exp.yaml", "--live"), "a live view shows a run of one process: start it without mpirun or srun"),
    ({}, ("-",), "ranks read the experiment each: name a file"),
])
def test_what_ranks_cannot_do(belljar, folder, variables, arguments, said):
    (folder / "exp.yaml").write_text(yaml.safe_dump(SLEEPERS, sort_keys=False))
    done = Ranks(belljar, folder, 2, *arguments, "-o", folder / "data", variables=variables).wait()
    assert_one_message(done, 2, said)


def test_ranks_that_do_not_come(belljar, folder):
    (folder / "exp.yaml").write_text(yaml.safe_dump(SLEEPERS, sort_keys=False))

    def first(count, *arguments, **variables):
        env = environment(0, count, BELLJAR_RENDEZVOUS_TIMEOUT="1", **variables)
        return execute([belljar, "run", "exp.yaml", "-o", folder / "data", *arguments], cwd=folder, env=env)

    done = first(3, PMIX_NAMESPACE="job/7")
    assert done.status == 1 and f"of 3 ranks, ranks 1 and 2 have not come within 1 s: they look for {folder}/.belljar-ranks.job-7" in done.err, done
    assert sorted(path.name for path in folder.iterdir()) == ["apart", "exp.yaml"]
    for arguments, variables, said in (
        (("--rendezvous", "127.0.0.1:1"), {"BELLJAR_RENDEZVOUS_TOKEN": "short"}, "BELLJAR_RENDEZVOUS_TOKEN is shorter than 16 characters"),
        (("--rendezvous", "0.0.0.0:7700"), {}, "name the address at which others reach rank 0's machine"),
        (("--rendezvous", "no.such.machine.invalid"), {}, "'no.such.machine.invalid' is no address and no name of a machine"),
        ((), {"OMPI_COMM_WORLD_RANK": "3"}, "which is no place among processes"),
    ):
        done = first(3, *arguments, **variables)
        assert done.status == 2 and said in done.err, done
    env = environment(1, 2, BELLJAR_RENDEZVOUS="127.0.0.1", BELLJAR_RENDEZVOUS_TOKEN="a token that nobody guesses")
    done = execute([belljar, "run", "exp.yaml"], cwd=folder, env=env)
    assert done.status == 2 and "name a port too, as in 127.0.0.1:7700" in done.err, done


def test_runs_of_their_own(belljar, folder):
    """Programs that a launcher has started, and that run experiments, each its own."""
    (folder / "exp.yaml").write_text(yaml.safe_dump(experiment({"a": (0, [("/bin/echo", "x")])}, stop="1 s"), sort_keys=False))
    for rank in range(2):
        done = execute([belljar, "run", "exp.yaml", "-o", folder / f"data{rank}", "--no-ranks"], cwd=folder, env=environment(rank, 2))
        assert done.status == 0, done
    script = "import belljar, sys; print(belljar.run('exp.yaml', sys.argv[1]).path)"
    env = environment(1, 2, BELLJAR_BIN=str(belljar), PYTHONPATH=str(ROOT / "python"))
    done = execute([sys.executable, "-c", script, folder / "data"], cwd=folder, env=env)
    assert done.status == 0 and (folder / "data/sim-stats.json").is_file(), done


def launched(belljar, folder, file, *command, env=None):
    """The results of a run by a launcher."""
    data = folder / "apart/data"
    done = execute([*command, belljar, "run", "--no-progress", file, "-o", data], cwd=folder, env={**os.environ, **(env or {})})
    assert done.status == 0 and done.out.count("processes") == 1, done
    found = contents_of(data)
    shutil.rmtree(data)
    return found


TWENTY = experiment({f"host{n}": (0, [{"path": "/bin/ping", "args": f"-c 3 host{(n + 1) % 20}"}]) for n in range(20)}, graph((0, 0, "2 ms")), stop="10 s")


@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpirun.mpich"])
def test_mpirun(belljar, folder, launcher):
    if shutil.which(launcher) is None:
        pytest.skip(f"{launcher} is not installed")
    (folder / "exp.yaml").write_text(yaml.safe_dump(TWENTY, sort_keys=False))
    expected, _ = alone(belljar, folder, "exp.yaml", statuses=(0,))
    more = ("--oversubscribe", "--allow-run-as-root") if launcher.endswith("openmpi") else ()
    assert launched(belljar, folder, "exp.yaml", launcher, *more, "-n", "4") == expected
    assert launched(belljar, folder, "exp.yaml", launcher, *more, "-n", "2", env={"BELLJAR_RANK_TRANSPORT": "tcp"}) == expected


@pytest.mark.slow
@pytest.mark.needs(*slurm_cluster.PROGRAMS, "srun")
@pytest.mark.skipif(os.geteuid() != 0, reason="munge and Slurm's daemons are started as root")
def test_srun(belljar, folder):
    (folder / "exp.yaml").write_text(yaml.safe_dump(TWENTY, sort_keys=False))
    expected, _ = alone(belljar, folder, "exp.yaml", statuses=(0,))
    cluster = slurm_cluster.Cluster(folder)
    with contextlib.ExitStack() as ends:
        ends.callback(cluster.stop)
        assert launched(belljar, folder, "exp.yaml", "srun", "-n", "2", env=cluster.environment) == expected
        # Slurm's own PMI, over which ranks find each other without a file.
        assert launched(belljar, folder, "exp.yaml", "srun", "--mpi=pmi2", "-n", "2", env=cluster.environment) == expected
        assert not list(folder.rglob(".belljar-ranks*"))
        # One process: a batch script has variables of a whole job.
        (folder / "batch.sh").write_text(f'#!/bin/sh\nexec {belljar} run --no-progress exp.yaml -o {folder}/apart/data\n')
        done = execute(["sbatch", "--wait", "-n", "2", "batch.sh"], cwd=folder, env={**os.environ, **cluster.environment})
        assert done.status == 0 and contents_of(folder / "apart/data") == expected, done


RING = """
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(9)}, there = here;
    char buffer[64];
    int from = socket(AF_INET, SOCK_DGRAM, 0);
    if (count != 2 || inet_pton(AF_INET, words[1], &there.sin_addr) != 1 || bind(from, (void *)&here, sizeof(here)))
        return 1;
    sleep(1);
    for (int n = 0; n < 3; n++) {
        struct timespec now;
        int len = snprintf(buffer, sizeof(buffer), "%s says %d", words[1], n);
        if (sendto(from, buffer, len, 0, (void *)&there, sizeof(there)) != len || recv(from, buffer, sizeof(buffer), 0) <= 0)
            return 1;
        clock_gettime(CLOCK_REALTIME, &now);
        printf("%.20s %ld.%09ld %p\\n", buffer, (long)now.tv_sec, now.tv_nsec, malloc(100));
    }
}
"""


@pytest.mark.slow
def test_ten_thousand_hosts(belljar, folder):
    """More than one process has room for; what it is held against runs in cells."""
    (folder / "ring.c").write_text(RING)
    subprocess.run(["gcc", "-O1", "-static-pie", folder / "ring.c", "-o", folder / "ring"], check=True)
    hosts = int(os.environ.get("BELLJAR_RANKS_HOSTS", 10_000))
    address = [f"10.{n // 40_000}.{n // 200 % 200}.{n % 200 + 1}" for n in range(hosts)]
    lines = "\n".join(
        f"  h{n:05}: {{network_node_id: 0, ip_addr: {address[n]}, processes: [{{path: {folder}/ring, args: '{address[(n + 1) % hosts]}'}}]}}"
        for n in range(hosts)
    )
    gml = "graph [ node [ id 0 host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ] edge [ source 0 target 0 latency \"10 ms\" ] ]"
    (folder / "ring.yaml").write_text(f"general: {{stop_time: 5 s}}\nnetwork: {{graph: {{type: gml, inline: '{gml}'}}}}\nhosts:\n{lines}\n")

    def said():
        found = contents_of(folder / "data")
        shutil.rmtree(folder / "data")
        assert sum(name.endswith(".stdout") for name in found) == hosts
        return found

    done = execute([belljar, "run", "--no-progress", "ring.yaml", "-o", folder / "data", "--cells", "4"], cwd=folder)
    assert done.status == 0, done.err
    expected = said()
    for way in ("auto", "tcp"):
        done = Ranks(belljar, folder, 4, "ring.yaml", "-o", folder / "data", "--rank-transport", way).wait(600)
        assert [run.status for run in done] == [0] * 4, "\n".join(run.err for run in done)
        found = said()
        assert found.keys() == expected.keys()
        assert not [name for name in expected if found[name] != expected[name]], way
