/* POSIX threads, eight at a time. pthreads(7). */
#include "guest.h"
#include <semaphore.h>
#include <sys/syscall.h>

enum { N = 8, ROUNDS = 2000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long counter;

static int all(void *(*f)(void *), void **results) {
    pthread_t t[N];
    for (intptr_t i = 0; i < N; i++)
        if (pthread_create(&t[i], NULL, f, (void *)i) != 0)
            return -1;
    for (int i = 0; i < N; i++)
        if (pthread_join(t[i], results == NULL ? NULL : &results[i]) != 0)
            return -1;
    return 0;
}

static void *locked_add(void *x) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        long before = counter;
        if (i % 500 == 0)
            sched_yield();
        counter = before + 1;
        pthread_mutex_unlock(&mutex);
    }
    return (void *)((intptr_t)x * 10);
}

static void mutual_exclusion(void) {
    void *r[N];
    counter = 0;
    CHECK(all(locked_add, r) == 0);
    SAME(counter, N * ROUNDS);
    for (intptr_t i = 0; i < N; i++)
        SAME((intptr_t)r[i], i * 10);
}

static int turn;
static void *in_turn(void *x) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % N != (int)(intptr_t)x)
            pthread_cond_wait(&cond, &mutex);
        turn++;
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void condition_variables(void) {
    turn = 0;
    CHECK(all(in_turn, NULL) == 0);
    SAME(turn, N * 200);
}

static void timed_wait(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 50000000;
    if (t.tv_nsec >= 1000000000)
        t.tv_sec++, t.tv_nsec -= 1000000000;
    uint64_t start = now_ms();
    pthread_mutex_lock(&mutex);
    int r = pthread_cond_timedwait(&cond, &mutex, &t);
    pthread_mutex_unlock(&mutex);
    SAME(r, ETIMEDOUT);
    CHECK(lasted(now_ms() - start, 48));
    SAME(pthread_mutex_lock(&mutex), 0);
    SAME(pthread_mutex_trylock(&mutex), EBUSY);
    pthread_mutex_unlock(&mutex);
}

static pthread_barrier_t barrier;
static int arrived[20], serial;
static void *meet(void *x) {
    (void)x;
    for (int i = 0; i < 20; i++) {
        __atomic_add_fetch(&arrived[i], 1, __ATOMIC_SEQ_CST);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_add_fetch(&serial, 1, __ATOMIC_SEQ_CST);
        TCHECK(__atomic_load_n(&arrived[i], __ATOMIC_SEQ_CST) == N);
    }
    return NULL;
}

static void barriers(void) {
    serial = 0;
    CHECK(pthread_barrier_init(&barrier, NULL, N) == 0 && all(meet, NULL) == 0);
    SAME(serial, 20);
    pthread_barrier_destroy(&barrier);
}

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static int one, two;
static void *readers_and_writers(void *x) {
    for (int i = 0; i < 300; i++) {
        if ((intptr_t)x % 4 == 0) {
            pthread_rwlock_wrlock(&rw);
            one++;
            if (i % 50 == 0)
                sched_yield();
            two++;
            pthread_rwlock_unlock(&rw);
        } else {
            pthread_rwlock_rdlock(&rw);
            int same = one == two;
            pthread_rwlock_unlock(&rw);
            TCHECK(same);
        }
    }
    return NULL;
}

static void rwlocks(void) {
    CHECK(all(readers_and_writers, NULL) == 0);
    SAME(one, 600);
}

static __thread int tls = 5;
static pthread_key_t key;
static int destroyed;
static void destroy(void *v) { __atomic_add_fetch(&destroyed, (int)(intptr_t)v, __ATOMIC_SEQ_CST); }
static void *own_storage(void *x) {
    TCHECK(tls == 5);
    tls = (int)(intptr_t)x;
    TCHECK(pthread_setspecific(key, (void *)((intptr_t)x + 1)) == 0);
    sleep_ms(5);
    TCHECK(tls == (int)(intptr_t)x && pthread_getspecific(key) == (void *)((intptr_t)x + 1));
    return NULL;
}

static void thread_local_storage(void) {
    CHECK(pthread_key_create(&key, destroy) == 0 && all(own_storage, NULL) == 0);
    SAME(tls, 5);
    SAME(destroyed, N * (N + 1) / 2);
    pthread_key_delete(key);
}

static sem_t done;
static void *detached(void *x) {
    (void)x;
    sem_post(&done);
    return NULL;
}

