/* io_uring(7), what servers do with it: provided buffers, requests that go on, registered files, draining, splicing,
 * messages between rings, zero copy, polled submission. */
#include "guest.h"
#include "uring.h"
#include <netinet/in.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define READ_MULTISHOT 49
#define WAITID 50
#define FIXED_FD_INSTALL 54
/* All six registers, which logs show: those that a call does not use hold what was there before. */
#define REGISTER(r, what, arg, n) syscall(SYS_io_uring_register, (r)->fd, what, arg, n, 0L, 0L)

static int udp_pair(int s[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    s[0] = socket(AF_INET, SOCK_DGRAM, 0), s[1] = socket(AF_INET, SOCK_DGRAM, 0);
    return bind(s[0], (void *)&at, n) == 0 && getsockname(s[0], (void *)&at, &n) == 0 && connect(s[1], (void *)&at, n) == 0 ? 0 : -1;
}
static int tcp_pair(int s[2], int *listener) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *listener = socket(AF_INET, SOCK_STREAM, 0), s[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(*listener, (void *)&at, n) != 0 || listen(*listener, 8) != 0 || getsockname(*listener, (void *)&at, &n) != 0 ||
        connect(s[1], (void *)&at, n) != 0)
        return -1;
    s[0] = accept(*listener, NULL, NULL);
    return s[0] >= 0 ? 0 : -1;
}
static struct io_uring_sqe *provide(struct ring *r, void *room, unsigned len, int count, int first, int group) {
    struct io_uring_sqe *e = entry(r, IORING_OP_PROVIDE_BUFFERS, count, room, len, (uint64_t)first, 100);
    e->buf_group = (uint16_t)group;
    return e;
}
static struct io_uring_sqe *choosing(struct io_uring_sqe *e, int group) {
    e->flags |= IOSQE_BUFFER_SELECT;
    e->buf_group = (uint16_t)group;
    return e;
}
/* One completion of a request that chose a buffer. */
#define CHOSE(r, data, value, id, more) do { \
    struct completion guest_c = next(r); \
    SAME(guest_c.user_data, data); \
    SAME(guest_c.res, value); \
    SAME(guest_c.flags & IORING_CQE_F_BUFFER, IORING_CQE_F_BUFFER); \
    SAME(guest_c.flags >> IORING_CQE_BUFFER_SHIFT, id); \
    SAME(guest_c.flags & IORING_CQE_F_MORE, more); \
} while (0)
/* One that chose none. */
#define ENDED(r, data, value) do { \
    struct completion guest_c = next(r); \
    SAME(guest_c.user_data, data); \
    SAME(guest_c.res, value); \
    SAME(guest_c.flags & (IORING_CQE_F_BUFFER | IORING_CQE_F_MORE), 0); \
} while (0)

