/* Two threads add to a counter; `counter lock` takes a lock for it. There is no system call between load and store. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int counter;
static int takes_lock;

static void *add(void *unused) {
    for (int n = 0; n < 100; n++) {
        if (takes_lock)
            pthread_mutex_lock(&lock);
        int seen = counter;
        counter = seen + 1;
        if (takes_lock)
            pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(int argc, char **argv) {
    (void)argv;
    takes_lock = argc > 1;
    pthread_t threads[2];
    for (int n = 0; n < 2; n++)
        pthread_create(&threads[n], 0, add, 0);
    for (int n = 0; n < 2; n++)
        pthread_join(threads[n], 0);
    printf("counter: %d\n", counter);
    return counter != 200;
}
