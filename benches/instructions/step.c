/* Writes down each instruction that a worker of Belljar executes, by stepping it one at a time, ptrace(2): exact
 * where a machine has no counters, and the same whatever else it does.
 *
 *     step FOLDER SECONDS COUNT COMMAND...
 *
 * Runs the command, waits so long, and steps its thread `worker-0` through so many instructions. FOLDER gets `trace`,
 * pairs of RIP and RSP, and `maps`. Then the command is interrupted. */
#define _GNU_SOURCE
#include <dirent.h>
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

static pid_t child;

static void fail(const char *what) {
    fprintf(stderr, "step: %s: %s\n", what, strerror(errno));
    if (child > 0)
        kill(child, SIGKILL);
    exit(1);
}

/* Its thread of this name. */
static pid_t thread_named(const char *wanted) {
    char path[PATH_MAX], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/task", child);
    DIR *tasks = opendir(path);
    pid_t found = 0;
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/comm", child, task->d_name);
        FILE *comm = fopen(path, "r");
        if (comm != NULL && fscanf(comm, "%31s", name) == 1 && strcmp(name, wanted) == 0)
            found = atoi(task->d_name);
        if (comm != NULL)
            fclose(comm);
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
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
    fclose(out);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: %s FOLDER SECONDS COUNT COMMAND...\n", argv[0]);
        return 2;
    }
    long count = atol(argv[3]);
    child = fork();
    if (child == 0) {
        execv(argv[4], argv + 4);
        perror(argv[4]);
        _exit(127);
    }
    sleep((unsigned)atoi(argv[2]));
    pid_t worker = thread_named("worker-0");
    if (worker == 0)
        fail("the command has no thread worker-0 (by now)");
    copy_maps(argv[1]);
    int status;
    if (ptrace(PTRACE_SEIZE, worker, 0, 0) != 0)
        fail("PTRACE_SEIZE");
    ptrace(PTRACE_INTERRUPT, worker, 0, 0);
    if (waitpid(worker, &status, __WALL) != worker)
        fail("waitpid");
    FILE *trace = create(argv[1], "trace");
    for (long signal = 0; count > 0;) {
        if (ptrace(PTRACE_SINGLESTEP, worker, 0, signal) != 0 || waitpid(worker, &status, __WALL) != worker)
            fail("PTRACE_SINGLESTEP");
        if (!WIFSTOPPED(status)) {
            errno = ESRCH;
            fail("the worker");
        }
        if (status >> 16 != 0)
            continue;
        /* Of signals it gets those that instructions raise: it would be preempted all the time otherwise, since
         * stepping takes processor time of its. */
        int stopped = WSTOPSIG(status);
        signal = stopped == SIGSYS || stopped == SIGSEGV ? stopped : 0;
        if (stopped != SIGTRAP)
            continue;
        struct user_regs_struct regs;
        ptrace(PTRACE_GETREGS, worker, 0, &regs);
        uint64_t at[2] = {regs.rip, regs.rsp};
        fwrite(at, sizeof at, 1, trace);
        count--;
    }
    if (fclose(trace) != 0)
        fail("trace");
    ptrace(PTRACE_DETACH, worker, 0, 0);
    kill(child, SIGINT);
    while (waitpid(child, &status, 0) == -1 && errno == EINTR)
        ;
    return 0;
}
