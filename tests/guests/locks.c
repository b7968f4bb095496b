/* Advisory locks between processes and between open files. fcntl(2) "Advisory record locking",
 * flock(2). */
#include "guest.h"
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>

extern char **environ;
static char *self;

static struct flock range(short type, off_t start, off_t len) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

/* What the child process does: tells by its exit status what it found. */
static int child(const char *what) {
    int f = open("lock", O_RDWR);
    struct flock l = range(F_WRLCK, 0, 10);
    if (strcmp(what, "try") == 0)
        return fcntl(f, F_SETLK, &l) == 0 ? 0 : errno == EAGAIN ? 1 : 2;
    if (strcmp(what, "ask") == 0)
        return fcntl(f, F_GETLK, &l) == 0 && l.l_type == F_WRLCK && l.l_pid == getppid() && l.l_start == 5 && l.l_len == 0;
    if (strcmp(what, "wait") == 0)
        return fcntl(f, F_SETLKW, &l) == 0 ? 0 : 2;
    if (strcmp(what, "flock-try") == 0)
        return flock(f, LOCK_EX | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? 1 : 2;
    if (strcmp(what, "flock-wait") == 0)
        return flock(f, LOCK_EX) == 0 ? 0 : 2;
    return 3;
}

static pid_t start(char *what) {
    char *argv[] = {self, "child", what, NULL};
    pid_t pid;
    return posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0 ? pid : -1;
}

static int status_of(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void records_exclude_other_processes(void) {
    int f = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock l = range(F_WRLCK, 5, 0);
    CHECK(f >= 0 && fcntl(f, F_SETLK, &l) == 0);
    SAME(status_of(start("try")), 1);
    SAME(status_of(start("ask")), 1);
    l = range(F_UNLCK, 0, 10);
    CHECK(fcntl(f, F_SETLK, &l) == 0);
    SAME(status_of(start("try")), 0);
    /* Closing any descriptor of the file drops the process's locks on it. */
    l = range(F_WRLCK, 0, 10);
    CHECK(fcntl(f, F_SETLK, &l) == 0 && close(open("lock", O_RDONLY)) == 0);
    SAME(status_of(start("try")), 0);
    CHECK(close(f) == 0 && unlink("lock") == 0);
}

static void records_are_waited_for(void) {
    int f = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600), status;
    struct flock l = range(F_RDLCK, 0, 1);
    CHECK(f >= 0 && fcntl(f, F_SETLK, &l) == 0);
    pid_t pid = start("wait");
    CHECK(pid > 0);
    sleep_ms(200);
    SAME(waitpid(pid, &status, WNOHANG), 0);
    CHECK(close(f) == 0);
    SAME(status_of(pid), 0);
    CHECK(unlink("lock") == 0);
}

static void open_files_own_locks(void) {
    int f = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600), g = open("lock", O_RDWR | O_CLOEXEC);
    struct flock l = range(F_WRLCK, 0, 4);
    CHECK(f >= 0 && g >= 0 && fcntl(f, F_OFD_SETLK, &l) == 0);
    FAILS(fcntl(g, F_OFD_SETLK, &l), EAGAIN);
    l = range(F_WRLCK, 4, 4);
    CHECK(fcntl(g, F_OFD_SETLK, &l) == 0 && close(f) == 0);
    l = range(F_WRLCK, 0, 8);
    CHECK(fcntl(g, F_OFD_SETLK, &l) == 0 && close(g) == 0 && unlink("lock") == 0);
}

static void whole_files(void) {
    int f = open("lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600), g = open("lock", O_RDWR | O_CLOEXEC), h = fcntl(f, F_DUPFD_CLOEXEC, 0), status;
    CHECK(f >= 0 && g >= 0 && h >= 0 && flock(f, LOCK_SH) == 0 && flock(g, LOCK_SH) == 0);
    FAILS(flock(f, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    CHECK(flock(g, LOCK_UN) == 0 && flock(f, LOCK_EX | LOCK_NB) == 0);
    SAME(status_of(start("flock-try")), 1);
    CHECK(close(f) == 0);
    SAME(status_of(start("flock-try")), 1);
    pid_t pid = start("flock-wait");
    CHECK(pid > 0);
    sleep_ms(200);
    SAME(waitpid(pid, &status, WNOHANG), 0);
    CHECK(close(h) == 0);
    SAME(status_of(pid), 0);
    CHECK(close(g) == 0 && unlink("lock") == 0);
}

int main(int argc, char **argv) {
    static char path[PATH_MAX];
    static const struct guest_test tests[] = {T(records_exclude_other_processes), T(records_are_waited_for),
                                              T(open_files_own_locks), T(whole_files)};
    if (argc == 3 && strcmp(argv[1], "child") == 0)
        return child(argv[2]);
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0)
        return 1;
    self = path;
    scratch_enter();
    return guest_run(argc, argv, tests, sizeof tests / sizeof *tests);
}
