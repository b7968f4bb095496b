/* Calls that newer ones have replaced and that programs still make, and some that few make. */
#include "guest.h"
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef FALLOC_FL_COLLAPSE_RANGE
#define FALLOC_FL_COLLAPSE_RANGE 8
#endif
#ifndef FALLOC_FL_INSERT_RANGE
#define FALLOC_FL_INSERT_RANGE 32
#endif

static void creat_cuts_and_only_writes(void) {
    struct stat st;
    int f = (int)syscall(SYS_creat, "c", 0640);
    CHECK(f >= 0);
    SAME(write(f, "abc", 3), 3);
    char c;
    FAILS(read(f, &c, 1), EBADF);
    close(f);
    f = (int)syscall(SYS_creat, "c", 0600);
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_size, 0);
    close(f);
    FAILS(syscall(SYS_creat, ".", 0600), EISDIR);
    FAILS(syscall(SYS_creat, "none/x", 0600), ENOENT);
    unlink("c");
}

static void old_records_of_directories(void) {
    struct record {
        unsigned long inode, next;
        unsigned short length;
        char name[];
    };
    char buffer[1024];
    int seen = 0;
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/sub", 0755) == 0 && symlink("x", "d/link") == 0);
    int f = open("d", O_RDONLY | O_DIRECTORY);
    FAILS(syscall(SYS_getdents, f, buffer, 10), EINVAL);
    long got = syscall(SYS_getdents, f, buffer, sizeof buffer);
    CHECK(got > 0);
    for (long at = 0; at < got;) {
        const struct record *r = (void *)(buffer + at);
        char type = buffer[at + r->length - 1];
        CHECK(r->inode != 0);
        if (strcmp(r->name, "sub") == 0)
            SAME(type, DT_DIR);
        if (strcmp(r->name, "link") == 0)
            SAME(type, DT_LNK);
        seen++;
        at += r->length;
    }
    SAME(seen, 4);
    SAME(syscall(SYS_getdents, f, buffer, sizeof buffer), 0);
    FAILS(syscall(SYS_getdents, 0x7fff, buffer, sizeof buffer), EBADF);
    unlink("d/link"), rmdir("d/sub"), rmdir("d");
    // One that was removed has no end either.
    FAILS(syscall(SYS_getdents, f, buffer, sizeof buffer), ENOENT);
    close(f);
}

static void attributes_by_descriptor_and_place(void) {
    struct stat st;
    int here = open(".", O_RDONLY | O_DIRECTORY), f = open("a", O_RDWR | O_CREAT, 0644);
    CHECK(here >= 0 && f >= 0);
    CHECK(fchown(f, (uid_t)-1, getgid()) == 0 && fstat(f, &st) == 0);
    SAME(st.st_uid, geteuid());
    SAME(st.st_gid, getgid());
    FAILS(fchown(0x7fff, 1, 1), EBADF);
    CHECK(syscall(SYS_fchmodat, here, "a", 0604) == 0 && fstat(f, &st) == 0);
    SAME(st.st_mode & 07777, 0604);
    FAILS(syscall(SYS_fchmodat, here, "none", 0604), ENOENT);
    if (syscall(SYS_fchmodat2, f, "", 0640, AT_EMPTY_PATH) == 0) {
        CHECK(fstat(f, &st) == 0);
        SAME(st.st_mode & 07777, 0640);
        CHECK(symlink("a", "l") == 0);
        FAILS(syscall(SYS_fchmodat2, here, "l", 0600, AT_SYMLINK_NOFOLLOW), EOPNOTSUPP);
        FAILS(syscall(SYS_fchmodat2, here, "a", 0600, 1), EINVAL);
        unlink("l");
    } else
        SAME(errno, ENOSYS);
    struct timeval times[2] = {{1000, 5}, {2000, 7}};
    CHECK(syscall(SYS_futimesat, here, "a", times) == 0 && fstat(f, &st) == 0);
    SAME(st.st_atim.tv_sec, 1000);
    SAME(st.st_mtim.tv_nsec, 7000);
    CHECK(syscall(SYS_futimesat, f, NULL, NULL) == 0 && fstat(f, &st) == 0);
    CHECK(st.st_mtim.tv_sec > 2000);
    times[0].tv_usec = 1000000;
    FAILS(syscall(SYS_futimesat, here, "a", times), EINVAL);
    CHECK(syscall(SYS_faccessat2, here, "a", R_OK | W_OK, AT_EACCESS) == 0);
    CHECK(syscall(SYS_faccessat2, f, "", F_OK, AT_EMPTY_PATH) == 0);
    FAILS(syscall(SYS_faccessat2, here, "a", 8, 0), EINVAL);
    FAILS(syscall(SYS_faccessat2, here, "a", X_OK, 0), EACCES);
    FAILS(syscall(SYS_faccessat2, here, "a", R_OK, 1), EINVAL);
    close(f), close(here), unlink("a");
}

