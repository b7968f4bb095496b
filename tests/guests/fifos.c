/* FIFOs, and what a pipe's pages show: sizes, packets. fifo(7), pipe(7), fcntl(2). */
#include "guest.h"
#include <sys/ioctl.h>

static void *late_open(void *flags) {
    sleep_ms(40);
    return (void *)(intptr_t)open("fifo", (int)(intptr_t)flags);
}

static void opening_waits_for_the_other_end(void) {
    CHECK(mkfifo("fifo", 0600) == 0);
    struct stat st;
    CHECK(stat("fifo", &st) == 0 && S_ISFIFO(st.st_mode));
    FAILS(mkfifo("fifo", 0600), EEXIST);
    FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO);
    for (int turn = 0; turn < 2; turn++) {
        pthread_t t;
        void *other;
        uint64_t start = now_ms();
        CHECK(pthread_create(&t, NULL, late_open, (void *)(intptr_t)(turn ? O_RDONLY : O_WRONLY)) == 0);
        int fd = open("fifo", turn ? O_WRONLY : O_RDONLY);
        CHECK(fd >= 0 && lasted(now_ms() - start, 40));
        pthread_join(t, &other);
        int ends[2] = {turn ? (int)(intptr_t)other : fd, turn ? fd : (int)(intptr_t)other};
        char b[8];
        SAME(write(ends[1], "abc", 3), 3);
        SAME(read(ends[0], b, 8), 3);
        close(ends[1]);
        SAME(read(ends[0], b, 8), 0);
        close(ends[0]);
    }
    CHECK(unlink("fifo") == 0);
}

static void a_reader_that_does_not_wait(void) {
    CHECK(mkfifo("fifo", 0600) == 0);
    int r = open("fifo", O_RDONLY | O_NONBLOCK);
    CHECK(r >= 0);
    struct pollfd f = {r, POLLIN, 0};
    SAME(poll(&f, 1, 0), 0); /* nobody has hung up yet */
    char b[8];
    SAME(read(r, b, 8), 0);
    int w = open("fifo", O_WRONLY);
    CHECK(w >= 0);
    FAILS(read(r, b, 8), EAGAIN);
    close(w);
    SAME(poll(&f, 1, 0), 1);
    SAME(f.revents, POLLHUP);
    w = open("fifo", O_RDWR);
    CHECK(w >= 0);
    SAME(poll(&f, 1, 0), 0);
    SAME(write(w, "both", 4), 4);
    SAME(read(w, b, 2), 2);
    SAME(read(r, b, 8), 2);
    close(w), close(r);
    CHECK(unlink("fifo") == 0);
}

static void sizes(void) {
    int p[2];
    CHECK(pipe2(p, O_NONBLOCK) == 0);
    SAME(fcntl(p[0], F_SETPIPE_SZ, 100000), 131072);
    SAME(fcntl(p[1], F_GETPIPE_SZ), 131072);
    SAME(fcntl(p[1], F_SETPIPE_SZ, 1), 4096);
    char b[8192];
    memset(b, 'p', sizeof b);
    SAME(write(p[1], b, 8192), 4096);
    CHECK(fcntl(p[1], F_SETPIPE_SZ, 65536) == 65536);
    SAME(write(p[1], b, 8192), 8192);
    FAILS(fcntl(p[1], F_SETPIPE_SZ, 4096), EBUSY);
    int n;
    CHECK(ioctl(p[0], FIONREAD, &n) == 0);
    SAME(n, 12288);
    close(p[0]), close(p[1]);
}

static void pages_are_what_fills_it(void) {
    int p[2];
    CHECK(pipe2(p, O_NONBLOCK) == 0);
    char b[3000];
    memset(b, 'p', sizeof b);
    int writes = 0;
    while (write(p[1], b, sizeof b) == sizeof b)
        writes++;
    SAME(errno, EAGAIN);
    SAME(writes, 16); /* a write that does not fit the rest of a page takes the next one */
    SAME(write(p[1], b, 1000), 1000);
    SAME(read(p[0], b, 2999), 2999);
    FAILS(write(p[1], b, 1000), EAGAIN);
    SAME(read(p[0], b, 1), 1);
    SAME(write(p[1], b, 1000), 1000);
    close(p[0]), close(p[1]);
}

static void packets(void) {
    int p[2];
    CHECK(pipe2(p, O_DIRECT | O_NONBLOCK) == 0);
    char b[16];
    SAME(write(p[1], "first", 5), 5);
    SAME(write(p[1], "second", 6), 6);
    SAME(read(p[0], b, 3), 3); /* the rest of a packet is lost */
    SAME(read(p[0], b, 16), 6);
    FAILS(read(p[0], b, 16), EAGAIN);
    FAILS(pipe2(p, O_TRUNC), EINVAL);
    close(p[0]), close(p[1]);
}

GUEST_WITH(scratch_enter(), T(opening_waits_for_the_other_end), T(a_reader_that_does_not_wait), T(sizes),
           T(pages_are_what_fills_it), T(packets))
