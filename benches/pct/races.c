/* Races without a system call between the racing instructions, by the number of orderings that they need (their depth).
 *
 *   races order WORK     depth 1: a thread reads before another one has written
 *   races lost WORK      depth 2: two threads read a counter before one of them writes it
 *   races window WORK    depth 3: a value is seen, and has changed when it is looked at again, in one visit of another thread
 *
 * WORK is the number of rounds of computation around the racing instructions. The exit status is 1 if the race has shown. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static volatile int value, counter, has_shown;
static int work;

static void compute(void) {
    for (volatile int n = 0; n < work; n++) {
    }
}

static void *write_value(void *unused) {
    compute();
    value = 1;
    return unused;
}

static void *read_value(void *unused) {
    has_shown = value == 0;
    return unused;
}

static void *add(void *unused) {
    compute();
    int seen = counter;
    compute();
    counter = seen + 1;
    return unused;
}

static void *visit(void *unused) {
    compute();
    value = 1;
    compute();
    value = 0;
    return unused;
}

static void *look(void *unused) {
    compute();
    int seen = value;
    compute();
    has_shown = seen == 1 && value == 0;
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    work = atoi(argv[2]);
    int is_order = strcmp(argv[1], "order") == 0, is_lost = strcmp(argv[1], "lost") == 0;
    pthread_t threads[2];
    pthread_create(&threads[0], 0, is_order ? write_value : is_lost ? add : visit, 0);
    pthread_create(&threads[1], 0, is_order ? read_value : is_lost ? add : look, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return has_shown || (is_lost && counter != 2);
}
