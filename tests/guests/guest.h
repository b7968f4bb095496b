/* A handful of macros for programs that assert on Linux's behaviour and report it as TAP. They know
 * nothing of Belljar: every program here must pass on Linux first.
 *
 *     static void pipe_has_two_ends(void) { int p[2]; CHECK(pipe(p) == 0); }
 *     GUEST(T(pipe_has_two_ends))
 *
 * Run with a name as argument, only that test runs. fork() is left out on purpose: children are made
 * by vfork and posix_spawn, fork has programs of its own. */
#ifndef GUEST_H
#define GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static volatile int guest_failed;

__attribute__((unused)) static void guest_report(const char *file, int line, const char *what) {
    int e = errno;
    guest_failed = 1;
    printf("# %s:%d: %s (errno %d: %s)\n", file, line, what, e, strerror(e));
    fflush(stdout);
}

__attribute__((unused)) static int guest_same(const char *file, int line, const char *what, long long a, long long b) {
    if (a == b)
        return 1;
    int e = errno;
    guest_failed = 1;
    printf("# %s:%d: %s: %lld is not %lld (errno %d: %s)\n", file, line, what, a, b, e, strerror(e));
    fflush(stdout);
    return 0;
}

/* Ends the test (a void function) when the condition does not hold. */
#define CHECK(cond) do { if (!(cond)) { guest_report(__FILE__, __LINE__, #cond); return; } } while (0)
/* The same in a thread's function. */
#define TCHECK(cond) do { if (!(cond)) { guest_report(__FILE__, __LINE__, #cond); return NULL; } } while (0)
/* Two integers are equal; shows both when not. */
#define SAME(a, b) do { if (!guest_same(__FILE__, __LINE__, #a " == " #b, (long long)(a), (long long)(b))) return; } while (0)
/* The call fails with this errno. */
#define FAILS(call, err) do { errno = 0; long guest_r = (long)(call); \
    if (guest_r != -1) { guest_report(__FILE__, __LINE__, #call " succeeded, not " #err); return; } \
    if (!guest_same(__FILE__, __LINE__, "errno of " #call " == " #err, errno, err)) return; } while (0)

/* False where all calls that are tested are there: the release of another Linux does not tell what it was built with. */
__attribute__((unused)) static int may_lack_calls(void) {
    struct utsname u;
    return uname(&u) != 0 || strstr(u.release, "belljar") == NULL;
}

struct guest_test {
    const char *name;
    void (*run)(void);
};
#define T(f) {#f, f}

__attribute__((unused)) static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
__attribute__((unused)) static uint64_t now_ms(void) { return now_ns(CLOCK_MONOTONIC) / 1000000; }
__attribute__((unused)) static void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) == -1 && errno == EINTR) {
    }
}
/* A pause of `want` ms took `got`: never less, and not unreasonably more on a busy machine. */
__attribute__((unused)) static int lasted(uint64_t got, uint64_t want) { return got + 1 >= want && got < want + 3000; }

static int guest_run(int argc, char **argv, const struct guest_test *tests, int n) {
    int number = 0, failures = 0;
    for (int i = 0; i < n; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        guest_failed = 0;
        errno = 0;
        tests[i].run();
        printf("%s %d - %s\n", guest_failed ? "not ok" : "ok", ++number, tests[i].name);
        fflush(stdout);
        failures += guest_failed;
    }
    printf("1..%d\n", number);
    fflush(stdout);
    return failures != 0 || number == 0;
}

#define GUEST(...) GUEST_WITH(, __VA_ARGS__)
/* `first` runs before the tests and may return from main: what a re-executed child does. */
#define GUEST_WITH(first, ...) \
    int main(int argc, char **argv) { \
        static const struct guest_test tests[] = {__VA_ARGS__}; \
        first; \
        return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests)); \
    }

/* A private directory to work in; a test removes what it made in it, so that it can go at exit. */
static char guest_scratch[PATH_MAX];
__attribute__((unused)) static void scratch_leave(void) {
    if (chdir(guest_scratch) == 0 && chdir("..") == 0)
        rmdir(guest_scratch);
}
__attribute__((unused)) static void scratch_enter(void) {
    char template[] = "guest-XXXXXX";
    if (mkdtemp(template) == NULL || chdir(template) != 0 || getcwd(guest_scratch, sizeof guest_scratch) == NULL) {
        printf("# no scratch directory: %s\n", strerror(errno));
        exit(1);
    }
    atexit(scratch_leave);
}
#endif
