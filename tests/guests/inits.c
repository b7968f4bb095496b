/* Process 1, programs that are executed and cannot be written, a thread's number where a process's is wanted, threads with
 * descriptors of their own, locks up to the last byte. */
#include "guest.h"
#include <dirent.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void process_1_is_there(void) {
    char text[4096];
    int f = open("/proc/1/stat", O_RDONLY), n = read(f, text, sizeof text - 1);
    CHECK(f >= 0 && n > 0 && strncmp(text, "1 (", 3) == 0);
    close(f);
    f = open("/proc/1/comm", O_RDONLY);
    CHECK(f >= 0 && read(f, text, sizeof text) > 1);
    close(f);
    struct stat st;
    CHECK(stat("/proc/1", &st) == 0 && S_ISDIR(st.st_mode));
    int seen = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        seen += strcmp(e->d_name, "1") == 0;
    closedir(d);
    SAME(seen, 1);
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, 1) != -1 || errno == 0);
    CHECK(syscall(SYS_sched_getscheduler, 1) >= 0);
    CHECK(getpgid(1) >= 0 && getsid(1) >= 0);
    if (geteuid() == 0)
        SAME(kill(1, 0), 0);
}

static int copy_of_true(const char *name, int mode) {
    int from = open("/bin/true", O_RDONLY), to = open(name, O_CREAT | O_TRUNC | O_RDWR, mode);
    char text[65536];
    for (int n; (n = read(from, text, sizeof text)) > 0;)
        if (write(to, text, n) != n)
            return -1;
    close(from);
    return to;
}
static int run(const char *name) {
    pid_t child = vfork();
    if (child == 0) {
        execl(name, name, NULL);
        _exit(errno);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}
static void what_is_written_is_not_executed(void) {
    int f = copy_of_true("program", 0755);
    CHECK(f >= 0);
    SAME(run("./program"), ETXTBSY);
    close(f);
    SAME(run("./program"), 0);
    f = open("program", O_RDONLY);
    SAME(run("./program"), 0);
    close(f);
    unlink("program");
}
static void what_is_executed_is_not_written(void) {
    char own[PATH_MAX];
    int n = readlink("/proc/self/exe", own, sizeof own - 1);
    CHECK(n > 0);
    own[n] = 0;
    FAILS(open(own, O_WRONLY), ETXTBSY);
    FAILS(open(own, O_RDWR), ETXTBSY);
    FAILS(open(own, O_RDONLY | O_TRUNC), ETXTBSY);
    FAILS(truncate(own, 0), ETXTBSY);
    int f = open(own, O_RDONLY);
    CHECK(f >= 0);
    close(f);
}

static int tid_of_other;
static void *waits(void *end) {
    tid_of_other = syscall(SYS_gettid);
    char c;
    while (read(*(int *)end, &c, 1) < 0 && errno == EINTR) {
    }
    return NULL;
}
static volatile int got;
static void count(int signal) { (void)signal, got++; }
static void a_thread_stands_for_its_process(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    pthread_t other;
    tid_of_other = 0;
    pthread_create(&other, NULL, waits, &p[0]);
    while (*(volatile int *)&tid_of_other == 0)
        sched_yield();
    SAME(getpgid(tid_of_other), getpgrp());
    SAME(getsid(tid_of_other), getsid(0));
    signal(SIGUSR1, count);
    got = 0;
    SAME(kill(tid_of_other, SIGUSR1), 0);
    siginfo_t info = {.si_code = SI_QUEUE};
    SAME(syscall(SYS_rt_sigqueueinfo, tid_of_other, 0, &info), 0);
    struct rlimit l;
    SAME(syscall(SYS_prlimit64, tid_of_other, RLIMIT_CORE, NULL, &l), 0);
    write(p[1], "x", 1);
    pthread_join(other, NULL);
    SAME(got, 1);
    close(p[0]), close(p[1]);
}

static void signals_in_the_kernels_order(void) {
    FAILS(kill(4000000, 99), ESRCH);
    FAILS(kill(getpid(), 99), EINVAL);
    FAILS(kill(getpid(), -1), EINVAL);
    FAILS(kill(INT_MIN, 0), ESRCH);
    FAILS(syscall(SYS_tkill, 0, 0), EINVAL);
    FAILS(syscall(SYS_tkill, 4000000, 99), ESRCH);
    FAILS(syscall(SYS_rt_sigqueueinfo, 4000000, 99, (void *)8), EFAULT);
    siginfo_t info = {.si_code = SI_USER};
    FAILS(syscall(SYS_rt_sigqueueinfo, 4000000, 99, &info), EPERM);
    info.si_code = SI_QUEUE;
    FAILS(syscall(SYS_rt_sigqueueinfo, 4000000, 99, &info), ESRCH);
}

static char stack[65536] __attribute__((aligned(16)));
static volatile int seen_errno, made = -1, go;
static int apart(void *shared) {
    /* A raw thread: no library calls that need its data. */
    char c = 'a';
    close(*(int *)shared);
    seen_errno = syscall(SYS_write, *(int *)shared, &c, 1) < 0 ? 1 : 0;
    made = syscall(SYS_dup2, 1, 77);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_exit, 0);
    return 0;
}
static void threads_with_their_own_descriptors(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    go = 0;
    int flags = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    CHECK(clone(apart, stack + sizeof stack, flags, &p[1]) > 0);
    while (!__atomic_load_n(&go, __ATOMIC_SEQ_CST))
        sched_yield();
    SAME(seen_errno, 1);
    SAME(write(p[1], "b", 1), 1); /* what it closed is open here */
    char c;
    CHECK(read(p[0], &c, 1) == 1 && c == 'b');
    SAME(made, 77);
    FAILS(fcntl(77, F_GETFD), EBADF); /* and what it made is not here */
    close(p[0]), close(p[1]);
    sleep_ms(20);
}

