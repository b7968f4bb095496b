/* Locks that outlive their owners or lend them their priority. pthread_mutexattr_setrobust(3), futex(2). */
#include "guest.h"

static pthread_mutex_t lock;
static volatile int held;
static void *die_with_it(void *x) {
    TCHECK(pthread_mutex_lock(&lock) == 0);
    held = 1;
    if (x != NULL)
        sleep_ms(30);
    return x;
}

static void abandoned(void) {
    pthread_mutexattr_t a;
    pthread_t t;
    CHECK(pthread_mutexattr_init(&a) == 0 && pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutex_init(&lock, &a) == 0);
    CHECK(pthread_create(&t, NULL, die_with_it, NULL) == 0);
    pthread_join(t, NULL);
    SAME(pthread_mutex_lock(&lock), EOWNERDEAD);
    SAME(pthread_mutex_consistent(&lock), 0);
    SAME(pthread_mutex_unlock(&lock), 0);
    /* one that somebody waits for meanwhile */
    held = 0;
    CHECK(pthread_create(&t, NULL, die_with_it, (void *)1) == 0);
    while (!held)
        sleep_ms(1);
    SAME(pthread_mutex_lock(&lock), EOWNERDEAD);
    SAME(pthread_mutex_consistent(&lock), 0);
    SAME(pthread_mutex_unlock(&lock), 0);
    pthread_join(t, NULL);
    SAME(pthread_mutex_lock(&lock), 0);
    SAME(pthread_mutex_unlock(&lock), 0);
    pthread_mutex_destroy(&lock);
}

static long counter;
static void *add(void *x) {
    for (int i = 0; i < 300; i++) {
        TCHECK(pthread_mutex_lock(&lock) == 0);
        long before = counter;
        if (i % 10 == 0)
            sched_yield();
        counter = before + 1;
        TCHECK(pthread_mutex_unlock(&lock) == 0);
    }
    return x;
}

static void inherited_priority(void) {
    pthread_mutexattr_t a;
    pthread_t t[6];
    CHECK(pthread_mutexattr_init(&a) == 0 && pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&lock, &a) == 0);
    counter = 0;
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&t[i], NULL, add, NULL) == 0);
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    SAME(counter, 6 * 300);
    SAME(pthread_mutex_lock(&lock), 0);
    SAME(pthread_mutex_trylock(&lock), EBUSY);
    SAME(pthread_mutex_unlock(&lock), 0);
    pthread_mutex_destroy(&lock);
}

GUEST(T(abandoned), T(inherited_priority))
