/* Descriptors: duplication, flags, close-on-exec. dup(2), fcntl(2). */
#include "guest.h"
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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

static int ends[2];
static char got[8];

static volatile int waiter;

/* Until the other thread sleeps in its call. */
static void until_it_waits(void) {
    char path[64], text[256] = "", *state;
    do {
        sleep_ms(1);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", waiter);
        int fd = open(path, O_RDONLY);
        if (fd >= 0) {
            ssize_t len = read(fd, text, sizeof text - 1);
            text[len < 0 ? 0 : len] = 0;
            close(fd);
        }
        state = strrchr(text, ')');
    } while (state == NULL || state[2] != 'S');
}

static void *reads(void *unused) {
    (void)unused;
    waiter = (int)syscall(SYS_gettid);
    return (void *)(long)read(ends[0], got, 1);
}

static void *polls(void *unused) {
    (void)unused;
    waiter = (int)syscall(SYS_gettid);
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    return (void *)(long)(poll(&p, 1, 5000) == 1 ? p.revents : -1);
}

/* A call goes on with the file that it found, whatever becomes of the descriptor meanwhile. poll keeps the file as well, but
 * looks at the descriptor again when it is woken. */
static void closed_by_another_thread(void) {
    void *(*const waits[])(void *) = {reads, polls};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *result;
        waiter = 0;
        CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, waits[i], NULL) == 0);
        until_it_waits();
        /* another file under the same number */
        int other = open("/dev/null", O_RDONLY);
        CHECK(other >= 0 && dup2(other, ends[0]) == ends[0] && close(other) == 0);
        signal(SIGPIPE, SIG_IGN);
        SAME(write(ends[1], "x", 1), 1);
        CHECK(pthread_join(thread, &result) == 0);
        SAME((long)result, i == 0 ? 1 : POLLIN); /* a null device has always got something */
        CHECK(i == 1 || got[0] == 'x');
        /* now it is closed for good */
        FAILS(write(ends[1], "x", 1), EPIPE);
        close(ends[0]), close(ends[1]);
        /* and so, when nothing has taken its place */
        waiter = 0;
        CHECK(pipe(ends) == 0 && pthread_create(&thread, NULL, waits[i], NULL) == 0);
        until_it_waits();
        CHECK(close(ends[0]) == 0);
        SAME(write(ends[1], "y", 1), 1);
        CHECK(pthread_join(thread, &result) == 0);
        SAME((long)result, i == 0 ? 1 : POLLNVAL);
        FAILS(write(ends[1], "x", 1), EPIPE);
        close(ends[1]);
    }
}

static void who_created_a_file(void) {
    enum { CREATED = 1028 }; /* F_CREATED_QUERY, since Linux 6.12 */
    int null = open("/dev/null", O_RDONLY), first = open("created", O_CREAT | O_RDONLY, 0600);
    int second = open("created", O_CREAT | O_RDONLY, 0600), copy = dup(first), path = open("created", O_PATH);
    CHECK(null >= 0 && first >= 0 && second >= 0 && copy >= 0 && path >= 0);
    if (fcntl(null, CREATED) == -1 && errno == EINVAL && may_lack_calls())
        return;
    SAME(fcntl(null, CREATED), 0);
    SAME(fcntl(first, CREATED), 1);
    SAME(fcntl(copy, CREATED), 1);
    SAME(fcntl(second, CREATED), 0);
    SAME(fcntl(path, CREATED), 0);
    enum { SAME_FILE = 1027 }; /* F_DUPFD_QUERY, since Linux 6.10 */
    SAME(fcntl(first, SAME_FILE, copy), 1);
    SAME(fcntl(path, SAME_FILE, path), 1);
    SAME(fcntl(first, SAME_FILE, second), 0);
    FAILS(fcntl(first, SAME_FILE, -1), EBADF);
    close(null), close(first), close(second), close(copy), close(path), unlink("created");
}

GUEST(T(closed_by_another_thread), T(dup2_and_dup3), T(fcntl_duplicates), T(status_flags), T(access_mode_of_files), T(limit_of_descriptors),
      T(no_notification), T(not_a_terminal), T(close_range_of_them), T(who_created_a_file))
