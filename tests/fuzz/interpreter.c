/* Makes the system calls of a sequence, one per line ("write 3 100"), and says what each gave: result, errno,
 * data, the signals that came and what poll(2) says of every descriptor that changed. Natively and under
 * Belljar the output must be the same.
 *
 *     interpreter FILE
 *
 * The sequence runs in a process of its own, so that its end is seen as well. A call that waits is ended by a
 * signal after a while, which shows as EINTR. */
#include "machine.h"
#include "descriptors.h"
#include "sockets.h"
#include "names.h"
#include "processes.h"
#include "credentials.h"
#include "netlink.h"
#include <spawn.h>

enum { GUARD_MS = 60, ARGUMENTS = 8 };

struct operation {
    const char *name;
    void (*make)(const long *a);
};
#define O(name) {#name, do_##name}
static const struct operation operations[] = {
    O(pipe), O(eventfd), O(socketpair), O(socket), O(open), O(memfd), O(epoll), O(timerfd), O(signalfd), O(inotify),
    O(inotify_add), O(inotify_rm), O(close), O(close_range), O(dup), O(dup2), O(dup3), O(fcntl), O(dupfd), O(lock), O(flock),
    O(read), O(write), O(readv), O(writev), O(pread), O(pwrite), O(lseek), O(ftruncate), O(fallocate), O(fsync), O(fstat),
    O(fchmod), O(sendfile), O(splice), O(tee), O(vmsplice), O(copy_file_range), O(ioctl), O(poll), O(select), O(epoll_ctl),
    O(epoll_wait), O(bind), O(listen), O(connect), O(accept), O(getsockname), O(getpeername), O(shutdown), O(send), O(recv),
    O(sendmsg), O(recvmsg), O(getsockopt), O(setsockopt), O(mkdir), O(rmdir), O(unlink), O(rename), O(link), O(symlink),
    O(readlink), O(truncate), O(stat), O(lstat), O(chmod), O(access), O(getdents), O(chdir), O(mkfifo), O(utimens), O(umask),
    O(sigaction), O(kill), O(sigqueue), O(sigprocmask), O(sigpending), O(sigtimedwait), O(sigsuspend), O(sigaltstack),
    O(timer_create), O(timer_settime), O(timer_gettime), O(timer_delete), O(setitimer), O(getitimer), O(timerfd_settime),
    O(timerfd_gettime), O(fork_exit), O(fork_wait), O(kill_child), O(wait4), O(waitid), O(setpgid), O(nanosleep), O(rlimit),
    O(prctl), O(futex), O(mmap), O(munmap), O(mprotect), O(mremap), O(msync), O(madvise), O(write_from), O(read_into),
    O(openat2), O(name_file), O(preadv2), O(pwritev2), O(bind_port), O(timeout), O(linger), O(peercred), O(fork_lock),
    O(event_write), O(event_read), O(begin), O(setuid), O(setgid), O(setreuid), O(setregid), O(setresuid), O(setresgid), O(setfsuid),
    O(setfsgid), O(setgroups), O(capset), O(keepcaps), O(securebits), O(bounding), O(ambient), O(no_new_privs), O(dumpable),
    O(chown), O(fchown), O(owner), O(faccessat2), O(run_program), O(fork_as), O(on_process), O(asked_of_sockets), O(say_who),
    O(nl_host), O(nl_options), O(nl_begin), O(nl_put), O(nl_claim), O(nl_name), O(nl_raw), O(nl_nest), O(nl_hop), O(nl_close), O(nl_send),
    O(nl_tables),
};

static timer_t guard;
static void guarded(int number) { (void)number; }
static void set_guard(int ms) {
    struct itimerspec at = {{0, ms * 1000000}, {0, ms * 1000000}};
    timer_settime(guard, 0, &at, NULL);
}

/* What poll says of all descriptors, where it is not what it was after the line before. */
static void say_readiness(void) {
    static short before[SLOTS];
    struct pollfd set[SLOTS];
    for (int i = 0; i < SLOTS; i++)
        set[i] = (struct pollfd){slot[i], POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    poll(set, SLOTS, 0);
    for (int i = 0; i < SLOTS; i++) {
        if (set[i].revents != before[i])
            say(" %d:%x", i, set[i].revents);
        before[i] = set[i].revents;
    }
}

static int run(const char *file) {
    FILE *f = fopen(file, "re");
    static char text[1 << 16];
    size_t length = f == NULL ? 0 : fread(text, 1, sizeof text - 1, f);
    text[length] = 0;
    if (f == NULL || fclose(f) != 0 || mkdir("w", 0777) != 0 || chdir("w") != 0) {
        perror(file);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    /* Out of the way of the descriptors of the sequence, which are said. */
    here = fcntl(open(".", O_DIRECTORY | O_CLOEXEC), F_DUPFD_CLOEXEC, 900);
    close(3);
    self_image = fcntl(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), F_DUPFD_CLOEXEC, 901);
    close(3);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) {
        for (int i = 0; i < 2; i++) {
            life[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 902);
            close(ends[i]);
        }
    }
    memset(slot, -1, sizeof slot);
    memset(timer_of, -1, sizeof timer_of);
    umask(022);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 1024});
    struct sigaction action = {.sa_handler = guarded};
    sigaction(SIGRTMAX, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMAX};
    timer_create(CLOCK_MONOTONIC, &event, &guard);

    /* The test of the harness: this operation is said to give something else. */
    const char *canary = getenv("FUZZ_CANARY");
    char *rest = text;
    for (char *at; (at = strsep(&rest, "\n")) != NULL;) {
        line_number++;
        char name[32];
        int used = 0;
        if (*at == '#' || sscanf(at, "%31s%n", name, &used) != 1)
            continue;
        long arguments[ARGUMENTS] = {0};
        at += used;
        for (int i = 0; i < ARGUMENTS; i++)
            arguments[i] = strtol(at, &at, 0);
        const struct operation *o = operations;
        const struct operation *end = operations + sizeof operations / sizeof *operations;
        while (o < end && strcmp(o->name, name) != 0)
            o++;
        if (o == end) {
            fprintf(stderr, "%s:%d: there is no operation %s\n", file, line_number, name);
            return 2;
        }
        line_length = 0;
        say("%d %s", line_number, name);
        set_guard(GUARD_MS);
        o->make(arguments);
        set_guard(0);
        if (canary != NULL && strcmp(canary, name) == 0)
            say(" canary");
        say_signals();
        say_readiness();
        say("\n");
        write(1, line, line_length);
    }
    line_length = 0;
    for (int i = 0; i < SLOTS; i++)
        say_descriptor(i);
    say("end\n");
    write(1, line, line_length);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--whoami") == 0)
        whoami();
    if (argc == 3)
        return run(argv[2]);
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    extern char **environ;
    pid_t pid;
    int status = 0;
    char *arguments[] = {argv[0], "--run", argv[1], NULL};
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) != 0 || waitpid(pid, &status, 0) != pid)
        return 2;
    printf("exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 ? 2 : 0;
}
