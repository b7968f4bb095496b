/* Regular files: open flags, offsets, appending, truncation. open(2), read(2), lseek(2), ftruncate(2). */
#include "guest.h"
#include <sys/uio.h>

static int file_with(const char *name, const char *content) {
    int f = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (f >= 0 && write(f, content, strlen(content)) != (ssize_t)strlen(content)) {
        close(f);
        return -1;
    }
    return f;
}

static void open_flags(void) {
    FAILS(open("none", O_RDONLY), ENOENT);
    int f = open("a", O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(f >= 0);
    FAILS(open("a", O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST);
    SAME(write(f, "hello", 5), 5);
    char b[8];
    FAILS(read(f, b, 1), EBADF);
    close(f);
    f = open("a", O_RDONLY);
    CHECK(f >= 0);
    FAILS(write(f, "x", 1), EBADF);
    close(f);
    f = open("a", O_RDWR | O_TRUNC);
    struct stat st;
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_size, 0);
    close(f);
    FAILS(open("a", O_RDONLY | O_DIRECTORY), ENOTDIR);
    FAILS(open("a/b", O_RDONLY), ENOTDIR);
    FAILS(open("", O_RDONLY), ENOENT);
    FAILS(open(".", O_WRONLY), EISDIR);
    FAILS(open((char *)8, O_RDONLY), EFAULT);
    CHECK(unlink("a") == 0);
}

static void lowest_descriptor_first(void) {
    int a = open("/dev/null", O_RDONLY), b = open("/dev/null", O_RDONLY), c = open("/dev/null", O_RDONLY);
    CHECK(a >= 0 && b == a + 1 && c == b + 1);
    close(a);
    close(b);
    SAME(open("/dev/null", O_RDONLY), a);
    SAME(dup(c), b);
    close(a), close(b), close(c);
    FAILS(close(c), EBADF);
}

static void offsets(void) {
    int f = file_with("o", "0123456789");
    CHECK(f >= 0);
    SAME(lseek(f, 0, SEEK_CUR), 10);
    SAME(lseek(f, 3, SEEK_SET), 3);
    char b[16] = {0};
    SAME(read(f, b, 4), 4);
    CHECK(memcmp(b, "3456", 4) == 0);
    SAME(lseek(f, -2, SEEK_CUR), 5);
    SAME(lseek(f, -1, SEEK_END), 9);
    SAME(read(f, b, 10), 1);
    SAME(read(f, b, 10), 0);
    FAILS(lseek(f, -1, SEEK_SET), EINVAL);
    FAILS(lseek(f, 0, 99), EINVAL);
    SAME(lseek(f, 15, SEEK_SET), 15);
    SAME(write(f, "x", 1), 1); /* leaves a hole of zeros */
    SAME(pread(f, b, 16, 8), 8);
    CHECK(memcmp(b, "89\0\0\0\0\0x", 8) == 0);
    SAME(lseek(f, 0, SEEK_CUR), 16); /* pread does not move it */
    SAME(pwrite(f, "AB", 2, 0), 2);
    SAME(pread(f, b, 3, 0), 3);
    CHECK(memcmp(b, "AB2", 3) == 0);
    FAILS(pread(f, b, 1, -1), EINVAL);
    SAME(pread(f, b, 1, 1000), 0);
    close(f);
    CHECK(unlink("o") == 0);
}

static void duplicates_share_the_offset(void) {
    int f = file_with("d", "abcdef"), g = dup(f), h = open("d", O_RDONLY);
    CHECK(f >= 0 && g >= 0 && h >= 0);
    CHECK(lseek(f, 2, SEEK_SET) == 2);
    char c;
    SAME(read(g, &c, 1), 1);
    SAME(c, 'c');
    SAME(lseek(f, 0, SEEK_CUR), 3);
    SAME(lseek(h, 0, SEEK_CUR), 0);
    close(f), close(g), close(h);
    CHECK(unlink("d") == 0);
}

static void append(void) {
    int f = file_with("p", "one"), g = open("p", O_WRONLY | O_APPEND);
    CHECK(f >= 0 && g >= 0);
    SAME(write(f, "+", 1), 1);
    SAME(write(g, "two", 3), 3);
    SAME(lseek(g, 0, SEEK_SET), 0);
    SAME(write(g, "!", 1), 1);
    char b[16] = {0};
    SAME(pread(f, b, sizeof b, 0), 8);
    CHECK(strcmp(b, "one+two!") == 0);
    close(f), close(g);
    CHECK(unlink("p") == 0);
}

static void truncation(void) {
    int f = file_with("t", "abcdef");
    CHECK(f >= 0 && ftruncate(f, 2) == 0);
    struct stat st;
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_size, 2);
    CHECK(truncate("t", 5) == 0);
    char b[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    SAME(pread(f, b, 8, 0), 5);
    CHECK(memcmp(b, "ab\0\0\0", 5) == 0);
    FAILS(ftruncate(f, -1), EINVAL);
    int r = open("t", O_RDONLY);
    FAILS(ftruncate(r, 0), EINVAL);
    FAILS(truncate("nothere", 0), ENOENT);
    FAILS(truncate(".", 0), EISDIR);
    close(f), close(r);
    CHECK(unlink("t") == 0);
}

static void vectors(void) {
    int f = file_with("v", "");
    struct iovec w[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}};
    SAME(writev(f, w, 3), 6);
    char x[3], y[16];
    struct iovec r[2] = {{x, 3}, {y, 16}};
    SAME(preadv(f, r, 2, 1), 5);
    CHECK(memcmp(x, "bcd", 3) == 0 && memcmp(y, "ef", 2) == 0);
    lseek(f, 0, SEEK_SET);
    SAME(readv(f, r, 2), 6);
    FAILS(readv(f, r, -1), EINVAL);
    SAME(readv(f, r, 0), 0);
    close(f);
    CHECK(unlink("v") == 0);
}

