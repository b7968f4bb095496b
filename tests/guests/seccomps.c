/* Restrictions of system calls: seccomp(2), prctl(2) with PR_SET_SECCOMP. The structures are written out: libcs differ in headers. */
#include "guest.h"
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct instruction { uint16_t code; uint8_t jt, jf; uint32_t k; };
struct program { unsigned short len; struct instruction *filter; };
enum { LOAD = 0x20, EQUAL = 0x15, RET = 0x06 };
enum { STRICT = 0, FILTER = 1, AVAILABLE = 2, TSYNC = 1 };
#define KILL_PROCESS 0x80000000u
#define KILL_THREAD 0u
#define TRAP 0x30000u
#define FAIL 0x50000u
#define TRACE 0x7ff00000u
#define ALLOW 0x7fff0000u
enum { NUMBER = 0, ARCH = 4, ADDRESS = 8, FIRST = 16, SECOND = 24 };

static long seccomp(unsigned operation, unsigned flags, void *at) { return syscall(SYS_seccomp, operation, flags, at); }

/* A call with this number gives that; so do only those whose word at an offset is equal, if there is one. */
static long forbid(unsigned number, uint32_t result, uint32_t offset, uint32_t value, unsigned flags) {
    struct instruction rule[] = {
        {LOAD, 0, 0, NUMBER}, {EQUAL, 0, 3, number}, {LOAD, 0, 0, offset}, {EQUAL, 0, 1, value}, {RET, 0, 0, result}, {RET, 0, 0, ALLOW},
    };
    struct program p = {sizeof rule / sizeof *rule, rule};
    return seccomp(FILTER, flags, &p);
}
/* What a child's status is, for a function that restricts it. */
static int child_gives(int (*run)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(run());
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : -1;
}

static int a_call_fails(void) {
    if (forbid(SYS_getppid, FAIL | 77, ARCH, 0xc000003e, 0) != 0)
        return 1;
    errno = 0;
    if (syscall(SYS_getppid) != -1 || errno != 77 || syscall(SYS_getpid) != getpid())
        return 2;
    if (forbid(SYS_dup, FAIL | 1, FIRST, 5, 0) != 0 || forbid(SYS_dup, FAIL | 2, SECOND + 4, 1, 0) != 0)
        return 3;
    if (syscall(SYS_dup, 5) != -1 || errno != 1 || syscall(SYS_dup, 0, 1L << 32) != -1 || errno != 2)
        return 4;
    if (forbid(SYS_dup, FAIL | 3, FIRST, 5, 0) != 0 || syscall(SYS_dup, 5) != -1 || errno != 3) /* the newest of equal ones */
        return 5;
    if (forbid(SYS_getppid, FAIL, ARCH, 0xc000003e, 0) != 0 || syscall(SYS_getppid) != 0)
        return 6;
    if (prctl(PR_GET_SECCOMP) != 2)
        return 7;
    pid_t child = fork();
    if (child == 0)
        _exit(syscall(SYS_getppid) == 0 ? 3 : 4);
    int status;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 ? 0 : 8;
}
static int killed(void) { return forbid(SYS_getppid, KILL_PROCESS, ARCH, 0xc000003e, 0) != 0 ? 1 : (int)syscall(SYS_getppid); }
static int killed_alone(void) { return forbid(SYS_getppid, KILL_THREAD, ARCH, 0xc000003e, 0) != 0 ? 1 : (int)syscall(SYS_getppid); }
static pid_t restricted_tid;
static void *restricted(void *ready) {
    restricted_tid = syscall(SYS_gettid);
    if (forbid(SYS_getppid, KILL_THREAD, ARCH, 0xc000003e, 0) == 0)
        *(int *)ready = 1;
    syscall(SYS_getppid);
    *(int *)ready = 2;
    return NULL;
}
static int one_of_several_is_killed(void) {
    static int ready;
    pthread_t t;
    if (pthread_create(&t, NULL, restricted, &ready) != 0)
        return 1;
    /* musl's pthread_join waits for a word that only the thread itself would write. */
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE) || syscall(SYS_tgkill, getpid(), restricted_tid, 0) == 0)
        usleep(1000);
    return ready == 1 && syscall(SYS_getppid) == getppid() ? 0 : 2;
}
static int strictest(void) {
    if (forbid(SYS_getppid, FAIL | 1, ARCH, 0xc000003e, 0) != 0 || forbid(SYS_getppid, KILL_PROCESS, ARCH, 0xc000003e, 0) != 0)
        return 1;
    if (forbid(SYS_getppid, TRAP, ARCH, 0xc000003e, 0) != 0)
        return 2;
    return (int)syscall(SYS_getppid);
}
static void calls_are_refused(void) {
    SAME(child_gives(a_call_fails), 0);
    SAME(child_gives(killed), 1000 + SIGSYS);
    SAME(child_gives(killed_alone), 1000 + SIGSYS);
    SAME(child_gives(one_of_several_is_killed), 0);
    SAME(child_gives(strictest), 1000 + SIGSYS);
}

