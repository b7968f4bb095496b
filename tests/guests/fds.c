/* Descriptors: duplication, flags, close-on-exec. dup(2), fcntl(2). */
#include "guest.h"
#include <sys/ioctl.h>
#include <sys/resource.h>

static void dup2_and_dup3(void) {
    int a = open("/dev/null", O_RDONLY);
    CHECK(a >= 0);
    SAME(dup2(a, 50), 50);
    SAME(dup2(a, a), a);
    FAILS(dup2(999, 999), EBADF);
    FAILS(dup2(a, -1), EBADF);
    SAME(dup3(a, 51, O_CLOEXEC), 51);
    SAME(fcntl(51, F_GETFD), FD_CLOEXEC);
    SAME(fcntl(50, F_GETFD), 0);
    FAILS(dup3(a, a, 0), EINVAL);
    int z = open("/dev/zero", O_RDONLY);
    SAME(dup2(z, 50), 50); /* closes what was there */
    char c = 1;
    SAME(read(50, &c, 1), 1);
    SAME(c, 0);
    close(a), close(z), close(50), close(51);
}

static void fcntl_duplicates(void) {
    int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
    SAME(fcntl(a, F_GETFD), FD_CLOEXEC);
    SAME(fcntl(a, F_DUPFD, 100), 100);
    SAME(fcntl(a, F_DUPFD, 100), 101);
    SAME(fcntl(100, F_GETFD), 0);
    SAME(fcntl(a, F_DUPFD_CLOEXEC, 100), 102);
    SAME(fcntl(102, F_GETFD), FD_CLOEXEC);
    FAILS(fcntl(a, F_DUPFD, -1), EINVAL);
    CHECK(fcntl(a, F_SETFD, 0) == 0);
    SAME(fcntl(a, F_GETFD), 0);
    close(a), close(100), close(101), close(102);
}

static void status_flags(void) {
    int p[2];
    CHECK(pipe2(p, O_NONBLOCK | O_CLOEXEC) == 0);
    SAME(fcntl(p[0], F_GETFL), O_RDONLY | O_NONBLOCK);
    SAME(fcntl(p[1], F_GETFL), O_WRONLY | O_NONBLOCK);
    SAME(fcntl(p[0], F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(p[0], F_SETFL, 0) == 0);
    SAME(fcntl(p[0], F_GETFL) & O_NONBLOCK, 0);
    int twin = dup(p[1]); /* status flags belong to the open file, not to the descriptor */
    CHECK(fcntl(twin, F_SETFL, 0) == 0);
    SAME(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0);
    int on = 1;
    CHECK(ioctl(p[0], FIONBIO, &on) == 0);
    SAME(fcntl(p[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK(ioctl(p[0], FIOCLEX) == 0);
    SAME(fcntl(p[0], F_GETFD), FD_CLOEXEC);
    close(p[0]), close(p[1]), close(twin);
    FAILS(fcntl(p[0], F_GETFL), EBADF);
    FAILS(fcntl(1, 12345), EINVAL);
}

static void access_mode_of_files(void) {
    int f = open("/dev/null", O_WRONLY | O_APPEND);
    SAME(fcntl(f, F_GETFL) & (O_ACCMODE | O_APPEND), O_WRONLY | O_APPEND);
    CHECK(fcntl(f, F_SETFL, O_RDWR) == 0); /* the access mode cannot change */
    SAME(fcntl(f, F_GETFL) & (O_ACCMODE | O_APPEND), O_WRONLY);
    close(f);
}

static void limit_of_descriptors(void) {
    struct rlimit old, r;
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    r = old;
    r.rlim_cur = 40;
    CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0);
    int n = 0, last = -1, f;
    while ((f = open("/dev/null", O_RDONLY)) >= 0 && n < 100)
        last = f, n++;
    SAME(errno, EMFILE);
    SAME(last, 39);
    FAILS(dup2(1, 40), EBADF);
    for (f = 40 - n; f < 40; f++)
        close(f);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
}

static void no_notification(void) {
    int dir = open("/", O_RDONLY | O_DIRECTORY), p[2];
    CHECK(dir >= 0 && pipe(p) == 0);
    SAME(fcntl(dir, F_NOTIFY, 0), 0);
    SAME(fcntl(dir, F_NOTIFY, 0x80000000L), 0); /* DN_MULTISHOT alone */
    SAME(fcntl(p[0], F_NOTIFY, 0), 0);
    FAILS(fcntl(p[0], F_NOTIFY, 1), ENOTDIR);
    close(dir), close(p[0]), close(p[1]);
}

static void not_a_terminal(void) {
    int f = open("/dev/null", O_RDONLY);
    SAME(isatty(f), 0);
    SAME(errno, ENOTTY);
    close(f);
    SAME(isatty(999), 0);
    SAME(errno, EBADF);
}

static void close_range_of_them(void) {
    for (int i = 60; i < 70; i++)
        SAME(dup2(1, i), i);
    SAME(syscall(436 /* close_range, unknown to older headers */, 62, 67, 0), 0);
    for (int i = 60; i < 70; i++)
        SAME(fcntl(i, F_GETFD), i >= 62 && i <= 67 ? -1 : 0);
    close(60), close(61), close(68), close(69);
}

GUEST(T(dup2_and_dup3), T(fcntl_duplicates), T(status_flags), T(access_mode_of_files), T(limit_of_descriptors),
      T(no_notification), T(not_a_terminal), T(close_range_of_them))