/* Times that are to stay as they are: not even the file has to be there. */
static void nothing_to_change_changes_nothing(void) {
    struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    CHECK(utimensat(AT_FDCWD, "none/x", times, 0) == 0);
    times[0].tv_nsec = 5;
    FAILS(utimensat(AT_FDCWD, "none", times, 0), ENOENT);
}

static void ranges_go_and_come(void) {
    char page[4096], c;
    struct stat st;
    int f = open("r", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 4; i++) {
        memset(page, 'a' + i, sizeof page);
        SAME(write(f, page, sizeof page), (long)sizeof page);
    }
    if (fallocate(f, FALLOC_FL_COLLAPSE_RANGE, 4096, 8192) == 0) {
        CHECK(fstat(f, &st) == 0);
        SAME(st.st_size, 8192);
        SAME(pread(f, &c, 1, 4096), 1);
        SAME(c, 'd');
        FAILS(fallocate(f, FALLOC_FL_COLLAPSE_RANGE, 4096, 4096), EINVAL);
        FAILS(fallocate(f, FALLOC_FL_COLLAPSE_RANGE, 100, 100), EINVAL);
        CHECK(fallocate(f, FALLOC_FL_INSERT_RANGE, 4096, 4096) == 0 && fstat(f, &st) == 0);
        SAME(st.st_size, 12288);
        SAME(pread(f, &c, 1, 4096), 1);
        SAME(c, 0);
        SAME(pread(f, &c, 1, 8192), 1);
        SAME(c, 'd');
        FAILS(fallocate(f, FALLOC_FL_INSERT_RANGE, 12288, 4096), EINVAL);
        FAILS(fallocate(f, FALLOC_FL_INSERT_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4096), EOPNOTSUPP);
    } else
        SAME(errno, EOPNOTSUPP); /* not every file system can */
    int p[2];
    CHECK(pipe(p) == 0);
    FAILS(fallocate(p[1], 0, 0, 10), ESPIPE);
    FAILS(fallocate(p[0], 0, 0, 10), EBADF);
    FAILS(fallocate(f, 0, -1, 10), EINVAL);
    close(p[0]), close(p[1]), close(f), unlink("r");
}

static void robust_list_is_kept(void) {
    static struct {
        void *next;
        long offset;
        void *pending;
    } head = {&head, 0, NULL}, *old, *got;
    size_t length;
    CHECK(syscall(SYS_get_robust_list, 0, &old, &length) == 0);
    FAILS(syscall(SYS_set_robust_list, &head, sizeof head - 1), EINVAL);
    CHECK(syscall(SYS_set_robust_list, &head, sizeof head) == 0);
    CHECK(syscall(SYS_get_robust_list, 0, &got, &length) == 0);
    CHECK(got == (void *)&head);
    SAME(length, sizeof head);
    CHECK(syscall(SYS_set_robust_list, old, sizeof head) == 0);
    FAILS(syscall(SYS_get_robust_list, 0x7ffffff, &got, &length), ESRCH);
}

static volatile int came, value;
static void on_queued(int number, siginfo_t *info, void *context) {
    (void)context;
    came = number;
    value = info->si_value.sival_int;
}
static void signals_are_queued_to_threads(void) {
    struct sigaction action = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO};
    siginfo_t info;
    memset(&info, 0, sizeof info);
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    info.si_code = SI_QUEUE;
    info.si_value.sival_int = 77;
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGUSR2, &info) == 0);
    SAME(came, SIGUSR2);
    SAME(value, 77);
    FAILS(syscall(SYS_rt_tgsigqueueinfo, getpid(), 0x7ffffff, SIGUSR2, &info), ESRCH);
    FAILS(syscall(SYS_rt_tgsigqueueinfo, 0, 1, SIGUSR2, &info), EINVAL);
    signal(SIGUSR2, SIG_DFL);
}