static siginfo_t seen;
static uint64_t rax, rip;
static void trapped(int n, siginfo_t *info, void *context) {
    (void)n;
    ucontext_t *u = context;
    seen = *info;
    rax = u->uc_mcontext.gregs[REG_RAX], rip = u->uc_mcontext.gregs[REG_RIP];
    u->uc_mcontext.gregs[REG_RAX] = 4711;
}
static int a_handler_answers(void) {
    struct sigaction a = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
    if (forbid(SYS_getppid, TRAP | 9, ARCH, 0xc000003e, 0) != 0)
        return 1;
    if (syscall(SYS_getppid) != 4711)
        return 2;
    unsigned *fields = (unsigned *)((char *)&seen + 24); /* si_syscall and si_arch */
    if (seen.si_code != 1 || seen.si_errno != 9 || fields[0] != SYS_getppid || fields[1] != 0xc000003e || rax != SYS_getppid)
        return 3;
    return *(uintptr_t *)((char *)&seen + 16) == rip ? 0 : 4; /* si_call_addr is behind the instruction */
}
static int blocked_is_fatal(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    return forbid(SYS_getppid, TRAP, ARCH, 0xc000003e, 0) != 0 ? 1 : (int)syscall(SYS_getppid);
}
static int nobody_traces(void) {
    if (forbid(SYS_getppid, TRACE, ARCH, 0xc000003e, 0) != 0)
        return 1;
    return syscall(SYS_getppid) == -1 && errno == ENOSYS ? 0 : 2;
}
static void signals_and_tracers(void) {
    SAME(child_gives(a_handler_answers), 0);
    SAME(child_gives(blocked_is_fatal), 1000 + SIGSYS);
    SAME(child_gives(nobody_traces), 0);
}

static int strict_calls(void) {
    int ends[2];
    char c = 'x';
    if (pipe(ends) != 0 || prctl(PR_SET_SECCOMP, 1) != 0)
        syscall(SYS_exit, 1);
    if (write(ends[1], &c, 1) != 1 || read(ends[0], &c, 1) != 1)
        syscall(SYS_exit, 2);
    syscall(SYS_exit, 5);
    return 0;
}
static int strict_and_more(void) {
    if (seccomp(STRICT, 0, NULL) != 0)
        return 1;
    prctl(PR_GET_SECCOMP);
    return 2;
}
static void strictly(void) {
    SAME(child_gives(strict_calls), 5);
    SAME(child_gives(strict_and_more), 1000 + SIGKILL);
}

static int clocks_of_the_vdso(void) {
    /* They make no call. */
    struct timespec t, u;
    if (forbid(SYS_getppid, FAIL | 1, ARCH, 0xc000003e, 0) != 0)
        return 1;
    return clock_gettime(CLOCK_MONOTONIC, &t) == 0 && clock_gettime(CLOCK_MONOTONIC, &u) == 0 && u.tv_sec >= t.tv_sec ? 0 : 2;
}
static int numbers_of_processes(void) {
    for (int n = 0; n < 100; n++)
        syscall(SYS_gettid);
    if (forbid(SYS_gettid, FAIL | 7, ARCH, 0xc000003e, 0) != 0)
        return 1;
    for (int n = 0; n < 100; n++)
        if (syscall(SYS_gettid) != -1 || errno != 7)
            return 2;
    return 0;
}
static void what_is_answered_without_the_kernel(void) {
    SAME(child_gives(clocks_of_the_vdso), 0);
    SAME(child_gives(numbers_of_processes), 0);
}