static void buffers_are_provided_and_taken_back(void) {
    struct ring r;
    static char room[4][16];
    int p[2];
    CHECK(ring_open(&r, 8) == 0 && pipe(p) == 0);
    provide(&r, room, 16, 0, 0, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 100, -E2BIG);
    provide(&r, room, 16, 4, 70000, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 100, -E2BIG);
    provide(&r, room, 16, 4, 10, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 100, 0);
    choosing(entry(&r, IORING_OP_READ, p[0], NULL, 0, 0, 1), 3);
    SAME(enter(&r, 0), 1);
    SAME(write(p[1], "hello", 5), 5);
    SAME(enter(&r, 1), 0);
    CHOSE(&r, 1, 5, 10, 0);
    CHECK(memcmp(room[0], "hello", 5) == 0);
    /* No more than the request asks for, and not from a group that is not there. */
    SAME(write(p[1], "hello", 5), 5);
    choosing(entry(&r, IORING_OP_READ, p[0], NULL, 2, 0, 2), 3);
    SAME(enter(&r, 1), 1);
    CHOSE(&r, 2, 2, 11, 0);
    choosing(entry(&r, IORING_OP_READ, p[0], NULL, 2, 0, 3), 9);
    SAME(enter(&r, 1), 1);
    ENDED(&r, 3, -ENOBUFS);
    entry(&r, IORING_OP_REMOVE_BUFFERS, 1, NULL, 0, 0, 4)->buf_group = 3;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, 1);
    entry(&r, IORING_OP_REMOVE_BUFFERS, 9, NULL, 0, 0, 5)->buf_group = 3;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 5, 1);
    entry(&r, IORING_OP_REMOVE_BUFFERS, 9, NULL, 0, 0, 6)->buf_group = 8;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 6, -ENOENT);
    choosing(entry(&r, IORING_OP_WRITE, p[1], "x", 1, 0, 7), 3);
    SAME(enter(&r, 1), 1);
    ENDED(&r, 7, -EOPNOTSUPP);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void receiving_goes_on(void) {
    struct ring r;
    static char room[3][8];
    int s[2], l;
    CHECK(ring_open(&r, 8) == 0 && tcp_pair(s, &l) == 0);
    entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 1)->ioprio = IORING_RECV_MULTISHOT;
    SAME(enter(&r, 1), 1);
    ENDED(&r, 1, -EINVAL);
    provide(&r, room, 8, 3, 0, 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 100, 0);
    choosing(entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 2), 1)->ioprio = IORING_RECV_MULTISHOT;
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    SAME(send(s[1], "one", 3, 0), 3);
    SAME(enter(&r, 1), 0);
    CHOSE(&r, 2, 3, 0, IORING_CQE_F_MORE);
    /* What does not fit goes to the next ones; then there is none any more. */
    SAME(send(s[1], "12345678ABCDEFGHijk", 19, 0), 19);
    SAME(enter(&r, 3), 0);
    CHOSE(&r, 2, 8, 1, IORING_CQE_F_MORE);
    CHOSE(&r, 2, 8, 2, IORING_CQE_F_MORE);
    ENDED(&r, 2, -ENOBUFS);
    CHECK(memcmp(room, "one\0\0\0\0\00012345678ABCDEFGH", 24) == 0);
    provide(&r, room, 8, 3, 0, 1);
    choosing(entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 3), 1)->ioprio = IORING_RECV_MULTISHOT;
    SAME(enter(&r, 2), 2);
    COMPLETES(&r, 100, 0);
    CHOSE(&r, 3, 3, 0, IORING_CQE_F_MORE);
    /* The end of the stream ends it. */
    close(s[1]);
    SAME(enter(&r, 1), 0);
    ENDED(&r, 3, 0);
    close(s[0]), close(l);
    ring_close(&r);
}
static void buffers_lie_in_a_ring(void) {
    struct ring r;
    char room[4][8] = {0};
    int s[2];
    struct io_uring_buf_ring *buffers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct io_uring_buf_reg reg = {.ring_addr = (uint64_t)(uintptr_t)buffers, .ring_entries = 4, .bgid = 7};
    CHECK(ring_open(&r, 8) == 0 && udp_pair(s) == 0 && buffers != MAP_FAILED);
    reg.ring_entries = 3;
    FAILS(REGISTER(&r, IORING_REGISTER_PBUF_RING, &reg, 1), EINVAL);
    reg.ring_entries = 4;
    FAILS(REGISTER(&r, IORING_REGISTER_PBUF_RING, &reg, 2), EINVAL);
    SAME(REGISTER(&r, IORING_REGISTER_PBUF_RING, &reg, 1), 0);
    FAILS(REGISTER(&r, IORING_REGISTER_PBUF_RING, &reg, 1), EEXIST);
    choosing(entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 1), 7);
    SAME(enter(&r, 1), 1);
    ENDED(&r, 1, -ENOBUFS);
    for (unsigned n = 0; n < 3; n++) {
        buffers->bufs[n].addr = (uint64_t)(uintptr_t)room[n];
        buffers->bufs[n].len = 8;
        buffers->bufs[n].bid = (uint16_t)(20 + n);
    }
    __atomic_store_n(&buffers->tail, 3, __ATOMIC_RELEASE);
    choosing(entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 2), 7)->ioprio = IORING_RECV_MULTISHOT;
    SAME(enter(&r, 0), 1);
    SAME(send(s[1], "first", 5, 0), 5);
    SAME(send(s[1], "second", 6, 0), 6);
    SAME(enter(&r, 2), 0);
    CHOSE(&r, 2, 5, 20, IORING_CQE_F_MORE);
    CHOSE(&r, 2, 6, 21, IORING_CQE_F_MORE);
    CHECK(memcmp(room[1], "second", 6) == 0);
    /* A buffer given back is used behind the others. */
    buffers->bufs[3] = buffers->bufs[0];
    buffers->bufs[3].bid = 20;
    buffers->bufs[3].addr = (uint64_t)(uintptr_t)room[0];
    __atomic_store_n(&buffers->tail, 4, __ATOMIC_RELEASE);
    SAME(send(s[1], "third", 5, 0), 5);
    SAME(send(s[1], "fourth", 6, 0), 6);
    SAME(enter(&r, 2), 0);
    CHOSE(&r, 2, 5, 22, IORING_CQE_F_MORE);
    CHOSE(&r, 2, 6, 20, IORING_CQE_F_MORE);
    CHECK(memcmp(room[0], "fourth", 6) == 0);
    SAME(enter(&r, 1), 0);
    ENDED(&r, 2, -ENOBUFS);
    struct io_uring_buf_reg gone = {.bgid = 7};
    SAME(REGISTER(&r, IORING_UNREGISTER_PBUF_RING, &gone, 1), 0);
    FAILS(REGISTER(&r, IORING_UNREGISTER_PBUF_RING, &gone, 1), ENOENT);
    munmap(buffers, 4096);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void messages_go_on(void) {
    struct ring r;
    static char room[2][256];
    int s[2];
    struct sockaddr_in from;
    socklen_t n = sizeof from;
    struct msghdr m = {.msg_namelen = sizeof from, .msg_controllen = 32};
    CHECK(ring_open(&r, 8) == 0 && udp_pair(s) == 0 && getsockname(s[1], (void *)&from, &n) == 0);
    provide(&r, room, 256, 2, 0, 1);
    choosing(entry(&r, IORING_OP_RECVMSG, s[0], &m, 1, 0, 1), 1)->ioprio = IORING_RECV_MULTISHOT;
    SAME(enter(&r, 1), 2);
    COMPLETES(&r, 100, 0);
    SAME(send(s[1], "datagram", 8, 0), 8);
    SAME(enter(&r, 1), 0);
    CHOSE(&r, 1, (int)(sizeof(struct io_uring_recvmsg_out) + sizeof from + 32 + 8), 0, IORING_CQE_F_MORE);
    struct io_uring_recvmsg_out out;
    struct sockaddr_in sender;
    memcpy(&out, room[0], sizeof out);
    memcpy(&sender, room[0] + sizeof out, sizeof sender);
    SAME(out.namelen, sizeof from);
    SAME(out.controllen, 0);
    SAME(out.payloadlen, 8);
    SAME(sender.sin_port, from.sin_port);
    CHECK(memcmp(room[0] + sizeof out + sizeof from + 32, "datagram", 8) == 0);
    /* Once, into what was chosen. */
    provide(&r, room, 4, 1, 5, 2);
    struct iovec v = {NULL, 0};
    struct msghdr once = {.msg_iov = &v, .msg_iovlen = 1, .msg_name = &sender, .msg_namelen = sizeof sender};
    entry(&r, IORING_OP_ASYNC_CANCEL, -1, (void *)1, 0, 0, 2);
    SAME(enter(&r, 3), 2);
    for (int i = 0; i < 3; i++)
        CHECK(next(&r).user_data != (uint64_t)-1);
    choosing(entry(&r, IORING_OP_RECVMSG, s[0], &once, 1, 0, 3), 2);
    SAME(enter(&r, 0), 1);
    SAME(send(s[1], "longer", 6, 0), 6);
    SAME(enter(&r, 1), 0);
    CHOSE(&r, 3, 4, 5, 0);
    SAME(once.msg_flags & MSG_TRUNC, MSG_TRUNC);
    CHECK(memcmp(room[0], "long", 4) == 0);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void requests_wait_for_nonblocking_files_too(void) {
    struct ring r;
    char got[8];
    int s[2], l;
    CHECK(ring_open(&r, 8) == 0 && tcp_pair(s, &l) == 0);
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    entry(&r, IORING_OP_RECV, s[0], got, 8, 0, 1);
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    SAME(send(s[1], "abc", 3, 0), 3);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 1, 3);
    SAME(fcntl(s[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    entry(&r, IORING_OP_RECV, s[0], got, 8, 0, 2)->msg_flags = MSG_DONTWAIT;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, -EAGAIN);
    close(s[0]), close(s[1]), close(l);
    ring_close(&r);
}
static void drained_requests_wait_for_those_before(void) {
    struct ring r;
    int p[2], q[2];
    char got[8];
    CHECK(ring_open(&r, 8) == 0 && pipe(p) == 0 && pipe(q) == 0);
    entry(&r, IORING_OP_READ, p[0], got, 1, 0, 1);
    entry(&r, IORING_OP_READ, q[0], got, 1, 0, 2)->flags = IOSQE_IO_DRAIN;
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 3);
    SAME(enter(&r, 0), 3);
    SAME(write(q[1], "x", 1), 1);
    SAME(enter(&r, 0), 0);
    SAME(next(&r).user_data, -1);
    SAME(write(p[1], "x", 1), 1);
    SAME(enter(&r, 3), 0);
    COMPLETES(&r, 1, 1);
    COMPLETES(&r, 2, 1);
    COMPLETES(&r, 3, 0);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 4)->flags = IOSQE_IO_DRAIN;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, 0);
    close(p[0]), close(p[1]), close(q[0]), close(q[1]);
    ring_close(&r);
}
static void files_need_no_descriptor(void) {
    struct ring r;
    char got[8] = {0};
    CHECK(ring_open(&r, 8) == 0);
    struct io_uring_sqe *e = entry(&r, IORING_OP_OPENAT, AT_FDCWD, "uring-slot", 0644, 0, 1);
    e->open_flags = O_RDWR | O_CREAT | O_TRUNC;
    e->file_index = 1;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, -ENXIO);
    struct io_uring_rsrc_register sparse = {.nr = 3, .flags = IORING_RSRC_REGISTER_SPARSE};
    SAME(REGISTER(&r, IORING_REGISTER_FILES2, &sparse, sizeof sparse), 0);
    int free_before = dup(0);
    close(free_before);
    for (int n = 0; n < 2; n++) {
        e = entry(&r, IORING_OP_OPENAT, AT_FDCWD, "uring-slot", 0644, 0, 2);
        e->open_flags = O_RDWR | O_CREAT;
        e->file_index = n == 0 ? 2 : IORING_FILE_INDEX_ALLOC;
        SAME(enter(&r, 1), 1);
        COMPLETES(&r, 2, n == 0 ? 0 : 2);
    }
    int free_after = dup(0);
    SAME(free_before, free_after);
    close(free_after);
    entry(&r, IORING_OP_WRITE, 1, "slotted", 7, 0, 3)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 7);
    entry(&r, IORING_OP_READ, 2, got, 8, 0, 4)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, 7);
    CHECK(memcmp(got, "slotted", 7) == 0);
    e = entry(&r, IORING_OP_OPENAT, AT_FDCWD, "uring-slot", 0, 0, 5);
    e->open_flags = O_RDONLY | O_CLOEXEC, e->file_index = 1;
    e = entry(&r, IORING_OP_OPENAT, AT_FDCWD, "uring-slot", 0, 0, 6);
    e->open_flags = O_RDONLY, e->file_index = 4;
    /* What cannot be prepared ends the submission. */
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 5, -EINVAL);
    r.pending = 1;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 6, -EINVAL);
    entry(&r, IORING_OP_CLOSE, 0, NULL, 0, 0, 7)->file_index = 2;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 7, 0);
    entry(&r, IORING_OP_CLOSE, 0, NULL, 0, 0, 8)->file_index = 2;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 8, -EBADF);
    entry(&r, IORING_OP_CLOSE, 0, NULL, 0, 0, 9)->file_index = 9;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 9, -EINVAL);
    /* Two of three are free; a third is one too many. */
    int p[3];
    CHECK(pipe(p) == 0);
    p[2] = p[0];
    entry(&r, IORING_OP_FILES_UPDATE, -1, p, 3, (uint32_t)IORING_FILE_INDEX_ALLOC, 10);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 10, 2);
    SAME(p[0] + p[1], 1);
    e = entry(&r, IORING_OP_SOCKET, AF_INET, NULL, 0, SOCK_STREAM, 11);
    e->file_index = IORING_FILE_INDEX_ALLOC;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 11, -ENFILE);
    unlink("uring-slot");
    ring_close(&r);
}
static void connections_are_accepted_into_slots(void) {
    struct ring r;
    char got[8];
    int s[2], l;
    CHECK(ring_open(&r, 8) == 0 && tcp_pair(s, &l) == 0);
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    CHECK(getsockname(l, (void *)&at, &n) == 0);
    struct io_uring_rsrc_register sparse = {.nr = 4, .flags = IORING_RSRC_REGISTER_SPARSE};
    SAME(REGISTER(&r, IORING_REGISTER_FILES2, &sparse, sizeof sparse), 0);
    struct io_uring_sqe *e = entry(&r, IORING_OP_ACCEPT, l, NULL, 0, 0, 1);
    e->ioprio = IORING_ACCEPT_MULTISHOT;
    e->file_index = IORING_FILE_INDEX_ALLOC;
    SAME(enter(&r, 0), 1);
    for (int i = 0; i < 2; i++) {
        int c = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(c, (void *)&at, n) == 0);
        SAME(enter(&r, 1), 0);
        struct completion a = next(&r);
        SAME(a.res, i);
        CHECK(a.flags & IORING_CQE_F_MORE);
        SAME(send(c, "hi", 2, 0), 2);
        entry(&r, IORING_OP_RECV, i, got, 8, 0, 2)->flags = IOSQE_FIXED_FILE;
        SAME(enter(&r, 1), 1);
        COMPLETES(&r, 2, 2);
        close(c);
    }
    close(s[0]), close(s[1]), close(l);
    ring_close(&r);
}
static void pipes_are_spliced_and_doubled(void) {
    struct ring r;
    char got[32] = {0};
    int p[2], q[2];
    CHECK(ring_open(&r, 8) == 0 && pipe(p) == 0 && pipe(q) == 0);
    int file = open("uring-splice", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAME(write(file, "0123456789", 10), 10);
    struct io_uring_sqe *e = entry(&r, IORING_OP_SPLICE, p[1], NULL, 4, (uint64_t)-1, 1);
    e->splice_fd_in = file, e->splice_off_in = 3;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 4);
    SAME(lseek(file, 0, SEEK_CUR), 10);
    e = entry(&r, IORING_OP_TEE, q[1], NULL, 4, 0, 2);
    e->splice_fd_in = p[0];
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, 4);
    SAME(read(p[0], got, 32), 4);
    SAME(read(q[0], got + 4, 28), 4);
    CHECK(memcmp(got, "34563456", 8) == 0);
    /* One that waits. */
    e = entry(&r, IORING_OP_SPLICE, file, NULL, 8, 0, 3);
    e->splice_fd_in = p[0], e->splice_off_in = (uint64_t)-1;
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    SAME(write(p[1], "ab", 2), 2);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 3, 2);
    SAME(pread(file, got, 4, 0), 4);
    CHECK(memcmp(got, "ab23", 4) == 0);
    e = entry(&r, IORING_OP_SPLICE, file, NULL, 8, 0, 4);
    e->splice_fd_in = 999, e->splice_off_in = (uint64_t)-1;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, -EBADF);
    unlink("uring-splice");
    close(file), close(p[0]), close(p[1]), close(q[0]), close(q[1]);
    ring_close(&r);
}
static void rings_send_each_other_messages(void) {
    struct ring r, o;
    int p[2];
    CHECK(ring_open(&r, 4) == 0 && ring_open(&o, 4) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_MSG_RING, o.fd, NULL, 55, 77, 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 0);
    SAME(enter(&o, 1), 0);
    COMPLETES(&o, 77, 55);
    entry(&r, IORING_OP_MSG_RING, p[0], NULL, 55, 77, 2);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, -EBADFD);
    int fds[2] = {p[1], -1}, none[2] = {-1, -1};
    SAME(REGISTER(&r, IORING_REGISTER_FILES, fds, 2), 0);
    SAME(REGISTER(&o, IORING_REGISTER_FILES, none, 2), 0);
    struct io_uring_sqe *e = entry(&r, IORING_OP_MSG_RING, o.fd, (void *)IORING_MSG_SEND_FD, 0, 78, 3);
    e->file_index = 2;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 0);
    SAME(enter(&o, 1), 0);
    COMPLETES(&o, 78, 0);
    entry(&o, IORING_OP_WRITE, 1, "sent", 4, 0, 4)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&o, 1), 1);
    COMPLETES(&o, 4, 4);
    char got[4];
    SAME(read(p[0], got, 4), 4);
    close(p[0]), close(p[1]);
    ring_close(&o);
    ring_close(&r);
}
static void zero_copy_tells_when_it_is_done(void) {
    struct ring r;
    int s[2];
    char got[8];
    CHECK(ring_open(&r, 4) == 0 && udp_pair(s) == 0);
    entry(&r, IORING_OP_SEND_ZC, s[1], "zero", 4, 0, 1);
    SAME(enter(&r, 2), 1);
    struct completion c = next(&r);
    SAME(c.res, 4);
    SAME(c.flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF), IORING_CQE_F_MORE);
    c = next(&r);
    SAME(c.user_data, 1);
    SAME(c.res, 0);
    SAME(c.flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF), IORING_CQE_F_NOTIF);
    SAME(recv(s[0], got, 8, 0), 4);
    entry(&r, IORING_OP_SEND_ZC, 999, "zero", 4, 0, 2);
    SAME(enter(&r, 2), 1);
    c = next(&r);
    SAME(c.res, -EBADF);
    SAME(c.flags & IORING_CQE_F_MORE, IORING_CQE_F_MORE);
    SAME(next(&r).flags & IORING_CQE_F_NOTIF, IORING_CQE_F_NOTIF);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void submission_is_polled(void) {
    struct ring r;
    FAILS(ring_open_as(&r, 4, IORING_SETUP_SQ_AFF), EINVAL);
    CHECK(ring_open_as(&r, 4, IORING_SETUP_SQPOLL) == 0);
    int p[2];
    char got[8];
    CHECK(pipe(p) == 0);
    for (unsigned i = 0; i < 5; i++) {
        entry(&r, i % 2 ? IORING_OP_NOP : IORING_OP_WRITE, i % 2 ? -1 : p[1], "ab", i % 2 ? 0 : 2, (uint64_t)-1, i);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(AT(&r, r.p.sq_off.flags), __ATOMIC_RELAXED) & IORING_SQ_NEED_WAKEUP)
            CHECK(syscall(SYS_io_uring_enter, r.fd, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 8) >= 0);
        CHECK(syscall(SYS_io_uring_enter, r.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8) >= 0);
        COMPLETES(&r, i, i % 2 ? 0 : 2);
    }
    SAME(read(p[0], got, 8), 6);
    SAME(*AT(&r, r.p.sq_off.head), 5);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void children_are_waited_for(void) {
    struct ring r;
    siginfo_t info = {0};
    pid_t child;
    char *words[] = {"sh", "-c", "exit 3", NULL}, *no_environment[] = {NULL};
    CHECK(ring_open(&r, 4) == 0);
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, words, no_environment) == 0);
    struct io_uring_sqe *e = entry(&r, WAITID, child, NULL, P_PID, (uint64_t)(uintptr_t)&info, 1);
    e->file_index = WEXITED;
    SAME(enter(&r, 1), 1);
    struct completion c = next(&r);
    SAME(c.user_data, 1);
    /* Kernels before 6.7 do not know it. */
    if (c.res == -EINVAL) {
        waitpid(child, NULL, 0);
    } else {
        SAME(c.res, 0);
        SAME(info.si_pid, child);
        SAME(info.si_status, 3);
    }
    ring_close(&r);
}
static void what_is_cancelled_can_be_described(void) {
    struct ring r;
    int p[2], q[2];
    char got[8];
    CHECK(ring_open(&r, 8) == 0 && pipe(p) == 0 && pipe(q) == 0);
    for (unsigned i = 1; i <= 3; i++)
        entry(&r, IORING_OP_READ, i == 3 ? q[0] : p[0], got, 8, 0, i);
    SAME(enter(&r, 0), 3);
    entry(&r, IORING_OP_ASYNC_CANCEL, p[0], NULL, 0, 0, 4)->cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
    SAME(enter(&r, 3), 1);
    int seen = 0;
    for (int i = 0; i < 3; i++) {
        struct completion c = next(&r);
        SAME(c.res, c.user_data == 4 ? 2 : -ECANCELED);
        seen |= 1 << c.user_data;
    }
    SAME(seen, 1 << 1 | 1 << 2 | 1 << 4);
    struct io_uring_sync_cancel_reg now = {.addr = 3, .timeout = {-1, -1}};
    SAME(REGISTER(&r, IORING_REGISTER_SYNC_CANCEL, &now, 1), 0);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 3, -ECANCELED);
    FAILS(REGISTER(&r, IORING_REGISTER_SYNC_CANCEL, &now, 1), ENOENT);
    close(p[0]), close(p[1]), close(q[0]), close(q[1]);
    ring_close(&r);
}
static void epolls_are_changed(void) {
    struct ring r;
    int p[2], e = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.u64 = 9}}, got;
    CHECK(ring_open(&r, 4) == 0 && pipe(p) == 0);
    entry(&r, IORING_OP_EPOLL_CTL, e, &event, EPOLL_CTL_ADD, (uint64_t)p[0], 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 0);
    SAME(write(p[1], "x", 1), 1);
    SAME(epoll_wait(e, &got, 1, 0), 1);
    SAME(got.data.u64, 9);
    close(e), close(p[0]), close(p[1]);
    ring_close(&r);
}
GUEST_WITH(not_to_be_had(), T(buffers_are_provided_and_taken_back), T(receiving_goes_on), T(buffers_lie_in_a_ring), T(messages_go_on),
           T(requests_wait_for_nonblocking_files_too), T(drained_requests_wait_for_those_before), T(files_need_no_descriptor),
           T(connections_are_accepted_into_slots), T(pipes_are_spliced_and_doubled), T(rings_send_each_other_messages),
           T(zero_copy_tells_when_it_is_done), T(submission_is_polled), T(children_are_waited_for),
           T(what_is_cancelled_can_be_described), T(epolls_are_changed))
