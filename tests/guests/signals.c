/* Signals: handlers, masks, restarting, the ways to wait for one. signal(7), sigaction(2). */
#include "guest.h"
#include <sys/syscall.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t count, last_code, last_value, depth, deepest;
static volatile pid_t last_pid;
static void on_info(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    count++;
    last_code = i->si_code, last_pid = i->si_pid, last_value = i->si_value.sival_int;
}
static void on_count(int s) { (void)s, count++; }

static int handle(int sig, void (*f)(int, siginfo_t *, void *), int flags) {
    struct sigaction sa = {.sa_sigaction = f, .sa_flags = flags | SA_SIGINFO};
    return sigaction(sig, &sa, NULL);
}

static void siginfo_of_the_sender(void) {
    CHECK(handle(SIGUSR1, on_info, 0) == 0);
    count = 0;
    CHECK(kill(getpid(), SIGUSR1) == 0);
    SAME(count, 1);
    SAME(last_code, SI_USER);
    SAME(last_pid, getpid());
    CHECK(raise(SIGUSR1) == 0);
    SAME(count, 2);
    SAME(last_code, SI_TKILL);
    union sigval v = {.sival_int = 1234};
    CHECK(sigqueue(getpid(), SIGUSR1, v) == 0);
    SAME(last_code, SI_QUEUE);
    SAME(last_value, 1234);
    CHECK(kill(getpid(), 0) == 0);
    FAILS(kill(getpid(), 999), EINVAL);
    FAILS(kill(999999, 0), ESRCH);
    signal(SIGUSR1, SIG_DFL);
}

