/* The futex system call itself. futex(2). */
#include "guest.h"
#include <sys/mman.h>
#include <sys/syscall.h>

/* linux/futex.h is not part of musl. */
enum {
    FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129, FUTEX_CMP_REQUEUE_PRIVATE = 132,
    FUTEX_WAIT_BITSET_PRIVATE = 137, FUTEX_WAKE_BITSET_PRIVATE = 138
};
#define FUTEX_BITSET_MATCH_ANY 0xffffffffu

static long futex(uint32_t *u, int op, uint32_t val, const struct timespec *t, uint32_t *u2, uint32_t val3) {
    return syscall(SYS_futex, u, op, val, t, u2, val3);
}

static uint32_t word, other;
static int woken;

static void *waiter(void *x) {
    long r = futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    TCHECK(r == 0);
    __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return x;
}

static void wait_and_wake(void) {
    pthread_t t[4];
    word = 0, woken = 0;
    SAME(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0), 0);
    FAILS(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, waiter, NULL) == 0);
    sleep_ms(50);
    SAME(futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 1);
    sleep_ms(20);
    SAME(__atomic_load_n(&woken, __ATOMIC_SEQ_CST), 1);
    SAME(futex(&word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0), 3);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    SAME(woken, 4);
}

static void timeouts(void) {
    struct timespec t = {0, 40000000};
    word = 0;
    uint64_t start = now_ms();
    FAILS(futex(&word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0), ETIMEDOUT);
    CHECK(lasted(now_ms() - start, 40));
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec -= 1;
    FAILS(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY), ETIMEDOUT);
    t.tv_nsec = 1000000000;
    FAILS(futex(&word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0), EINVAL);
}

static void *bit_waiter(void *bits) {
    TCHECK(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, (uint32_t)(uintptr_t)bits) == 0);
    return NULL;
}

static void bitsets(void) {
    pthread_t a, b;
    word = 0;
    CHECK(pthread_create(&a, NULL, bit_waiter, (void *)1) == 0 && pthread_create(&b, NULL, bit_waiter, (void *)2) == 0);
    sleep_ms(50);
    SAME(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 4), 0);
    SAME(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 2), 1);
    SAME(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 3), 1);
    pthread_join(a, NULL), pthread_join(b, NULL);
    FAILS(futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 0), EINVAL);
}

static void requeue(void) {
    pthread_t t[4];
    word = other = 0, woken = 0;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, waiter, NULL) == 0);
    sleep_ms(50);
    FAILS(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10L, &other, 99), EAGAIN);
    SAME(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)10L, &other, 0), 4); /* one woken, three moved */
    SAME(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0), 0);
    SAME(futex(&other, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0), 3);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void shared_by_backing_object(void) {
    int f = memfd_create("futex", MFD_CLOEXEC);
    CHECK(f >= 0 && ftruncate(f, 4096) == 0);
    uint32_t *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    uint32_t *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    CHECK(a != MAP_FAILED && b != MAP_FAILED && a != b);
    struct timespec t = {0, 1000000};
    FAILS(futex(a, FUTEX_WAIT, 0, &t, NULL, 0), ETIMEDOUT);
    *a = 7;
    FAILS(futex(b, FUTEX_WAIT, 0, &t, NULL, 0), EAGAIN);
    munmap(a, 4096), munmap(b, 4096);
    close(f);
}

static void bad_addresses(void) {
    /* A private word is a name that nobody looks behind, but for whoever waits; a shared one is looked up. */
    char *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, 4096);
    SAME(futex((uint32_t *)gone, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 0);
    SAME(futex((uint32_t *)none, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 0);
    FAILS(futex((uint32_t *)gone, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT);
    FAILS(futex((uint32_t *)none, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT);
    FAILS(futex((uint32_t *)none, FUTEX_WAIT, 0, NULL, NULL, 0), EFAULT);
    FAILS(futex((uint32_t *)0xffff800000000000, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), EFAULT);
    int f = open(".", O_TMPFILE | O_RDWR, 0600);
    if (f >= 0) {
        CHECK(ftruncate(f, 4096) == 0);
        uint32_t *cut = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
        CHECK(cut != MAP_FAILED);
        SAME(futex(cut, FUTEX_WAKE, 1, NULL, NULL, 0), 0);
        CHECK(ftruncate(f, 0) == 0);
        FAILS(futex(cut, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT);
        FAILS(futex(cut, FUTEX_WAIT, 0, NULL, NULL, 0), EFAULT);
        munmap(cut, 4096), close(f);
    }
    munmap(none, 4096);
    FAILS(futex((uint32_t *)16, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EFAULT);
    FAILS(futex((uint32_t *)((char *)&word + 1), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), EINVAL);
    FAILS(futex(&word, 77, 0, NULL, NULL, 0), ENOSYS);
}

GUEST(T(wait_and_wake), T(timeouts), T(bitsets), T(requeue), T(shared_by_backing_object), T(bad_addresses))
