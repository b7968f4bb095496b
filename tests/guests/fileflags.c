/* Flags of files: FS_IOC_SETFLAGS and its relatives (ioctl_iflags(2)), file_getattr(2) and file_setattr(2), statx(2), and what immutable
 * and append-only files refuse. */
#include "guest.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>

enum { FILE_GETATTR = 468, FILE_SETATTR = 469 };
/* struct file_attr */
struct attributes {
    uint64_t flags;
    uint32_t extent_size, extents, project, copied_extent_size;
};
static int getattr(const char *path, struct attributes *to, size_t size, int flags) {
    return syscall(FILE_GETATTR, AT_FDCWD, path, to, size, flags);
}
static int setattr(const char *path, const void *from, size_t size, int flags) {
    return syscall(FILE_SETATTR, AT_FDCWD, path, from, size, flags);
}

/* 0x80000 is FS_EXTENT_FL, which all files of an ext4 have. */
static int flags_of(const char *path) {
    int f = open(path, O_RDONLY), flags = -1;
    if (ioctl(f, FS_IOC_GETFLAGS, &flags) != 0)
        flags = -errno;
    close(f);
    return flags < 0 ? flags : flags & ~0x80000;
}
static int set(const char *path, int flags) {
    int f = open(path, O_RDONLY), now = 0;
    ioctl(f, FS_IOC_GETFLAGS, &now);
    flags |= now & 0x80000;
    int failed = ioctl(f, FS_IOC_SETFLAGS, &flags) != 0 ? -errno : 0;
    close(f);
    return failed;
}
static int made(const char *path) {
    int f = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
    int ok = f >= 0 && write(f, "abc", 3) == 3;
    return close(f) == 0 && ok;
}

static void an_immutable_file_stays(void) {
    CHECK(made("f"));
    SAME(flags_of("f"), 0);
    int before = open("f", O_RDWR), other = open("g", O_RDWR | O_CREAT, 0644);
    CHECK(before >= 0 && write(other, "xyz", 3) == 3);
    SAME(set("f", FS_IMMUTABLE_FL | FS_NODUMP_FL), 0);
    SAME(flags_of("f"), FS_IMMUTABLE_FL | FS_NODUMP_FL);
    struct statx s;
    SAME(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &s), 0);
    uint64_t seen = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP;
    SAME(s.stx_attributes & seen, STATX_ATTR_IMMUTABLE | STATX_ATTR_NODUMP);
    SAME(s.stx_attributes_mask & seen, seen);
    FAILS(open("f", O_WRONLY), EPERM);
    FAILS(open("f", O_WRONLY | O_APPEND), EPERM);
    FAILS(open("f", O_RDONLY | O_TRUNC), EPERM);
    FAILS(access("f", W_OK), EPERM);
    FAILS(truncate("f", 0), EPERM);
    FAILS(chmod("f", 0600), EPERM);
    FAILS(chown("f", 1, 1), EPERM);
    FAILS(utimensat(AT_FDCWD, "f", NULL, 0), EPERM);
    FAILS(link("f", "h"), EPERM);
    FAILS(rename("f", "g"), EPERM);
    FAILS(unlink("f"), EPERM);
    FAILS(setxattr("f", "user.x", "1", 1, 0), EPERM);
    FAILS(removexattr("f", "user.x"), EPERM);
    struct statfs system;
    CHECK(fstatfs(before, &system) == 0);
    if (system.f_type == 0xef53) /* ext4 looks at it when a file is written */
        FAILS(write(before, "x", 1), EPERM);
    FAILS(copy_file_range(other, &(off_t){0}, before, &(off_t){0}, 3, 0), EPERM);
    close(before), close(other);
    SAME(unlink("g"), 0);
    CHECK(made("g"));
    FAILS(rename("g", "f"), EPERM);
    SAME(unlink("g"), 0);
    int f = open("f", O_RDONLY);
    char text[4] = "";
    CHECK(f >= 0 && read(f, text, 3) == 3 && strcmp(text, "abc") == 0);
    close(f);
    SAME(set("f", 0), 0);
    SAME(unlink("f"), 0);
}

