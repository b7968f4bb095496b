/* eventfd as counter and as semaphore. eventfd(2). */
#include "guest.h"
#include <sys/eventfd.h>

static void counter(void) {
    int e = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    uint64_t v = 4;
    CHECK(e >= 0);
    SAME(fcntl(e, F_GETFD), FD_CLOEXEC);
    SAME(write(e, &v, 8), 8);
    SAME(read(e, &v, 8), 8);
    SAME(v, 7);
    FAILS(read(e, &v, 8), EAGAIN);
    FAILS(read(e, &v, 7), EINVAL);
    FAILS(write(e, &v, 4), EINVAL);
    v = UINT64_MAX;
    FAILS(write(e, &v, 8), EINVAL);
    v = UINT64_MAX - 1;
    SAME(write(e, &v, 8), 8);
    v = 1;
    FAILS(write(e, &v, 8), EAGAIN);
    struct pollfd f = {e, POLLIN | POLLOUT, 0};
    SAME(poll(&f, 1, 0), 1);
    SAME(f.revents, POLLIN);
    close(e);
}

static void semaphore(void) {
    int e = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    uint64_t v;
    for (int i = 0; i < 2; i++) {
        SAME(read(e, &v, 8), 8);
        SAME(v, 1);
    }
    FAILS(read(e, &v, 8), EAGAIN);
    FAILS(eventfd(0, 0x10000), EINVAL);
    close(e);
}

static void *adder(void *fd) {
    uint64_t one = 1;
    for (int i = 0; i < 100; i++)
        TCHECK(write(*(int *)fd, &one, 8) == 8);
    return NULL;
}

static void readers_wait_for_writers(void) {
    int e = eventfd(0, 0);
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&t[i], NULL, adder, &e) == 0);
    uint64_t v, sum = 0;
    while (sum < 300) {
        SAME(read(e, &v, 8), 8);
        sum += v;
    }
    SAME(sum, 300);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    close(e);
}

GUEST(T(counter), T(semaphore), T(readers_wait_for_writers))
