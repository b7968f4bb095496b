/* io_uring(7) without a library: rings in memory, entries into one, completions out of the other. */
#ifndef URING_H
#define URING_H
#include "guest.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct ring {
    int fd;
    struct io_uring_params p;
    unsigned char *rings;
    struct io_uring_sqe *entries;
    unsigned pending;
};
#define AT(r, offset) ((unsigned *)((r)->rings + (offset)))
/* Bytes of an entry and of a completion. */
#define ENTRY_SIZE(r) (sizeof(struct io_uring_sqe) << !!((r)->p.flags & IORING_SETUP_SQE128))
#define COMPLETION_SIZE(r) (sizeof(struct io_uring_cqe) << !!((r)->p.flags & IORING_SETUP_CQE32))

__attribute__((unused)) static int ring_open_as(struct ring *r, unsigned entries, unsigned flags) {
    memset(r, 0, sizeof *r);
    r->p.flags = flags;
    r->fd = (int)syscall(SYS_io_uring_setup, entries, &r->p);
    if (r->fd < 0)
        return -1;
    size_t n = r->p.cq_off.cqes + r->p.cq_entries * COMPLETION_SIZE(r);
    size_t m = r->p.sq_off.array + r->p.sq_entries * 4;
    r->rings = mmap(NULL, n > m ? n : m, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
    r->entries = mmap(NULL, r->p.sq_entries * ENTRY_SIZE(r), PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQES);
    return r->rings == MAP_FAILED || r->entries == MAP_FAILED ? -1 : 0;
}
__attribute__((unused)) static int ring_open(struct ring *r, unsigned entries) { return ring_open_as(r, entries, 0); }
static void ring_close(struct ring *r) {
    size_t n = r->p.cq_off.cqes + r->p.cq_entries * COMPLETION_SIZE(r);
    size_t m = r->p.sq_off.array + r->p.sq_entries * 4;
    munmap(r->rings, n > m ? n : m);
    munmap(r->entries, r->p.sq_entries * ENTRY_SIZE(r));
    close(r->fd);
}
static struct io_uring_sqe *entry(struct ring *r, int op, int fd, const void *addr, unsigned len, uint64_t off, uint64_t data) {
    unsigned *tail = AT(r, r->p.sq_off.tail), mask = *AT(r, r->p.sq_off.ring_mask);
    struct io_uring_sqe *e = (void *)((char *)r->entries + (*tail & mask) * ENTRY_SIZE(r));
    memset(e, 0, ENTRY_SIZE(r));
    e->opcode = (uint8_t)op;
    e->fd = fd;
    e->addr = (uint64_t)(uintptr_t)addr;
    e->len = len;
    e->off = off;
    e->user_data = data;
    AT(r, r->p.sq_off.array)[*tail & mask] = *tail & mask;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    r->pending++;
    return e;
}
static int enter(struct ring *r, unsigned wait) {
    unsigned n = r->pending;
    r->pending = 0;
    return (int)syscall(SYS_io_uring_enter, r->fd, n, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 8);
}
/* The next completion; `data` is -1 where there is none. */
struct completion {
    uint64_t user_data;
    int32_t res;
    uint32_t flags;
};
static struct completion next(struct ring *r) {
    unsigned *head = AT(r, r->p.cq_off.head), tail = __atomic_load_n(AT(r, r->p.cq_off.tail), __ATOMIC_ACQUIRE);
    struct completion c = {.user_data = (uint64_t)-1};
    if (*head == tail)
        return c;
    memcpy(&c, r->rings + r->p.cq_off.cqes + (*head & *AT(r, r->p.cq_off.ring_mask)) * COMPLETION_SIZE(r), sizeof c);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return c;
}
#define COMPLETES(r, data, value) do { struct completion guest_c = next(r); SAME(guest_c.user_data, data); SAME(guest_c.res, value); } while (0)

/* Where the kernel has it not, or forbids it, there is nothing to be held to. */
__attribute__((unused)) static void not_to_be_had(void) {
    struct io_uring_params p = {0};
    int fd = (int)syscall(SYS_io_uring_setup, 1, &p);
    if (fd == -1 && (errno == ENOSYS || errno == EPERM)) {
        printf("# skipped: io_uring is not to be had here (%s)\n", strerror(errno));
        exit(77);
    }
    close(fd);
}
#endif
