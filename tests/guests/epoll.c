/* epoll: level and edge triggering, one-shot, nesting, every kind of descriptor. epoll(7). */
#include "guest.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

static int watch(int ep, int fd, uint32_t events, uint64_t tag) {
    struct epoll_event e = {.events = events, .data.u64 = tag};
    return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

static void refusals(void) {
    int ep = epoll_create1(EPOLL_CLOEXEC), p[2];
    struct epoll_event e = {.events = EPOLLIN};
    CHECK(ep >= 0 && pipe(p) == 0);
    SAME(fcntl(ep, F_GETFD), FD_CLOEXEC);
    CHECK(watch(ep, p[0], EPOLLIN, 0) == 0);
    FAILS(watch(ep, p[0], EPOLLIN, 0), EEXIST);
    FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, p[1], &e), ENOENT);
    FAILS(epoll_ctl(ep, EPOLL_CTL_DEL, p[1], NULL), ENOENT);
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &e), EINVAL);
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, 999, &e), EBADF);
    FAILS(epoll_ctl(p[0], EPOLL_CTL_ADD, p[1], &e), EINVAL);
    FAILS(epoll_wait(ep, &e, 0, 0), EINVAL);
    FAILS(epoll_wait(p[0], &e, 1, 0), EINVAL);
    FAILS(syscall(SYS_epoll_create, 0), EINVAL); /* musl leaves the size out */
    int f = open("/etc/passwd", O_RDONLY);
    FAILS(watch(ep, f, EPOLLIN, 0), EPERM); /* a regular file is always ready */
    close(f), close(ep), close(p[0]), close(p[1]);
}

static void level_triggered(void) {
    int ep = epoll_create1(0), p[2];
    struct epoll_event e[4];
    CHECK(pipe(p) == 0 && watch(ep, p[0], EPOLLIN, 77) == 0);
    SAME(epoll_wait(ep, e, 4, 0), 0);
    CHECK(write(p[1], "ab", 2) == 2);
    for (int i = 0; i < 3; i++) {
        SAME(epoll_wait(ep, e, 4, 0), 1);
        SAME(e[0].events, EPOLLIN);
        SAME(e[0].data.u64, 77);
    }
    char c[2];
    CHECK(read(p[0], c, 2) == 2);
    SAME(epoll_wait(ep, e, 4, 0), 0);
    close(p[1]);
    SAME(epoll_wait(ep, e, 4, 0), 1);
    SAME(e[0].events, EPOLLHUP); /* reported without being asked for */
    close(p[0]);
    SAME(epoll_wait(ep, e, 4, 0), 0); /* closing the last descriptor takes it off the list */
    close(ep);
}

static void edge_triggered(void) {
    int ep = epoll_create1(0), p[2];
    struct epoll_event e[4];
    CHECK(pipe(p) == 0 && watch(ep, p[0], EPOLLIN | EPOLLET, 1) == 0);
    CHECK(write(p[1], "ab", 2) == 2);
    SAME(epoll_wait(ep, e, 4, 0), 1);
    SAME(epoll_wait(ep, e, 4, 0), 0);
    CHECK(write(p[1], "c", 1) == 1); /* a new arrival is a new edge, though it was readable all along */
    SAME(epoll_wait(ep, e, 4, 0), 1);
    char c[8];
    CHECK(read(p[0], c, 1) == 1);
    SAME(epoll_wait(ep, e, 4, 0), 0);
    struct epoll_event m = {.events = EPOLLIN | EPOLLET};
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &m) == 0); /* re-arming reports what is there */
    SAME(epoll_wait(ep, e, 4, 0), 1);
    close(ep), close(p[0]), close(p[1]);
}

static void one_shot(void) {
    int ep = epoll_create1(0), p[2];
    struct epoll_event e[4], m = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 9};
    CHECK(pipe(p) == 0 && watch(ep, p[0], EPOLLIN | EPOLLONESHOT, 8) == 0);
    CHECK(write(p[1], "a", 1) == 1);
    SAME(epoll_wait(ep, e, 4, 0), 1);
    SAME(e[0].data.u64, 8);
    CHECK(write(p[1], "a", 1) == 1);
    SAME(epoll_wait(ep, e, 4, 0), 0);
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &m) == 0);
    SAME(epoll_wait(ep, e, 4, 0), 1);
    SAME(e[0].data.u64, 9);
    close(ep), close(p[0]), close(p[1]);
}

static void nested(void) {
    int inner = epoll_create1(0), outer = epoll_create1(0), p[2];
    struct epoll_event e[4];
    CHECK(pipe(p) == 0 && watch(inner, p[0], EPOLLIN, 1) == 0 && watch(outer, inner, EPOLLIN, 2) == 0);
    FAILS(watch(inner, outer, EPOLLIN, 3), ELOOP);
    SAME(epoll_wait(outer, e, 4, 0), 0);
    CHECK(write(p[1], "x", 1) == 1);
    SAME(epoll_wait(outer, e, 4, 1000), 1);
    SAME(e[0].data.u64, 2);
    struct pollfd f = {inner, POLLIN, 0};
    SAME(poll(&f, 1, 0), 1);
    SAME(epoll_wait(inner, e, 4, 0), 1);
    SAME(e[0].data.u64, 1);
    char c;
    CHECK(read(p[0], &c, 1) == 1);
    SAME(epoll_wait(outer, e, 4, 0), 0);
    close(inner), close(outer), close(p[0]), close(p[1]);
}

