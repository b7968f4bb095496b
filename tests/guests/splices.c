/* Bytes that move without passing memory: splice(2), tee(2), vmsplice(2), sendfile(2), copy_file_range(2). */
#include "guest.h"
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int file_with(const char *name, const char *content, size_t len) {
    int f = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (f >= 0 && write(f, content, len) != (ssize_t)len)
        return -1;
    return f;
}

static void a_socket_into_a_pipe_and_on(void) {
    int s[2], t[2], p[2];
    char b[64];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, t) == 0 && pipe(p) == 0);
    SAME(write(s[1], "through", 7), 7);
    SAME(splice(s[0], NULL, p[1], NULL, 4096, 0), 7);
    SAME(splice(p[0], NULL, t[1], NULL, 4096, 0), 7);
    SAME(read(t[0], b, sizeof b), 7);
    CHECK(memcmp(b, "through", 7) == 0);
    FAILS(splice(s[0], NULL, p[1], NULL, 4096, SPLICE_F_NONBLOCK), EAGAIN);
    FAILS(splice(p[0], NULL, t[1], NULL, 4096, SPLICE_F_NONBLOCK), EAGAIN);
    close(s[1]);
    SAME(splice(s[0], NULL, p[1], NULL, 4096, 0), 0); /* the end */
    close(p[1]);
    SAME(splice(p[0], NULL, t[1], NULL, 4096, 0), 0);
    close(s[0]), close(t[0]), close(t[1]), close(p[0]);
}

static void files_and_pipes(void) {
    int p[2], f = file_with("f", "0123456789", 10), g = file_with("g", "", 0);
    char b[16] = {0};
    loff_t at = 3;
    CHECK(f >= 0 && g >= 0 && pipe(p) == 0);
    SAME(splice(f, &at, p[1], NULL, 4, 0), 4);
    SAME(at, 7);
    SAME(lseek(f, 0, SEEK_CUR), 10); /* its own position stays */
    at = 2;
    SAME(splice(p[0], NULL, g, &at, 4, 0), 4);
    SAME(at, 6);
    SAME(pread(g, b, 16, 0), 6);
    CHECK(memcmp(b, "\0\0003456", 6) == 0);
    at = 0;
    FAILS(splice(f, NULL, p[1], &at, 1, 0), ESPIPE);
    FAILS(splice(p[0], &at, g, NULL, 1, 0), ESPIPE);
    FAILS(splice(f, NULL, g, NULL, 1, 0), EINVAL); /* neither is a pipe */
    FAILS(splice(p[0], NULL, p[1], NULL, 1, 0), EINVAL);
    close(f), close(g), close(p[0]), close(p[1]);
    unlink("f"), unlink("g");
}

static void a_full_pipe_takes_what_fits(void) {
    int p[2], z = open("/dev/zero", O_RDONLY);
    CHECK(pipe(p) == 0);
    int f = file_with("f", "", 0);
    CHECK(ftruncate(f, 1 << 20) == 0 && lseek(f, 0, SEEK_SET) == 0);
    SAME(splice(f, NULL, p[1], NULL, 1 << 20, 0), 65536);
    FAILS(splice(f, NULL, p[1], NULL, 1, SPLICE_F_NONBLOCK), EAGAIN);
    SAME(lseek(f, 0, SEEK_CUR), 65536);
    close(f), close(z), close(p[0]), close(p[1]);
    unlink("f");
}

static void tee_leaves_what_it_copies(void) {
    int p[2], q[2];
    char b[16];
    CHECK(pipe(p) == 0 && pipe(q) == 0);
    SAME(write(p[1], "twice", 5), 5);
    SAME(tee(p[0], q[1], 100, 0), 5);
    SAME(read(q[0], b, 16), 5);
    SAME(read(p[0], b, 16), 5);
    CHECK(memcmp(b, "twice", 5) == 0);
    FAILS(tee(p[0], q[1], 100, SPLICE_F_NONBLOCK), EAGAIN);
    FAILS(tee(p[0], p[1], 100, 0), EINVAL);
    close(p[1]);
    SAME(tee(p[0], q[1], 100, 0), 0);
    close(p[0]), close(q[0]), close(q[1]);
}

