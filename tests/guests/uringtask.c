/* io_uring(7), whose requests they are and how they are asked for: processes and threads that share an instance, memory
 * that is used again, chains that fail, deferred work, futexes, registered instances, larger entries, identities. */
#include "guest.h"
#include "uring.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define FUTEX_WAIT_OP 51
#define FUTEX_WAKE_OP 52
#define FUTEX_WAITV_OP 53
#define FUTEX_U32 2
#define TIMEOUT_MULTISHOT 64
#define REGISTER(r, what, arg, n) syscall(SYS_io_uring_register, (r)->fd, what, arg, n)
#define ENTER(r, n, wait, flags) syscall(SYS_io_uring_enter, (r)->fd, n, wait, flags, NULL, 8)

struct words {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static void wait_for(pid_t child) {
    int status;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
}
/* Waits until there are so many; each time-out that runs out ends a wait. */
static void gather(struct ring *r, unsigned n) {
    while (*AT(r, r->p.cq_off.tail) - *AT(r, r->p.cq_off.head) < n && ENTER(r, 0, n, IORING_ENTER_GETEVENTS) == 0)
        ;
}
/* An end of a chain or of a request that goes on, with its flags. */
#define GOES_ON(r, data, value, more) do { \
    struct completion guest_c = next(r); \
    SAME(guest_c.user_data, data); \
    SAME(guest_c.res, value); \
    SAME(guest_c.flags & IORING_CQE_F_MORE, more); \
} while (0)

