"""Programs built with sanitizers, whose shadow memory and heaps lie at addresses of their own: natively and under Belljar. Those with
AddressSanitizer go on far as soon as they ask for them; those with ThreadSanitizer, MemorySanitizer and Go's race detector get
Linux's layout of addresses from the start."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import best, execute, experiment

SOURCE = r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *text = malloc(10), *volatile lost = malloc(20);
    int shift = argc + 40;
    strcpy(text, "hello");
    fflush(stdout);
    if (fork() == 0) { printf("child says %s\n", text); fflush(stdout); _exit(0); }
    wait(NULL);
    printf("parent says %s\n", text);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "overflow")) text[10] = 1;
    if (argc > 1 && !strcmp(argv[1], "shift")) printf("%d\n", 1 << shift);
    free(text);
    if (argc < 2 || strcmp(argv[1], "leak")) free(lost);
    lost = NULL;
    return 0;
}
"""


def built(workdir, sanitizer):
    (workdir / "program.c").write_text(SOURCE)
    command = ["gcc", "-g", "-O1", f"-fsanitize={sanitizer}", "-o", workdir / sanitizer, workdir / "program.c"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip(f"gcc has no -fsanitize={sanitizer} here")
    return workdir / sanitizer


@pytest.mark.parametrize("sanitizer, mistake, says", [
    ("address", None, None),
    ("address", "leak", r"LeakSanitizer: detected memory leaks\n(.*\n)+Direct leak of 20 byte"),
    ("address", "overflow", r"AddressSanitizer: heap-buffer-overflow.*\n(.*\n)+.*program\.c:\d+"),
    ("undefined", "shift", r"program\.c:\d+:\d+: runtime error: shift exponent 42"),
], ids=["address", "leak", "overflow", "shift"])
def test_sanitizer(exec_guest, workdir, sanitizer, mistake, says):
    command = [built(workdir, sanitizer), *([mistake] if mistake else [])]
    native, simulated = execute(command), exec_guest(command)
    for run in (native, simulated):
        assert run.out.startswith("child says hello\nparent says hello\n"), str(run)
        assert says is None or re.search(says, run.err), str(run)
    assert simulated.status == native.status, str(simulated)


RACE = r"""#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int shared;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
void *locked(void *n) { for (int i = 0; i < 1000; i++) { pthread_mutex_lock(&mutex); shared++; pthread_mutex_unlock(&mutex); } return n; }
void *unlocked(void *n) { shared++; return n; }
int main(int argc, char **argv) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, argc > 1 ? unlocked : locked, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    char *text = malloc(1 << 20);
    sprintf(text, "%s: %d, stack %s", argv[0] ? "counted" : "", shared, (long)&argc >> 40 == 0x7f ? "high" : "low");
    puts(text);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { puts("child"); fflush(stdout); _exit(0); }
    waitpid(child, NULL, 0);
    execl("/bin/echo", "echo", "done", NULL);
}
"""
# How the library comes to the program, what else it takes.
THREAD = {"gcc": ["gcc", "-fsanitize=thread"], "gcc-static": ["gcc", "-fsanitize=thread", "-static-libtsan"],
          "gcc-fixed": ["gcc", "-fsanitize=thread", "-no-pie", "-fno-pie"], "clang": ["clang", "-fsanitize=thread"]}


def compiled(workdir, command, source):
    """The program, or a skip where the compiler or its library is not installed."""
    found = [p for p in [command[0], *(f"{command[0]}-{n}" for n in range(22, 12, -1))] if shutil.which(p)]
    (workdir / "race.c").write_text(source)
    command = [*(found or command)[:1], "-g", "-O1", *command[1:], "-pthread", "-o", workdir / "race", workdir / "race.c"]
    if not found or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip(f"{' '.join(map(str, command[:4]))} does not work here")
    return workdir / "race"


@pytest.mark.parametrize("how", THREAD)
def test_thread_sanitizer(exec_guest, workdir, how):
    program = compiled(workdir, THREAD[how], RACE)
    for mistake in ([], ["unlocked"]):
        def seen(run):
            report = re.search(r"WARNING: ThreadSanitizer: data race.*\n(.*\n)+.*race\.c:9.*\n(.*\n)+.*Location is global 'shared'", run.err)
            return re.search(r"counted: \d+, stack high\nchild\ndone\n", run.out) and bool(report) == bool(mistake)

        # Whether real threads race is up to the machine.
        native, simulated = best(lambda: execute([program, *mistake]), seen), exec_guest([program, *mistake])
        assert seen(native) and seen(simulated), f"{native}{simulated}"
        assert simulated.status == native.status, str(simulated)


def test_memory_sanitizer(exec_guest, workdir):
    source = RACE.replace("argc > 1 ? unlocked : locked", "locked").replace(
        "puts(text);", 'int *volatile fresh = malloc(4); if (argc > 1 && *fresh) puts("not zero"); puts(text);')
    program = compiled(workdir, ["clang", "-fsanitize=memory", "-fPIE", "-pie"], source)
    for mistake in ([], ["uninitialised"]):
        native, simulated = execute([program, *mistake]), exec_guest([program, *mistake])
        for run in (native, simulated):
            assert ("MemorySanitizer: use-of-uninitialized-value" in run.err) == bool(mistake), str(run)
            assert ("counted: 4000, stack high\nchild\ndone\n" in run.out) != bool(mistake), str(run)
        assert simulated.status == native.status, str(simulated)


GO = r"""package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

var shared int

func main() {
	var all sync.WaitGroup
	var mutex sync.Mutex
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if len(os.Args) == 1 {
				mutex.Lock()
				defer mutex.Unlock()
			}
			shared++
		}()
	}
	all.Wait()
	said, err := exec.Command("echo", "done").Output()
	fmt.Print(shared, " ", string(said), err, "\n")
}
"""


@pytest.mark.needs("go", "gcc")
@pytest.mark.parametrize("flags", [pytest.param([], id="plain"), pytest.param(["-ldflags=-s -w"], id="stripped", marks=pytest.mark.slow)])
def test_go_race_detector(exec_guest, workdir, flags):
    (workdir / "main.go").write_text(GO)
    command = ["go", "build", "-race", *flags, "-o", workdir / "race", workdir / "main.go"]
    built = subprocess.run(command, env={**os.environ, "CGO_ENABLED": "1"}, capture_output=True, text=True)
    if built.returncode != 0:
        pytest.skip(f"go build -race does not work here: {built.stderr[-300:]}")
    for mistake in ([], ["unlocked"]):
        def seen(run):
            report = "WARNING: DATA RACE" in run.err and "main.go:23" in run.err
            return "4 done\n<nil>\n" in run.out and report == bool(mistake)

        # Whether real threads race, and lose a count, is up to the machine.
        native, simulated = best(lambda: execute([workdir / "race", *mistake]), seen), exec_guest([workdir / "race", *mistake])
        assert seen(native) and seen(simulated), f"{native}{simulated}"
        assert simulated.status == native.status, str(simulated)


def test_runs_repeat(run_experiment, workdir):
    """Addresses of Linux's layout are the same in every run, and `linux` gives them to any program."""
    program = compiled(workdir, THREAD["gcc"], RACE)
    maps = {"path": "/bin/cat", "args": "/proc/self/maps", "placement": "linux"}
    hosts = {name: (0, [{"path": str(program), "args": "unlocked", "expected_final_state": "any"}, maps]) for name in ("a", "b")}
    runs = []
    for more in ([], ["--parallelism", "2"]):
        done = run_experiment(experiment(hosts), args=["--strace", *more], name="same")
        lines = done.text("a", "cat").splitlines()
        assert lines[0].startswith("555555554000-") and lines[-1].startswith("7ffff") and lines[-1].endswith("[stack]"), str(lines)
        files = [f for f in sorted((done.path / "hosts").rglob("*")) if f.is_file() and not f.is_symlink()]
        runs.append({str(f): f.read_bytes() for f in files})
        shutil.rmtree(done.path)
    assert set(runs[0]) == set(runs[1]) and not [f for f in runs[0] if runs[0][f] != runs[1][f]]