static void an_append_only_file_grows(void) {
    CHECK(made("f"));
    int before = open("f", O_RDWR);
    SAME(set("f", FS_APPEND_FL), 0);
    FAILS(open("f", O_WRONLY), EPERM);
    FAILS(open("f", O_WRONLY | O_APPEND | O_TRUNC), EPERM);
    int f = open("f", O_RDWR | O_APPEND);
    CHECK(f >= 0);
    SAME(write(f, "de", 2), 2);
    FAILS(fcntl(f, F_SETFL, 0), EPERM);
    FAILS(syscall(SYS_pwritev2, f, &(struct iovec){"x", 1}, 1, 0, 0, 0x20 /* RWF_NOAPPEND */), EPERM);
    FAILS(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0), EACCES);
    FAILS(mmap(NULL, 4096, PROT_READ, MAP_SHARED, before, 0), EACCES);
    void *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0);
    CHECK(own != MAP_FAILED && munmap(own, 4096) == 0);
    SAME(fcntl(f, F_SETFL, O_APPEND | O_NONBLOCK), 0);
    FAILS(ftruncate(f, 1), EPERM);
    FAILS(truncate("f", 1), EPERM);
    FAILS(fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), EPERM);
    SAME(fallocate(f, 0, 0, 10), 0);
    SAME(lseek(f, 0, SEEK_END), 10);
    FAILS(fchmod(f, 0600), EPERM);
    FAILS(utimensat(AT_FDCWD, "f", (struct timespec[2]){{1, 0}, {1, 0}}, 0), EPERM);
    SAME(utimensat(AT_FDCWD, "f", NULL, 0), 0);
    FAILS(setxattr("f", "user.x", "1", 1, 0), EPERM);
    FAILS(unlink("f"), EPERM);
    FAILS(link("f", "g"), EPERM);
    close(f), close(before);
    SAME(set("f", 0), 0);
    SAME(unlink("f"), 0);
}

static void directories_have_flags(void) {
    CHECK(mkdir("d", 0755) == 0 && made("d/old"));
    SAME(set("d", FS_IMMUTABLE_FL), 0);
    FAILS(open("d/new", O_CREAT | O_WRONLY, 0644), EPERM);
    FAILS(mkdir("d/new", 0755), EPERM);
    FAILS(unlink("d/old"), EPERM);
    FAILS(rename("d/old", "old"), EPERM);
    SAME(chmod("d/old", 0600), 0);
    SAME(set("d", FS_APPEND_FL), 0);
    CHECK(made("d/new"));
    FAILS(unlink("d/old"), EPERM);
    FAILS(rmdir("d"), EPERM);
    SAME(set("d", FS_NOATIME_FL), 0);
    CHECK(made("d/later"));
    SAME(flags_of("d/later"), FS_NOATIME_FL); /* inherited */
    CHECK(unlink("d/old") == 0 && unlink("d/new") == 0 && unlink("d/later") == 0);
    SAME(rmdir("d"), 0);
}

static void both_forms(void) {
    struct attributes a = {0}, large[2] = {{0}};
    CHECK(made("f"));
    int f = open("f", O_RDWR);
    struct fsxattr x = {0};
    SAME(ioctl(f, FS_IOC_FSGETXATTR, &x), 0);
    SAME(x.fsx_xflags, 0);
    x.fsx_xflags = FS_XFLAG_NODUMP | FS_XFLAG_APPEND;
    SAME(ioctl(f, FS_IOC_FSSETXATTR, &x), 0);
    SAME(flags_of("f"), FS_NODUMP_FL | FS_APPEND_FL);
    x.fsx_xflags = FS_XFLAG_EXTSIZE;
    x.fsx_extsize = 65536;
    SAME(ioctl(f, FS_IOC_FSSETXATTR, &x), 0);
    SAME(ioctl(f, FS_IOC_FSGETXATTR, &x), 0);
    SAME(x.fsx_xflags, 0);
    x.fsx_projid = 16; /* without quotas */
    FAILS(ioctl(f, FS_IOC_FSSETXATTR, &x), EOPNOTSUPP);
    SAME(set("f", 0x40000000), -EOPNOTSUPP); /* FS_CASEFOLD_FL */
    SAME(set("f", 0), 0);
    int pipes[2], bits;
    CHECK(pipe(pipes) == 0);
    FAILS(ioctl(pipes[0], FS_IOC_GETFLAGS, &bits), ENOTTY);
    close(pipes[0]), close(pipes[1]);
    if (getattr("f", &a, sizeof a, 0) != 0 && errno == ENOSYS && may_lack_calls()) { /* before Linux 6.17 */
        close(f), unlink("f");
        return;
    }
    a.flags = FS_XFLAG_NODUMP;
    SAME(setattr("f", &a, sizeof a, 0), 0);
    SAME(flags_of("f"), FS_NODUMP_FL);
    SAME(getattr("f", large, sizeof large, 0), 0);
    SAME(large[0].flags, FS_XFLAG_NODUMP);
    SAME(syscall(FILE_GETATTR, f, "", &a, sizeof a, AT_EMPTY_PATH), 0);
    SAME(symlink("f", "l"), 0);
    SAME(getattr("l", &a, sizeof a, 0), 0);
    FAILS(getattr("l", &a, sizeof a, AT_SYMLINK_NOFOLLOW), EOPNOTSUPP);
    FAILS(getattr("f", &a, sizeof a - 1, 0), EINVAL);
    FAILS(getattr("f", &a, 4097, 0), E2BIG);
    FAILS(getattr("f", &a, sizeof a, -1), EINVAL);
    FAILS(getattr("g", &a, sizeof a, 0), ENOENT);
    FAILS(getattr(NULL, &a, sizeof a, 0), EFAULT);
    FAILS(getattr("f", NULL, sizeof a, 0), EFAULT);
    FAILS(setattr("f", NULL, sizeof a, 0), EFAULT);
    large[1].flags = 1;
    FAILS(setattr("f", large, sizeof large, 0), E2BIG);
    a = (struct attributes){.flags = 1ull << 40};
    FAILS(setattr("f", &a, sizeof a, 0), EINVAL);
    FAILS(getattr("/proc/self/status", &a, sizeof a, 0), EOPNOTSUPP);
    close(f), unlink("l");
    SAME(unlink("f"), 0);
}