static void descriptors_are_those_of_who_submits(void) {
    struct ring r;
    int ours[2], theirs[2], tell[2];
    char got[8] = {0}, go;
    CHECK(ring_open(&r, 4) == 0 && pipe(ours) == 0 && pipe(tell) == 0 && pipe(theirs) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* The same number is another file here. */
        dup2(theirs[1], ours[1]);
        entry(&r, IORING_OP_WRITE, ours[1], "child", 5, 0, 1);
        _exit(enter(&r, 1) == 1 && write(tell[1], "x", 1) == 1 ? 0 : 1);
    }
    SAME(read(tell[0], &go, 1), 1);
    wait_for(child);
    COMPLETES(&r, 1, 5);
    SAME(read(theirs[0], got, 8), 5);
    CHECK(memcmp(got, "child", 5) == 0);
    struct pollfd nothing = {ours[0], POLLIN, 0};
    SAME(poll(&nothing, 1, 0), 0);
    for (int i = 0; i < 2; i++)
        close(ours[i]), close(theirs[i]), close(tell[i]);
    ring_close(&r);
}
static void who_ends_takes_its_polls_of_instances_along(void) {
    struct ring r;
    struct __kernel_timespec later = {0, 50000000};
    CHECK(ring_open(&r, 4) == 0);
    pid_t child = fork();
    if (child == 0) {
        entry(&r, IORING_OP_POLL_ADD, r.fd, NULL, 0, 0, 1)->poll32_events = POLLIN;
        r.entries[0].flags = IOSQE_IO_LINK;
        entry(&r, IORING_OP_TIMEOUT, -1, &later, 1, 0, 2);
        entry(&r, IORING_OP_TIMEOUT, -1, &later, 1, 0, 3);
        _exit(enter(&r, 0) == 3 ? 0 : 1);
    }
    wait_for(child);
    SAME(ENTER(&r, 0, 3, IORING_ENTER_GETEVENTS), 0);
    COMPLETES(&r, 1, -ECANCELED);
    COMPLETES(&r, 2, -ECANCELED);
    COMPLETES(&r, 3, -ETIME);
    ring_close(&r);
}
static void memory_is_free_again_once_submitted(void) {
    struct ring r;
    struct __kernel_timespec soon = {0, 10000000};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    char got[8], path[32] = "uring-kept";
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(ring_open(&r, 4) == 0 && bind(a, (void *)&at, n) == 0 && getsockname(a, (void *)&at, &n) == 0);
    struct io_uring_sqe *e = entry(&r, IORING_OP_TIMEOUT, -1, &soon, 1, 0, 1);
    e->timeout_flags = IORING_TIMEOUT_ETIME_SUCCESS;
    e->flags = IOSQE_IO_LINK;
    struct iovec vector = {"hello", 5};
    struct msghdr message = {.msg_name = &at, .msg_namelen = n, .msg_iov = &vector, .msg_iovlen = 1};
    entry(&r, IORING_OP_SENDMSG, b, &message, 1, 0, 2)->flags = IOSQE_IO_LINK;
    entry(&r, IORING_OP_OPENAT, AT_FDCWD, path, 0644, 0, 3)->open_flags = O_RDWR | O_CREAT;
    SAME(enter(&r, 0), 3);
    memset(&at, 0, sizeof at), memset(&message, 0, sizeof message), memset(&vector, 0, sizeof vector);
    strcpy(path, "/no/such/path"), soon.tv_sec = 1000;
    gather(&r, 3);
    COMPLETES(&r, 1, -ETIME);
    COMPLETES(&r, 2, 5);
    struct completion c = next(&r);
    SAME(c.user_data, 3);
    CHECK(c.res >= 0);
    SAME(recv(a, got, 8, MSG_DONTWAIT), 5);
    SAME(unlink("uring-kept"), 0);
    close(c.res), close(a), close(b);
    ring_close(&r);
}
static void one_that_is_refused_fails_its_chain(void) {
    struct ring r;
    char got[4];
    CHECK(ring_open(&r, 8) == 0);
    for (unsigned i = 0; i < 4; i++) {
        struct io_uring_sqe *e = entry(&r, i == 1 ? IORING_OP_READ : IORING_OP_NOP, 0, i == 1 ? got : NULL, i == 1, 0, i);
        e->flags = i < 2 ? IOSQE_IO_LINK : 0;
        e->ioprio = i == 1 ? 0xffff : 0;
    }
    SAME(enter(&r, 0), 4);
    COMPLETES(&r, 0, -ECANCELED);
    COMPLETES(&r, 3, 0);
    COMPLETES(&r, 1, -EINVAL);
    COMPLETES(&r, 2, -ECANCELED);
    /* Alone it ends the submission, unless all are to be submitted. */
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 4)->ioprio = 1;
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 5);
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 4, -EINVAL);
    SAME(ENTER(&r, 1, 0, 0), 1);
    COMPLETES(&r, 5, 0);
    /* Silence about success is not kept about a failure, but about what goes with it. */
    for (unsigned i = 0; i < 3; i++) {
        struct io_uring_sqe *e = entry(&r, i == 1 ? IORING_OP_WRITE : IORING_OP_NOP, i == 1 ? 999 : -1, NULL, 0, 0, i);
        e->flags = IOSQE_CQE_SKIP_SUCCESS | (i < 2 ? IOSQE_IO_LINK : 0);
    }
    SAME(enter(&r, 0), 3);
    COMPLETES(&r, 1, -EBADF);
    SAME(next(&r).user_data, -1);
    entry(&r, IORING_OP_TEE, 1, NULL, 1, 8, 6)->splice_fd_in = 0;
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 6, -EINVAL);
    ring_close(&r);
}
static void what_goes_on_ends_where_there_is_no_room(void) {
    struct ring r;
    int p[2];
    CHECK(ring_open(&r, 1) == 0 && pipe(p) == 0);
    SAME(r.p.cq_entries, 2);
    struct io_uring_sqe *e = entry(&r, IORING_OP_POLL_ADD, p[0], NULL, IORING_POLL_ADD_MULTI, 0, 1);
    e->poll32_events = POLLIN;
    SAME(enter(&r, 0), 1);
    for (int i = 0; i < 3; i++)
        SAME(write(p[1], "x", 1), 1);
    GOES_ON(&r, 1, POLLIN, IORING_CQE_F_MORE);
    GOES_ON(&r, 1, POLLIN, IORING_CQE_F_MORE);
    SAME(next(&r).user_data, -1);
    SAME(ENTER(&r, 0, 1, IORING_ENTER_GETEVENTS), 0);
    GOES_ON(&r, 1, POLLIN, 0);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void polls_are_changed(void) {
    struct ring r;
    int p[2];
    CHECK(ring_open(&r, 4) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_POLL_ADD, p[0], NULL, 0, 0, 1)->poll32_events = POLLIN;
    SAME(enter(&r, 0), 1);
    entry(&r, IORING_OP_POLL_REMOVE, -1, (void *)1, IORING_POLL_UPDATE_USER_DATA, 9, 2);
    entry(&r, IORING_OP_POLL_REMOVE, -1, (void *)5, IORING_POLL_UPDATE_USER_DATA, 9, 3);
    SAME(enter(&r, 0), 2);
    COMPLETES(&r, 2, 0);
    COMPLETES(&r, 3, -ENOENT);
    entry(&r, IORING_OP_POLL_REMOVE, -1, (void *)9, IORING_POLL_ADD_MULTI, 0, 4);
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 4, -EINVAL);
    SAME(write(p[1], "x", 1), 1);
    SAME(ENTER(&r, 0, 1, IORING_ENTER_GETEVENTS), 0);
    COMPLETES(&r, 9, POLLIN);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void timeouts_repeat(void) {
    struct ring r;
    struct __kernel_timespec soon = {0, 5000000};
    CHECK(ring_open(&r, 4) == 0);
    entry(&r, IORING_OP_TIMEOUT, -1, &soon, 1, 3, 1)->timeout_flags = TIMEOUT_MULTISHOT;
    SAME(enter(&r, 0), 1);
    struct completion first = next(&r);
    /* Kernels before 6.4 do not know it. */
    if (first.user_data == 1 && first.res == -EINVAL)
        return ring_close(&r);
    /* Whoever waits for more comes back all the same. */
    SAME(ENTER(&r, 0, 3, IORING_ENTER_GETEVENTS), 0);
    GOES_ON(&r, 1, -ETIME, IORING_CQE_F_MORE);
    SAME(next(&r).user_data, -1);
    gather(&r, 2);
    GOES_ON(&r, 1, -ETIME, IORING_CQE_F_MORE);
    GOES_ON(&r, 1, -ETIME, 0);
    entry(&r, IORING_OP_TIMEOUT, -1, &soon, 1, 0, 2)->timeout_flags = IORING_TIMEOUT_BOOTTIME | IORING_TIMEOUT_REALTIME;
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 2, -EINVAL);
    entry(&r, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0, 3);
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 3, -EINVAL);
    /* They count completions, but not each other's. */
    struct __kernel_timespec later = {0, 30000000};
    entry(&r, IORING_OP_TIMEOUT, -1, &later, 1, 1, 4);
    entry(&r, IORING_OP_TIMEOUT, -1, &soon, 1, 1, 5);
    SAME(enter(&r, 0), 2);
    gather(&r, 2);
    COMPLETES(&r, 5, -ETIME);
    COMPLETES(&r, 4, -ETIME);
    ring_close(&r);
}
static void flags_go_together_or_do_not(void) {
    struct ring r;
    int p[2];
    FAILS(ring_open_as(&r, 4, IORING_SETUP_DEFER_TASKRUN), EINVAL);
    FAILS(ring_open_as(&r, 4, IORING_SETUP_TASKRUN_FLAG), EINVAL);
    FAILS(ring_open_as(&r, 4, IORING_SETUP_SQPOLL | IORING_SETUP_COOP_TASKRUN), EINVAL);
    struct io_uring_params attach = {.flags = IORING_SETUP_ATTACH_WQ, .wq_fd = 1 << 20};
    FAILS(syscall(SYS_io_uring_setup, 4, &attach), ENXIO);
    CHECK(pipe(p) == 0);
    attach = (struct io_uring_params){.flags = IORING_SETUP_ATTACH_WQ, .wq_fd = (uint32_t)p[0]};
    FAILS(syscall(SYS_io_uring_setup, 4, &attach), EINVAL);
    CHECK(ring_open(&r, 4) == 0);
    attach = (struct io_uring_params){.flags = IORING_SETUP_ATTACH_WQ, .wq_fd = (uint32_t)r.fd};
    int other = (int)syscall(SYS_io_uring_setup, 4, &attach);
    CHECK(other >= 0);
    close(other), close(p[0]), close(p[1]);
    ring_close(&r);
}
static void entries_and_completions_are_larger(void) {
    struct ring r;
    int p[2];
    char got[8];
    CHECK(ring_open_as(&r, 4, IORING_SETUP_SQE128 | IORING_SETUP_CQE32) == 0 && pipe(p) == 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++)
            entry(&r, IORING_OP_WRITE, p[1], "abc" + i, 1, (uint64_t)-1, 10 * round + i);
        SAME(enter(&r, 3), 3);
        for (unsigned i = 0; i < 3; i++)
            COMPLETES(&r, 10 * round + i, 1);
    }
    SAME(read(p[0], got, 3), 3);
    CHECK(memcmp(got, "abc", 3) == 0);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void *submits(void *ring) {
    struct ring *r = ring;
    if (ENTER(r, 1, 0, 0) != -1 || errno != EEXIST)
        return "it submits";
    int fd = eventfd(0, 0);
    if (REGISTER(r, IORING_REGISTER_EVENTFD, &fd, 1) != -1 || errno != EEXIST)
        return "it registers";
    close(fd);
    if (ENTER(r, 0, 0, IORING_ENTER_GETEVENTS) != -1 || errno != EEXIST)
        return "it looks";
    return NULL;
}
static void work_is_done_when_its_task_looks(void) {
    struct ring r;
    int p[2], told = eventfd(0, EFD_NONBLOCK);
    uint64_t n;
    pthread_t other;
    void *wrong;
    CHECK(ring_open_as(&r, 4, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG) == 0);
    CHECK(pipe(p) == 0 && told >= 0);
    SAME(REGISTER(&r, IORING_REGISTER_EVENTFD, &told, 1), 0);
    entry(&r, IORING_OP_POLL_ADD, p[0], NULL, 0, 0, 1)->poll32_events = POLLIN;
    SAME(enter(&r, 0), 1);
    FAILS(read(told, &n, 8), EAGAIN);
    SAME(write(p[1], "x", 1), 1);
    /* It is told of, but not done. */
    struct pollfd both[] = {{told, POLLIN, 0}, {r.fd, POLLIN, 0}};
    SAME(poll(both, 2, 1000), 2);
    SAME(next(&r).user_data, -1);
    SAME(*AT(&r, r.p.sq_off.flags) & IORING_SQ_TASKRUN, IORING_SQ_TASKRUN);
    CHECK(pthread_create(&other, NULL, submits, &r) == 0 && pthread_join(other, &wrong) == 0);
    CHECK(wrong == NULL);
    SAME(ENTER(&r, 0, 0, IORING_ENTER_GETEVENTS), 0);
    COMPLETES(&r, 1, POLLIN);
    SAME(*AT(&r, r.p.sq_off.flags) & IORING_SQ_TASKRUN, 0);
    /* The program may want to hear nothing. */
    SAME(read(told, &n, 8), 8);
    *AT(&r, r.p.cq_off.flags) |= IORING_CQ_EVENTFD_DISABLED;
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 2);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, 0);
    FAILS(read(told, &n, 8), EAGAIN);
    close(p[0]), close(p[1]), close(told);
    ring_close(&r);
}
static struct io_uring_sqe *futex(struct ring *r, int op, uint32_t *word, uint64_t value, uint64_t data) {
    struct io_uring_sqe *e = entry(r, op, FUTEX_U32, word, 0, value, data);
    e->__pad2[0] = 0;
    ((uint64_t *)e)[6] = 0xffffffff;
    return e;
}
static void *wakes(void *word) {
    syscall(SYS_futex, word, 1, 1);
    return NULL;
}
static void futexes_are_waited_for(void) {
    struct ring r;
    static uint32_t word = 1, others[2] = {1, 1};
    CHECK(ring_open(&r, 8) == 0);
    futex(&r, FUTEX_WAIT_OP, &word, 2, 1);
    SAME(enter(&r, 0), 1);
    struct completion c = next(&r);
    /* Kernels before 6.7 do not know it. */
    if (c.res == -EINVAL)
        return ring_close(&r);
    SAME(c.res, -EAGAIN);
    for (unsigned i = 2; i < 5; i++)
        futex(&r, FUTEX_WAIT_OP, &word, 1, i);
    SAME(enter(&r, 0), 3);
    SAME(next(&r).user_data, -1);
    futex(&r, FUTEX_WAKE_OP, &word, 2, 5);
    SAME(enter(&r, 3), 1);
    COMPLETES(&r, 5, 2);
    COMPLETES(&r, 2, 0);
    COMPLETES(&r, 3, 0);
    SAME(next(&r).user_data, -1);
    /* Threads and requests meet. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wakes, &word) == 0 && pthread_join(thread, NULL) == 0);
    SAME(ENTER(&r, 0, 1, IORING_ENTER_GETEVENTS), 0);
    COMPLETES(&r, 4, 0);
    /* One of several. */
    struct words vector[2] = {{1, (uint64_t)(uintptr_t)&others[0], FUTEX_U32, 0}, {1, (uint64_t)(uintptr_t)&others[1], FUTEX_U32, 0}};
    entry(&r, FUTEX_WAITV_OP, 0, vector, 2, 0, 6);
    SAME(enter(&r, 0), 1);
    futex(&r, FUTEX_WAKE_OP, &others[1], 1, 7);
    SAME(enter(&r, 2), 1);
    COMPLETES(&r, 7, 1);
    COMPLETES(&r, 6, 1);
    vector[0].value = 3;
    entry(&r, FUTEX_WAITV_OP, 0, vector, 2, 0, 8);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 8, -EAGAIN);
    /* What is cancelled is not woken. */
    futex(&r, FUTEX_WAIT_OP, &word, 1, 9);
    SAME(enter(&r, 0), 1);
    entry(&r, IORING_OP_ASYNC_CANCEL, -1, (void *)9, 0, 0, 10);
    SAME(enter(&r, 2), 1);
    int seen = 0;
    for (int i = 0; i < 2; i++) {
        c = next(&r);
        SAME(c.res, c.user_data == 9 ? -ECANCELED : 1);
        seen += (int)c.user_data;
    }
    SAME(seen, 19);
    futex(&r, FUTEX_WAKE_OP, &word, 1, 11);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 11, 0);
    futex(&r, FUTEX_WAIT_OP, &word, 1, 12)->fd = 1;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 12, -EINVAL);
    ring_close(&r);
}
static void instances_need_no_descriptor(void) {
    struct ring r;
    int p[2];
    CHECK(ring_open(&r, 4) == 0 && pipe(p) == 0);
    struct io_uring_rsrc_update to[2] = {{.offset = (uint32_t)-1, .data = (uint64_t)r.fd}, {.offset = 5, .data = (uint64_t)r.fd}};
    SAME(REGISTER(&r, IORING_REGISTER_RING_FDS, to, 2), 2);
    SAME(to[0].offset, 0);
    SAME(to[1].offset, 5);
    FAILS(REGISTER(&r, IORING_REGISTER_RING_FDS, to, 0), EINVAL);
    to[0] = (struct io_uring_rsrc_update){.offset = 5, .data = (uint64_t)r.fd};
    FAILS(REGISTER(&r, IORING_REGISTER_RING_FDS, to, 1), EBUSY);
    to[0] = (struct io_uring_rsrc_update){.offset = 99, .data = (uint64_t)r.fd};
    FAILS(REGISTER(&r, IORING_REGISTER_RING_FDS, to, 1), EINVAL);
    to[0] = (struct io_uring_rsrc_update){.offset = 1, .data = (uint64_t)p[0]};
    FAILS(REGISTER(&r, IORING_REGISTER_RING_FDS, to, 1), EOPNOTSUPP);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 1);
    SAME(syscall(SYS_io_uring_enter, 5, 1, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING, NULL, 8), 1);
    COMPLETES(&r, 1, 0);
    FAILS(syscall(SYS_io_uring_enter, 3, 0, 0, IORING_ENTER_REGISTERED_RING, NULL, 8), EBADF);
    FAILS(syscall(SYS_io_uring_enter, 16, 0, 0, IORING_ENTER_REGISTERED_RING, NULL, 8), EINVAL);
    to[0] = (struct io_uring_rsrc_update){.offset = 5};
    SAME(REGISTER(&r, IORING_UNREGISTER_RING_FDS, to, 1), 1);
    FAILS(syscall(SYS_io_uring_enter, 5, 0, 0, IORING_ENTER_REGISTERED_RING, NULL, 8), EBADF);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void identities_are_registered(void) {
    struct ring r;
    CHECK(ring_open(&r, 4) == 0);
    SAME(REGISTER(&r, IORING_REGISTER_PERSONALITY, NULL, 0), 1);
    SAME(REGISTER(&r, IORING_REGISTER_PERSONALITY, NULL, 0), 2);
    FAILS(REGISTER(&r, IORING_REGISTER_PERSONALITY, NULL, 1), EINVAL);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 1)->personality = 2;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 0);
    SAME(REGISTER(&r, IORING_UNREGISTER_PERSONALITY, NULL, 2), 0);
    FAILS(REGISTER(&r, IORING_UNREGISTER_PERSONALITY, NULL, 2), EINVAL);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 2)->personality = 2;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, -EINVAL);
    ring_close(&r);
}
static void what_may_be_asked_for_is_restricted(void) {
    struct ring r;
    int p[2];
    struct io_uring_restriction all[] = {
        {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITE},
        {.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_IO_LINK},
        {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_PERSONALITY},
    };
    CHECK(ring_open_as(&r, 4, IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL) == 0 && pipe(p) == 0);
    FAILS(ENTER(&r, 0, 0, 0), EBADFD);
    SAME(REGISTER(&r, IORING_REGISTER_RESTRICTIONS, all, 3), 0);
    FAILS(REGISTER(&r, IORING_REGISTER_RESTRICTIONS, all, 3), EBUSY);
    SAME(REGISTER(&r, IORING_REGISTER_ENABLE_RINGS, NULL, 0), 0);
    FAILS(REGISTER(&r, IORING_REGISTER_RESTRICTIONS, all, 3), EACCES);
    FAILS(REGISTER(&r, IORING_REGISTER_EVENTFD, p, 1), EACCES);
    SAME(REGISTER(&r, IORING_REGISTER_PERSONALITY, NULL, 0), 1);
    entry(&r, IORING_OP_WRITE, p[1], "x", 1, (uint64_t)-1, 1);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 2);
    entry(&r, IORING_OP_WRITE, p[1], "x", 1, (uint64_t)-1, 3)->flags = IOSQE_ASYNC;
    SAME(enter(&r, 3), 3);
    COMPLETES(&r, 1, 1);
    COMPLETES(&r, 2, -EACCES);
    COMPLETES(&r, 3, -EACCES);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void completions_are_polled_for(void) {
    struct ring r;
    int p[2];
    char got[8];
    CHECK(ring_open_as(&r, 4, IORING_SETUP_IOPOLL) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_READ, p[0], got, 8, 0, 1);
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 1, -EOPNOTSUPP);
    entry(&r, IORING_OP_POLL_ADD, p[0], NULL, 0, 0, 2)->poll32_events = POLLIN;
    SAME(enter(&r, 0), 1);
    COMPLETES(&r, 2, -EINVAL);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 0);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
GUEST_WITH(not_to_be_had(), T(descriptors_are_those_of_who_submits), T(who_ends_takes_its_polls_of_instances_along),
           T(memory_is_free_again_once_submitted), T(one_that_is_refused_fails_its_chain),
           T(what_goes_on_ends_where_there_is_no_room), T(polls_are_changed), T(timeouts_repeat), T(flags_go_together_or_do_not),
           T(entries_and_completions_are_larger), T(work_is_done_when_its_task_looks), T(futexes_are_waited_for),
           T(instances_need_no_descriptor), T(identities_are_registered), T(what_may_be_asked_for_is_restricted),
           T(completions_are_polled_for))
