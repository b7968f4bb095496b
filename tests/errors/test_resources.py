"""What runs out, or is taken away from outside: one clear message, what there is so far is kept, nothing stays behind."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml
from conftest import execute, experiment, until
from errors.test_guests import compiled
from errors.test_input import nothing_left  # noqa: F401  (a fixture)

# Far children that sleep, fork and share memory; the second host keeps the simulator at it for long.
FAMILY = "for i in 1 2 3; do (sleep 100000 | cat) & done; echo started; wait"
TICKER = "#include <unistd.h>\nint main(void) { for (;;) usleep(1); }"


def write(folder, described, name="experiment.yaml"):
    (folder / name).write_text(yaml.safe_dump(described, sort_keys=False))
    return folder / name


def members(session):
    """The living processes of a session."""
    said = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(session)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in said.splitlines() if "Z" not in line.split()[1]]


def is_settled(session):
    """Whether everybody is there and nobody comes or goes."""
    first = members(session)
    time.sleep(1)
    return len(first) >= 10 and members(session) == first


@pytest.fixture
def at_work(belljar, workdir):
    """A simulation with far processes that sleep, which is busy with something else; gives it and its folder."""
    ticker = compiled(workdir, TICKER, "ticker")
    described = experiment({"family": (0, [("/bin/sh", "-c", FAMILY)]), "ticker": (0, [(str(ticker),)])}, stop="100000 s")
    command = [belljar, "run", write(workdir, described), "-o", workdir / "data", "--no-progress", "--placement", "far"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    started = workdir / "data" / "hosts" / "family" / "sh.1000.stdout"
    try:
        until(lambda: started.exists() and started.read_text() and is_settled(process.pid), "the family is there")
        yield process, workdir / "data"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.alone
def test_killed_simulator_leaves_nothing(at_work):
    process, _ = at_work
    memory, mounts = sorted(os.listdir("/dev/shm")), open("/proc/self/mountinfo").read()
    process.kill()
    process.wait()
    until(lambda: members(process.pid) == [], "the processes of far guests are gone")
    assert (sorted(os.listdir("/dev/shm")), open("/proc/self/mountinfo").read()) == (memory, mounts)


def test_killed_far_guests_are_missed(at_work):
    """Although none of them has anything to do any more."""
    process, data = at_work
    # It stands still until all of them are gone: else the end may come before a process has died of its signal.
    process.send_signal(signal.SIGSTOP)
    for pid in members(process.pid):
        if pid != process.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    until(lambda: members(process.pid) == [process.pid], "the processes of far guests are gone")
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 1 and "panicked" not in out, out
    assert re.search(r"family +sh\.1000 +.*SIGKILL", out) and re.search(r"ticker +ticker\.1000 +.*SIGKILL", out), out
    assert (data / "hosts/family/sh.1000.stdout").read_text() == "started\n"


def in_namespace(script, *arguments):
    """Runs a script in a mount namespace of its own; skips where that is not allowed."""
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
            return execute([*unshare, "sh", "-ec", script, "sh", *arguments])
    pytest.skip("no mount namespace is to be had here")


def test_full_disk(belljar, workdir):
    hosts = {"early": (0, [("/bin/echo", "kept")]),
             "writer": (0, [("/bin/sh", "-c", "sleep 5; head -c 2000000 /dev/zero > big; echo told $?")])}
    file = write(workdir, experiment(hosts, stop="60 s"))
    kept = workdir / "kept"
    script = 'mkdir "$3"; mount -t tmpfs -o size=512k none "$3"; status=0; "$1" run "$2" -o "$3/data" --no-progress || status=$?; cp -r "$3/data" "$4"; exit $status'
    done = in_namespace(script, str(belljar), str(file), str(workdir / "small"), str(kept))
    assert done.status == 1 and "panicked" not in done.err, str(done)
    assert len(re.findall(r"^error: cannot write .*no space left on device; make room", done.err, re.M)) == 1, str(done)
    assert (kept / "hosts/early/echo.1000.stdout").read_text() == "kept\n"
    assert (kept / "hosts/writer/big").stat().st_size < 600_000


def test_read_only_folder(belljar, workdir):
    file = write(workdir, experiment({"a": (0, [("/bin/true",)])}))
    script = 'mkdir "$3"; mount -t tmpfs -o ro none "$3"; exec "$1" run "$2" -o "$3/data" --no-progress'
    done = in_namespace(script, str(belljar), str(file), str(workdir / "fixed"))
    assert done.status == 2 and re.search(r"^error: cannot write .*read-only.*can be written with -o", done.err, re.M), str(done)


def test_few_descriptors(belljar, workdir):
    """Near programs with open files need none; of far ones each takes one, so not all of these forks succeed."""
    near = {f"h{n}": (0, [("/bin/sh", "-c", "exec 3> mine; echo $0 >&3; sleep 1; cat mine", str(n))]) for n in range(40)}
    few = ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', belljar, "run"]
    done = execute([*few, write(workdir, experiment(near)), "-o", workdir / "near", "--placement", "near"])
    assert "panicked" not in done.err, str(done)
    far = {f"h{n}": (0, [("/bin/sh", "-c", "echo early; (sleep 5; true) & wait")]) for n in range(80)}
    done = execute([*few, write(workdir, experiment(far)), "-o", workdir / "far"])
    assert done.status == 1 and "panicked" not in done.err and "ulimit -n" in done.out, str(done)
    said = [file.read_text() for file in (workdir / "far").glob("hosts/*/sh.*.stdout")]
    assert len(said) == 80 and set(said) == {"early\n"}


MAPPINGS = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#define COUNT 70000
int main(void) {
    char *room = mmap(NULL, 4096L * COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long made = 0, right = 0;
    for (long n = 0; n < COUNT; n++) room[4096 * n] = n;
    for (long n = 0; n < COUNT; n += 2, made++)
        if (mprotect(room + 4096 * n, 4096, PROT_READ) != 0) break;
    for (long n = 0; n < COUNT; n++) right += room[4096 * n] == (char)n;
    printf("%d %ld of %d, %p\n", made > 30000, right, COUNT, (void *)room);
    return 0;
}
"""


def test_more_mappings_than_the_simulator_may_have(run_experiment, workdir):
    """The program that goes beyond goes on far and sees nothing of it; its neighbours live on."""
    program = compiled(workdir, MAPPINGS, "mappings")
    hosts = {name: (0, [(str(program),), {"path": "/bin/sh", "args": ["-c", "sleep 1; echo still here"]}]) for name in "ab"}
    said = []
    for placement in ("near", "far"):
        done = run_experiment(experiment(hosts), args=["--placement", placement], name="same")
        said.append([done.text(host, program) for host in "ab" for program in ("mappings", "sh")])
        shutil.rmtree(done.path)
    assert said[0] == said[1] and said[0][1] == said[0][3] == "still here\n", said
    assert said[0][0].startswith("1 70000 of 70000"), said
