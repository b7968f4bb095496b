/* Signals that tell of input and output: O_ASYNC, FIOASYNC, F_SETOWN, F_SETOWN_EX, F_SETSIG, fcntl(2). */
#include "guest.h"
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static volatile int plain, told, told_fd, told_code;
static void on_plain(int signal) { (void)signal, plain++; }
static void on_told(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    told++, told_fd = info->si_fd, told_code = info->si_code;
}
static void listen_to(void) {
    struct sigaction a = {.sa_handler = on_plain}, b = {.sa_sigaction = on_told, .sa_flags = SA_SIGINFO};
    sigaction(SIGIO, &a, NULL);
    sigaction(SIGRTMIN, &b, NULL);
    plain = told = told_fd = told_code = 0;
}

static void a_pipe_tells_its_reader(void) {
    listen_to();
    int p[2];
    char c;
    CHECK(pipe(p) == 0);
    CHECK(fcntl(p[0], F_SETOWN, getpid()) == 0);
    SAME(fcntl(p[0], F_GETOWN), getpid());
    CHECK(write(p[1], "a", 1) == 1);
    SAME(plain, 0); /* not asked for */
    CHECK(read(p[0], &c, 1) == 1);
    CHECK(fcntl(p[0], F_SETFL, O_ASYNC) == 0);
    CHECK(fcntl(p[0], F_GETFL) & O_ASYNC);
    CHECK(write(p[1], "b", 1) == 1);
    SAME(plain, 1);
    CHECK(fcntl(p[0], F_SETFL, 0) == 0);
    CHECK(read(p[0], &c, 1) == 1 && write(p[1], "c", 1) == 1);
    SAME(plain, 1);
    close(p[0]), close(p[1]);
}

static void with_a_signal_of_choice_it_says_which(void) {
    listen_to();
    int p[2];
    CHECK(pipe(p) == 0);
    SAME(fcntl(p[0], F_GETSIG), 0);
    CHECK(fcntl(p[0], F_SETSIG, SIGRTMIN) == 0);
    SAME(fcntl(p[0], F_GETSIG), SIGRTMIN);
    FAILS(fcntl(p[0], F_SETSIG, 65), EINVAL);
    FAILS(fcntl(p[0], F_SETSIG, -1), EINVAL);
    CHECK(fcntl(p[0], F_SETOWN, getpid()) == 0);
    CHECK(fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
    CHECK(write(p[1], "b", 1) == 1);
    SAME(told, 1);
    SAME(told_fd, p[0]);
    SAME(told_code, POLL_IN);
    SAME(plain, 0);
    close(p[1]);
    SAME(told, 2); /* the other end has gone */
    close(p[0]);
}

static void sockets_tell(void) {
    listen_to();
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
    int on = 1;
    CHECK(fcntl(s[0], F_SETOWN, getpid()) == 0 && ioctl(s[0], FIOASYNC, &on) == 0);
    CHECK(fcntl(s[0], F_GETFL) & O_ASYNC);
    CHECK(write(s[1], "hello", 5) == 5);
    SAME(plain, 1);
    on = 0;
    CHECK(ioctl(s[0], FIOASYNC, &on) == 0);
    CHECK(write(s[1], "hello", 5) == 5);
    SAME(plain, 1);
    close(s[0]), close(s[1]);
}

static void owners_of_kinds(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    struct f_owner_ex owner = {F_OWNER_TID, syscall(SYS_gettid)}, got = {9, 9};
    CHECK(fcntl(p[0], F_SETOWN_EX, &owner) == 0 && fcntl(p[0], F_GETOWN_EX, &got) == 0);
    SAME(got.type, F_OWNER_TID);
    SAME(got.pid, owner.pid);
    owner = (struct f_owner_ex){F_OWNER_PGRP, getpgrp()};
    CHECK(fcntl(p[0], F_SETOWN_EX, &owner) == 0 && fcntl(p[0], F_GETOWN_EX, &got) == 0);
    SAME(got.type, F_OWNER_PGRP);
    SAME(got.pid, getpgrp());
    owner = (struct f_owner_ex){7, 1};
    FAILS(fcntl(p[0], F_SETOWN_EX, &owner), EINVAL);
    FAILS(fcntl(p[0], F_SETOWN, 4000000), ESRCH);
    owner = (struct f_owner_ex){F_OWNER_PID, 4000000};
    FAILS(fcntl(p[0], F_SETOWN_EX, &owner), ESRCH);
    FAILS(fcntl(p[0], F_SETOWN_EX, (void *)8), EFAULT);
    close(p[0]), close(p[1]);
}

static void what_cannot_tell(void) {
    int f = open("/dev/null", O_RDWR), on = 1;
    FAILS(ioctl(f, FIOASYNC, &on), ENOTTY);
    close(f);
}

GUEST(T(a_pipe_tells_its_reader), T(with_a_signal_of_choice_it_says_which), T(sockets_tell), T(owners_of_kinds), T(what_cannot_tell))
