/* Sparse files, limits, seals, attributes, files without names: fallocate(2), lseek(2), setrlimit(2), fcntl(2), xattr(7). */
#include "guest.h"
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/xattr.h>

enum { K = 1024 };

static void holes_are_told_from_data(void) {
    struct stat st;
    int f = open("sparse", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(f >= 0);
    SAME(pwrite(f, "x", 1, 1024 * K), 1);
    CHECK(fsync(f) == 0 && fstat(f, &st) == 0);
    SAME(st.st_size, 1024 * K + 1);
    CHECK(st.st_blocks * 512 <= 64 * K); /* not a megabyte */
    SAME(lseek(f, 0, SEEK_HOLE), 0);
    SAME(lseek(f, 0, SEEK_DATA), 1024 * K);
    SAME(lseek(f, 1024 * K, SEEK_HOLE), 1024 * K + 1);
    FAILS(lseek(f, 2048 * K, SEEK_DATA), ENXIO);
    close(f), unlink("sparse");
}

static void punched_holes_read_as_zeroes(void) {
    static char b[256 * K], zero[64 * K];
    memset(b, 'x', sizeof b);
    int f = open("punch", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAME(write(f, b, sizeof b), sizeof b);
    CHECK(fsync(f) == 0);
    CHECK(fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 64 * K, 64 * K) == 0);
    SAME(lseek(f, 0, SEEK_HOLE), 64 * K);
    SAME(lseek(f, 64 * K, SEEK_DATA), 128 * K);
    SAME(pread(f, b, 64 * K, 64 * K), 64 * K);
    CHECK(memcmp(b, zero, 64 * K) == 0);
    SAME(lseek(f, 0, SEEK_END), 256 * K);
    SAME(pread(f, b, 1, 128 * K), 1);
    CHECK(b[0] == 'x');
    FAILS(fallocate(f, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
    CHECK(fallocate(f, 0, 256 * K, 10) == 0);
    SAME(lseek(f, 0, SEEK_END), 256 * K + 10);
    FAILS(lseek(f, 256 * K, SEEK_DATA), ENXIO);
    SAME(pwrite(f, "x", 1, 256 * K + 5), 1);
    SAME(lseek(f, 256 * K, SEEK_DATA), 256 * K);
    CHECK(fallocate(f, FALLOC_FL_KEEP_SIZE, 512 * K, 10) == 0);
    SAME(lseek(f, 0, SEEK_END), 256 * K + 10);
    FAILS(fallocate(f, 0, -1, 10), EINVAL);
    close(f), unlink("punch");
}

static void zeroed_ranges_make_no_data(void) {
    int f = open("zeroed", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fallocate(f, 0x10 /* FALLOC_FL_ZERO_RANGE */, 0, 8 * K) != 0) { /* tmpfs has none */
        SAME(errno, EOPNOTSUPP);
    } else {
        SAME(lseek(f, 0, SEEK_END), 8 * K);
        FAILS(lseek(f, 10, SEEK_DATA), ENXIO);
        SAME(pwrite(f, "x", 1, 4 * K), 1);
        SAME(lseek(f, 0, SEEK_DATA), 4 * K);
    }
    close(f), unlink("zeroed");
}

static volatile int over;
static void on_over(int signal) { (void)signal; over++; }

static void files_have_a_limit(void) {
    struct rlimit old, low;
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    low = old, low.rlim_cur = 1000;
    struct sigaction sa = {.sa_handler = on_over}, before;
    sigaction(SIGXFSZ, &sa, &before);
    int f = open("limited", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char b[600] = {0};
    over = 0;
    setrlimit(RLIMIT_FSIZE, &low);
    ssize_t first = write(f, b, 600), second = write(f, b, 600);
    errno = 0;
    ssize_t third = write(f, b, 1);
    int e3 = errno;
    errno = 0;
    int cut = ftruncate(f, 2000), e4 = errno;
    setrlimit(RLIMIT_FSIZE, &old);
    sigaction(SIGXFSZ, &before, NULL);
    SAME(first, 600);
    SAME(second, 400);
    SAME(third, -1);
    SAME(e3, EFBIG);
    SAME(cut, -1);
    SAME(e4, EFBIG);
    SAME(over, 2);
    close(f), unlink("limited");
}

static void seals_hold(void) {
    int f = memfd_create("sealed", MFD_ALLOW_SEALING);
    CHECK(f >= 0);
    SAME(fcntl(f, F_GET_SEALS), 0);
    SAME(write(f, "abc", 3), 3);
    CHECK(fcntl(f, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    char again[32];
    snprintf(again, sizeof again, "/proc/self/fd/%d", f);
    FAILS(open(again, O_RDWR | O_TRUNC), EPERM);
    FAILS(ftruncate(f, 1), EPERM);
    CHECK(ftruncate(f, 10) == 0);
    CHECK(fcntl(f, F_ADD_SEALS, F_SEAL_GROW) == 0);
    FAILS(ftruncate(f, 11), EPERM);
    char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    CHECK(m != MAP_FAILED);
    FAILS(fcntl(f, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    munmap(m, 4096);
    CHECK(fcntl(f, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0);
    FAILS(pwrite(f, "x", 1, 0), EPERM);
    FAILS(fcntl(f, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) == MAP_FAILED && errno == EPERM);
    SAME(fcntl(f, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    close(f);
    f = memfd_create("plain", 0);
    SAME(fcntl(f, F_GET_SEALS), F_SEAL_SEAL);
    char path[64], name[64] = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    CHECK(readlink(path, name, sizeof name - 1) > 0);
    CHECK(strcmp(name, "/memfd:plain (deleted)") == 0);
    close(f);
}

static void removed_files_live_while_they_are_open(void) {
    struct stat st;
    char b[8] = {0}, path[64], name[4096] = {0};
    int f = open("gone", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAME(write(f, "still", 5), 5);
    CHECK(unlink("gone") == 0 && fstat(f, &st) == 0);
    SAME(st.st_nlink, 0);
    SAME(pread(f, b, 8, 0), 5);
    SAME(write(f, "!", 1), 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    CHECK(readlink(path, name, sizeof name - 1) > 0 && strstr(name, "/gone (deleted)") != NULL);
    int again = open(path, O_RDONLY); /* the same file, at a position of its own */
    CHECK(again >= 0);
    SAME(read(again, b, 8), 6);
    CHECK(memcmp(b, "still!", 6) == 0);
    FAILS(linkat(AT_FDCWD, path, AT_FDCWD, "back", AT_SYMLINK_FOLLOW), ENOENT);
    close(f), close(again);
}

static void unnamed_files_can_be_given_names(void) {
    struct stat st;
    char path[64];
    int f = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(f >= 0);
    SAME(write(f, "named", 5), 5);
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "name", AT_SYMLINK_FOLLOW) == 0);
    CHECK(stat("name", &st) == 0);
    SAME(st.st_size, 5);
    SAME(st.st_nlink, 1);
    SAME(write(f, "+", 1), 1);
    CHECK(stat("name", &st) == 0);
    SAME(st.st_size, 6);
    close(f), unlink("name");
}

static void extended_attributes(void) {
    char b[64];
    int f = open("attr", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(f >= 0);
    if (setxattr("attr", "user.one", "1", 1, 0) != 0 && errno == EOPNOTSUPP)
        goto out; /* a file system without */
    FAILS(setxattr("attr", "user.one", "2", 1, XATTR_CREATE), EEXIST);
    FAILS(setxattr("attr", "user.two", "2", 1, XATTR_REPLACE), ENODATA);
    CHECK(fsetxattr(f, "user.two", "second", 6, XATTR_CREATE) == 0);
    SAME(getxattr("attr", "user.two", NULL, 0), 6);
    SAME(fgetxattr(f, "user.two", b, sizeof b), 6);
    CHECK(memcmp(b, "second", 6) == 0);
    FAILS(getxattr("attr", "user.two", b, 3), ERANGE);
    FAILS(getxattr("attr", "user.none", b, 3), ENODATA);
    SAME(listxattr("attr", b, sizeof b), 18);
    CHECK(removexattr("attr", "user.one") == 0);
    FAILS(removexattr("attr", "user.one"), ENODATA);
    FAILS(setxattr("attr", "nonsense", "1", 1, 0), EOPNOTSUPP);
out:
    close(f), unlink("attr");
}

static void directories_count_their_links(void) {
    struct stat st;
    CHECK(mkdir("links", 0755) == 0 && mkdir("links/a", 0755) == 0 && mkdir("links/b", 0755) == 0);
    CHECK(stat("links", &st) == 0);
    CHECK(st.st_nlink == 4 || st.st_nlink == 1); /* some file systems do not count */
    CHECK(rename("links/a", "a") == 0 && stat("links", &st) == 0);
    CHECK(st.st_nlink == 3 || st.st_nlink == 1);
    CHECK(rmdir("a") == 0 && rmdir("links/b") == 0 && rmdir("links") == 0);
}

static void leases_and_direct_io(void) {
    int f = open("direct", O_RDWR | O_CREAT | O_TRUNC | O_SYNC, 0644);
    CHECK(f >= 0);
    SAME(write(f, "sync", 4), 4);
    CHECK((fcntl(f, F_GETFL) & O_SYNC) == O_SYNC);
    SAME(fcntl(f, F_GETLEASE), F_UNLCK);
    close(f);
    f = open("direct", O_RDWR | O_DIRECT);
    if (f >= 0) {
        char *b = aligned_alloc(4096, 4096);
        memset(b, 'd', 4096);
        SAME(pwrite(f, b, 4096, 0), 4096);
        SAME(pread(f, b, 4096, 0), 4096);
        free(b);
        close(f);
    }
    unlink("direct");
}

static int lock(int f, int kind, off_t start) {
    struct flock l = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
    return fcntl(f, F_SETLKW, &l);
}

/* Two processes want what the other has: the second is told. */
static void record_locks_see_deadlocks(void) {
    int p[2], f = open("locks", O_RDWR | O_CREAT, 0644);
    CHECK(f >= 0 && pipe(p) == 0 && lock(f, F_WRLCK, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        lock(f, F_WRLCK, 1);
        write(p[1], "x", 1);
        lock(f, F_WRLCK, 0); /* waits for the parent */
        _exit(0);
    }
    CHECK(child > 0);
    char b;
    SAME(read(p[0], &b, 1), 1);
    sleep_ms(100);
    FAILS(lock(f, F_WRLCK, 1), EDEADLK);
    CHECK(lock(f, F_UNLCK, 0) == 0);
    int status;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    close(f), close(p[0]), close(p[1]), unlink("locks");
}

GUEST_WITH(scratch_enter(), T(holes_are_told_from_data), T(punched_holes_read_as_zeroes), T(zeroed_ranges_make_no_data), T(files_have_a_limit),
           T(seals_hold), T(removed_files_live_while_they_are_open), T(unnamed_files_can_be_given_names),
           T(extended_attributes), T(directories_count_their_links), T(leases_and_direct_io),
           T(record_locks_see_deadlocks))
