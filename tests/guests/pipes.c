/* Pipes: blocking, end of file, EPIPE, atomic writes. pipe(7). */
#include "guest.h"
#include <sys/ioctl.h>

static void bytes_in_order(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    SAME(write(p[1], "hello", 5), 5);
    SAME(write(p[1], "world", 5), 5);
    int n;
    CHECK(ioctl(p[0], FIONREAD, &n) == 0);
    SAME(n, 10);
    char b[16] = {0};
    SAME(read(p[0], b, 7), 7);
    CHECK(memcmp(b, "hellowo", 7) == 0);
    SAME(read(p[0], b, 16), 3);
    FAILS(write(p[0], b, 1), EBADF);
    FAILS(read(p[1], b, 1), EBADF);
    FAILS(lseek(p[0], 0, SEEK_SET), ESPIPE);
    FAILS(pread(p[0], b, 1, 0), ESPIPE);
    close(p[0]), close(p[1]);
}

static void *late_writer(void *fd) {
    sleep_ms(100);
    TCHECK(write(*(int *)fd, "x", 1) == 1);
    return NULL;
}

static void read_waits(void) {
    int p[2];
    pthread_t t;
    CHECK(pipe(p) == 0);
    uint64_t start = now_ms();
    CHECK(pthread_create(&t, NULL, late_writer, &p[1]) == 0);
    char c;
    SAME(read(p[0], &c, 1), 1);
    CHECK(lasted(now_ms() - start, 100));
    pthread_join(t, NULL);
    close(p[0]), close(p[1]);
}

static void end_of_file(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    int twin = dup(p[1]);
    CHECK(write(p[1], "last", 4) == 4 && close(p[1]) == 0);
    char b[8];
    SAME(read(p[0], b, 8), 4);
    CHECK(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
    FAILS(read(p[0], b, 8), EAGAIN); /* the twin is still there */
    close(twin);
    SAME(read(p[0], b, 8), 0);
    SAME(read(p[0], b, 8), 0);
    close(p[0]);
}

static volatile sig_atomic_t pipe_signals;
static void on_pipe(int s) { pipe_signals += s == SIGPIPE; }

static void broken_pipe(void) {
    int p[2];
    CHECK(pipe(p) == 0 && close(p[0]) == 0);
    struct sigaction sa = {.sa_handler = on_pipe}, old;
    CHECK(sigaction(SIGPIPE, &sa, &old) == 0);
    FAILS(write(p[1], "x", 1), EPIPE);
    SAME(pipe_signals, 1);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(p[1], "x", 1), EPIPE);
    SAME(pipe_signals, 1);
    struct pollfd f = {p[1], POLLOUT, 0};
    SAME(poll(&f, 1, 0), 1);
    CHECK(f.revents & POLLERR);
    sigaction(SIGPIPE, &old, NULL);
    close(p[1]);
}

static void full_without_waiting(void) {
    int p[2];
    CHECK(pipe2(p, O_NONBLOCK) == 0);
    char b[PIPE_BUF];
    memset(b, 'f', sizeof b);
    FAILS(read(p[0], b, 1), EAGAIN);
    long total = 0;
    ssize_t n;
    while ((n = write(p[1], b, sizeof b)) > 0)
        total += n;
    SAME(errno, EAGAIN);
    SAME(total, 65536);
    SAME(fcntl(p[1], F_GETPIPE_SZ), 65536);
    struct pollfd f = {p[1], POLLOUT, 0};
    SAME(poll(&f, 1, 0), 0);
    SAME(read(p[0], b, sizeof b), PIPE_BUF);
    SAME(poll(&f, 1, 0), 1);
    SAME(f.revents, POLLOUT);
    SAME(write(p[1], b, sizeof b), PIPE_BUF);
    close(p[0]), close(p[1]);
}

static void *slow_reader(void *fd) {
    static char b[200000];
    size_t total = 0;
    ssize_t n;
    while ((n = read(*(int *)fd, b, 5000)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            TCHECK(b[i] == (char)((total + (size_t)i) % 251));
        total += (size_t)n;
    }
    return (void *)total;
}

static void long_write_waits_for_the_reader(void) {
    static char b[200000];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (char)(i % 251);
    int p[2];
    pthread_t t;
    void *total;
    CHECK(pipe(p) == 0 && pthread_create(&t, NULL, slow_reader, &p[0]) == 0);
    SAME(write(p[1], b, sizeof b), sizeof b);
    close(p[1]);
    pthread_join(t, &total);
    SAME((size_t)total, sizeof b);
    close(p[0]);
}

enum { WRITERS = 4, RECORDS = 200 };
static int shared_pipe[2];
static void *record_writer(void *id) {
    char record[PIPE_BUF];
    memset(record, 'A' + (int)(intptr_t)id, sizeof record);
    for (int i = 0; i < RECORDS; i++)
        TCHECK(write(shared_pipe[1], record, sizeof record) == PIPE_BUF);
    return NULL;
}

static void small_writes_are_atomic(void) {
    pthread_t t[WRITERS];
    CHECK(pipe(shared_pipe) == 0);
    for (intptr_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&t[i], NULL, record_writer, (void *)i) == 0);
    int counts[WRITERS] = {0};
    for (int i = 0; i < WRITERS * RECORDS; i++) {
        char record[PIPE_BUF];
        size_t got = 0;
        while (got < sizeof record) {
            ssize_t n = read(shared_pipe[0], record + got, sizeof record - got);
            CHECK(n > 0);
            got += (size_t)n;
        }
        for (size_t k = 1; k < sizeof record; k++)
            CHECK(record[k] == record[0]);
        counts[record[0] - 'A']++;
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(t[i], NULL);
        SAME(counts[i], RECORDS);
    }
    close(shared_pipe[0]), close(shared_pipe[1]);
}

static void poll_sees_both_ends(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    struct pollfd f[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}};
    SAME(poll(f, 2, 0), 1);
    SAME(f[0].revents, 0);
    SAME(f[1].revents, POLLOUT);
    CHECK(write(p[1], "x", 1) == 1);
    SAME(poll(f, 2, 0), 2);
    SAME(f[0].revents, POLLIN);
    close(p[1]);
    f[1].fd = -1;
    SAME(poll(f, 2, 0), 1);
    SAME(f[0].revents, POLLIN | POLLHUP);
    char c;
    CHECK(read(p[0], &c, 1) == 1);
    SAME(poll(f, 1, 0), 1);
    SAME(f[0].revents, POLLHUP);
    close(p[0]);
}

GUEST(T(bytes_in_order), T(read_waits), T(end_of_file), T(broken_pipe), T(full_without_waiting),
      T(long_write_waits_for_the_reader), T(small_writes_are_atomic), T(poll_sees_both_ends))