static void detachment(void) {
    pthread_attr_t a;
    pthread_t t;
    CHECK(sem_init(&done, 0, 0) == 0 && pthread_attr_init(&a) == 0);
    CHECK(pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(pthread_create(&t, &a, detached, NULL) == 0);
    CHECK(pthread_create(&t, NULL, detached, NULL) == 0 && pthread_detach(t) == 0);
    for (int i = 0; i < 21; i++)
        CHECK(sem_wait(&done) == 0);
    pthread_attr_destroy(&a);
}

static int cleaned;
static void clean(void *x) { cleaned += (int)(intptr_t)x; }
static void *sleeper(void *x) {
    (void)x;
    pthread_cleanup_push(clean, (void *)1);
    for (;;)
        sleep(1000);
    pthread_cleanup_pop(0);
    return NULL;
}
static int pipe_to_read[2];
static void *reader(void *x) {
    char c;
    pthread_cleanup_push(clean, (void *)10);
    while (read(pipe_to_read[0], &c, 1) >= 0) {
    }
    pthread_cleanup_pop(0);
    return x;
}

static void cancellation(void) {
    pthread_t t;
    void *r;
    CHECK(pthread_create(&t, NULL, sleeper, NULL) == 0);
    sleep_ms(20);
    CHECK(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0);
    CHECK(r == PTHREAD_CANCELED);
    SAME(cleaned, 1);
    CHECK(pipe(pipe_to_read) == 0 && pthread_create(&t, NULL, reader, NULL) == 0);
    sleep_ms(20);
    CHECK(pthread_cancel(t) == 0 && pthread_join(t, &r) == 0);
    CHECK(r == PTHREAD_CANCELED);
    SAME(cleaned, 11);
    close(pipe_to_read[0]), close(pipe_to_read[1]);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int onces;
static void count_once(void) { onces++; }
static void *ids(void *x) {
    (void)x;
    pthread_once(&once, count_once);
    return (void *)(intptr_t)syscall(SYS_gettid);
}

static void identities(void) {
    void *id[N];
    CHECK(all(ids, id) == 0);
    SAME(onces, 1);
    for (int i = 0; i < N; i++)
        CHECK(id[i] != (void *)(intptr_t)getpid() && (intptr_t)id[i] > 0);
    SAME(syscall(SYS_gettid), getpid());
}

static void *exits(void *x) { pthread_exit((void *)((intptr_t)x + 100)); }

static void many_short_threads(void) {
    void *r[N];
    for (int round = 0; round < 50; round++) {
        CHECK(all(exits, r) == 0);
        for (intptr_t i = 0; i < N; i++)
            SAME((intptr_t)r[i], i + 100);
    }
}

static void semaphore_timeout(void) {
    sem_t s;
    struct timespec t;
    CHECK(sem_init(&s, 0, 1) == 0 && sem_wait(&s) == 0);
    FAILS(sem_trywait(&s), EAGAIN);
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec -= 1;
    FAILS(sem_timedwait(&s, &t), ETIMEDOUT);
}

static void *looks_at_itself(void *unused) {
    (void)unused;
    char link[64] = "", expected[64], comm[32] = "";
    TCHECK(readlink("/proc/thread-self", link, sizeof link - 1) > 0);
    snprintf(expected, sizeof expected, "%d/task/%ld", getpid(), (long)syscall(SYS_gettid));
    TCHECK(strcmp(link, expected) == 0);
    TCHECK(pthread_setname_np(pthread_self(), "looker") == 0);
    int fd = open("/proc/thread-self/comm", O_RDONLY);
    TCHECK(fd >= 0 && read(fd, comm, sizeof comm) == 7 && strncmp(comm, "looker\n", 7) == 0);
    close(fd);
    return (void *)1;
}

static void procfs_knows_the_thread(void) {
    pthread_t thread;
    void *result;
    CHECK(looks_at_itself(NULL) != NULL);
    CHECK(pthread_create(&thread, NULL, looks_at_itself, NULL) == 0 && pthread_join(thread, &result) == 0);
    CHECK(result != NULL);
}

static void barriers_are_registered_for(void) {
    enum { QUERY, PRIVATE = 8, REGISTER_PRIVATE = 16 };
    if (syscall(SYS_membarrier, QUERY, 0) == -1)
        return;
    FAILS(syscall(SYS_membarrier, PRIVATE, 0), EPERM);
    SAME(syscall(SYS_membarrier, REGISTER_PRIVATE, 0), 0);
    SAME(syscall(SYS_membarrier, PRIVATE, 0), 0);
}

GUEST(T(barriers_are_registered_for), T(procfs_knows_the_thread), T(mutual_exclusion), T(condition_variables), T(timed_wait), T(barriers), T(rwlocks), T(thread_local_storage),
      T(detachment), T(cancellation), T(identities), T(many_short_threads), T(semaphore_timeout))
