/* Eight threads pass numbers through a bounded queue with condition variables: four make, four sum. What
 * they print does not depend on who got which number. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAKERS = 4, TAKERS = 4, EACH = 25000, ROOM = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static long queue[ROOM], head, tail, finished;

static void *make(void *id) {
    for (long i = 0; i < EACH; i++) {
        pthread_mutex_lock(&lock);
        while (tail - head == ROOM)
            pthread_cond_wait(&not_full, &lock);
        queue[tail++ % ROOM] = (long)id * EACH + i;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    finished++;
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *take(void *unused) {
    long sum = 0;
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (tail == head && finished < MAKERS)
            pthread_cond_wait(&not_empty, &lock);
        if (tail == head) {
            pthread_mutex_unlock(&lock);
            return (void *)sum;
        }
        sum += queue[head++ % ROOM];
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&lock);
    }
}

int main(void) {
    pthread_t threads[MAKERS + TAKERS];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < MAKERS + TAKERS; i++)
        if (pthread_create(&threads[i], NULL, i < MAKERS ? make : take, (void *)i) != 0)
            return 1;
    long total = 0;
    for (int i = 0; i < MAKERS + TAKERS; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        total += i < MAKERS ? 0 : (long)sum;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    long want = (long)MAKERS * EACH * (MAKERS * EACH - 1) / 2;
    printf("%d threads passed %d numbers; their sum is %ld, it should be %ld\n", MAKERS + TAKERS, MAKERS * EACH, total,
           want);
    return total == want ? 0 : 1;
}