static void unlinked_file_lives_on(void) {
    int f = file_with("u", "still here");
    CHECK(f >= 0 && unlink("u") == 0);
    FAILS(open("u", O_RDONLY), ENOENT);
    char b[16] = {0};
    SAME(pread(f, b, sizeof b, 0), 10);
    struct stat st;
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_nlink, 0);
    close(f);
}

static void big_file(void) {
    enum { N = 1 << 20 };
    static unsigned char out[N], in[N];
    for (int i = 0; i < N; i++)
        out[i] = (unsigned char)(i * 2654435761u >> 13);
    int f = open("big", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(f >= 0);
    for (int i = 0; i < 4; i++)
        SAME(write(f, out, N), N);
    CHECK(lseek(f, 0, SEEK_SET) == 0);
    size_t total = 0;
    ssize_t n;
    while ((n = read(f, in + total % N, 65536)) > 0)
        total += (size_t)n;
    SAME(total, 4 * N);
    CHECK(memcmp(in, out, N) == 0);
    close(f);
    CHECK(unlink("big") == 0);
}

static void bad_buffers(void) {
    int f = file_with("b", "data");
    CHECK(f >= 0 && lseek(f, 0, SEEK_SET) == 0);
    FAILS(read(f, (void *)16, 4), EFAULT);
    FAILS(write(f, (void *)16, 4), EFAULT);
    FAILS(read(999, &f, 1), EBADF);
    FAILS(write(-1, &f, 1), EBADF);
    SAME(read(f, NULL, 0), 0);
    close(f);
    CHECK(unlink("b") == 0);
}

static void devices(void) {
    char b[64];
    int n = open("/dev/null", O_RDWR), z = open("/dev/zero", O_RDONLY), r = open("/dev/urandom", O_RDONLY);
    CHECK(n >= 0 && z >= 0 && r >= 0);
    SAME(read(n, b, sizeof b), 0);
    SAME(write(n, b, sizeof b), sizeof b);
    memset(b, 1, sizeof b);
    SAME(read(z, b, sizeof b), sizeof b);
    for (size_t i = 0; i < sizeof b; i++)
        SAME(b[i], 0);
    SAME(read(r, b, sizeof b), sizeof b);
    int same = 1;
    for (size_t i = 1; i < sizeof b; i++)
        same &= b[i] == b[0];
    CHECK(!same);
    struct stat st;
    CHECK(fstat(n, &st) == 0 && S_ISCHR(st.st_mode));
    close(n), close(z), close(r);
}

static void stdio_over_it(void) {
    FILE *f = fopen("s", "w+");
    CHECK(f != NULL);
    for (int i = 0; i < 10000; i++)
        CHECK(fprintf(f, "line %d\n", i) > 0);
    rewind(f);
    char line[64];
    int n = 0, value;
    while (fgets(line, sizeof line, f) != NULL) {
        CHECK(sscanf(line, "line %d", &value) == 1);
        SAME(value, n++);
    }
    SAME(n, 10000);
    fclose(f);
    CHECK(unlink("s") == 0);
}

GUEST_WITH(scratch_enter(), T(open_flags), T(lowest_descriptor_first), T(offsets), T(duplicates_share_the_offset),
           T(append), T(truncation), T(vectors), T(unlinked_file_lives_on), T(big_file), T(bad_buffers), T(devices),
           T(stdio_over_it))
