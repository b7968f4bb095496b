"""Programs that wait by reading memory in a loop, without a call: when the native timer notices them must not show."""

import os
import shutil
import subprocess

import pytest
from conftest import experiment

# Waits by spinning for a thread, for a lock that a sleeping thread holds, for another process with a longer loop that
# takes a lock itself, and for a signal's handler. Each time it says what time it is.
SPINNER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int lock, started, alarmed;

static void say(const char *what) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%s %ld.%09ld %p\n", what, (long)now.tv_sec, now.tv_nsec, (void *)&now);
}
static void take(atomic_int *lock) {
    while (atomic_exchange(lock, 1))
        while (atomic_load(lock)) __builtin_ia32_pause();
}
static void give(atomic_int *lock) { atomic_store(lock, 0); }
static void *holder(void *unused) {
    usleep(1000);
    take(&lock);
    started = 1;
    for (int n = 0; n < 3000; n++) getppid();
    usleep(1000);
    give(&lock);
    return unused;
}
static void on_alarm(int signal) { alarmed = signal; }
__attribute__((noinline)) static int look(atomic_int *words, int rounds) {
    int found = 0;
    for (int i = 0; i < rounds; i++) { take(&words[0]); found += words[1]; give(&words[0]); }
    return found;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, holder, NULL);
    while (!started) ;
    say("thread");
    take(&lock);
    say("lock");
    atomic_int *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    if (fork() == 0) {
        for (int n = 0; n < 3000; n++) { take(&words[0]); getppid(); give(&words[0]); }
        usleep(20000);
        words[1] = 1;
        sleep(2);
        _exit(0);
    }
    while (!look(words, 20)) ;
    say("process");
    signal(SIGALRM, on_alarm);
    alarm(1);
    while (!alarmed) ;
    say("alarm");
    wait(NULL);
    say("end");
    return 0;
}
"""


@pytest.fixture
def spinner(workdir):
    (workdir / "spinner.c").write_text(SPINNER)
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-pthread", "-o", workdir / "spinner", workdir / "spinner.c"], check=True)
    return workdir / "spinner"


@pytest.fixture
def load():
    """Two busy programs for each processor."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
    yield
    for program in busy:
        program.kill()
        program.wait()


def runs(run_experiment, program):
    described = experiment({"host": (0, [{"path": str(program)}])}, stop="20 s")
    for placement in ("near", "far"):
        done = run_experiment(described, args=["--placement", placement, "--strace"], name="same")
        assert "preempted" not in done.out, done.out
        yield done.text("host"), {f.name: f.read_bytes() for f in done.host("host").iterdir() if f.is_file()}
        shutil.rmtree(done.path)


def test_when_a_loop_is_noticed_does_not_show(run_experiment, spinner, request):
    free = list(runs(run_experiment, spinner))
    request.getfixturevalue("load")
    loaded = list(runs(run_experiment, spinner))
    said = free[0][0]
    assert [line.split()[0] for line in said.splitlines()] == ["thread", "lock", "process", "alarm", "end"]
    times = [float(line.split()[1]) for line in said.splitlines()]
    assert times[1] - times[0] > 0.001 and times[2] - times[1] > 0.02 and times[3] - times[2] >= 1, said
    assert all(run == free[0] for run in free + loaded)


# Counts its rounds in memory alone: wherever a round is begun, the registers are the same when it has come round.
COUNTER = r"""
#include <stdio.h>
#include <time.h>

static unsigned long left = 4000000;

static void say(const char *what) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%s %ld.%09ld\n", what, (long)now.tv_sec, now.tv_nsec);
}

int main(void) {
    say("begin");
    __asm__ volatile("1: mov $100, %%ecx\n"
                     "2: dec %%ecx\n"
                     "jnz 2b\n"
                     "mov (%0), %%rax\n"
                     "sub $1, %%rax\n"
                     "mov %%rax, (%0)\n"
                     "mov $0, %%eax\n"
                     "jnz 1b\n"
                     : : "r"(&left) : "rax", "rcx", "cc", "memory");
    say("end");
    return 0;
}
"""


def test_who_counts_in_memory_computes(run_experiment, workdir):
    (workdir / "counter.c").write_text(COUNTER)
    subprocess.run(["gcc", "-O1", "-o", workdir / "counter", workdir / "counter.c"], check=True)
    for placement in ("near", "far"):
        processes = [{"path": str(workdir / "counter")}, {"path": "sleep", "args": "7", "expected_final_state": {"exited": 0}}]
        done = run_experiment(experiment({"host": (0, processes)}, stop="20 s"), args=["--placement", placement], name="same")
        begin, end = done.text("host", "counter").split("\n")[:2]
        assert begin.split()[1] == end.split()[1], (placement, begin, end)
        shutil.rmtree(done.path)


# Waits in a loop for the signal of a timer of processor time.
METERED = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t expired;
static void on_expiry(int signal) { expired = signal; }

int main(void) {
    struct itimerval timer = {.it_value = {.tv_usec = 60000}};
    signal(SIGPROF, on_expiry);
    setitimer(ITIMER_PROF, &timer, NULL);
    while (!expired) ;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%ld\n", now.tv_nsec / 1000000);
    return 0;
}
"""


def test_native_preemption_sim_interval_is_charged_to_a_loop(run_experiment, workdir):
    """In steps of 10 ms, the timer of 60 ms is seen at its time; in steps of 100 ms, after the first."""
    (workdir / "metered.c").write_text(METERED)
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-o", workdir / "metered", workdir / "metered.c"], check=True)
    seen = {}
    for interval in ("10 ms", "100 ms"):
        described = experiment({"host": (0, [{"path": str(workdir / "metered")}])}, stop="20 s")
        described["experimental"] = {"native_preemption_sim_interval": interval}
        seen[interval] = int(run_experiment(described).text("host"))
    assert 60 <= seen["10 ms"] < 80 and 100 <= seen["100 ms"] < 120, seen
