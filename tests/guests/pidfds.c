/* Process descriptors: pidfd_open(2), pidfd_send_signal(2), pidfd_getfd(2), waitid(2) with P_PIDFD, CLONE_PIDFD. */
#include "guest.h"
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif

static int pidfd_open_(pid_t pid, unsigned flags) { return (int)syscall(SYS_pidfd_open, pid, flags); }
static int send(int fd, int sig, siginfo_t *i) { return (int)syscall(SYS_pidfd_send_signal, fd, sig, i, 0); }

static pid_t sleeper(void) {
    pid_t p = fork();
    if (p == 0) {
        alarm(20);
        for (;;)
            pause();
    }
    return p;
}

static void opening(void) {
    pid_t p = sleeper();
    int fd = pidfd_open_(p, 0);
    CHECK(fd >= 0);
    SAME(fcntl(fd, F_GETFD), FD_CLOEXEC);
    FAILS(pidfd_open_(-1, 0), EINVAL);
    FAILS(pidfd_open_(999999, 0), ESRCH);
    FAILS(pidfd_open_(p, 1), EINVAL);
    char b[8];
    FAILS(read(fd, b, sizeof b), EINVAL);
    CHECK(kill(p, SIGKILL) == 0 && waitpid(p, NULL, 0) == p && close(fd) == 0);
}

static void readiness(void) {
    pid_t p = sleeper();
    int fd = pidfd_open_(p, 0), ep = epoll_create1(0);
    struct pollfd w = {fd, POLLIN, 0};
    struct epoll_event e = {.events = EPOLLIN};
    CHECK(fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
    SAME(poll(&w, 1, 10), 0);
    SAME(epoll_wait(ep, &e, 1, 0), 0);
    CHECK(send(fd, SIGTERM, NULL) == 0);
    SAME(epoll_wait(ep, &e, 1, 2000), 1);
    SAME(poll(&w, 1, 2000), 1);
    CHECK(w.revents & POLLIN);
    CHECK(send(fd, 0, NULL) == 0); /* a zombie is still there */
    int st;
    SAME(waitpid(p, &st, 0), p);
    CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGTERM);
    FAILS(send(fd, 0, NULL), ESRCH);
    SAME(poll(&w, 1, 0), 1);
    close(fd), close(ep);
}

static volatile sig_atomic_t value;
static void on_value(int s, siginfo_t *i, void *c) { (void)s, (void)c, value = i->si_value.sival_int; }
static void signals(void) {
    struct sigaction sa = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    int fd = pidfd_open_(getpid(), 0);
    siginfo_t i;
    memset(&i, 0, sizeof i);
    i.si_signo = SIGUSR1, i.si_code = SI_QUEUE, i.si_value.sival_int = 77;
    CHECK(fd >= 0 && send(fd, SIGUSR1, &i) == 0);
    SAME(value, 77);
    FAILS(send(fd, SIGUSR2, &i), EINVAL);
    FAILS(send(fd, 99, NULL), EINVAL);
    FAILS(send(1, SIGUSR1, NULL), EBADF);
    FAILS(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 1 << 20), EINVAL);
    close(fd);
}

static void waiting(void) {
    pid_t p = sleeper();
    siginfo_t i;
    int fd = pidfd_open_(p, O_NONBLOCK);
    CHECK(fd >= 0);
    FAILS(waitid(P_PIDFD, (id_t)fd, &i, WEXITED), EAGAIN);
    memset(&i, 0, sizeof i);
    CHECK(waitid(P_PIDFD, (id_t)fd, &i, WEXITED | WNOHANG) == 0);
    SAME(i.si_pid, 0);
    CHECK(kill(p, SIGKILL) == 0 && fcntl(fd, F_SETFL, 0) == 0);
    CHECK(waitid(P_PIDFD, (id_t)fd, &i, WEXITED) == 0);
    SAME(i.si_pid, p);
    SAME(i.si_code, CLD_KILLED);
    FAILS(waitid(P_PIDFD, (id_t)fd, &i, WEXITED), ECHILD);
    FAILS(waitid(P_PIDFD, 1, &i, WEXITED), EBADF);
    FAILS(waitid(P_PIDFD, 999, &i, WEXITED), EBADF);
    close(fd);
}

static void from_clone(void) {
    int fd = -1;
    pid_t p = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0);
    if (p == 0)
        syscall(SYS_exit_group, 9);
    CHECK(p > 0 && fd >= 0);
    SAME(fcntl(fd, F_GETFD), FD_CLOEXEC);
    siginfo_t i;
    CHECK(waitid(P_PIDFD, (id_t)fd, &i, WEXITED) == 0);
    SAME(i.si_status, 9);
    SAME(i.si_pid, p);
    close(fd);
    FAILS(syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &fd, 0, 0), EINVAL);
}

static void taking_descriptors(void) {
    int ends[2], up[2];
    char c;
    CHECK(pipe(ends) == 0 && pipe(up) == 0);
    pid_t p = fork();
    if (p == 0) {
        alarm(20);
        dup2(ends[0], 100);
        write(up[1], "r", 1);
        for (;;)
            pause();
    }
    int fd = pidfd_open_(p, 0);
    CHECK(fd >= 0 && read(up[0], &c, 1) == 1);
    close(ends[0]);
    int mine = (int)syscall(SYS_pidfd_getfd, fd, 100, 0);
    CHECK(mine >= 0 && write(ends[1], "x", 1) == 1 && read(mine, &c, 1) == 1 && c == 'x');
    SAME(fcntl(mine, F_GETFD), FD_CLOEXEC);
    FAILS(syscall(SYS_pidfd_getfd, fd, 101, 0), EBADF);
    FAILS(syscall(SYS_pidfd_getfd, fd, 100, 1), EINVAL);
    CHECK(kill(p, SIGKILL) == 0 && waitpid(p, NULL, 0) == p);
    FAILS(syscall(SYS_pidfd_getfd, fd, 100, 0), ESRCH);
    close(fd), close(mine), close(ends[1]), close(up[0]), close(up[1]);
}

static volatile sig_atomic_t came;
static void on_signal(int s) { (void)s, came++; }

static void directories_of_processes(void) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%d", getpid());
    int dir = open(path, O_RDONLY | O_DIRECTORY), other = open("/proc", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0 && other >= 0);
    signal(SIGUSR1, on_signal);
    CHECK(send(dir, SIGUSR1, NULL) == 0);
    SAME(came, 1);
    FAILS(send(other, SIGUSR1, NULL), EBADF);
    FAILS(syscall(SYS_pidfd_getfd, dir, 0, 0), EBADF);
    signal(SIGUSR1, SIG_DFL);
    close(dir), close(other);
}

GUEST(T(directories_of_processes), T(opening), T(readiness), T(signals), T(waiting), T(from_clone), T(taking_descriptors))