static int parted;
static void *parts(void *shared) {
    if (syscall(SYS_close_range, *(int *)shared, *(int *)shared, 2 /* CLOSE_RANGE_UNSHARE */) != 0)
        return (void *)1;
    if (fcntl(*(int *)shared, F_GETFD) != -1 || errno != EBADF)
        return (void *)2;
    parted = open("/dev/null", O_RDONLY);
    return parted >= 0 ? NULL : (void *)3;
}
static void descriptors_are_unshared(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    pthread_t other;
    void *result;
    pthread_create(&other, NULL, parts, &p[1]);
    pthread_join(other, &result);
    if (result == (void *)1)
        return; /* a kernel before close_range(2) */
    CHECK(result == NULL);
    CHECK(fcntl(p[1], F_GETFD) == 0);
    close(p[0]), close(p[1]);
}

static void locks_to_the_last_byte(void) {
    int f = open("locked", O_CREAT | O_RDWR, 0600);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = INT64_MAX, .l_len = 1};
    SAME(fcntl(f, F_SETLK, &l), 0);
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = INT64_MAX - 9};
    SAME(fcntl(f, F_SETLK, &l), 0);
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = INT64_MAX - 8};
    FAILS(fcntl(f, F_SETLK, &l), EOVERFLOW);
    l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = INT64_MAX, .l_len = 2};
    FAILS(fcntl(f, F_SETLK, &l), EOVERFLOW);
    pid_t child = fork();
    if (child == 0) {
        struct flock seen = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
        int ok = fcntl(f, F_GETLK, &seen) == 0 && seen.l_type == F_WRLCK && seen.l_start == 10 && seen.l_len == 0;
        _exit(ok ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    SAME(status, 0);
    close(f);
    unlink("locked");
}

static void times_without_a_path(void) {
    int f = open("dated", O_CREAT | O_RDWR, 0600);
    struct timespec t[2] = {{100, 0}, {200, 0}};
    struct stat st;
    SAME(syscall(SYS_utimensat, f, NULL, t, 0), 0);
    CHECK(fstat(f, &st) == 0 && st.st_mtime == 200);
    FAILS(syscall(SYS_utimensat, AT_FDCWD, NULL, t, 0), EFAULT);
    FAILS(syscall(SYS_utimensat, f, NULL, t, AT_SYMLINK_NOFOLLOW), EINVAL);
    FAILS(syscall(SYS_futimesat, AT_FDCWD, NULL, NULL), EFAULT);
    SAME(syscall(SYS_futimesat, f, NULL, NULL), 0);
    struct timespec wrong[2] = {{0, 1000000}, {0, 0}};
    FAILS(syscall(SYS_utimes, "no such", wrong), EINVAL); /* the times first */
    FAILS(syscall(SYS_utimes, "no such", NULL), ENOENT);
    close(f);
    unlink("dated");
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {
        T(process_1_is_there), T(what_is_written_is_not_executed), T(what_is_executed_is_not_written),
        T(a_thread_stands_for_its_process), T(signals_in_the_kernels_order), T(threads_with_their_own_descriptors),
        T(descriptors_are_unshared), T(locks_to_the_last_byte), T(times_without_a_path),
    };
    scratch_enter();
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
