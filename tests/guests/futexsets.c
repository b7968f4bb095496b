/* Waits for one of several futexes (futex_waitv(2)) and condition variables over locks with owners
 * (FUTEX_WAIT_REQUEUE_PI), in one process and across fork. */
#include "guest.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
/* as in linux/futex.h, which musl's compiler does not find */
#define WORD_32 2
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_WAKE 1
#define FUTEX_WAKE_PRIVATE (1 | 128)
#define FUTEX_UNLOCK_PI_PRIVATE (7 | 128)
#define FUTEX_WAIT_REQUEUE_PI_PRIVATE (11 | 128)
#define FUTEX_CMP_REQUEUE_PI_PRIVATE (12 | 128)
#define FUTEX_TID_MASK 0x3fffffff

struct waiter { uint64_t value, addr; uint32_t flags, reserved; };

static long futex(uint32_t *word, int op, uint32_t value, uintptr_t fourth, uint32_t *other, uint32_t sixth) {
    return syscall(SYS_futex, word, op, value, fourth, other, sixth);
}
static long waitv(struct waiter *waiters, unsigned n, unsigned flags, struct timespec *until, int clock) {
    return syscall(SYS_futex_waitv, waiters, n, flags, until, clock);
}

static uint32_t words[3];
static void *wake_last(void *arg) {
    sleep_ms(20);
    words[2] = 1;
    futex(&words[2], FUTEX_WAKE_PRIVATE, 10, 0, NULL, 0);
    return arg;
}

static void one_of_several(void) {
    struct waiter waiters[3];
    for (int i = 0; i < 3; i++)
        waiters[i] = (struct waiter){0, (uintptr_t)&words[i], WORD_32 | FUTEX_PRIVATE_FLAG, 0};
    pthread_t t;
    pthread_create(&t, NULL, wake_last, NULL);
    SAME(waitv(waiters, 3, 0, NULL, 0), 2);
    pthread_join(t, NULL);
    /* nobody stands in the other lines any more */
    SAME(futex(&words[0], FUTEX_WAKE_PRIVATE, 10, 0, NULL, 0), 0);
    FAILS(waitv(waiters, 3, 0, NULL, 0), EAGAIN);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t start = now_ms();
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    FAILS(waitv(waiters, 2, 0, &until, CLOCK_MONOTONIC), ETIMEDOUT);
    CHECK(lasted(now_ms() - start, 19));
    FAILS(waitv(waiters, 0, 0, NULL, 0), EINVAL);
    FAILS(waitv(waiters, 129, 0, NULL, 0), EINVAL);
    FAILS(waitv(waiters, 1, 1, NULL, 0), EINVAL);
    FAILS(waitv(waiters, 1, 0, &until, CLOCK_BOOTTIME), EINVAL);
    waiters[1].flags = 0;
    FAILS(waitv(waiters, 2, 0, NULL, 0), EINVAL);
    waiters[1] = (struct waiter){0, 8, WORD_32, 0};
    FAILS(waitv(waiters, 2, 0, NULL, 0), EFAULT);
}

static void across_processes(void) {
    uint32_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct waiter waiters[2] = {{0, (uintptr_t)shared, WORD_32, 0}, {0, (uintptr_t)(shared + 1), WORD_32, 0}};
        _exit(waitv(waiters, 2, 0, NULL, 0) == 1 ? 0 : 1);
    }
    for (int i = 0; i < 1000 && futex(shared + 1, FUTEX_WAKE, 1, 0, NULL, 0) == 0; i++)
        sleep_ms(1);
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid);
    SAME(status, 0);
    munmap(shared, 4096);
}

static struct { uint32_t condition, lock, waiting, passed; } pi;
static pid_t own_tid(void) { return (pid_t)syscall(SYS_gettid); }
static void *waits_for_condition(void *arg) {
    uint32_t free = 0;
    __atomic_add_fetch(&pi.waiting, 1, __ATOMIC_SEQ_CST);
    long got = futex(&pi.condition, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, 0, &pi.lock, 0);
    /* it has the lock now */
    int owns = (pi.lock & FUTEX_TID_MASK) == (uint32_t)own_tid();
    if (got == 0 && owns)
        pi.passed++;
    uint32_t own = (uint32_t)own_tid();
    if (!__atomic_compare_exchange_n(&pi.lock, &own, free, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        futex(&pi.lock, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, NULL, 0);
    return arg;
}

static void a_condition_over_a_lock(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, waits_for_condition, NULL);
    while (__atomic_load_n(&pi.waiting, __ATOMIC_SEQ_CST) < 3)
        sleep_ms(1);
    sleep_ms(30);
    FAILS(futex(&pi.condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 2, INT_MAX, &pi.lock, 0), EINVAL);
    FAILS(futex(&pi.condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, INT_MAX, &pi.lock, 1), EAGAIN);
    pi.condition = 1;
    SAME(futex(&pi.condition, FUTEX_CMP_REQUEUE_PI_PRIVATE, 1, INT_MAX, &pi.lock, 1), 3);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    SAME(pi.passed, 3);
    SAME(pi.lock, 0);
    FAILS(futex(&pi.condition, FUTEX_WAIT_REQUEUE_PI_PRIVATE, 0, 0, &pi.lock, 0), EAGAIN);
}

struct box { pthread_mutex_t lock; pthread_cond_t changed; int value; };
static void robust_locks_with_owners_survive_a_dead_owner(void) {
    struct box *box = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;
    pthread_condattr_t shared;
    CHECK(pthread_mutexattr_init(&attr) == 0 && pthread_condattr_init(&shared) == 0);
    CHECK(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_condattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&box->lock, &attr) == 0 && pthread_cond_init(&box->changed, &shared) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_mutex_lock(&box->lock);
        box->value = 1;
        pthread_cond_signal(&box->changed);
        _exit(0); /* with the lock */
    }
    int status = 1, got = pthread_mutex_lock(&box->lock);
    while (got == 0 && box->value == 0)
        got = pthread_cond_wait(&box->changed, &box->lock);
    SAME(got, EOWNERDEAD);
    SAME(box->value, 1);
    CHECK(pthread_mutex_consistent(&box->lock) == 0 && pthread_mutex_unlock(&box->lock) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(pthread_mutex_lock(&box->lock) == 0 && pthread_mutex_unlock(&box->lock) == 0);
    munmap(box, 4096);
}

GUEST(T(one_of_several), T(across_processes), T(a_condition_over_a_lock),
      T(robust_locks_with_owners_survive_a_dead_owner))