static void many_kinds(void) {
    int ep = epoll_create1(0), ev = eventfd(0, EFD_NONBLOCK), tm = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), sv[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
    CHECK(watch(ep, ev, EPOLLIN, 1) == 0 && watch(ep, tm, EPOLLIN, 2) == 0 && watch(ep, sv[0], EPOLLIN, 3) == 0);
    struct epoll_event e[4];
    SAME(epoll_wait(ep, e, 4, 0), 0);
    struct itimerspec at = {.it_value = {0, 50000000}};
    CHECK(timerfd_settime(tm, 0, &at, NULL) == 0);
    uint64_t start = now_ms(), n = 1;
    SAME(epoll_wait(ep, e, 4, 2000), 1);
    SAME(e[0].data.u64, 2);
    CHECK(lasted(now_ms() - start, 50));
    CHECK(write(ev, &n, 8) == 8 && write(sv[1], "x", 1) == 1);
    SAME(epoll_wait(ep, e, 4, 0), 3);
    unsigned seen = 0;
    for (int i = 0; i < 3; i++)
        seen |= 1u << e[i].data.u64;
    SAME(seen, 2 | 4 | 8);
    SAME(epoll_wait(ep, e, 2, 0), 2);
    close(sv[1]);
    CHECK(read(ev, &n, 8) == 8 && read(tm, &n, 8) == 8);
    SAME(epoll_wait(ep, e, 4, 0), 1);
    SAME(e[0].events, EPOLLIN | EPOLLHUP);
    close(ep), close(ev), close(tm), close(sv[0]);
}

static void none_starves(void) {
    enum { N = 6 };
    int ep = epoll_create1(0), p[N][2], seen[N] = {0};
    for (int i = 0; i < N; i++) {
        CHECK(pipe(p[i]) == 0 && watch(ep, p[i][0], EPOLLIN, (uint64_t)i) == 0);
        CHECK(write(p[i][1], "x", 1) == 1);
    }
    struct epoll_event e[2];
    for (int round = 0; round < N / 2; round++) { /* ready ones are reported in turns */
        SAME(epoll_wait(ep, e, 2, 0), 2);
        seen[e[0].data.u64]++, seen[e[1].data.u64]++;
    }
    for (int i = 0; i < N; i++) {
        SAME(seen[i], 1);
        close(p[i][0]), close(p[i][1]);
    }
    close(ep);
}

static void *poke(void *fd) {
    sleep_ms(60);
    TCHECK(write(*(int *)fd, "x", 1) == 1);
    return NULL;
}

static void wait_with_and_without_end(void) {
    int ep = epoll_create1(0), p[2];
    struct epoll_event e;
    CHECK(pipe(p) == 0 && watch(ep, p[0], EPOLLIN, 0) == 0);
    uint64_t start = now_ms();
    SAME(epoll_wait(ep, &e, 1, 80), 0);
    CHECK(lasted(now_ms() - start, 80));
    pthread_t t;
    CHECK(pthread_create(&t, NULL, poke, &p[1]) == 0);
    start = now_ms();
    SAME(epoll_wait(ep, &e, 1, -1), 1);
    CHECK(lasted(now_ms() - start, 60));
    pthread_join(t, NULL);
    close(ep), close(p[0]), close(p[1]);
}

static void added_while_waiting(void) {
    int ep = epoll_create1(0), p[2];
    struct epoll_event e;
    CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1);
    SAME(epoll_wait(ep, &e, 1, 10), 0); /* an empty set just waits */
    CHECK(watch(ep, p[0], EPOLLIN, 5) == 0);
    SAME(epoll_wait(ep, &e, 1, 10), 1);
    struct epoll_event m = {.events = 0};
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &m) == 0);
    SAME(epoll_wait(ep, &e, 1, 0), 0);
    CHECK(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL) == 0);
    SAME(epoll_wait(ep, &e, 1, 0), 0);
    close(ep), close(p[0]), close(p[1]);
}

static void descriptor_twins(void) {
    int ep = epoll_create1(0), p[2];
    struct epoll_event e[4];
    CHECK(pipe(p) == 0);
    int twin = dup(p[0]);
    CHECK(watch(ep, p[0], EPOLLIN, 1) == 0 && watch(ep, twin, EPOLLIN, 2) == 0);
    CHECK(write(p[1], "x", 1) == 1);
    SAME(epoll_wait(ep, e, 4, 0), 2);
    CHECK(close(twin) == 0);
    /* the twin's registration lives on: the open file is still open */
    SAME(epoll_wait(ep, e, 4, 0), 2);
    close(p[0]);
    SAME(epoll_wait(ep, e, 4, 0), 0);
    close(ep), close(p[1]);
}

GUEST(T(refusals), T(level_triggered), T(edge_triggered), T(one_shot), T(nested), T(many_kinds), T(none_starves),
      T(wait_with_and_without_end), T(added_while_waiting), T(descriptor_twins))