static void namespaces_are_files(void) {
    char link[64] = {0}, again[64] = {0}, path[64];
    struct stat st;
    int f = open("/proc/self/ns/net", O_RDONLY);
    CHECK(f >= 0 && fstat(f, &st) == 0);
    SAME(st.st_mode, S_IFREG | 0444);
    CHECK(readlink("/proc/self/ns/net", link, sizeof link - 1) > 0);
    snprintf(path, sizeof path, "net:[%lu]", (unsigned long)st.st_ino);
    CHECK(strcmp(link, path) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    CHECK(readlink(path, again, sizeof again - 1) > 0 && strcmp(link, again) == 0);
    char c;
    FAILS(read(f, &c, 1), EINVAL);
    FAILS(lseek(f, 0, SEEK_SET), ESPIPE);
    FAILS(open("/proc/self/ns/net", O_RDWR), EPERM);
    SAME(ioctl(f, 0xb703), 0x40000000); /* NS_GET_NSTYPE: CLONE_NEWNET */
    FAILS(syscall(SYS_setns, f, 0x20000), EINVAL); /* CLONE_NEWNS */
    FAILS(syscall(SYS_setns, 0x7fff, 0), EBADF);
    if (syscall(SYS_setns, f, 0) != 0)
        SAME(errno, EPERM);
    close(f);
    f = open(".", O_RDONLY);
    FAILS(syscall(SYS_setns, f, 0), EINVAL);
    close(f);
}

static void what_can_be_synchronised(void) {
    int f = open("synced", O_RDWR | O_CREAT, 0600), null = open("/dev/null", O_RDWR), p[2];
    CHECK(f >= 0 && null >= 0 && pipe(p) == 0);
    SAME(fsync(f), 0);
    SAME(syscall(SYS_syncfs, null), 0);
    FAILS(fsync(null), EINVAL);
    FAILS(fdatasync(p[0]), EINVAL);
    SAME(syscall(SYS_sync_file_range, f, 0L, 1L, 0), 0);
    FAILS(syscall(SYS_sync_file_range, f, -1L, 1L, 0), EINVAL);
    FAILS(syscall(SYS_sync_file_range, f, 0L, -1L, 0), EINVAL);
    FAILS(syscall(SYS_sync_file_range, f, 0L, 1L, 8), EINVAL);
    FAILS(syscall(SYS_sync_file_range, p[0], 0L, 1L, 0), ESPIPE);
    CHECK(close(f) == 0 && close(null) == 0 && close(p[0]) == 0 && close(p[1]) == 0 && unlink("synced") == 0);
}

static void arguments_before_rights(void) {
    if (geteuid() == 0) {
        FAILS(syscall(SYS_reboot, 0, 0, 0, NULL), EINVAL);
        FAILS(syscall(SYS_reboot, 0xfee1dead, 672274793, 1, NULL), EINVAL);
        FAILS(syscall(SYS_syslog, 3, NULL, 10), EINVAL);
        FAILS(syscall(SYS_syslog, 8, NULL, 9), EINVAL);
    } else {
        FAILS(syscall(SYS_reboot, 0, 0, 0, NULL), EPERM);
        FAILS(syscall(SYS_vhangup), EPERM);
    }
}

/* sysfs(2) and ustat(2). */
static void kinds_of_file_systems(void) {
    char name[64];
    long count = syscall(SYS_sysfs, 3);
    if (count == -1 && errno == ENOSYS && may_lack_calls())
        return;
    CHECK(count > 2);
    long at = syscall(SYS_sysfs, 1, "proc");
    CHECK(at >= 0 && at < count);
    SAME(syscall(SYS_sysfs, 2, at, name), 0);
    CHECK(strcmp(name, "proc") == 0);
    FAILS(syscall(SYS_sysfs, 1, "ext0"), EINVAL);
    FAILS(syscall(SYS_sysfs, 1, NULL), EFAULT);
    FAILS(syscall(SYS_sysfs, 2, count, name), EINVAL);
    FAILS(syscall(SYS_sysfs, 2, 0, NULL), EFAULT);
    FAILS(syscall(SYS_sysfs, 4), EINVAL);
    struct {
        int blocks;
        unsigned long inodes;
        char names[12];
    } u = {-1, 0, ""};
    struct stat st;
    CHECK(stat("/dev", &st) == 0);
    SAME(syscall(SYS_ustat, (unsigned)st.st_dev, &u), 0);
    CHECK(u.inodes > 0 && u.names[0] == 0);
    FAILS(syscall(SYS_ustat, (unsigned)st.st_dev, NULL), EFAULT);
    FAILS(syscall(SYS_ustat, -1, &u), EINVAL);
}

/* lsm_list_modules(2) */
static void security_modules(void) {
    enum { LIST_MODULES = 461 };
    uint64_t ids[32] = {0};
    uint32_t size = sizeof ids;
    long count = syscall(LIST_MODULES, ids, &size, 0);
    if (count == -1 && errno == ENOSYS && may_lack_calls())
        return;
    CHECK(count > 0);
    SAME(size, 8 * count);
    int capabilities = 0;
    for (int i = 0; i < count; i++)
        capabilities += ids[i] == 100; /* LSM_ID_CAPABILITY */
    SAME(capabilities, 1);
    size = 1;
    FAILS(syscall(LIST_MODULES, ids, &size, 0), E2BIG);
    SAME(size, 8 * count);
    FAILS(syscall(LIST_MODULES, ids, &size, 1), EINVAL);
    FAILS(syscall(LIST_MODULES, ids, NULL, 0), EFAULT);
    FAILS(syscall(LIST_MODULES, NULL, &size, 0), EFAULT);
}

GUEST_WITH(scratch_enter(), T(creat_cuts_and_only_writes), T(old_records_of_directories),
           T(attributes_by_descriptor_and_place), T(nothing_to_change_changes_nothing), T(ranges_go_and_come),
           T(robust_list_is_kept), T(signals_are_queued_to_threads), T(namespaces_are_files),
           T(what_can_be_synchronised), T(arguments_before_rights), T(kinds_of_file_systems), T(security_modules))
