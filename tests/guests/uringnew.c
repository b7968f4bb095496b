/* io_uring(7) since Linux 6.7: buffers consumed in parts, bundles, vectors, minimum and registered waits, rings of another
 * length and in a program's memory, cloned buffers, tags, mixed completions, pipes, commands of sockets, queries. */
#include "guest.h"
#include "uring.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define REGISTER(r, what, arg, n) syscall(SYS_io_uring_register, (r)->fd, what, arg, n)
enum { URING_CMD = 46, WRITEV_FIXED = 61, PIPE = 62 };
enum { BUFFERS2 = 15, BUFFERS_UPDATE = 16, WORKERS = 19, RING_FDS = 20, PBUF_RING = 22, CLOCK = 29, CLONE_BUFFERS = 30, SEND_MSG_RING = 31,
       ZERO_COPY_RECEIVE = 32, RESIZE_RINGS = 33, MEM_REGION = 34, QUERY = 35 };
enum { INCREMENTAL = 2, BUNDLE = 16, VECTORIZED = 32, MULTISHOT = 2, NOP_LARGE = 32 };
enum { F_BUFFER = 1, F_MORE = 2, F_NONEMPTY = 4, F_BUF_MORE = 16, F_SKIP = 32, F_32 = 1 << 15 };
enum { NO_MMAP = 1 << 14, REGISTERED_ONLY = 1 << 15, CQE_MIXED = 1 << 18 };
enum { EXT_ARG_REG = 64 };

struct buffer {
    uint64_t addr;
    uint32_t len;
    uint16_t id, tail;
};
static char memory[8][64];
static struct buffer *buffer_ring(struct ring *r, unsigned group, unsigned flags, unsigned len, unsigned n) {
    struct buffer *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct { uint64_t addr; uint32_t entries; uint16_t group, flags; uint64_t resv[3]; } reg = {(uintptr_t)b, 8, (uint16_t)group, (uint16_t)flags, {0}};
    if (REGISTER(r, PBUF_RING, &reg, 1) != 0)
        return NULL;
    memset(memory, 0, sizeof memory);
    for (unsigned i = 0; i < n; i++) {
        b[i].addr = (uintptr_t)memory[i];
        b[i].len = len;
        b[i].id = (uint16_t)(10 + i);
    }
    b[0].tail = (uint16_t)n;
    return b;
}
#define ENDS(r, data, value, how) do { struct completion guest_c = next(r); SAME(guest_c.user_data, data); SAME(guest_c.res, value); SAME(guest_c.flags, how); } while (0)

