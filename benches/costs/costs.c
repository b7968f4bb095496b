// costs KIND N: does one thing N times.
//   call      a system call
//   handoff   a hand-over to another process and back, by futexes in shared memory on one processor
//   fork      a fork of 20 MiB, whose child ends at once
//   exec      a child that executes this program again, which does nothing
//   read, write followed by the size of the piece, of a file in the working directory
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY (20 << 20)
extern char **environ;

static void pass(atomic_uint *turn, unsigned to) {
    atomic_store(turn, to);
    syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL);
    while (atomic_load(turn) == to) syscall(SYS_futex, turn, FUTEX_WAIT, to, NULL);
}

static void handoff(long n) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    atomic_uint *turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (atomic_load(turn) == 0) syscall(SYS_futex, turn, FUTEX_WAIT, 0, NULL);
        for (;;) pass(turn, 0);
    }
    while (n--) pass(turn, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void forks(long n) {
    char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, MEMORY);
    while (n--) {
        pid_t child = fork();
        if (child < 0) err(1, "fork");
        if (child == 0) _exit(memory[MEMORY / 2] != 1);
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) errx(1, "the child has not seen its memory");
    }
}

static void execs(long n, char *self) {
    char *arguments[] = {self, "nothing", "1", NULL};
    while (n--) {
        pid_t child;
        int status;
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0) errx(1, "posix_spawn");
        if (waitpid(child, &status, 0) != child || status != 0) errx(1, "the child failed");
    }
}

static void pieces(long n, int writes, size_t size) {
    char *piece = malloc(size);
    memset(piece, 7, size);
    int file = open("costs.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int at = 0; at < 16; at++)
        if (pwrite(file, piece, size, at * size) != (ssize_t)size) err(1, "pwrite");
    while (n--) {
        off_t at = n % 16 * size;
        if ((writes ? pwrite(file, piece, size, at) : pread(file, piece, size, at)) != (ssize_t)size) err(1, "a piece");
    }
    unlink("costs.tmp");
}

int main(int argc, char **argv) {
    if (argc < 3) errx(2, "costs KIND N [SIZE]");
    const char *kind = argv[1];
    long n = atol(argv[2]);
    size_t size = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (!strcmp(kind, "call")) while (n--) syscall(SYS_getppid);
    else if (!strcmp(kind, "handoff")) handoff(n);
    else if (!strcmp(kind, "fork")) forks(n);
    else if (!strcmp(kind, "exec")) execs(n, argv[0]);
    else if (!strcmp(kind, "read") || !strcmp(kind, "write")) pieces(n, *kind == 'w', size);
    else if (!strcmp(kind, "hog")) { memset(malloc(n << 20), 1, n << 20); pause(); }
    return 0;
}
