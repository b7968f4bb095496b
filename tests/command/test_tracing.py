"""Guests that trace guests: strace(1) and gdb inside a host, near and far."""

import re
import subprocess

import pytest

pytestmark = pytest.mark.needs("strace")
PLACEMENTS = pytest.mark.parametrize("placement", ["near", "far"])


@pytest.fixture
def traced(belljar, workdir):
    """traced(placement, command...) -> what `belljar exec` gives of it."""
    from conftest import execute

    def run(placement, *command):
        return execute([belljar, "exec", "--placement", placement, "--", *command], cwd=workdir)

    return run


@PLACEMENTS
def test_strace_follows_children(traced, placement):
    script = "ls / > /dev/null; sleep 1 | cat; kill -USR1 $$"
    first = traced(placement, "strace", "-f", "-o", "/dev/stdout", "sh", "-c", script)
    calls = re.findall(r"^(\d+) +(\w+)\(", first.out, re.M)
    assert len({pid for pid, _ in calls}) == 4, str(first)
    assert {"execve", "mmap", "openat", "getdents64", "clock_nanosleep", "wait4", "kill", "exit_group"} <= {c for _, c in calls}
    assert re.search(r'execve\("[^"]*/ls", \["ls", "/"\]', first.out), str(first)
    assert re.search(r"--- SIGCHLD \{si_signo=SIGCHLD, si_code=CLD_EXITED, ", first.out), str(first)
    assert "+++ exited with 0 +++" in first.out and "+++ killed by SIGUSR1 +++" in first.out, str(first)
    # strace ends as its child did
    assert first.status == 128 + 10, str(first)
    second = traced(placement, "strace", "-f", "-o", "/dev/stdout", "sh", "-c", script)
    assert first.out == second.out


@PLACEMENTS
def test_strace_counts_and_changes_calls(traced, placement):
    counted = traced(placement, "strace", "-c", "-o", "/dev/stdout", "ls", "/")
    assert re.search(r"^100\.00 .* total$", counted.out, re.M) and "getdents64" in counted.out, str(counted)
    refused = traced(placement, "strace", "-o", "/dev/null", "-e", "inject=mkdir:error=ENOSPC", "mkdir", "made")
    assert refused.status == 1 and "No space left on device" in refused.err, str(refused)
    assert "warning" not in refused.err, str(refused)


@PLACEMENTS
def test_strace_attaches_and_lets_go(traced, placement):
    script = "sleep 3 & strace -o out -p $! & sleep 1; cat /proc/$!/status > /dev/null; wait; cat out"
    run = traced(placement, "sh", "-c", script)
    assert re.search(r"^clock_nanosleep\(CLOCK_REALTIME, 0, \{tv_sec=3, tv_nsec=0\}, .* = 0$", run.out, re.M), str(run)
    assert "+++ exited with 0 +++" in run.out, str(run)
    script = "sleep 9 & strace -o out -p $! & tracer=$!; sleep 1; kill -INT $tracer; wait $tracer; wait; date +%s; cat out"
    run = traced(placement, "sh", "-c", script)
    assert "<detached ...>" in run.out and "946684809" in run.out, str(run)


@pytest.mark.needs("gdb", "gcc")
@PLACEMENTS
def test_gdb_inside_a_host(traced, workdir, placement):
    source = workdir / "guest.c"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\nint total;\n__attribute__((noinline)) void add(int n) { total += n; }\n"
        "void *work(void *p) { add(5); pause(); return p; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); sleep(1); add(2); return total; }\n"
    )
    subprocess.run(["gcc", "-g", "-O1", "-pthread", source, "-o", workdir / "guest"], check=True)
    commands = ["break add", "run", "bt", "continue", "info threads", "print total", "stepi", "finish", "continue"]
    arguments = [word for command in commands for word in ("-ex", command)]
    run = traced(placement, "gdb", "-nx", "-batch", *arguments, "./guest")
    # The start of a thread has a name only with the debugging symbols of the C library.
    assert re.search(r"#1 .* in work \(.*\n#2 .* in (start_thread|\?\?) \(", run.out), str(run)
    assert "$1 = 5" in run.out and "exited with code 07" in run.out, str(run)