static void buffers_are_consumed_in_parts(void) {
    struct ring r;
    int s[2];
    CHECK(ring_open(&r, 8) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    struct buffer *b = buffer_ring(&r, 1, INCREMENTAL, 12, 2);
    CHECK(b);
    struct io_uring_sqe *e = entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 7);
    e->ioprio = MULTISHOT, e->flags = IOSQE_BUFFER_SELECT, e->buf_group = 1;
    SAME(enter(&r, 0), 1);
    for (int i = 0; i < 2; i++) {
        CHECK(write(s[1], "hello", 5) == 5);
        SAME(enter(&r, 1), 0);
        ENDS(&r, 7, 5, F_BUFFER | F_MORE | F_BUF_MORE | 10 << 16);
    }
    CHECK(write(s[1], "world", 5) == 5);
    SAME(enter(&r, 2), 0);
    ENDS(&r, 7, 2, F_BUFFER | F_MORE | F_NONEMPTY | 10 << 16);
    ENDS(&r, 7, 3, F_BUFFER | F_MORE | F_BUF_MORE | 11 << 16);
    CHECK(memcmp(memory[0], "hellohellowo", 12) == 0 && memcmp(memory[1], "rld", 3) == 0);
    SAME(b[0].len, 0);
    SAME(b[1].len, 9);
    SAME(b[1].addr, (uintptr_t)memory[1] + 3);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void bundles_take_many_buffers(void) {
    struct ring r;
    int s[2];
    char got[64];
    CHECK(ring_open(&r, 8) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    CHECK(buffer_ring(&r, 1, 0, 4, 6));
    CHECK(write(s[1], "abcdefghij", 10) == 10);
    struct io_uring_sqe *e = entry(&r, IORING_OP_RECV, s[0], NULL, 0, 0, 1);
    e->ioprio = BUNDLE, e->flags = IOSQE_BUFFER_SELECT, e->buf_group = 1;
    SAME(enter(&r, 1), 1);
    /* One that would not be filled is left out. */
    ENDS(&r, 1, 8, F_BUFFER | F_NONEMPTY | 10 << 16);
    CHECK(memcmp(memory[0], "abcd", 4) == 0 && memcmp(memory[1], "efgh", 4) == 0);
    SAME(read(s[0], got, sizeof got), 2);
    memcpy(memory[2], "ABCD", 4), memcpy(memory[3], "EFGH", 4), memcpy(memory[4], "IJKL", 4), memcpy(memory[5], "MNOP", 4);
    e = entry(&r, IORING_OP_SEND, s[0], NULL, 0, 0, 2);
    e->ioprio = BUNDLE, e->flags = IOSQE_BUFFER_SELECT, e->buf_group = 1;
    SAME(enter(&r, 1), 1);
    ENDS(&r, 2, 16, F_BUFFER | 12 << 16);
    SAME(read(s[1], got, sizeof got), 16);
    CHECK(memcmp(got, "ABCDEFGHIJKLMNOP", 16) == 0);
    e = entry(&r, IORING_OP_SEND, s[0], NULL, 0, 0, 3);
    e->flags = IOSQE_BUFFER_SELECT, e->buf_group = 1;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, -ENOBUFS);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void a_receive_ends_after_so_many_bytes(void) {
    struct ring r;
    int s[2];
    CHECK(ring_open(&r, 8) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    CHECK(buffer_ring(&r, 1, 0, 4, 6));
    CHECK(write(s[1], "abcdefghij", 10) == 10);
    struct io_uring_sqe *e = entry(&r, IORING_OP_RECV, s[0], NULL, 3, 0, 1);
    e->ioprio = MULTISHOT, e->flags = IOSQE_BUFFER_SELECT, e->buf_group = 1;
    e->file_index = 6;
    SAME(enter(&r, 2), 1);
    ENDS(&r, 1, 3, F_BUFFER | F_MORE | F_NONEMPTY | 10 << 16);
    ENDS(&r, 1, 3, F_BUFFER | F_NONEMPTY | 11 << 16);
    SAME(next(&r).user_data, -1);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void a_send_takes_a_vector(void) {
    struct ring r;
    int s[2];
    char got[16];
    struct iovec v[2] = {{"abc", 3}, {"defg", 4}};
    CHECK(ring_open(&r, 8) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    entry(&r, IORING_OP_SEND, s[0], v, 2, 0, 1)->ioprio = VECTORIZED;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 7);
    SAME(read(s[1], got, sizeof got), 7);
    CHECK(memcmp(got, "abcdefg", 7) == 0);
    entry(&r, IORING_OP_SEND, s[0], v, 2, 0, 2)->ioprio = 64;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, -EINVAL);
    struct iovec fixed = {memory, sizeof memory};
    SAME(REGISTER(&r, IORING_REGISTER_BUFFERS, &fixed, 1), 0);
    struct iovec w[2] = {{memory[1], 2}, {memory[3], 3}};
    entry(&r, WRITEV_FIXED, s[0], w, 2, -1ull, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 5);
    w[1].iov_base = got;
    entry(&r, WRITEV_FIXED, s[0], w, 2, -1ull, 4);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, -EFAULT);
    close(s[0]), close(s[1]);
    ring_close(&r);
}
static void waits_are_registered_and_have_a_minimum(void) {
    struct ring r;
    struct { int64_t sec, nsec; uint32_t least, flags; uint64_t mask; uint32_t size, pad[3]; uint64_t pad2[2]; } *w;
    CHECK(ring_open_as(&r, 8, IORING_SETUP_R_DISABLED) == 0);
    uint64_t region[8] = {0, 4096}, reg[4] = {(uintptr_t)region, 1};
    SAME(REGISTER(&r, MEM_REGION, reg, 1), 0);
    FAILS(REGISTER(&r, MEM_REGION, reg, 1), EBUSY);
    SAME(region[3], 0x20000000);
    w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, (off_t)region[3]);
    CHECK(w != MAP_FAILED);
    SAME(REGISTER(&r, IORING_REGISTER_ENABLE_RINGS, NULL, 0), 0);
    w[1].nsec = 50000000, w[1].flags = 1;
    uint64_t before = now_ms();
    FAILS(syscall(SYS_io_uring_enter, r.fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | EXT_ARG_REG, 64l, 64l), ETIME);
    CHECK(now_ms() - before >= 50 && now_ms() - before < 1000);
    FAILS(syscall(SYS_io_uring_enter, r.fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | EXT_ARG_REG, 4096l, 64l), EFAULT);
    FAILS(syscall(SYS_io_uring_enter, r.fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | EXT_ARG_REG, 64l, 24l), EINVAL);
    /* At the end of the minimum, one completion ends a wait for two. */
    struct __kernel_timespec in = {0, 20000000}, most = {30, 0};
    entry(&r, IORING_OP_TIMEOUT, -1, &in, 1, 0, 1)->timeout_flags = 32;
    struct { uint64_t mask; uint32_t size, least; uint64_t time; } arg = {0, 0, 100000, (uintptr_t)&most};
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 2);
    before = now_ms();
    SAME(syscall(SYS_io_uring_enter, r.fd, 1, 2, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, 24l), 1);
    r.pending = 0;
    CHECK(now_ms() - before < 2000);
    munmap(w, 4096);
    ring_close(&r);
}
static void rings_get_another_length(void) {
    struct ring r;
    struct io_uring_params p = {.sq_entries = 32, .cq_entries = 64, .flags = IORING_SETUP_CQSIZE};
    CHECK(ring_open(&r, 4) == 0);
    FAILS(REGISTER(&r, RESIZE_RINGS, &p, 1), EINVAL);
    ring_close(&r);
    CHECK(ring_open_as(&r, 4, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) == 0);
    for (unsigned i = 0; i < 3; i++)
        entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 40 + i);
    SAME(enter(&r, 3), 3);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 50);
    SAME(REGISTER(&r, RESIZE_RINGS, &p, 1), 0);
    SAME(p.sq_entries, 32);
    size_t n = p.cq_off.cqes + p.cq_entries * 16, m = p.sq_off.array + p.sq_entries * 4;
    munmap(r.rings, 4096), munmap(r.entries, 4096);
    p.flags = r.p.flags;
    r.p = p;
    r.rings = mmap(NULL, n > m ? n : m, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, IORING_OFF_SQ_RING);
    r.entries = mmap(NULL, p.sq_entries * 64, PROT_READ | PROT_WRITE, MAP_SHARED, r.fd, IORING_OFF_SQES);
    CHECK(r.rings != MAP_FAILED && r.entries != MAP_FAILED);
    SAME(*AT(&r, p.sq_off.ring_mask), 31);
    for (unsigned i = 0; i < 3; i++)
        COMPLETES(&r, 40 + i, 0);
    /* The index array is the program's to fill in again; Linux 6.18 does not say where it is. */
    unsigned tail = *AT(&r, p.sq_off.tail);
    p.sq_off.array = r.p.sq_off.array = p.cq_off.cqes + p.cq_entries * 16;
    AT(&r, p.sq_off.array)[(tail - 1) & 31] = (tail - 1) & 31;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 50, 0);
    struct io_uring_params few = {.sq_entries = 1, .cq_entries = 2, .flags = IORING_SETUP_CQSIZE};
    for (unsigned i = 0; i < 5; i++)
        entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, i);
    SAME(enter(&r, 5), 5);
    FAILS(REGISTER(&r, RESIZE_RINGS, &few, 1), EOVERFLOW);
    ring_close(&r);
}
static void rings_lie_in_memory_of_a_program(void) {
    unsigned char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct io_uring_params p = {.flags = NO_MMAP | REGISTERED_ONLY};
    CHECK(m != MAP_FAILED);
    FAILS(syscall(SYS_io_uring_setup, 4, &p), EFAULT);
    p = (struct io_uring_params){.flags = REGISTERED_ONLY};
    FAILS(syscall(SYS_io_uring_setup, 4, &p), EINVAL);
    p = (struct io_uring_params){.flags = NO_MMAP | REGISTERED_ONLY};
    memcpy((char *)&p + 112, &(uint64_t){(uintptr_t)m}, 8);
    memcpy((char *)&p + 72, &(uint64_t){(uintptr_t)m + 4096}, 8);
    int at = (int)syscall(SYS_io_uring_setup, 4, &p);
    SAME(at, 0);
    struct ring r = {.fd = at, .p = p, .rings = m, .entries = (void *)(m + 4096)};
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 5);
    SAME(syscall(SYS_io_uring_enter, at, 1, 1, IORING_ENTER_GETEVENTS | 16, NULL, 8), 1);
    COMPLETES(&r, 5, 0);
    struct { uint32_t at, resv; uint64_t fd; } reg = {(uint32_t)at, 0, 0};
    SAME(syscall(SYS_io_uring_register, at, (unsigned)RING_FDS + 1 + (1u << 31), &reg, 1), 1);
}
static void buffers_are_cloned(void) {
    struct ring a, b;
    int p[2];
    struct iovec v[2] = {{memory[0], 64}, {memory[1], 64}};
    CHECK(ring_open(&a, 4) == 0 && ring_open(&b, 4) == 0 && pipe(p) == 0);
    uint32_t clone[8] = {(uint32_t)a.fd};
    FAILS(REGISTER(&b, CLONE_BUFFERS, clone, 1), ENXIO);
    SAME(REGISTER(&a, IORING_REGISTER_BUFFERS, v, 2), 0);
    SAME(REGISTER(&b, CLONE_BUFFERS, clone, 1), 0);
    FAILS(REGISTER(&b, CLONE_BUFFERS, clone, 1), EBUSY);
    SAME(REGISTER(&a, IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
    memcpy(memory[1], "fixed", 5);
    entry(&b, IORING_OP_WRITE_FIXED, p[1], memory[1], 5, -1ull, 1)->buf_index = 1;
    SAME(enter(&b, 1), 1);
    COMPLETES(&b, 1, 5);
    clone[1] = 2, clone[4] = 1;
    FAILS(REGISTER(&b, CLONE_BUFFERS, clone, 1), ENXIO);
    clone[1] = 8;
    FAILS(REGISTER(&b, CLONE_BUFFERS, clone, 1), EINVAL);
    close(p[0]), close(p[1]);
    ring_close(&a), ring_close(&b);
}
static void tags_are_posted_when_nothing_uses_a_resource(void) {
    struct ring r;
    int p[2];
    struct iovec v[2] = {{memory[0], 64}, {memory[1], 64}};
    uint64_t tags[2] = {71, 72};
    CHECK(ring_open(&r, 4) == 0 && pipe(p) == 0);
    struct { uint32_t nr, flags; uint64_t resv, data, tags; } reg = {2, 0, 0, (uintptr_t)v, (uintptr_t)tags};
    SAME(REGISTER(&r, BUFFERS2, &reg, sizeof reg), 0);
    entry(&r, IORING_OP_READ_FIXED, p[0], memory[1], 5, -1ull, 1)->buf_index = 1;
    SAME(enter(&r, 0), 1);
    struct { uint32_t at, resv; uint64_t data, tags; uint32_t nr, resv2; } up = {0, 0, (uintptr_t)v, 0, 2, 0};
    SAME(REGISTER(&r, BUFFERS_UPDATE, &up, sizeof up), 2);
    COMPLETES(&r, 71, 0);
    SAME(next(&r).user_data, -1);
    CHECK(write(p[1], "hello", 5) == 5);
    SAME(enter(&r, 2), 0);
    COMPLETES(&r, 1, 5);
    COMPLETES(&r, 72, 0);
    close(p[0]), close(p[1]);
    ring_close(&r);
}
static void completions_of_both_sizes_share_a_ring(void) {
    struct ring r;
    CHECK(ring_open_as(&r, 2, CQE_MIXED) == 0);
    SAME(r.p.cq_entries, 4);
    FAILS(ring_open_as(&r, 2, CQE_MIXED | IORING_SETUP_CQE32), EINVAL);
    CHECK(ring_open_as(&r, 2, CQE_MIXED) == 0);
    struct io_uring_sqe *e = entry(&r, IORING_OP_NOP, -1, (void *)22, 0, 11, 1);
    e->rw_flags = NOP_LARGE;
    SAME(enter(&r, 1), 1);
    ENDS(&r, 1, 0, F_32);
    uint64_t *extra = (void *)(r.rings + r.p.cq_off.cqes + 16);
    SAME(extra[0], 11);
    SAME(extra[1], 22);
    ++*AT(&r, r.p.cq_off.head);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 2);
    SAME(enter(&r, 1), 1);
    ENDS(&r, 2, 0, 0);
    /* One place is left before the end: it is skipped. */
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 3)->rw_flags = NOP_LARGE;
    SAME(enter(&r, 1), 1);
    ENDS(&r, 0, 0, F_SKIP);
    ENDS(&r, 3, 0, F_32);
    ring_close(&r);
    CHECK(ring_open(&r, 2) == 0);
    entry(&r, IORING_OP_NOP, -1, NULL, 0, 0, 3)->rw_flags = NOP_LARGE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, -EINVAL);
    ring_close(&r);
}
static void pipes_go_to_registered_files(void) {
    struct ring r;
    int none[4] = {-1, -1, -1, -1}, fds[2];
    char got[8];
    CHECK(ring_open(&r, 4) == 0);
    SAME(REGISTER(&r, IORING_REGISTER_FILES, none, 4), 0);
    entry(&r, PIPE, 0, fds, 0, 0, 1)->file_index = 2;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 0);
    entry(&r, IORING_OP_WRITE, 2, "pipe", 4, 0, 2)->flags = IOSQE_FIXED_FILE;
    entry(&r, IORING_OP_READ, 1, got, 8, 0, 3)->flags = IOSQE_FIXED_FILE;
    SAME(enter(&r, 2), 2);
    COMPLETES(&r, 2, 4);
    COMPLETES(&r, 3, 4);
    ring_close(&r);
}
static void sockets_have_commands(void) {
    struct ring r;
    int s[2], p[2], got = -1, zero = 0;
    CHECK(ring_open(&r, 4) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && pipe(p) == 0);
    CHECK(write(s[1], "abc", 3) == 3);
    entry(&r, URING_CMD, p[0], NULL, 0, 0, 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, -EOPNOTSUPP);
    int t = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    CHECK(bind(t, (void *)&a, sizeof a) == 0 && getsockname(t, (void *)&a, &len) == 0);
    CHECK(sendto(t, "abcd", 4, 0, (void *)&a, sizeof a) == 4);
    entry(&r, URING_CMD, t, NULL, 0, 0, 2);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 2, 4);
    struct io_uring_sqe *e = entry(&r, URING_CMD, t, NULL, 0, 2, 3);
    e->addr = SOL_SOCKET | (uint64_t)SO_TYPE << 32, e->addr3 = (uintptr_t)&got, e->file_index = 4;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 4);
    SAME(got, SOCK_DGRAM);
    e = entry(&r, URING_CMD, t, NULL, 0, 3, 4);
    e->addr = IPPROTO_IP | (uint64_t)IP_TTL << 32, e->addr3 = (uintptr_t)&zero, e->file_index = 4;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, -EINVAL);
    e = entry(&r, URING_CMD, t, NULL, 0, 2, 5);
    e->addr = IPPROTO_IP | (uint64_t)IP_TTL << 32, e->addr3 = (uintptr_t)&got, e->file_index = 4;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 5, -EOPNOTSUPP);
    close(s[0]), close(s[1]), close(p[0]), close(p[1]), close(t);
    ring_close(&r);
}
static void what_there_is_can_be_asked_for(void) {
    struct ring r;
    uint32_t clock[4] = {CLOCK_BOOTTIME}, workers[2] = {0, 0};
    struct { uint32_t requests, registers; uint64_t features, setup, enter, entries; uint32_t queries, pad; } ops = {0};
    struct { uint64_t next, data; uint32_t op, size; int32_t result; uint32_t resv[3]; } q = {0, (uintptr_t)&ops, 0, sizeof ops, 0, {0}};
    CHECK(ring_open(&r, 4) == 0);
    SAME(syscall(SYS_io_uring_register, -1, QUERY, &q, 0), 0);
    SAME(q.result, 0);
    SAME(q.size, 48);
    CHECK(ops.requests >= 63 && ops.registers >= 36);
    SAME(r.p.features & 0x3ffff, 0x3ffff);
    q.op = 1000, q.result = 0;
    SAME(syscall(SYS_io_uring_register, -1, QUERY, &q, 0), 0);
    SAME(q.result, -EOPNOTSUPP);
    SAME(REGISTER(&r, CLOCK, clock, 0), 0);
    clock[0] = CLOCK_REALTIME;
    FAILS(REGISTER(&r, CLOCK, clock, 0), EINVAL);
    SAME(REGISTER(&r, WORKERS, workers, 2), 0);
    CHECK(workers[0] > 0 && workers[1] > 0);
    char ifq[96] = {0};
    FAILS(REGISTER(&r, ZERO_COPY_RECEIVE, ifq, 1), EINVAL);
    struct io_uring_sqe e = {.opcode = IORING_OP_MSG_RING, .fd = r.fd, .len = 9, .off = 8};
    SAME(syscall(SYS_io_uring_register, -1, SEND_MSG_RING, &e, 1), 0);
    COMPLETES(&r, 8, 9);
    ring_close(&r);
}
static int older(void) {
    struct { uint64_t next, data; uint32_t op, size; int32_t result; uint32_t resv[3]; } q = {0};
    return syscall(SYS_io_uring_register, -1, QUERY, &q, 0) != 0;
}
static void needs_a_new_kernel(void) {
    not_to_be_had();
    if (may_lack_calls() && older()) {
        printf("# skipped: this kernel is older than 6.18\n");
        exit(77);
    }
}
GUEST_WITH(needs_a_new_kernel(), T(buffers_are_consumed_in_parts), T(bundles_take_many_buffers), T(a_receive_ends_after_so_many_bytes),
           T(a_send_takes_a_vector), T(waits_are_registered_and_have_a_minimum), T(rings_get_another_length),
           T(rings_lie_in_memory_of_a_program), T(buffers_are_cloned), T(tags_are_posted_when_nothing_uses_a_resource),
           T(completions_of_both_sizes_share_a_ring), T(pipes_go_to_registered_files), T(sockets_have_commands),
           T(what_there_is_can_be_asked_for))
