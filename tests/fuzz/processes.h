/* Operations on signals, timers, processes and memory. */
enum { SEEN = 32 };
static struct {
    int number, code, value;
} volatile seen[SEEN];
static volatile int seen_count;
static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    if (seen_count < SEEN) {
        seen[seen_count].number = number;
        seen[seen_count].code = info->si_code;
        seen[seen_count].value = info->si_code == SI_QUEUE || info->si_code == SI_TIMER ? info->si_value.sival_int : 0;
        seen_count++;
    }
}
static void say_signals(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    for (int i = 0; i < seen_count; i++)
        say(" !%d(%d,%d)", seen[i].number, seen[i].code, seen[i].value);
    seen_count = 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
/* The signal that ends waiting calls is left alone. */
static uint64_t mask_of(long bits) { return (uint64_t)bits & ~(1ull << (SIGRTMAX - 1)); }

/* a: signal, 0 default 1 ignore 2 handler, flags, mask. */
OP(sigaction) {
    struct sigaction action = {.sa_flags = (int)a[2] | SA_SIGINFO}, old;
    memset(&old, 0, sizeof old);
    uint64_t mask = mask_of(a[3]);
    memcpy(&action.sa_mask, &mask, sizeof mask);
    action.sa_sigaction = a[1] == 0 ? (void *)SIG_DFL : a[1] == 1 ? (void *)SIG_IGN : on_signal;
    if (result(sigaction((int)a[0], &action, &old)) == 0)
        say(" %s %x", old.sa_handler == SIG_DFL ? "default" : old.sa_handler == SIG_IGN ? "ignored" : "handler", old.sa_flags);
}
OP(kill) { result(a[1] ? syscall(SYS_tgkill, getpid(), gettid(), a[0]) : kill(getpid(), (int)a[0])); }
OP(sigqueue) { result(sigqueue(getpid(), (int)a[0], (union sigval){.sival_int = (int)a[1]})); }
OP(sigprocmask) {
    uint64_t mask = mask_of(a[1]), old = 0;
    if (result(syscall(SYS_rt_sigprocmask, a[0], a[2] ? NULL : &mask, &old, 8)) == 0)
        say(" %lx", old);
}
OP(sigpending) {
    UNUSED;
    uint64_t mask = 0;
    if (result(syscall(SYS_rt_sigpending, &mask, 8)) == 0)
        say(" %lx", mask);
}
OP(sigtimedwait) {
    uint64_t mask = mask_of(a[0]);
    struct timespec wait = {0, a[1]};
    siginfo_t info = {0};
    if (result(syscall(SYS_rt_sigtimedwait, &mask, &info, &wait, 8)) > 0)
        say(" code %d", info.si_code);
}
OP(sigsuspend) {
    uint64_t mask = mask_of(a[0]);
    result(syscall(SYS_rt_sigsuspend, &mask, 8));
}
OP(sigaltstack) {
    static char room[65536];
    stack_t stack = {room, (int)a[0], (size_t)a[1]}, old = {0};
    if (result(sigaltstack(a[2] ? NULL : &stack, &old)) == 0)
        say(" flags %d size %zu", old.ss_flags, old.ss_size);
}

/* Timers either expire at once, and are waited for, or never. */
static struct timespec span(long kind) {
    switch (kind) {
    case 0:
        return (struct timespec){0, 0};
    case 1:
        return (struct timespec){0, 1000};
    case 2:
        return (struct timespec){5000000, 0};
    case 3:
        return (struct timespec){0, 1000000000};
    default:
        return (struct timespec){-1, 0};
    }
}
static void let_expire(void) {
    struct timespec wait = {0, 3000000};
    while (nanosleep(&wait, &wait) == -1 && errno == EINTR) {
    }
}
static const char *left(const struct itimerspec *t) {
    return t->it_value.tv_sec || t->it_value.tv_nsec ? "armed" : "disarmed";
}
OP(timer_create) {
    struct sigevent event = {.sigev_notify = (int)a[2], .sigev_signo = (int)a[3], .sigev_value.sival_int = (int)a[0] + 70};
    if (a[2] == SIGEV_THREAD_ID)
        event._sigev_un._tid = gettid();
    int number;
    if (worked(syscall(SYS_timer_create, a[1], a[4] ? NULL : &event, &number)) == 0) {
        int *place = &timer_of[a[0] % TIMERS];
        if (*place >= 0)
            syscall(SYS_timer_delete, *place);
        *place = number;
    }
}
OP(timer_settime) {
    struct itimerspec at = {span(a[3]), span(a[2])}, old = {0};
    if (result(syscall(SYS_timer_settime, timer_of[a[0] % TIMERS], a[1], &at, &old)) == 0)
        say(" %s", left(&old));
    let_expire();
}
OP(timer_gettime) {
    struct itimerspec now = {0};
    if (result(syscall(SYS_timer_gettime, timer_of[a[0] % TIMERS], &now)) == 0)
        say(" %s", left(&now));
    result(syscall(SYS_timer_getoverrun, timer_of[a[0] % TIMERS]));
}
OP(timer_delete) {
    result(syscall(SYS_timer_delete, timer_of[a[0] % TIMERS]));
    timer_of[a[0] % TIMERS] = -1;
}
OP(setitimer) {
    struct timespec v = span(a[1]), i = span(a[2]);
    struct itimerval at = {{i.tv_sec, i.tv_nsec / 1000}, {v.tv_sec, v.tv_nsec / 1000}}, old = {0};
    if (result(setitimer((int)a[0], &at, &old)) == 0)
        say(" %s", old.it_value.tv_sec || old.it_value.tv_usec ? "armed" : "disarmed");
    let_expire();
}
OP(getitimer) {
    struct itimerval now = {0};
    if (result(getitimer((int)a[0], &now)) == 0)
        say(" %s", now.it_value.tv_sec || now.it_value.tv_usec ? "armed" : "disarmed");
}
OP(timerfd_settime) {
    struct itimerspec at = {span(a[3]), span(a[2])}, old = {0};
    if (result(timerfd_settime(fd_at(a[0]), (int)a[1], &at, &old)) == 0)
        say(" %s", left(&old));
    let_expire();
}
OP(timerfd_gettime) {
    struct itimerspec now = {0};
    if (result(timerfd_gettime(fd_at(a[0]), &now)) == 0)
        say(" %s", left(&now));
}

static int place_for_child(long n, pid_t pid) {
    pid_t *place = &child[n % CHILDREN];
    if (pid <= 0)
        return -1;
    /* One of another user's goes on until the sequence ends. */
    if (*place > 0 && kill(*place, SIGKILL) == 0)
        waitpid(*place, NULL, 0);
    *place = pid;
    return 0;
}
OP(fork_exit) {
    pid_t pid = fork();
    if (pid == 0)
        _exit((int)a[1]);
    siginfo_t info;
    /* It has ended before the next line, but is not reaped. */
    while (pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == -1 && errno == EINTR) {
    }
    worked(place_for_child(a[0], pid));
}
OP(fork_wait) {
    int p[2];
    pid_t parent = getpid();
    if (pipe(p) == -1) {
        result(-1);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        for (int i = 0; i < SLOTS; i++)
            close(slot[i]);
        close(p[0]);
        close(p[1]);
        for (;;)
            pause();
    }
    close(p[1]);
    char c;
    while (read(p[0], &c, 1) == -1 && errno == EINTR) {
    }
    close(p[0]);
    worked(place_for_child(a[0], pid));
}
/* A child that holds a lock, or has none, until it is killed. a: child, slot, command, type, start, length. */
OP(fork_lock) {
    int p[2];
    if (pipe(p) == -1) {
        result(-1);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct flock l = {.l_type = (short)a[3], .l_start = a[4], .l_len = a[5]};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int got = fcntl(fd_at(a[1]), (int)a[2], &l) == 0 ? 0 : errno;
        write(p[1], &got, sizeof got);
        for (int i = 0; i < SLOTS; i++)
            if (i != a[1] % SLOTS && fd_at(i) != fd_at(a[1]))
                close(slot[i]);
        close(p[0]);
        close(p[1]);
        for (;;)
            pause();
    }
    close(p[1]);
    int got = 0;
    while (read(p[0], &got, sizeof got) == -1 && errno == EINTR) {
    }
    char c;
    while (read(p[0], &c, 1) == -1 && errno == EINTR) {
    }
    close(p[0]);
    worked(place_for_child(a[0], pid));
    say(" lock %s", got == 0 ? "0" : strerrorname_np(got));
}
OP(kill_child) {
    pid_t pid = child[a[0] % CHILDREN];
    result(pid > 0 ? kill(pid, (int)a[1]) : 0);
    let_expire();
}
static pid_t whom(long n) { return n < 0 ? (pid_t)n : child[n % CHILDREN] > 0 ? child[n % CHILDREN] : 999999; }
static void forget(pid_t pid) {
    for (int i = 0; i < CHILDREN; i++)
        if (child[i] == pid && kill(pid, 0) == -1)
            child[i] = 0;
}
OP(wait4) {
    int status = 0;
    pid_t got = wait4(whom(a[0]), &status, (int)a[1], NULL);
    if (got == -1)
        result(-1);
    else
        say(" = %s status %x", pid_name(got), status);
    forget(got);
}
OP(waitid) {
    siginfo_t info = {0};
    pid_t who = whom(a[0]);
    if (result(waitid(who < 0 ? P_ALL : P_PID, (id_t)who, &info, (int)a[1])) == 0)
        say(" %s signal %d code %d status %d", pid_name(info.si_pid), info.si_signo, info.si_code, info.si_status);
    forget(info.si_pid);
}
OP(setpgid) {
    result(setpgid(a[0] < 0 ? 0 : whom(a[0]), 0));
    say(" %d %d", getpgrp() == getpid(), getsid(0) == getpid());
}
OP(nanosleep) {
    struct timespec wait = {a[0], a[1]};
    result(syscall(SYS_nanosleep, &wait, NULL));
}
OP(rlimit) {
    struct rlimit limit = {(rlim_t)a[1], 200};
    if (result(setrlimit((int)a[0], &limit)) == 0 && result(getrlimit((int)a[0], &limit)) == 0)
        say(" %ld", (long)limit.rlim_cur);
}
OP(prctl) { result(prctl((int)a[0], a[1], 0, 0, 0)); }
OP(futex) {
    static int word[2] = {5, 5};
    struct timespec wait = {0, a[2]};
    result(syscall(SYS_futex, word, a[0], a[1], &wait, word + 1, a[3]));
}

/* a: region, slot (-1: anonymous), pages, prot, flags, offset. */
OP(mmap) {
    void *got = mmap(NULL, (size_t)a[2] * 4096, (int)a[3], (int)a[4], a[1] < 0 ? -1 : fd_at(a[1]), a[5]);
    worked(got == MAP_FAILED ? -1 : 0);
    if (got == MAP_FAILED)
        return;
    int r = (int)(a[0] % REGIONS);
    if (region[r] != NULL)
        munmap(region[r], region_length[r]);
    region[r] = got;
    region_length[r] = (size_t)a[2] * 4096;
}
static unsigned char *in_region(long r, long page) { return region[r % REGIONS] == NULL ? (void *)0x10000 : region[r % REGIONS] + page * 4096; }
/* No more than the region has from `page` on: what lies behind it is not the same everywhere. */
static size_t pages_of(long r, long page, long count) {
    size_t all = region[r % REGIONS] == NULL ? 2 * 4096 : region_length[r % REGIONS];
    size_t room = all < (size_t)page * 4096 ? 0 : all - (size_t)page * 4096;
    return (size_t)count * 4096 < room ? (size_t)count * 4096 : room;
}
/* The region is then forgotten: whether the next mapping comes to lie in the gap depends on what else is mapped. */
OP(munmap) {
    if (result(munmap(in_region(a[0], a[1]), pages_of(a[0], a[1], a[2]))) == 0)
        region[a[0] % REGIONS] = NULL;
}
OP(mprotect) { result(mprotect(in_region(a[0], a[1]), pages_of(a[0], a[1], a[2]), (int)a[3])); }
OP(msync) { result(msync(in_region(a[0], a[1]), pages_of(a[0], a[1], a[2]), (int)a[3])); }
OP(madvise) { result(madvise(in_region(a[0], a[1]), pages_of(a[0], a[1], a[2]), (int)a[3])); }
OP(mremap) {
    int r = (int)(a[0] % REGIONS);
    void *got = mremap(in_region(r, 0), region_length[r], (size_t)a[1] * 4096, (int)a[2]);
    worked(got == MAP_FAILED ? -1 : 0);
    if (got != MAP_FAILED) {
        region[r] = got;
        region_length[r] = (size_t)a[1] * 4096;
    }
}
/* Memory as a file's content and the other way round: what cannot be accessed is EFAULT. Never behind the region, where the
 * machine has things of its own. */
static unsigned char *inside(long r, long offset) {
    size_t length = region_length[r % REGIONS];
    return in_region(r, 0) + (region[r % REGIONS] != NULL && length > 0 ? offset % length : (size_t)offset);
}
OP(write_from) {
    if (region[a[1] % REGIONS] == NULL)
        return;
    result(syscall(SYS_write, fd_at(a[0]), inside(a[1], a[2]), a[3]));
}
OP(read_into) { result(syscall(SYS_read, fd_at(a[0]), inside(a[1], a[2]), a[3])); }
