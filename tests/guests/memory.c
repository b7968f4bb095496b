/* Memory: brk, mappings and their protection, moving and dropping them. mmap(2), mremap(2), madvise(2). */
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { P = 4096 };
static sigjmp_buf escape;
static void jump_out(int s) { (void)s, siglongjmp(escape, 1); }
static int readable(volatile char *p) {
    signal(SIGSEGV, jump_out);
    int ok = 0;
    if (sigsetjmp(escape, 1) == 0) {
        (void)*p;
        ok = 1;
    }
    signal(SIGSEGV, SIG_DFL);
    return ok;
}
static int writable(volatile char *p) {
    signal(SIGSEGV, jump_out);
    volatile int ok = 0;
    if (sigsetjmp(escape, 1) == 0) {
        *p = *p;
        ok = 1;
    }
    signal(SIGSEGV, SIG_DFL);
    return ok;
}
static char *anon(size_t n, int prot) { return mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

static void fresh_memory_is_zero(void) {
    char *m = anon(64 * P, PROT_READ | PROT_WRITE);
    CHECK(m != MAP_FAILED && ((uintptr_t)m & (P - 1)) == 0);
    for (int i = 0; i < 64 * P; i++)
        CHECK(m[i] == 0);
    memset(m, 1, 64 * P);
    CHECK(munmap(m, 64 * P) == 0 && !readable(m) && !readable(m + 63 * P));
}

static void unmapping_a_part(void) {
    char *m = anon(5 * P, PROT_READ | PROT_WRITE);
    memset(m, 7, 5 * P);
    CHECK(munmap(m + P, P) == 0 && munmap(m + 3 * P, P) == 0);
    CHECK(readable(m) && !readable(m + P) && readable(m + 2 * P) && !readable(m + 3 * P) && readable(m + 4 * P));
    CHECK(munmap(m, 5 * P) == 0); /* holes are no error */
    FAILS(munmap(m + 1, P), EINVAL);
    FAILS(munmap(m, 0), EINVAL);
}

static void protection(void) {
    char *m = anon(3 * P, PROT_READ | PROT_WRITE);
    m[P] = 5;
    CHECK(mprotect(m + P, P, PROT_READ) == 0);
    CHECK(readable(m + P) && !writable(m + P) && writable(m) && writable(m + 2 * P));
    CHECK(mprotect(m, 3 * P, PROT_NONE) == 0 && !readable(m) && !readable(m + 2 * P));
    CHECK(mprotect(m, 3 * P, PROT_READ | PROT_WRITE) == 0);
    SAME(m[P], 5);
    FAILS(syscall(SYS_mprotect, m + 1, P, PROT_READ), EINVAL); /* musl rounds it down */
    CHECK(munmap(m + P, P) == 0);
    FAILS(mprotect(m, 3 * P, PROT_READ), ENOMEM);
    munmap(m, 3 * P);
}

static void code_written_at_run_time(void) {
    unsigned char code[] = {0xb8, 0x2a, 0, 0, 0, 0xc3}; /* mov $42,%eax; ret */
    char *m = anon(P, PROT_READ | PROT_WRITE);
    memcpy(m, code, sizeof code);
    CHECK(mprotect(m, P, PROT_READ | PROT_EXEC) == 0);
    SAME(((int (*)(void))(uintptr_t)m)(), 42);
    CHECK(mprotect(m, P, PROT_READ | PROT_WRITE) == 0);
    m[1] = 43;
    CHECK(mprotect(m, P, PROT_READ | PROT_EXEC) == 0);
    SAME(((int (*)(void))(uintptr_t)m)(), 43);
    /* a system call from generated code is a system call like any other */
    unsigned char call[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3}; /* mov $SYS_getpid,%eax; syscall; ret */
    CHECK(mprotect(m, P, PROT_READ | PROT_WRITE) == 0);
    memcpy(m, call, sizeof call);
    CHECK(mprotect(m, P, PROT_READ | PROT_EXEC) == 0);
    for (int i = 0; i < 10; i++)
        SAME(((int (*)(void))(uintptr_t)m)(), getpid());
    munmap(m, P);
}

static void growing_and_moving(void) {
    char *m = anon(2 * P, PROT_READ | PROT_WRITE);
    m[0] = 'a', m[2 * P - 1] = 'z';
    char *n = mremap(m, 2 * P, 50 * P, MREMAP_MAYMOVE);
    CHECK(n != MAP_FAILED && n[0] == 'a' && n[2 * P - 1] == 'z' && n[49 * P] == 0);
    n[49 * P] = 1;
    CHECK(mremap(n, 50 * P, P, 0) == n && readable(n) && !readable(n + P));
    char *target = anon(2 * P, PROT_NONE);
    CHECK(mremap(n, P, P, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target && target[0] == 'a' && !readable(n));
    CHECK(mremap((char *)0x1000, P, P, 0) == MAP_FAILED && errno == EFAULT);
    CHECK(mremap(target + 1, P, P, 0) == MAP_FAILED && errno == EINVAL);
    munmap(target, 2 * P);
    /* no room to grow in place */
    m = anon(3 * P, PROT_READ | PROT_WRITE);
    CHECK(mprotect(m + P, P, PROT_READ) == 0);
    CHECK(mremap(m, P, 2 * P, 0) == MAP_FAILED && errno == ENOMEM);
    munmap(m, 3 * P);
}

static void advice(void) {
    char *m = anon(4 * P, PROT_READ | PROT_WRITE);
    memset(m, 9, 4 * P);
    CHECK(madvise(m + P, 2 * P, MADV_DONTNEED) == 0);
    CHECK(m[0] == 9 && m[P] == 0 && m[3 * P - 1] == 0 && m[3 * P] == 9);
    CHECK(madvise(m, 4 * P, MADV_WILLNEED) == 0 && madvise(m, 4 * P, MADV_NORMAL) == 0);
    FAILS(madvise(m, -(size_t)P, MADV_DONTNEED), EINVAL);
    FAILS(madvise(m + 1, P, MADV_DONTNEED), EINVAL);
    FAILS(madvise(m, P, 12345), EINVAL);
    munmap(m, 4 * P);
    FAILS(madvise(m, P, MADV_DONTNEED), ENOMEM);
}

static void program_break(void) {
    /* by the bare call: musl's sbrk only answers 0 */
    char *b = (char *)syscall(SYS_brk, 0);
    CHECK(b != NULL && (char *)syscall(SYS_brk, b + 3 * P) == b + 3 * P);
    char *page = (char *)(((uintptr_t)b + P - 1) & ~(uintptr_t)(P - 1));
    memset(page, 1, 2 * P);
    CHECK((char *)syscall(SYS_brk, page + P) == page + P && readable(page) && !readable(page + P));
    CHECK((char *)syscall(SYS_brk, page + 2 * P) == page + 2 * P);
    SAME(page[P], 0); /* given back and taken again: zero */
    CHECK((char *)syscall(SYS_brk, 16) == page + 2 * P); /* impossible: the old one */
    syscall(SYS_brk, b);
}

static void fixed_addresses(void) {
    char *m = anon(4 * P, PROT_READ | PROT_WRITE);
    m[P] = 3;
    CHECK(mmap(m + P, P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m + P);
    SAME(m[P], 0);
    void *r = mmap(m, P, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000 /* MAP_FIXED_NOREPLACE */, -1, 0);
    CHECK(r == MAP_FAILED && errno == EEXIST);
    munmap(m, 4 * P);
}

static void terabytes_of_addresses(void) {
    enum { KIND = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
    size_t size = (size_t)8 << 40;
    char *mine = anon(P, PROT_READ | PROT_WRITE);
    mine[0] = 1;
    char *m = mmap(NULL, size, PROT_NONE, KIND, -1, 0);
    CHECK(m != MAP_FAILED && mine[0] == 1);
    CHECK(mprotect(m + size - 4 * P, 4 * P, PROT_READ | PROT_WRITE) == 0);
    m[size - 1] = 5;
    /* the kernel reads and writes there as anywhere */
    int p[2];
    CHECK(pipe(p) == 0);
    SAME(write(p[1], m + size - 1, 1), 1);
    SAME(read(p[0], m + size - P, 1), 1);
    SAME(m[size - P], 5);
    close(p[0]), close(p[1]);
    char *other = mmap(NULL, size, PROT_READ | PROT_WRITE, KIND, -1, 0);
    CHECK(other != MAP_FAILED && other != m);
    other[0] = other[size - 1] = 6;
    CHECK(munmap(m, size - P) == 0);
    SAME(m[size - 1], 5);
    CHECK(munmap(m + size - P, P) == 0 && munmap(other, size) == 0);
    CHECK(mmap(NULL, (size_t)1 << 47, PROT_NONE, KIND, -1, 0) == MAP_FAILED && errno == ENOMEM);
    CHECK(munmap(mine, P) == 0);
}

static void heap(void) {
    enum { K = 1000 };
    unsigned char *p[K];
    uint32_t x = 1;
    for (int i = 0; i < K; i++) {
        x = x * 1664525 + 1013904223;
        size_t n = (x >> 8) % 20000 + 1;
        p[i] = malloc(n);
        CHECK(p[i] != NULL);
        p[i][0] = p[i][n - 1] = (unsigned char)i;
    }
    for (int i = 0; i < K; i += 2)
        free(p[i]);
    for (int i = 1; i < K; i += 2) {
        SAME(p[i][0], i & 255);
        p[i] = realloc(p[i], 30000);
        SAME(p[i][0], i & 255);
        free(p[i]);
    }
    char *big = malloc(200u << 20); /* reserved, hardly used */
    CHECK(big != NULL);
    big[0] = big[(200u << 20) - 1] = 1;
    free(big);
}

static void shared_anonymous(void) {
    char *m = mmap(NULL, 2 * P, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED && m[0] == 0);
    m[0] = 1, m[2 * P - 1] = 2;
    CHECK(munmap(m + P, P) == 0);
    SAME(m[0], 1);
    munmap(m, P);
}

static void kernel_checks_pointers(void) {
    char *m = anon(2 * P, PROT_READ | PROT_WRITE);
    int p[2];
    CHECK(pipe(p) == 0 && munmap(m + P, P) == 0);
    FAILS(write(p[1], m + P, 1), EFAULT);
    SAME(write(p[1], m + P - 4, 4), 4);
    FAILS(read(p[0], m + P, 4), EFAULT);
    CHECK(mprotect(m, P, PROT_READ) == 0);
    FAILS(read(p[0], m, 4), EFAULT);
    FAILS(pipe((int *)m), EFAULT);
    CHECK(mprotect(m, P, PROT_NONE) == 0);
    FAILS(write(p[1], m, 1), EFAULT);
    munmap(m, P), close(p[0]), close(p[1]);
}

/* Nodes of memory, of which there is at least one. Kernels without any of this have no calls either. */
static void policies(void) {
    int mode = -1;
    unsigned long nodes[16];
    memset(nodes, 0xff, sizeof nodes);
    if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, 0, 0) == -1 && errno == ENOSYS)
        return;
    SAME(mode, 0);
    SAME(nodes[0], 0);
    SAME(nodes[15], 0);
    SAME(syscall(SYS_get_mempolicy, NULL, nodes, 1024, 0, 4), 0); /* MPOL_F_MEMS_ALLOWED */
    SAME(nodes[0] & 1, 1);
    char *m = mmap(NULL, P, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    *m = 1;
    SAME(syscall(SYS_get_mempolicy, &mode, NULL, 0, m, 3), 0); /* MPOL_F_NODE | MPOL_F_ADDR */
    CHECK(mode >= 0);
    CHECK(munmap(m, P) == 0);
    FAILS(syscall(SYS_get_mempolicy, &mode, NULL, 0, m, 2), EFAULT);
    FAILS(syscall(SYS_get_mempolicy, &mode, NULL, 0, m, 0), EINVAL);
    FAILS(syscall(SYS_get_mempolicy, &mode, NULL, 0, 0, 8), EINVAL);
    FAILS(syscall(SYS_set_mempolicy, 99, NULL, 0), EINVAL);
    FAILS(syscall(SYS_set_mempolicy, 2, NULL, 0), EINVAL); /* MPOL_BIND to no node */
    SAME(syscall(SYS_set_mempolicy, 0, NULL, 0), 0);
}

static void page_size_and_residence(void) {
    SAME(sysconf(_SC_PAGESIZE), P);
    CHECK(sysconf(_SC_PHYS_PAGES) > 1000);
}

GUEST(T(fresh_memory_is_zero), T(unmapping_a_part), T(protection), T(code_written_at_run_time), T(growing_and_moving),
      T(advice), T(program_break), T(fixed_addresses), T(terabytes_of_addresses), T(heap), T(shared_anonymous), T(kernel_checks_pointers),
      T(policies), T(page_size_and_residence))
