/* Calls that have a younger or a more general twin: inotify_init(2), utime(2), and xattr(7) by descriptor and on links. */
#include "guest.h"
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

static void attributes(void) {
    char b[100];
    int f = open("attributes", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(f >= 0 && (symlink("attributes", "link") == 0 || errno == EEXIST));
    if (lsetxattr("attributes", "user.one", "1", 1, 0) != 0 && errno == EOPNOTSUPP)
        return; /* not on this file system */
    SAME(lgetxattr("attributes", "user.one", b, sizeof b), 1);
    SAME(llistxattr("attributes", b, sizeof b), 9);
    CHECK(strcmp(b, "user.one") == 0);
    SAME(flistxattr(f, b, sizeof b), 9);
    SAME(flistxattr(f, NULL, 0), 9);
    FAILS(flistxattr(f, b, 3), ERANGE);
    /* The link itself may have none of these; through it the file is meant. */
    FAILS(lsetxattr("link", "user.one", "2", 1, 0), EPERM);
    FAILS(lgetxattr("link", "user.one", b, sizeof b), ENODATA);
    SAME(llistxattr("link", b, sizeof b), 0);
    SAME(getxattr("link", "user.one", b, sizeof b), 1);
    FAILS(lremovexattr("link", "user.one"), EPERM);
    CHECK(fsetxattr(f, "user.two", "22", 2, 0) == 0);
    CHECK(fremovexattr(f, "user.two") == 0);
    FAILS(fremovexattr(f, "user.two"), ENODATA);
    CHECK(lremovexattr("attributes", "user.one") == 0);
    SAME(flistxattr(f, b, sizeof b), 0);
    FAILS(fremovexattr(-1, "user.two"), EBADF);
    CHECK(close(f) == 0);
}

static void times(void) {
    struct stat s;
    struct utimbuf seconds = {.actime = 1000, .modtime = 2000};
    struct timeval fine[2] = {{3000, 250000}, {4000, 750000}};
    int f = open("times", O_CREAT | O_RDWR, 0600);
    CHECK(f >= 0 && close(f) == 0);
    CHECK(syscall(SYS_utime, "times", &seconds) == 0 && stat("times", &s) == 0);
    SAME(s.st_atime, 1000);
    SAME(s.st_mtime, 2000);
    SAME(s.st_mtim.tv_nsec, 0);
    CHECK(syscall(SYS_utimes, "times", fine) == 0 && stat("times", &s) == 0);
    SAME(s.st_atim.tv_nsec, 250000000);
    SAME(s.st_mtime, 4000);
    SAME(s.st_mtim.tv_nsec, 750000000);
    fine[1].tv_usec = 1000000;
    FAILS(syscall(SYS_utimes, "times", fine), EINVAL);
    FAILS(syscall(SYS_utime, "none", &seconds), ENOENT);
    CHECK(syscall(SYS_utime, "times", NULL) == 0 && stat("times", &s) == 0);
    CHECK(s.st_mtime > 4000);
}

static void watches(void) {
    int n = syscall(SYS_inotify_init);
    CHECK(n >= 0);
    SAME(fcntl(n, F_GETFD), 0);
    SAME(fcntl(n, F_GETFL) & O_NONBLOCK, 0);
    CHECK(inotify_add_watch(n, ".", IN_CREATE) > 0);
    int f = open("watched", O_CREAT | O_EXCL | O_WRONLY, 0600);
    CHECK(f >= 0 && close(f) == 0);
    union {
        struct inotify_event event;
        char bytes[300];
    } got;
    CHECK(read(n, &got, sizeof got) > 0);
    SAME(got.event.mask, IN_CREATE);
    CHECK(strcmp(got.bytes + sizeof got.event, "watched") == 0);
    CHECK(close(n) == 0 && unlink("watched") == 0);
}

GUEST_WITH(scratch_enter(), T(attributes), T(times), T(watches))