static void masks_hold_back(void) {
    sigset_t s, old, pending;
    CHECK(handle(SIGUSR1, on_info, 0) == 0);
    sigemptyset(&s), sigaddset(&s, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &s, &old) == 0);
    count = 0;
    raise(SIGUSR1), raise(SIGUSR1), raise(SIGUSR1);
    SAME(count, 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    SAME(count, 1); /* a standard signal is pending once */
    int rt = SIGRTMIN + 1;
    CHECK(handle(rt, on_info, 0) == 0);
    sigaddset(&s, rt);
    sigprocmask(SIG_BLOCK, &s, NULL);
    count = 0;
    union sigval v = {.sival_int = 0};
    for (int i = 1; i <= 3; i++) {
        v.sival_int = i;
        CHECK(sigqueue(getpid(), rt, v) == 0);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    SAME(count, 3); /* real-time signals queue, in order */
    SAME(last_value, 3);
    signal(SIGUSR1, SIG_DFL), signal(rt, SIG_DFL);
}

static void nest(int s, siginfo_t *i, void *c) {
    (void)i, (void)c;
    depth++;
    if (depth > deepest)
        deepest = depth;
    if (count++ < 3)
        raise(s);
    depth--;
}

static void nesting(void) {
    CHECK(handle(SIGUSR1, nest, 0) == 0);
    count = deepest = 0;
    raise(SIGUSR1);
    SAME(count, 4);
    SAME(deepest, 1); /* its own signal is blocked in the handler */
    CHECK(handle(SIGUSR1, nest, SA_NODEFER) == 0);
    count = deepest = 0;
    raise(SIGUSR1);
    SAME(count, 4);
    SAME(deepest, 4);
    signal(SIGUSR1, SIG_DFL);
}

static void raise_other(int s, siginfo_t *i, void *c) {
    (void)s, (void)i, (void)c;
    int before = count;
    raise(SIGUSR2);
    last_value = count - before;
}

static void handlers_mask(void) {
    CHECK(handle(SIGUSR2, on_info, 0) == 0);
    CHECK(handle(SIGUSR1, raise_other, 0) == 0);
    count = 0;
    raise(SIGUSR1);
    SAME(last_value, 1);
    struct sigaction sa = {.sa_sigaction = raise_other, .sa_flags = SA_SIGINFO};
    sigaddset(&sa.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    raise(SIGUSR1);
    SAME(count, 2);
    SAME(last_value, 0); /* comes when the handler is done */
    signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_DFL);
}

static void reset_hand(void) {
    CHECK(handle(SIGUSR1, on_info, SA_RESETHAND) == 0);
    count = 0;
    raise(SIGUSR1);
    SAME(count, 1);
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
}

static void ignored(void) {
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
    signal(SIGCHLD, SIG_DFL);
    raise(SIGCHLD);
    raise(SIGURG);
    raise(SIGWINCH);
    signal(SIGUSR1, SIG_DFL);
    struct sigaction sa = {.sa_handler = SIG_IGN};
    FAILS(sigaction(SIGKILL, &sa, NULL), EINVAL);
    FAILS(sigaction(SIGSTOP, &sa, NULL), EINVAL);
    FAILS(sigaction(0, &sa, NULL), EINVAL);
    FAILS(sigaction(65, &sa, NULL), EINVAL);
}

static int pipe_fds[2];
static pthread_t reader_thread;
static void *kick_then_write(void *x) {
    sleep_ms(50);
    pthread_kill(reader_thread, SIGUSR1);
    sleep_ms(50);
    TCHECK(write(pipe_fds[1], "x", 1) == 1);
    return x;
}

static void restarted_or_interrupted(void) {
    pthread_t t;
    char c;
    CHECK(pipe(pipe_fds) == 0);
    reader_thread = pthread_self();
    CHECK(handle(SIGUSR1, on_info, SA_RESTART) == 0);
    count = 0;
    CHECK(pthread_create(&t, NULL, kick_then_write, NULL) == 0);
    SAME(read(pipe_fds[0], &c, 1), 1);
    SAME(count, 1);
    pthread_join(t, NULL);
    CHECK(handle(SIGUSR1, on_info, 0) == 0);
    CHECK(pthread_create(&t, NULL, kick_then_write, NULL) == 0);
    FAILS(read(pipe_fds[0], &c, 1), EINTR);
    SAME(count, 2);
    SAME(read(pipe_fds[0], &c, 1), 1);
    pthread_join(t, NULL);
    close(pipe_fds[0]), close(pipe_fds[1]);
    signal(SIGUSR1, SIG_DFL);
}

static void waiting_for_one(void) {
    sigset_t s, old;
    siginfo_t i;
    int sig;
    sigemptyset(&s), sigaddset(&s, SIGUSR1), sigaddset(&s, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &s, &old) == 0);
    struct timespec t = {0, 30000000};
    uint64_t start = now_ms();
    FAILS(sigtimedwait(&s, &i, &t), EAGAIN);
    CHECK(lasted(now_ms() - start, 30));
    raise(SIGUSR2);
    SAME(sigwait(&s, &sig), 0);
    SAME(sig, SIGUSR2);
    union sigval v = {.sival_int = 9};
    CHECK(sigqueue(getpid(), SIGUSR1, v) == 0);
    SAME(sigwaitinfo(&s, &i), SIGUSR1);
    SAME(i.si_value.sival_int, 9);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void suspend_takes_the_mask_along(void) {
    sigset_t s, old, none;
    CHECK(handle(SIGUSR1, on_info, 0) == 0);
    sigemptyset(&none), sigemptyset(&s), sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, &old);
    count = 0;
    raise(SIGUSR1);
    FAILS(sigsuspend(&none), EINTR);
    SAME(count, 1);
    sigprocmask(SIG_SETMASK, NULL, &none);
    CHECK(sigismember(&none, SIGUSR1));
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(SIGUSR1, SIG_DFL);
}

static volatile pid_t handler_tid;
static void on_tid(int s) { (void)s, handler_tid = (pid_t)syscall(SYS_gettid); }
static void *sleeping(void *x) {
    *(volatile pid_t *)x = (pid_t)syscall(SYS_gettid);
    sleep_ms(100);
    return NULL;
}

