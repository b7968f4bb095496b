/* poll, select and their signal-mask forms. poll(2), select(2). */
#include "guest.h"
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>

/* The call itself: musl's select() keeps the time left to itself. */
static int raw_select(int n, fd_set *r, struct timeval *left) {
    return (int)syscall(SYS_select, n, r, NULL, NULL, left);
}

static volatile sig_atomic_t alarms;
static void on_alarm(int s) { alarms += s == SIGALRM || s == SIGUSR1; }

static void poll_basics(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    struct pollfd f[3] = {{p[0], POLLIN, 0}, {-1, POLLIN, 7}, {999, POLLIN, 0}};
    SAME(poll(f, 3, 0), 1);
    SAME(f[1].revents, 0);
    SAME(f[2].revents, POLLNVAL);
    CHECK(write(p[1], "x", 1) == 1);
    SAME(poll(f, 2, -1), 1);
    SAME(f[0].revents, POLLIN);
    int file = open("/etc/passwd", O_RDONLY);
    struct pollfd g = {file, POLLIN | POLLOUT, 0};
    SAME(poll(&g, 1, 0), 1);
    SAME(g.revents, POLLIN | POLLOUT);
    close(file), close(p[0]), close(p[1]);
}

static void poll_timeouts(void) {
    uint64_t start = now_ms();
    SAME(poll(NULL, 0, 70), 0);
    CHECK(lasted(now_ms() - start, 70));
    int p[2];
    CHECK(pipe(p) == 0);
    struct pollfd f = {p[0], POLLIN, 0};
    start = now_ms();
    SAME(poll(&f, 1, 30), 0);
    CHECK(lasted(now_ms() - start, 30));
    close(p[0]), close(p[1]);
}

static struct pollfd shared[2];
static fd_set shared_set;
static int late_end;
static void *change_and_write(void *unused) {
    (void)unused;
    sleep_ms(50);
    for (int i = 0; i < 2; i++)
        shared[i].fd = -1, shared[i].events = 0;
    FD_ZERO(&shared_set);
    TCHECK(write(late_end, "x", 1) == 1);
    return NULL;
}

/* What is asked for counts as it was when the call began; only the answer is stored. */
static void asked_at_the_start(void) {
    for (int count = 1; count <= 2; count++) {
        int p[2], q[2];
        CHECK(pipe(p) == 0 && pipe(q) == 0);
        shared[0] = (struct pollfd){p[0], POLLIN, 0}, shared[1] = (struct pollfd){q[0], POLLIN, 9};
        late_end = p[1];
        pthread_t t;
        CHECK(pthread_create(&t, NULL, change_and_write, NULL) == 0);
        SAME(poll(shared, (nfds_t)count, 5000), 1);
        SAME(shared[0].revents, POLLIN);
        SAME(shared[0].fd, -1);
        SAME(shared[0].events, 0);
        SAME(shared[1].revents, count == 2 ? 0 : 9);
        CHECK(pthread_join(t, NULL) == 0);
        close(p[0]), close(p[1]), close(q[0]), close(q[1]);
    }
    int p[2];
    CHECK(pipe(p) == 0);
    FD_ZERO(&shared_set);
    FD_SET(p[0], &shared_set);
    late_end = p[1];
    pthread_t t;
    struct timeval limit = {5, 0};
    CHECK(pthread_create(&t, NULL, change_and_write, NULL) == 0);
    SAME(select(p[0] + 1, &shared_set, NULL, NULL, &limit), 1);
    CHECK(FD_ISSET(p[0], &shared_set));
    CHECK(pthread_join(t, NULL) == 0);
    close(p[0]), close(p[1]);
}

static void *late_write(void *fd) {
    sleep_ms(50);
    TCHECK(write(*(int *)fd, "12345678", 8) == 8);
    return NULL;
}

static void poll_wakes(void) {
    int e = eventfd(0, 0), p[2];
    CHECK(pipe(p) == 0);
    struct pollfd f[2] = {{p[0], POLLIN, 0}, {e, POLLIN, 0}};
    pthread_t t;
    uint64_t start = now_ms();
    CHECK(pthread_create(&t, NULL, late_write, &e) == 0);
    SAME(poll(f, 2, -1), 1);
    SAME(f[1].revents, POLLIN);
    CHECK(lasted(now_ms() - start, 50));
    pthread_join(t, NULL);
    close(e), close(p[0]), close(p[1]);
}