static void vmsplice_moves_memory(void) {
    int p[2];
    char a[] = "one", b[] = "two", got[16] = {0};
    struct iovec v[2] = {{a, 3}, {b, 3}}, w = {got, 16};
    CHECK(pipe(p) == 0);
    SAME(vmsplice(p[1], v, 2, 0), 6);
    SAME(vmsplice(p[0], &w, 1, 0), 6);
    CHECK(memcmp(got, "onetwo", 6) == 0);
    FAILS(vmsplice(p[0], &w, 1, SPLICE_F_NONBLOCK), EAGAIN);
    close(p[0]), close(p[1]);
}

static void *drain(void *arg) {
    int fd = *(int *)arg;
    static char b[65536];
    long total = 0;
    ssize_t n;
    sleep_ms(20);
    while ((n = read(fd, b, sizeof b)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (b[i] != (char)((total + i) * 7 % 251))
                return (void *)-1L;
        total += n;
    }
    return (void *)total;
}

/* The receiver reads late: the call waits in the middle and goes on. */
static void sendfile_waits_and_loses_nothing(void) {
    enum { SIZE = 3 << 20 };
    int s[2];
    char *data = malloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        data[i] = (char)((long)i * 7 % 251);
    int f = file_with("big", data, SIZE);
    free(data);
    CHECK(f >= 0 && lseek(f, 0, SEEK_SET) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, drain, &s[0]) == 0);
    SAME(sendfile(s[1], f, NULL, SIZE), SIZE);
    SAME(lseek(f, 0, SEEK_CUR), SIZE);
    close(s[1]);
    void *total;
    pthread_join(t, &total);
    SAME((long)total, SIZE);
    close(s[0]), close(f), unlink("big");
}

static void on_alarm(int signal) { (void)signal; }

/* A signal ends the wait: the position says how much has gone. */
static void an_interrupted_sendfile_keeps_its_position(void) {
    enum { SIZE = 4 << 20 };
    int s[2], f = open("zeroes", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(f >= 0 && ftruncate(f, SIZE) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    struct sigaction sa = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    ualarm(50000, 0);
    ssize_t n = sendfile(s[1], f, NULL, SIZE);
    CHECK(n > 0 && n < SIZE);
    SAME(lseek(f, 0, SEEK_CUR), n);
    static char b[65536];
    ssize_t got, total = 0;
    while ((got = recv(s[0], b, sizeof b, MSG_DONTWAIT)) > 0)
        total += got;
    SAME(total, n);
    close(s[0]), close(s[1]), close(f), unlink("zeroes");
}

static void copies_between_files(void) {
    int f = file_with("f", "0123456789", 10), g = file_with("g", "", 0);
    char b[16] = {0};
    loff_t from = 2, to = 1;
    SAME(copy_file_range(f, &from, g, &to, 100, 0), 8);
    SAME(from, 10);
    SAME(to, 9);
    SAME(pread(g, b, 16, 0), 9);
    CHECK(memcmp(b, "\00023456789", 9) == 0);
    from = 0, to = 2;
    FAILS(copy_file_range(f, &from, f, &to, 5, 0), EINVAL); /* they overlap */
    FAILS(copy_file_range(f, NULL, g, NULL, 1, 1), EINVAL);
    close(f), close(g), unlink("f"), unlink("g");
}

GUEST_WITH(scratch_enter(), T(a_socket_into_a_pipe_and_on), T(files_and_pipes), T(a_full_pipe_takes_what_fits),
           T(tee_leaves_what_it_copies), T(vmsplice_moves_memory), T(sendfile_waits_and_loses_nothing),
           T(an_interrupted_sendfile_keeps_its_position), T(copies_between_files))