static pthread_mutex_t go = PTHREAD_MUTEX_INITIALIZER;
static void *other(void *result) {
    pthread_mutex_lock(&go);
    errno = 0;
    *(int *)result = syscall(SYS_getppid) == -1 ? errno : 0;
    pthread_mutex_unlock(&go);
    return NULL;
}
static int all_threads(void) {
    static int result;
    pthread_t t;
    pthread_mutex_lock(&go);
    if (pthread_create(&t, NULL, other, &result) != 0 || forbid(SYS_getppid, FAIL | 33, ARCH, 0xc000003e, TSYNC) != 0)
        return 1;
    pthread_mutex_unlock(&go);
    pthread_join(t, NULL);
    return result == 33 ? 0 : 2;
}
static void *apart(void *barriers) {
    pthread_barrier_t *b = barriers;
    forbid(SYS_getppid, FAIL | 1, ARCH, 0xc000003e, 0);
    pthread_barrier_wait(b);
    pthread_barrier_wait(b);
    return (void *)syscall(SYS_gettid);
}
static int threads_that_differ(void) {
    pthread_barrier_t b;
    pthread_t t;
    void *tid;
    pthread_barrier_init(&b, NULL, 2);
    pthread_create(&t, NULL, apart, &b);
    pthread_barrier_wait(&b);
    long first = forbid(SYS_getppid, FAIL | 2, ARCH, 0xc000003e, TSYNC);
    long second = forbid(SYS_getppid, FAIL | 2, ARCH, 0xc000003e, TSYNC | 16);
    int e = errno;
    pthread_barrier_wait(&b);
    pthread_join(t, &tid);
    return first == (long)tid && second == -1 && e == ESRCH && syscall(SYS_getppid) == getppid() ? 0 : 1;
}
static void of_all_threads(void) {
    SAME(child_gives(all_threads), 0);
    SAME(child_gives(threads_that_differ), 0);
}

static void what_cannot_be_asked(void) {
    struct instruction one = {RET, 0, 0, ALLOW}, half[] = {{0x28, 0, 0, 0}, one}, outside[] = {{LOAD, 0, 0, 64}, one};
    struct instruction odd[] = {{LOAD, 0, 0, 2}, one}, modulo[] = {{0x94, 0, 0, 3}, one}, jump[] = {{EQUAL, 1, 0, 0}, one};
    struct program p = {1, &one}, wrong[] = {{2, half}, {2, outside}, {2, odd}, {2, modulo}, {2, jump}, {0, &one}, {4097, &one}};
    uint32_t action = TRAP;
    FAILS(seccomp(99, 0, NULL), EINVAL);
    FAILS(seccomp(STRICT, 1, NULL), EINVAL);
    FAILS(seccomp(FILTER, 0x1000, &p), EINVAL);
    FAILS(seccomp(FILTER, 0, (void *)8), EFAULT);
    FAILS(prctl(PR_SET_SECCOMP, 3, 0), EINVAL);
    SAME(seccomp(AVAILABLE, 0, &action), 0);
    action = 0x12340000;
    FAILS(seccomp(AVAILABLE, 0, &action), EOPNOTSUPP);
    SAME(prctl(PR_GET_SECCOMP), 0);
    if (geteuid() != 0)
        FAILS(seccomp(FILTER, 0, &p), EACCES);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        for (unsigned n = 0; n < sizeof wrong / sizeof *wrong; n++)
            if (seccomp(FILTER, 0, &wrong[n]) != -1 || errno != EINVAL)
                _exit(n + 1);
        if (prctl(PR_SET_SECCOMP, 2, &p) != 0 || prctl(PR_SET_SECCOMP, 1) != -1 || errno != EINVAL)
            _exit(50);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    SAME(status, 0);
}


static void may_not_be_had(void) {
    if (syscall(SYS_seccomp, FILTER, 0, NULL) == -1 && errno != EFAULT && may_lack_calls()) {
        printf("# skipped: filters are not to be had here (%s)\n", strerror(errno));
        exit(77);
    }
}

GUEST_WITH(may_not_be_had(), T(calls_are_refused), T(signals_and_tracers), T(strictly), T(what_is_answered_without_the_kernel),
           T(of_all_threads), T(what_cannot_be_asked))
