/* Records each instruction that a worker of Belljar executes between two marks of a guest (guest.c), by single steps, ptrace(2):
 * exact where a machine has no counters, and the same whatever else it does.
 *
 *     step FOLDER LIMIT COMMAND...
 *
 * Runs COMMAND with all of its threads traced. At the first mark, an `int3`, the thread that executes it is stepped until it
 * reaches the same one again. Then COMMAND runs to its end, and step's status is that of COMMAND; 77 where ptrace is denied,
 * 1 after LIMIT instructions without a second mark. FOLDER gets
 *
 *     trace   the address of each instruction, 64 bits
 *     units   the sum of the units that guests have reported (unit.h)
 *     maps    the mappings of the process */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { DENIED = 77, TRAP_FLAG = 0x100 };

static pid_t child;

static void fail(const char *what) {
    fprintf(stderr, "step: %s: %s\n", what, strerror(errno));
    if (child > 0)
        kill(child, SIGKILL);
    exit(1);
}

static FILE *create(const char *folder, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        fail(path);
    return file;
}

static void copy_maps(const char *folder) {
    char path[PATH_MAX], line[PATH_MAX + 100];
    snprintf(path, sizeof path, "/proc/%d/maps", child);
    FILE *in = fopen(path, "r"), *out = create(folder, "maps");
    if (in == NULL)
        fail(path);
    while (fgets(line, sizeof line, in) != NULL)
        fputs(line, out);
    fclose(in);
    if (fclose(out) != 0)
        fail("maps");
}

/* Starts the command, which waits until it is traced. */
static void start(char **command) {
    int traced[2];
    if (pipe(traced) != 0)
        fail("pipe");
    child = fork();
    if (child == -1)
        fail("fork");
    if (child == 0) {
        char go;
        close(traced[1]);
        if (read(traced[0], &go, 1) != 1)
            _exit(127);
        close(traced[0]);
        execv(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0) {
        fprintf(stderr, "step: ptrace(2) is denied: %s\n", strerror(errno));
        kill(child, SIGKILL);
        exit(DENIED);
    }
    if (write(traced[1], "", 1) != 1)
        fail("pipe");
    close(traced[0]), close(traced[1]);
}

static struct user_regs_struct registers(pid_t thread) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, thread, 0, &regs) != 0)
        fail("PTRACE_GETREGS");
    return regs;
}

/* Lets a thread that has stopped go on; true, instead, if it has stopped at a mark. */
static int resume(pid_t thread, int status) {
    if (!WIFSTOPPED(status))
        return 0;
    int event = status >> 16, signal = event != 0 ? 0 : WSTOPSIG(status);
    siginfo_t info;
    if (signal == SIGTRAP && ptrace(PTRACE_GETSIGINFO, thread, 0, &info) == 0 && info.si_code == SI_KERNEL)
        return 1;
    /* A thread that has been killed meanwhile is gone. */
    if (ptrace(PTRACE_CONT, thread, 0, signal) != 0 && errno != ESRCH)
        fail("PTRACE_CONT");
    return 0;
}

static pid_t await(int *status) {
    pid_t thread;
    while ((thread = waitpid(-1, status, __WALL)) == -1 && errno == EINTR)
        ;
    if (thread == -1)
        fail("waitpid");
    return thread;
}

/* Ends with the command's status. */
static void end(int status) {
    if (WIFSIGNALED(status))
        fprintf(stderr, "step: the command ended by signal %d\n", WTERMSIG(status));
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* True if the instruction at an address is `pushf`. */
static int is_pushf(pid_t thread, uint64_t rip) {
    static struct {
        uint64_t rip;
        int is_pushf;
    } known[1 << 16];
    size_t slot = (rip ^ rip >> 16) % (sizeof known / sizeof known[0]);
    if (known[slot].rip != rip) {
        known[slot].rip = rip;
        known[slot].is_pushf = (ptrace(PTRACE_PEEKTEXT, thread, rip, 0) & 0xff) == 0x9c;
    }
    return known[slot].is_pushf;
}

/* Clears the trap flag that steps have set among flags that were pushed: Belljar would take it for the guest's. */
static void clear_pushed(pid_t thread, uint64_t rsp) {
    errno = 0;
    long flags = ptrace(PTRACE_PEEKDATA, thread, rsp, 0);
    if (errno != 0 || ptrace(PTRACE_POKEDATA, thread, rsp, flags & ~TRAP_FLAG) != 0)
        fail("pushed flags");
}

/* Steps a thread, which gets a signal first, and gives the signal that it has stopped with; 0 for an event. Others go on. */
static int step(pid_t thread, int signal) {
    if (ptrace(PTRACE_SINGLESTEP, thread, 0, signal) != 0)
        fail("PTRACE_SINGLESTEP");
    int status;
    for (pid_t stopped; (stopped = await(&status)) != thread;) {
        resume(stopped, status);
        if (stopped == child && !WIFSTOPPED(status))
            end(status);
    }
    if (!WIFSTOPPED(status)) {
        errno = ESRCH;
        fail("the worker");
    }
    return status >> 16 != 0 ? 0 : WSTOPSIG(status);
}

/* Steps the thread from a mark to the next one. */
static void record(pid_t thread, const char *folder, long limit) {
    FILE *trace = create(folder, "trace");
    uint64_t mark = registers(thread).rip - 1, rip = mark + 1;
    long units = 0, reported = 0;
    for (int signal = 0; rip != mark; limit--) {
        if (limit == 0) {
            errno = ETIME;
            fail("no second mark in so many instructions");
        }
        int pushes = is_pushf(thread, rip);
        signal = step(thread, signal);
        if (signal != SIGTRAP) {
            /* It gets those signals that instructions raise. It would be preempted all the time otherwise, since stepping
             * takes processor time of its. */
            int raised = signal == SIGSYS || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
            signal = raised ? signal : 0;
            continue;
        }
        signal = 0;
        struct user_regs_struct regs = registers(thread);
        rip = regs.rip;
        fwrite(&rip, sizeof rip, 1, trace);
        if (pushes)
            clear_pushed(thread, regs.rsp);
        if (regs.rax == UNIT) {
            reported = (long)regs.rdi;
        } else {
            units += reported;
            reported = 0;
        }
    }
    if (fclose(trace) != 0)
        fail("trace");
    FILE *sum = create(folder, "units");
    fprintf(sum, "%ld\n", units);
    if (fclose(sum) != 0)
        fail("units");
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s FOLDER LIMIT COMMAND...\n", argv[0]);
        return 2;
    }
    start(argv + 3);
    for (int marks = 0, status;;) {
        pid_t thread = await(&status);
        if (thread == child && !WIFSTOPPED(status))
            end(status);
        if (!resume(thread, status))
            continue;
        if (marks++ == 0) {
            copy_maps(argv[1]);
            record(thread, argv[1], atol(argv[2]));
        }
        /* At the second mark the `int3` itself is yet to be executed, and stops again. */
        if (ptrace(PTRACE_CONT, thread, 0, 0) != 0)
            fail("PTRACE_CONT");
    }
}
