/* Limits that are enforced, setrlimit(2). */
#include "guest.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* As root a child becomes somebody without processes; others have too many to count. */
static void a_user_has_only_so_many_processes(void) {
    if (geteuid() != 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit two = {2, 2};
        if (setgid(54321) != 0 || setuid(54321) != 0 || setrlimit(RLIMIT_NPROC, &two) != 0)
            _exit(1);
        pid_t first = fork();
        if (first == 0) {
            pause();
            _exit(0);
        }
        if (first < 0)
            _exit(2);
        if (fork() != -1 || errno != EAGAIN)
            _exit(3);
        kill(first, SIGKILL);
        waitpid(first, NULL, 0);
        /* there is room again */
        pid_t again = fork();
        if (again == 0)
            _exit(0);
        _exit(again > 0 && waitpid(again, NULL, 0) == again ? 0 : 4);
    }
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid);
    SAME(status, 0);
}

/* The first number of statm: all that is mapped; the second: what of it is in memory. */
static size_t statm(int which) {
    char text[100] = "", *at = text;
    int fd = open("/proc/self/statm", O_RDONLY);
    if (read(fd, text, sizeof text - 1) < 0)
        return 0;
    close(fd);
    size_t pages = strtoul(at, &at, 10);
    return (which == 1 ? pages : strtoul(at, NULL, 10)) * 4096;
}

static size_t mapped(void) {
    return statm(1);
}

/* What a runtime only reserves, as Erlang, Go and Java do, does not count as memory that it uses. */
static void what_is_reserved_is_not_in_memory(void) {
    enum { MIB = 1 << 20, KIND = MAP_PRIVATE | MAP_ANONYMOUS };
    size_t size = statm(1), resident = statm(2);
    CHECK(resident > 0 && resident <= size);
    char *some = mmap(NULL, 64 * MIB, PROT_NONE, KIND | MAP_NORESERVE, -1, 0);
    CHECK(some != MAP_FAILED);
    CHECK(statm(1) >= size + 64 * MIB && statm(2) < resident + 8 * MIB);
    CHECK(mprotect(some, 16 * MIB, PROT_READ | PROT_WRITE) == 0);
    memset(some, 1, 16 * MIB);
    CHECK(statm(2) >= resident + 16 * MIB && statm(2) < resident + 32 * MIB);
    CHECK(munmap(some, 64 * MIB) == 0 && statm(2) < resident + 8 * MIB);
}

static void only_so_many_addresses(void) {
    enum { MIB = 1 << 20, KIND = MAP_PRIVATE | MAP_ANONYMOUS };
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0 && mapped() > 0);
    limit = before;
    limit.rlim_cur = mapped() + 16 * MIB;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    char *some = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, KIND, -1, 0);
    CHECK(some != MAP_FAILED);
    CHECK(mmap(NULL, 200 * MIB, PROT_NONE, KIND | MAP_NORESERVE, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(mremap(some, 4 * MIB, 200 * MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(sbrk(200 * MIB) == (void *)-1 && errno == ENOMEM);
    CHECK(malloc(200 * MIB) == NULL);
    /* what takes the place of something else is not more than that */
    limit.rlim_cur = 4 * MIB;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(mmap(NULL, 4096, PROT_READ, KIND, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(munmap(some, 4 * MIB) == 0);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    some = mmap(NULL, 200 * MIB, PROT_NONE, KIND | MAP_NORESERVE, -1, 0);
    CHECK(some != MAP_FAILED && munmap(some, 200 * MIB) == 0);
}

/* A child that has so many MiB in memory for a moment. */
static pid_t child_with(int mib) {
    pid_t pid = fork();
    if (pid == 0) {
        struct rusage none;
        char *m = mmap(NULL, (size_t)mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getrusage(RUSAGE_CHILDREN, &none);
        if (m == MAP_FAILED || none.ru_maxrss != 0)
            _exit(1);
        memset(m, 1, (size_t)mib << 20);
        _exit(0);
    }
    return pid;
}

static void the_most_memory_of_children_is_told(void) {
    struct rusage own, all;
    int status;
    /* one that nobody waits for does not count */
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = child_with(128);
    CHECK(waitpid(pid, NULL, 0) == -1 && errno == ECHILD);
    signal(SIGCHLD, SIG_DFL);
    pid = child_with(64);
    CHECK(wait4(pid, &status, 0, &own) == pid && status == 0);
    CHECK(getrusage(RUSAGE_CHILDREN, &all) == 0);
    CHECK(own.ru_maxrss >= 64 << 10 && all.ru_maxrss >= own.ru_maxrss && all.ru_maxrss < 128 << 10);
}

GUEST(T(the_most_memory_of_children_is_told), T(a_user_has_only_so_many_processes), T(only_so_many_addresses),
      T(what_is_reserved_is_not_in_memory))