static int as_a_user(void) {
    if (setresgid(4321, 4321, 4321) != 0 || setresuid(4321, 4321, 4321) != 0)
        return 1;
    if (set("theirs", FS_NODUMP_FL) != -EPERM)
        return 2;
    if (set("own", FS_NODUMP_FL) != 0)
        return 3;
    if (set("own", FS_APPEND_FL) != -EPERM) /* takes CAP_LINUX_IMMUTABLE */
        return 4;
    return flags_of("own") == FS_NODUMP_FL ? 0 : 5;
}
static void who_may_set_them(void) {
    CHECK(made("own") && made("theirs") && chown("own", 4321, 4321) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(as_a_user());
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(WEXITSTATUS(status), 0);
    SAME(status, 0);
    unlink("own"), unlink("theirs");
}

/* Files of a file system in memory have fewer. */
static void in_memory(void) {
    char path[] = "/dev/shm/flags-XXXXXX", sub[64];
    CHECK(mkdtemp(path) != NULL);
    char back[PATH_MAX];
    CHECK(getcwd(back, sizeof back) != NULL && chdir(path) == 0);
    CHECK(made("f"));
    int f = open("f", O_RDONLY), flags = -1;
    SAME(ioctl(f, FS_IOC_GETFLAGS, &flags), 0);
    SAME(flags, 0);
    SAME(set("f", FS_SYNC_FL), -EOPNOTSUPP);
    struct fsxattr x = {.fsx_xflags = FS_XFLAG_EXTSIZE, .fsx_extsize = 65536};
    FAILS(ioctl(f, FS_IOC_FSSETXATTR, &x), EOPNOTSUPP);
    close(f);
    SAME(set("f", FS_APPEND_FL | FS_NOATIME_FL), 0);
    FAILS(unlink("f"), EPERM);
    SAME(flags_of("f"), FS_APPEND_FL | FS_NOATIME_FL);
    SAME(set("f", 0), 0);
    SAME(unlink("f"), 0);
    snprintf(sub, sizeof sub, "%s", path);
    CHECK(chdir(back) == 0 && rmdir(sub) == 0);
}

/* Takes root, on a file system that has them, with CAP_LINUX_IMMUTABLE. */
static int has_flags(void) {
    scratch_enter();
    if (geteuid() == 0 && made("probe") && set("probe", FS_IMMUTABLE_FL) == 0 && set("probe", 0) == 0 && unlink("probe") == 0) {
        chmod(".", 0755);
        return 1;
    }
    unlink("probe");
    puts("# skipped: flags of files take root and a file system that has them");
    return 0;
}

GUEST_WITH(if (!has_flags()) return 77,
    T(an_immutable_file_stays), T(an_append_only_file_grows), T(directories_have_flags), T(both_forms), T(who_may_set_them), T(in_memory))