static void select_basics(void) {
    int p[2];
    CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1);
    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    FD_SET(p[1], &w);
    SAME(select(p[1] + 1, &r, &w, NULL, NULL), 2);
    CHECK(FD_ISSET(p[0], &r) && FD_ISSET(p[1], &w));
    char c;
    CHECK(read(p[0], &c, 1) == 1);
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    struct timeval tv = {0, 40000};
    uint64_t start = now_ms();
    SAME(raw_select(p[0] + 1, &r, &tv), 0);
    CHECK(!FD_ISSET(p[0], &r) && lasted(now_ms() - start, 40));
    SAME(tv.tv_sec * 1000000 + tv.tv_usec, 0); /* Linux leaves the time that was not slept */
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    close(p[0]), close(p[1]);
    FAILS(select(p[0] + 1, &r, NULL, NULL, &tv), EBADF);
    tv.tv_sec = -1;
    FAILS(select(0, NULL, NULL, NULL, &tv), EINVAL);
}

static void interrupted_by_a_signal(void) {
    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
    CHECK(sigaction(SIGALRM, &sa, &old) == 0);
    alarms = 0;
    struct timespec t = {0, 50000000};
    struct itimerspec at = {.it_value = t};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &at, NULL) == 0);
    FAILS(poll(NULL, 0, 5000), EINTR); /* poll is never restarted, SA_RESTART or not */
    SAME(alarms, 1);
    CHECK(timer_settime(timer, 0, &at, NULL) == 0);
    struct timeval tv = {5, 0};
    FAILS(raw_select(0, NULL, &tv), EINTR);
    SAME(alarms, 2);
    CHECK(tv.tv_sec == 4);
    timer_delete(timer);
    sigaction(SIGALRM, &old, NULL);
}

static void masks_swap_atomically(void) {
    struct sigaction sa = {.sa_handler = on_alarm}, old;
    sigset_t block, empty, seen;
    sigemptyset(&empty), sigemptyset(&block), sigaddset(&block, SIGUSR1);
    CHECK(sigaction(SIGUSR1, &sa, &old) == 0 && sigprocmask(SIG_BLOCK, &block, NULL) == 0);
    alarms = 0;
    raise(SIGUSR1);
    SAME(alarms, 0);
    struct timespec t = {5, 0};
    FAILS(ppoll(NULL, 0, &t, &empty), EINTR);
    SAME(alarms, 1);
    raise(SIGUSR1);
    FAILS(pselect(0, NULL, NULL, NULL, &t, &empty), EINTR);
    SAME(alarms, 2);
    CHECK(sigprocmask(SIG_SETMASK, NULL, &seen) == 0 && sigismember(&seen, SIGUSR1)); /* the old mask is back */
    t.tv_sec = 0, t.tv_nsec = 20000000;
    uint64_t start = now_ms();
    SAME(ppoll(NULL, 0, &t, NULL), 0);
    CHECK(lasted(now_ms() - start, 20));
    SAME(pselect(0, NULL, NULL, NULL, &t, &block), 0);
    t.tv_nsec = 1000000000;
    FAILS(ppoll(NULL, 0, &t, NULL), EINVAL);
    sigprocmask(SIG_UNBLOCK, &block, NULL);
    sigaction(SIGUSR1, &old, NULL);
}

/* A signal that the call's mask lets in interrupts it even if it does not wait, unless something is ready. */
static void masks_let_in_what_is_pending(void) {
    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
    struct timespec none = {0, 0};
    sigset_t block, empty, before;
    int p[2];
    sigemptyset(&empty), sigemptyset(&block), sigaddset(&block, SIGUSR1);
    CHECK(pipe(p) == 0 && sigaction(SIGUSR1, &sa, &old) == 0 && sigprocmask(SIG_BLOCK, &block, &before) == 0);
    struct pollfd w = {p[0], POLLIN, 0};
    alarms = 0;
    raise(SIGUSR1);
    FAILS(ppoll(&w, 1, &none, &empty), EINTR);
    SAME(alarms, 1);
    raise(SIGUSR1);
    FAILS(pselect(0, NULL, NULL, NULL, &none, &empty), EINTR);
    SAME(alarms, 2);
    raise(SIGUSR1);
    CHECK(write(p[1], "x", 1) == 1);
    SAME(ppoll(&w, 1, &none, &empty), 1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    SAME(alarms, 3);
    sigaction(SIGUSR1, &old, NULL);
    close(p[0]), close(p[1]);
}

GUEST(T(poll_basics), T(poll_timeouts), T(poll_wakes), T(asked_at_the_start), T(select_basics), T(interrupted_by_a_signal),
      T(masks_swap_atomically), T(masks_let_in_what_is_pending))
