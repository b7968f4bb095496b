/* A pool of threads whose workers look for work before they take the lock: a notification between the look and the wait is lost, and the pool stands still.
   With --locked they look under the lock.

   pool [--locked] */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TASKS = 40, WORKERS = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static volatile int waiting, done, closed;
static int looks_under_lock;

static int take(void) {
    if (!looks_under_lock && !waiting && !closed) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&given, &lock);
    } else {
        pthread_mutex_lock(&lock);
    }
    while (looks_under_lock && !waiting && !closed)
        pthread_cond_wait(&given, &lock);
    int taken = waiting > 0;
    waiting -= taken;
    pthread_mutex_unlock(&lock);
    return taken;
}

static void *work(void *unused) {
    while (!closed) {
        if (!take())
            continue;
        pthread_mutex_lock(&lock);
        done++;
        pthread_cond_signal(&finished);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(int count, char **words) {
    looks_under_lock = count > 1 && !strcmp(words[1], "--locked");
    pthread_t workers[WORKERS];
    for (int n = 0; n < WORKERS; n++)
        pthread_create(&workers[n], NULL, work, NULL);
    for (int n = 0; n < TASKS; n++) {
        pthread_mutex_lock(&lock);
        waiting++;
        pthread_cond_signal(&given);
        while (done <= n)
            pthread_cond_wait(&finished, &lock);
        pthread_mutex_unlock(&lock);
    }
    printf("%d tasks done\n", done);
    return 0;
}
