/* sendfile(2), and what servers do with large files and sockets. */
#include "guest.h"
#include <sys/sendfile.h>
#include <sys/socket.h>

enum { N = 300000 };
static unsigned char pattern[N];
static int file_with_pattern(void) {
    for (int i = 0; i < N; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 251);
    int f = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    return f >= 0 && write(f, pattern, N) == N && lseek(f, 0, SEEK_SET) == 0 ? f : -1;
}

static void *drain(void *fd) {
    static unsigned char got[N];
    size_t n = 0;
    ssize_t r;
    while (n < N && (r = read(*(int *)fd, got + n, N - n)) > 0)
        n += (size_t)r;
    TCHECK(n == N && memcmp(got, pattern, N) == 0);
    return (void *)1;
}

static void file_to_socket(void) {
    int f = file_with_pattern(), sv[2];
    pthread_t t;
    void *ok;
    CHECK(f >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0 && pthread_create(&t, NULL, drain, &sv[1]) == 0);
    off_t at = 0;
    while (at < N)
        CHECK(sendfile(sv[0], f, &at, (size_t)(N - at)) > 0);
    SAME(lseek(f, 0, SEEK_CUR), 0); /* with an offset of one's own the file's stays */
    pthread_join(t, &ok);
    CHECK(ok != NULL);
    close(f), close(sv[0]), close(sv[1]);
    CHECK(unlink("f") == 0);
}

static void moves_the_offset(void) {
    int f = file_with_pattern(), p[2];
    char b[100];
    CHECK(pipe(p) == 0);
    SAME(sendfile(p[1], f, NULL, 100), 100);
    SAME(lseek(f, 0, SEEK_CUR), 100);
    SAME(read(p[0], b, 100), 100);
    CHECK(memcmp(b, pattern, 100) == 0);
    CHECK(lseek(f, -10, SEEK_END) == N - 10);
    SAME(sendfile(p[1], f, NULL, 100), 10); /* up to the end of the file */
    SAME(sendfile(p[1], f, NULL, 100), 0);
    FAILS(sendfile(f, p[0], NULL, 10), EINVAL); /* nothing to map in a pipe */
    FAILS(sendfile(p[1], 999, NULL, 10), EBADF);
    close(f), close(p[0]), close(p[1]);
    CHECK(unlink("f") == 0);
}

static void to_a_full_pipe(void) {
    int f = file_with_pattern(), p[2];
    CHECK(pipe2(p, O_NONBLOCK) == 0);
    long total = 0;
    ssize_t n;
    while ((n = sendfile(p[1], f, NULL, N)) > 0)
        total += n;
    SAME(errno, EAGAIN);
    CHECK(total > 0 && total <= 65536);
    SAME(lseek(f, 0, SEEK_CUR), total);
    close(f), close(p[0]), close(p[1]);
    CHECK(unlink("f") == 0);
}

GUEST_WITH(scratch_enter(), T(file_to_socket), T(moves_the_offset), T(to_a_full_pipe))
