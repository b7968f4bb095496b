/* Signals that are read instead of handled, and waits with a mask of their own. signalfd(2), epoll_wait(2). */
#include "guest.h"
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static sigset_t set_of(int a, int b) {
    sigset_t s;
    sigemptyset(&s), sigaddset(&s, a), sigaddset(&s, b);
    return s;
}

static void signals_are_read(void) {
    sigset_t s = set_of(SIGUSR1, SIGRTMIN), old;
    CHECK(sigprocmask(SIG_BLOCK, &s, &old) == 0);
    int fd = signalfd(-1, &s, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(fd >= 0);
    SAME(fcntl(fd, F_GETFD), FD_CLOEXEC);
    struct signalfd_siginfo i[4];
    FAILS(read(fd, i, sizeof i), EAGAIN);
    FAILS(read(fd, i, sizeof *i - 1), EINVAL);
    struct pollfd p = {fd, POLLIN, 0};
    SAME(poll(&p, 1, 0), 0);
    union sigval v = {.sival_int = 4711};
    CHECK(sigqueue(getpid(), SIGRTMIN, v) == 0 && kill(getpid(), SIGUSR1) == 0 && sigqueue(getpid(), SIGRTMIN, v) == 0);
    SAME(poll(&p, 1, 0), 1);
    SAME(p.revents, POLLIN);
    SAME(read(fd, i, sizeof i), 3 * sizeof *i);
    SAME(i[0].ssi_signo, SIGUSR1);
    SAME(i[0].ssi_code, SI_USER);
    SAME(i[0].ssi_pid, getpid());
    SAME(i[1].ssi_signo, SIGRTMIN);
    SAME(i[1].ssi_code, SI_QUEUE);
    SAME(i[1].ssi_int, 4711);
    SAME(i[2].ssi_signo, SIGRTMIN);
    SAME(poll(&p, 1, 0), 0);
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void the_mask_can_change(void) {
    sigset_t s = set_of(SIGUSR1, SIGUSR2), one, old;
    CHECK(sigprocmask(SIG_BLOCK, &s, &old) == 0);
    sigemptyset(&one), sigaddset(&one, SIGUSR2);
    int fd = signalfd(-1, &one, SFD_NONBLOCK);
    struct signalfd_siginfo i;
    CHECK(raise(SIGUSR1) == 0);
    FAILS(read(fd, &i, sizeof i), EAGAIN);
    SAME(signalfd(fd, &s, 0), fd);
    SAME(read(fd, &i, sizeof i), sizeof i);
    SAME(i.ssi_signo, SIGUSR1);
    SAME(i.ssi_tid, 0);
    int p[2];
    CHECK(pipe(p) == 0);
    FAILS(signalfd(p[0], &s, 0), EINVAL);
    FAILS(signalfd(999, &s, 0), EBADF);
    FAILS(signalfd(-1, &s, 0x10000), EINVAL);
    FAILS(syscall(SYS_signalfd4, -1, &s, 4, 0), EINVAL);
    close(fd), close(p[0]), close(p[1]);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void *late_signal(void *pid) {
    sleep_ms(40);
    TCHECK(kill(*(pid_t *)pid, SIGUSR1) == 0);
    return NULL;
}

static void reading_waits(void) {
    sigset_t s = set_of(SIGUSR1, SIGCHLD), old;
    CHECK(sigprocmask(SIG_BLOCK, &s, &old) == 0);
    int fd = signalfd(-1, &s, 0), ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 5};
    CHECK(fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
    pthread_t t;
    pid_t pid = getpid();
    uint64_t start = now_ms();
    CHECK(pthread_create(&t, NULL, late_signal, &pid) == 0);
    struct signalfd_siginfo i;
    SAME(read(fd, &i, sizeof i), sizeof i);
    CHECK(lasted(now_ms() - start, 40));
    pthread_join(t, NULL);
    /* the end of a child arrives through epoll */
    char *argv[] = {"true", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == 0);
    SAME(epoll_wait(ep, &e, 1, 5000), 1);
    SAME(e.data.u64, 5);
    SAME(read(fd, &i, sizeof i), sizeof i);
    SAME(i.ssi_signo, SIGCHLD);
    SAME(i.ssi_pid, child);
    SAME(i.ssi_code, CLD_EXITED);
    SAME(waitpid(child, NULL, 0), child);
    SAME(epoll_wait(ep, &e, 1, 0), 0);
    close(fd), close(ep);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static volatile sig_atomic_t handled;
static void on_signal(int s) { handled += s == SIGUSR1; }

static void epoll_waits_with_a_mask(void) {
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, was;
    sigset_t s = set_of(SIGUSR1, SIGUSR1), none, old, seen;
    sigemptyset(&none);
    CHECK(sigaction(SIGUSR1, &sa, &was) == 0 && sigprocmask(SIG_BLOCK, &s, &old) == 0);
    int ep = epoll_create1(0);
    struct epoll_event e;
    CHECK(raise(SIGUSR1) == 0);
    SAME(epoll_pwait(ep, &e, 1, 20, &s), 0);
    SAME(handled, 0);
    FAILS(epoll_pwait(ep, &e, 1, 5000, &none), EINTR);
    SAME(handled, 1);
    CHECK(sigprocmask(SIG_SETMASK, NULL, &seen) == 0 && sigismember(&seen, SIGUSR1));
    FAILS(syscall(SYS_epoll_pwait, ep, &e, 1, 0, &none, 4), EINVAL);
    /* a millionth of a second, which milliseconds cannot say */
    struct timespec t = {0, 1000};
    SAME(syscall(SYS_epoll_pwait2, ep, &e, 1, &t, &s, 8), 0);
    SAME(t.tv_nsec, 1000);
    t.tv_nsec = -1;
    FAILS(syscall(SYS_epoll_pwait2, ep, &e, 1, &t, NULL, 8), EINVAL);
    CHECK(raise(SIGUSR1) == 0);
    t.tv_sec = 5, t.tv_nsec = 0;
    FAILS(syscall(SYS_epoll_pwait2, ep, &e, 1, &t, &none, 8), EINTR);
    SAME(handled, 2);
    close(ep);
    sigprocmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGUSR1, &was, NULL);
}

static void calls_without_flags(void) {
    sigset_t s = set_of(SIGUSR1, SIGUSR2), old;
    CHECK(sigprocmask(SIG_BLOCK, &s, &old) == 0);
    int fd = (int)syscall(SYS_signalfd, -1, &s, 8), ev = (int)syscall(SYS_eventfd, 3);
    CHECK(fd >= 0 && ev >= 0 && raise(SIGUSR2) == 0);
    SAME(fcntl(fd, F_GETFD), 0);
    struct signalfd_siginfo i;
    SAME(read(fd, &i, sizeof i), sizeof i);
    SAME(i.ssi_signo, SIGUSR2);
    uint64_t n;
    SAME(read(ev, &n, 8), 8);
    SAME(n, 3);
    close(fd), close(ev);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

GUEST(T(signals_are_read), T(the_mask_can_change), T(reading_waits), T(epoll_waits_with_a_mask),
      T(calls_without_flags))
