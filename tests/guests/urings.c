/* io_uring(7) without a library: the rings, requests of each family, links, time limits, cancelling. */
#include "guest.h"
#include "uring.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

static void an_instance_says_where_things_are(void) {
    struct ring r;
    struct io_uring_params p = {0};
    FAILS(syscall(SYS_io_uring_setup, 0, &p), EINVAL);
    FAILS(syscall(SYS_io_uring_setup, 100000, &p), EINVAL);
    FAILS(syscall(SYS_io_uring_setup, 4, NULL), EFAULT);
    CHECK(ring_open(&r, 5) == 0);
    SAME(r.p.sq_entries, 8);
    SAME(r.p.cq_entries, 16);
    SAME(*AT(&r, r.p.sq_off.ring_mask), 7);
    SAME(*AT(&r, r.p.cq_off.ring_entries), 16);
    CHECK(r.p.features & IORING_FEAT_SINGLE_MMAP);
    CHECK(r.p.features & IORING_FEAT_NODROP);
    CHECK(r.p.features & IORING_FEAT_EXT_ARG);
    SAME(fcntl(r.fd, F_GETFD), FD_CLOEXEC);
    int p2[2];
    CHECK(pipe(p2) == 0);
    FAILS(syscall(SYS_io_uring_enter, p2[0], 0, 0, 0, NULL, 8), EOPNOTSUPP);
    FAILS(syscall(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 8), EBADF);
    close(p2[0]), close(p2[1]);
    ring_close(&r);
}
static void nothing_completes(void) {
    struct ring r;
    CHECK(ring_open(&r, 4) == 0);
    for (int i = 0; i < 3; i++)
        entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 10u + (unsigned)i);
    SAME(enter(&r, 3), 3);
    COMPLETES(&r, 10, 0);
    COMPLETES(&r, 11, 0);
    COMPLETES(&r, 12, 0);
    SAME(next(&r).user_data, -1);
    entry(&r, 250, -1, NULL, 0, 0, 7);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 7, -EINVAL);
    ring_close(&r);
}
static void files_are_opened_written_read_and_closed(void) {
    struct ring r;
    char got[32] = {0};
    struct iovec v[2] = {{got, 3}, {got + 3, 20}};
    CHECK(ring_open(&r, 8) == 0);
    struct io_uring_sqe *e = entry(&r, IORING_OP_OPENAT, AT_FDCWD, "uring-file", 0644, 0, 1);
    e->open_flags = O_RDWR | O_CREAT | O_TRUNC;
    SAME(enter(&r, 1), 1);
    int fd = next(&r).res;
    CHECK(fd >= 0);
    entry(&r, IORING_OP_WRITE, fd, "hello world", 11, 0, 2);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, 11);
    entry(&r, IORING_OP_READV, fd, v, 2, 6, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 5);
    CHECK(memcmp(got, "world", 5) == 0);
    entry(&r, IORING_OP_READ, fd, got, 5, (uint64_t)-1, 4);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, 5);
    CHECK(memcmp(got, "hello", 5) == 0);
    SAME(lseek(fd, 0, SEEK_CUR), 5);
    entry(&r, IORING_OP_FSYNC, fd, NULL, 0, 0, 5);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 5, 0);
    struct statx sx;
    e = entry(&r, IORING_OP_STATX, AT_FDCWD, "uring-file", STATX_SIZE, (uint64_t)(uintptr_t)&sx, 6);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 6, 0);
    SAME(sx.stx_size, 11);
    entry(&r, IORING_OP_CLOSE, fd, NULL, 0, 0, 7);
    entry(&r, IORING_OP_UNLINKAT, AT_FDCWD, "uring-file", 0, 0, 8);
    entry(&r, IORING_OP_READ, 999, got, 5, 0, 9);
    SAME(enter(&r, 3), 3);
    for (int i = 0; i < 3; i++) {
        struct completion c = next(&r);
        SAME(c.res, c.user_data == 9 ? -EBADF : 0);
    }
    FAILS(access("uring-file", F_OK), ENOENT);
    ring_close(&r);
}
static void an_instance_does_not_close_itself(void) {
    struct ring r;
    CHECK(ring_open(&r, 4) == 0);
    entry(&r, IORING_OP_CLOSE, r.fd, NULL, 0, 0, 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, -EBADF);
    ring_close(&r);
}
static void a_read_waits_for_what_is_written(void) {
    struct ring r;
    int p[2];
    char got[8] = {0};
    CHECK(ring_open(&r, 4) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_READ, p[0], got, 8, 0, 1);
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    struct pollfd ready = {r.fd, POLLIN, 0};
    SAME(poll(&ready, 1, 0), 0);
    SAME(write(p[1], "abc", 3), 3);
    SAME(poll(&ready, 1, 1000), 1);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 1, 3);
    CHECK(memcmp(got, "abc", 3) == 0);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void a_request_keeps_its_file(void) {
    struct ring r;
    int p[2];
    char got[8] = {0};
    CHECK(ring_open(&r, 4) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_READ, p[0], got, 8, 0, 1);
    SAME(enter(&r, 0), 1);
    int other = eventfd(5, 0);
    CHECK(dup2(other, p[0]) == p[0]);
    SAME(write(p[1], "xyz", 3), 3);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 1, 3);
    CHECK(memcmp(got, "xyz", 3) == 0);
    uint64_t count;
    SAME(read(p[0], &count, 8), 8);
    SAME(count, 5);
    close(p[0]), close(p[1]), close(other);
    ring_close(&r);
}
static void a_conversation_over_tcp(void) {
    struct ring r;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    char got[8] = {0};
    CHECK(ring_open(&r, 8) == 0);
    int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(l, (void *)&at, sizeof at) == 0 && listen(l, 4) == 0 && getsockname(l, (void *)&at, &length) == 0);
    entry(&r, IORING_OP_ACCEPT, l, NULL, 0, 0, 1);
    SAME(enter(&r, 0), 1);
    entry(&r, IORING_OP_CONNECT, c, &at, 0, sizeof at, 2);
    SAME(enter(&r, 2), 1);
    int s = -1;
    for (int i = 0; i < 2; i++) {
        struct completion e = next(&r);
        CHECK(e.res >= 0);
        if (e.user_data == 1)
            s = e.res;
    }
    CHECK(s >= 0);
    entry(&r, IORING_OP_RECV, s, got, 8, 0, 3);
    SAME(enter(&r, 0), 1);
    entry(&r, IORING_OP_SEND, c, "ping", 4, 0, 4);
    SAME(enter(&r, 2), 1);
    for (int i = 0; i < 2; i++)
        SAME(next(&r).res, 4);
    CHECK(memcmp(got, "ping", 4) == 0);
    entry(&r, IORING_OP_SHUTDOWN, c, NULL, SHUT_WR, 0, 5);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 5, 0);
    entry(&r, IORING_OP_RECV, s, got, 8, 0, 6);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 6, 0);
    close(l), close(c), close(s);
    ring_close(&r);
}
static void accept_goes_on(void) {
    struct ring r;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    CHECK(ring_open(&r, 8) == 0);
    int l = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(l, (void *)&at, sizeof at) == 0 && listen(l, 4) == 0 && getsockname(l, (void *)&at, &length) == 0);
    entry(&r, IORING_OP_ACCEPT, l, NULL, 0, 0, 1)->ioprio = IORING_ACCEPT_MULTISHOT;
    SAME(enter(&r, 0), 1);
    for (int i = 0; i < 3; i++) {
        int c = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(c, (void *)&at, sizeof at) == 0);
        SAME(enter(&r, 1), 0);
        struct completion e = next(&r);
        CHECK(e.user_data == 1 && e.res >= 0 && (e.flags & IORING_CQE_F_MORE));
        close(e.res), close(c);
    }
    entry(&r, IORING_OP_ASYNC_CANCEL, -1, (void *)1, 0, 0, 2);
    SAME(enter(&r, 2), 1);
    for (int i = 0; i < 2; i++) {
        struct completion e = next(&r);
        SAME(e.res, e.user_data == 1 ? -ECANCELED : 0);
        CHECK(!(e.flags & IORING_CQE_F_MORE));
    }
    close(l);
    ring_close(&r);
}
static void polls_tell_of_readiness(void) {
    struct ring r;
    CHECK(ring_open(&r, 8) == 0);
    int e = eventfd(0, 0);
    uint64_t one = 1;
    entry(&r, IORING_OP_POLL_ADD, e, NULL, 0, 0, 1)->poll32_events = POLLIN;
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    SAME(write(e, &one, 8), 8);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 1, POLLIN);
    SAME(read(e, &one, 8), 8);
    entry(&r, IORING_OP_POLL_ADD, e, NULL, 0, 0, 2)->poll32_events = POLLIN;
    entry(&r, IORING_OP_POLL_REMOVE, -1, (void *)2, 0, 0, 3);
    entry(&r, IORING_OP_POLL_REMOVE, -1, (void *)77, 0, 0, 4);
    SAME(enter(&r, 3), 3);
    for (int i = 0; i < 3; i++) {
        struct completion c = next(&r);
        SAME(c.res, c.user_data == 2 ? -ECANCELED : c.user_data == 4 ? -ENOENT : 0);
    }
    close(e);
    ring_close(&r);
}
static void time_passes(void) {
    struct ring r;
    struct __kernel_timespec t = {0, 30000000};
    CHECK(ring_open(&r, 8) == 0);
    uint64_t start = now_ms();
    entry(&r, IORING_OP_TIMEOUT, -1, &t, 1, 0, 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, -ETIME);
    CHECK(lasted(now_ms() - start, 30));
    /* One that waits for completions instead. */
    t.tv_sec = 100;
    entry(&r, IORING_OP_TIMEOUT, -1, &t, 1, 1, 2);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 3);
    SAME(enter(&r, 2), 2);
    COMPLETES(&r, 3, 0);
    COMPLETES(&r, 2, 0);
    entry(&r, IORING_OP_TIMEOUT, -1, &t, 1, 0, 4);
    entry(&r, IORING_OP_TIMEOUT_REMOVE, -1, (void *)4, 0, 0, 5);
    SAME(enter(&r, 2), 2);
    for (int i = 0; i < 2; i++) {
        struct completion c = next(&r);
        SAME(c.res, c.user_data == 4 ? -ECANCELED : 0);
    }
    /* The wait itself has an end. */
    struct __kernel_timespec little = {0, 5000000};
    struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&little};
    FAILS(syscall(SYS_io_uring_enter, r.fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg), ETIME);
    /* Fewer completions than are waited for are no failure. */
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 6);
    SAME(enter(&r, 0), 1);
    start = now_ms();
    SAME(syscall(SYS_io_uring_enter, r.fd, 0, 2, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg), 0);
    CHECK(lasted(now_ms() - start, 5));
    COMPLETES(&r, 6, 0);
    ring_close(&r);
}
static void links_go_one_after_the_other(void) {
    struct ring r;
    int p[2];
    char got[8];
    CHECK(ring_open(&r, 8) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_READ, p[0], got, 2, 0, 1)->flags = IOSQE_IO_LINK;
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 2);
    SAME(enter(&r, 0), 2);
    SAME(next(&r).user_data, -1);
    SAME(write(p[1], "ab", 2), 2);
    SAME(enter(&r, 2), 0);
    COMPLETES(&r, 1, 2);
    COMPLETES(&r, 2, 0);
    /* A failure ends the chain. */
    entry(&r, IORING_OP_READ, 999, got, 2, 0, 3)->flags = IOSQE_IO_LINK;
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 4);
    SAME(enter(&r, 2), 2);
    COMPLETES(&r, 3, -EBADF);
    COMPLETES(&r, 4, -ECANCELED);
    /* A limit on the time. */
    struct __kernel_timespec t = {0, 10000000};
    entry(&r, IORING_OP_READ, p[0], got, 2, 0, 5)->flags = IOSQE_IO_LINK;
    entry(&r, IORING_OP_LINK_TIMEOUT, -1, &t, 1, 0, 6);
    SAME(enter(&r, 2), 2);
    int seen = 0;
    for (int i = 0; i < 2; i++) {
        struct completion c = next(&r);
        seen |= c.user_data == 5 ? 1 : 2;
        CHECK(c.user_data == 5 ? c.res == -ECANCELED || c.res == -EINTR : c.res == -ETIME);
    }
    SAME(seen, 3);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void files_buffers_and_an_eventfd_are_registered(void) {
    struct ring r;
    int p[2];
    static char room[4096];
    struct iovec v = {room, sizeof room};
    CHECK(ring_open(&r, 8) == 0 && pipe(p) == 0);
    SAME(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, p, 2), 0);
    FAILS(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, p, 2), EBUSY);
    SAME(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_BUFFERS, &v, 1), 0);
    int e = eventfd(0, EFD_NONBLOCK);
    SAME(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_EVENTFD, &e, 1), 0);
    close(p[0]), close(p[1]);
    memcpy(room, "fixed", 5);
    entry(&r, IORING_OP_WRITE_FIXED, 1, room, 5, 0, 1)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 5);
    entry(&r, IORING_OP_READ_FIXED, 0, room + 100, 5, 0, 2)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, 5);
    CHECK(memcmp(room + 100, "fixed", 5) == 0);
    uint64_t count = 0;
    SAME(read(e, &count, 8), 8);
    SAME(count, 2);
    entry(&r, IORING_OP_READ, 7, room, 5, 0, 3)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, -EBADF);
    char stray[8];
    entry(&r, IORING_OP_READ_FIXED, 0, stray, 5, 0, 4)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, -EFAULT);
    SAME(syscall(SYS_io_uring_register, r.fd, IORING_UNREGISTER_FILES, NULL, 0), 0);
    FAILS(syscall(SYS_io_uring_register, r.fd, IORING_UNREGISTER_FILES, NULL, 0), ENXIO);
    SAME(syscall(SYS_io_uring_register, r.fd, IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
    close(e);
    ring_close(&r);
}
static void completions_are_not_lost(void) {
    struct ring r;
    CHECK(ring_open(&r, 2) == 0);
    SAME(r.p.cq_entries, 4);
    for (unsigned i = 0; i < 6; i++) {
        entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, i);
        SAME(enter(&r, 0), 1);
    }
    CHECK(*AT(&r, r.p.sq_off.flags) & IORING_SQ_CQ_OVERFLOW);
    for (unsigned i = 0; i < 4; i++)
        COMPLETES(&r, i, 0);
    SAME(enter(&r, 2), 0);
    COMPLETES(&r, 4, 0);
    COMPLETES(&r, 5, 0);
    CHECK(!(*AT(&r, r.p.sq_off.flags) & IORING_SQ_CQ_OVERFLOW));
    ring_close(&r);
}
static void a_probe_names_what_there_is(void) {
    struct ring r;
    struct {
        struct io_uring_probe head;
        struct io_uring_probe_op ops[64];
    } probe = {0};
    CHECK(ring_open(&r, 2) == 0);
    SAME(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_PROBE, &probe, 64), 0);
    CHECK(probe.head.ops_len > IORING_OP_ACCEPT);
    CHECK(probe.ops[IORING_OP_ACCEPT].flags & IO_URING_OP_SUPPORTED);
    CHECK(probe.ops[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED);
    SAME(probe.ops[IORING_OP_SEND].op, IORING_OP_SEND);
    ring_close(&r);
}

GUEST_WITH(not_to_be_had(), T(an_instance_says_where_things_are), T(nothing_completes), T(files_are_opened_written_read_and_closed),
           T(an_instance_does_not_close_itself), T(a_read_waits_for_what_is_written), T(a_request_keeps_its_file), T(a_conversation_over_tcp), T(accept_goes_on),
           T(polls_tell_of_readiness), T(time_passes), T(links_go_one_after_the_other),
           T(files_buffers_and_an_eventfd_are_registered), T(completions_are_not_lost), T(a_probe_names_what_there_is))