static void to_one_thread(void) {
    pthread_t t;
    volatile pid_t tid = 0;
    signal(SIGUSR1, on_tid);
    CHECK(pthread_create(&t, NULL, sleeping, (void *)&tid) == 0);
    sleep_ms(30);
    CHECK(pthread_kill(t, SIGUSR1) == 0);
    pthread_join(t, NULL);
    SAME(handler_tid, tid);
    /* one that only this thread lets in comes to this thread */
    sigset_t s;
    sigemptyset(&s), sigaddset(&s, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &s, NULL);
    CHECK(pthread_create(&t, NULL, sleeping, (void *)&tid) == 0);
    pthread_sigmask(SIG_UNBLOCK, &s, NULL);
    sleep_ms(20);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    SAME(handler_tid, getpid());
    pthread_join(t, NULL);
    signal(SIGUSR1, SIG_DFL);
}

static volatile double fp;
static void spoil_registers(int s) {
    (void)s;
    count++;
    fp = fp * 1.5 + 3.25;
}

static void registers_survive(void) {
    signal(SIGALRM, spoil_registers);
    struct itimerval it = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    count = 0;
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    for (int round = 0; round < 200; round++) {
        double x = 1, y = 0.5;
        unsigned long k = 88172645463325252u;
        for (int i = 0; i < 2000; i++) {
            x = x * 1.0000001 + y;
            k ^= k << 13, k ^= k >> 7, k ^= k << 17;
            if (i % 500 == 0)
                now_ms();
        }
        static double x0;
        static unsigned long k0;
        if (round == 0)
            x0 = x, k0 = k;
        CHECK(x == x0 && k == k0);
    }
    sleep_ms(5);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    CHECK(count > 0);
    signal(SIGALRM, SIG_DFL);
}

static volatile uintptr_t on_stack;
static void where(int s) {
    char here;
    (void)s;
    on_stack = (uintptr_t)&here;
}

static void alternate_stack(void) {
    static char stack[65536];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack}, now, off = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&ss, NULL) == 0);
    struct sigaction sa = {.sa_handler = where, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    raise(SIGUSR1);
    CHECK(on_stack >= (uintptr_t)stack && on_stack < (uintptr_t)stack + sizeof stack);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack && now.ss_flags == 0);
    sa.sa_flags = 0;
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    raise(SIGUSR1);
    CHECK(on_stack < (uintptr_t)stack || on_stack >= (uintptr_t)stack + sizeof stack);
    CHECK(sigaltstack(&off, NULL) == 0);
    ss.ss_size = 100;
    FAILS(sigaltstack(&ss, NULL), ENOMEM);
    signal(SIGUSR1, SIG_DFL);
}

static void pausing(void) {
    signal(SIGALRM, on_count);
    struct itimerval it = {{0, 0}, {0, 20000}};
    count = 0;
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    FAILS(pause(), EINTR);
    SAME(count, 1);
    signal(SIGALRM, SIG_DFL);
}

/* A child that may have no signals pending. */
static void only_so_many_signals_are_queued(void) {
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGRTMIN);
        if (setrlimit(RLIMIT_SIGPENDING, &none) != 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0)
            _exit(1);
        if (syscall(SYS_tgkill, getpid(), getpid(), SIGRTMIN) != -1 || errno != EAGAIN)
            _exit(2);
        /* those of old are only pending or not */
        signal(SIGUSR1, SIG_IGN);
        _exit(syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1) == 0 ? 0 : 3);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    SAME(WEXITSTATUS(status), 0);
}

GUEST(T(only_so_many_signals_are_queued), T(siginfo_of_the_sender), T(masks_hold_back), T(nesting), T(handlers_mask), T(reset_hand), T(ignored),
      T(restarted_or_interrupted), T(waiting_for_one), T(suspend_takes_the_mask_along), T(to_one_thread),
      T(registers_survive), T(alternate_stack), T(pausing))
