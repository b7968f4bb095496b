/* What the newer calls on files add: at-variants, exchange, times, owners, unnamed files, moving bytes.
 * openat2(2), statx(2), renameat2(2), linkat(2), utimensat(2), copy_file_range(2), splice(2). */
#include "guest.h"
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/time.h>
#include <utime.h>

static int file_with(const char *name, const char *content) {
    int f = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (f >= 0 && write(f, content, strlen(content)) != (ssize_t)strlen(content)) {
        close(f);
        return -1;
    }
    return f;
}

static int holds(const char *name, const char *content) {
    char b[256] = {0};
    int f = open(name, O_RDONLY);
    int right = f >= 0 && read(f, b, sizeof b - 1) == (ssize_t)strlen(content) && strcmp(b, content) == 0;
    close(f);
    return right;
}

static long open_how(int dir, const char *path, uint64_t flags, uint64_t resolve) {
    struct open_how how = {.flags = flags, .resolve = resolve};
    return syscall(SYS_openat2, dir, path, &how, sizeof how);
}

static void confined_opening(void) {
    CHECK(mkdir("c", 0755) == 0 && close(file_with("c/f", "x")) == 0 && symlink("f", "c/s") == 0);
    CHECK(symlink("/f", "c/absolute") == 0 && symlink("../c/f", "c/out") == 0);
    int d = open("c", O_RDONLY | O_DIRECTORY);
    CHECK(d >= 0);
    int f = open_how(d, "s", O_RDONLY, RESOLVE_BENEATH);
    CHECK(f >= 0 && close(f) == 0);
    FAILS(open_how(d, "s", O_RDONLY, RESOLVE_NO_SYMLINKS), ELOOP);
    FAILS(open_how(d, "out", O_RDONLY, RESOLVE_BENEATH), EXDEV);
    FAILS(open_how(d, "../c/f", O_RDONLY, RESOLVE_BENEATH), EXDEV);
    FAILS(open_how(d, "/f", O_RDONLY, RESOLVE_BENEATH), EXDEV);
    f = open_how(d, "absolute", O_RDONLY, RESOLVE_IN_ROOT);
    CHECK(f >= 0 && close(f) == 0);
    f = open_how(d, "../../f", O_RDONLY, RESOLVE_IN_ROOT);
    CHECK(f >= 0 && close(f) == 0);
    FAILS(open_how(d, "f", O_RDONLY, 1 << 20), EINVAL);
    /* Another file system: of an absolute path it is where it begins, of a link it is where it leads. */
    f = open_how(AT_FDCWD, "/proc", O_RDONLY, 0);
    int same = open_how(f, "self/../sys", O_RDONLY, RESOLVE_NO_XDEV);
    CHECK(f >= 0 && same >= 0 && close(same) == 0);
    FAILS(open_how(f, "..", O_RDONLY, RESOLVE_NO_XDEV), EXDEV);
    FAILS(open_how(AT_FDCWD, "/proc/sys", O_RDONLY, RESOLVE_NO_XDEV), EXDEV);
    CHECK(symlink("/proc/sys", "c/away") == 0);
    FAILS(open_how(d, "away", O_RDONLY, RESOLVE_NO_XDEV), EXDEV);
    CHECK(close(f) == 0 && unlink("c/away") == 0);
    CHECK(close(d) == 0 && unlink("c/f") == 0 && unlink("c/s") == 0 && unlink("c/absolute") == 0);
    CHECK(unlink("c/out") == 0 && rmdir("c") == 0);
}

static void paths_only(void) {
    CHECK(close(file_with("p", "x")) == 0);
    int f = open("p", O_PATH);
    CHECK(f >= 0);
    char b[4];
    FAILS(read(f, b, 1), EBADF);
    FAILS(fchmod(f, 0600), EBADF);
    struct stat st;
    CHECK(fstat(f, &st) == 0 && S_ISREG(st.st_mode));
    SAME(fcntl(f, F_GETFL) & O_PATH, O_PATH);
    CHECK(fstatat(f, "", &st, AT_EMPTY_PATH) == 0);
    FAILS(openat(f, "x", O_RDONLY), ENOTDIR);
    CHECK(close(f) == 0 && symlink("p", "l") == 0);
    f = open("l", O_PATH | O_NOFOLLOW);
    CHECK(f >= 0 && fstat(f, &st) == 0 && S_ISLNK(st.st_mode));
    SAME(readlinkat(f, "", b, sizeof b), 1);
    CHECK(close(f) == 0 && unlink("l") == 0 && unlink("p") == 0);
}

static void statx_says_what_stat_says(void) {
    CHECK(close(file_with("x", "hello")) == 0);
    struct stat st;
    struct statx sx;
    CHECK(stat("x", &st) == 0 && statx(AT_FDCWD, "x", 0, STATX_ALL, &sx) == 0);
    CHECK(sx.stx_ino == st.st_ino && sx.stx_size == 5 && sx.stx_mode == st.st_mode && sx.stx_nlink == 1);
    CHECK(makedev(sx.stx_dev_major, sx.stx_dev_minor) == st.st_dev);
    CHECK(sx.stx_mtime.tv_sec == st.st_mtim.tv_sec && sx.stx_mtime.tv_nsec == st.st_mtim.tv_nsec);
    CHECK((sx.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
    FAILS(statx(AT_FDCWD, "none", 0, STATX_ALL, &sx), ENOENT);
    struct statfs fs;
    CHECK(statfs("x", &fs) == 0 && fs.f_namelen == 255 && fs.f_bsize > 0);
    CHECK(unlink("x") == 0);
}

static void times(void) {
    CHECK(close(file_with("t", "x")) == 0);
    struct timespec when[2] = {{1000, 5}, {2000, 999999999}};
    struct stat st;
    CHECK(utimensat(AT_FDCWD, "t", when, 0) == 0 && stat("t", &st) == 0);
    CHECK(st.st_atim.tv_sec == 1000 && st.st_atim.tv_nsec == 5);
    CHECK(st.st_mtim.tv_sec == 2000 && st.st_mtim.tv_nsec == 999999999);
    CHECK(st.st_ctim.tv_sec > 2000);
    when[0].tv_nsec = UTIME_OMIT;
    when[1] = (struct timespec){3000, 0};
    int f = open("t", O_RDWR);
    CHECK(f >= 0 && futimens(f, when) == 0 && fstat(f, &st) == 0);
    CHECK(st.st_atim.tv_sec == 1000 && st.st_mtim.tv_sec == 3000);
    when[0].tv_nsec = 1000000000;
    FAILS(futimens(f, when), EINVAL);
    CHECK(write(f, "y", 1) == 1 && fstat(f, &st) == 0 && st.st_mtim.tv_sec > 3000 && close(f) == 0);
    struct utimbuf old = {7, 8};
    CHECK(utime("t", &old) == 0 && stat("t", &st) == 0 && st.st_atim.tv_sec == 7 && st.st_mtim.tv_sec == 8);
    struct timeval micro[2] = {{9, 10}, {11, 12}};
    CHECK(utimes("t", micro) == 0 && stat("t", &st) == 0 && st.st_mtim.tv_nsec == 12000);
    CHECK(unlink("t") == 0);
}

static void owners(void) {
    if (geteuid() != 0)
        return;
    CHECK(close(file_with("o", "x")) == 0 && chmod("o", 06755) == 0);
    struct stat st;
    CHECK(chown("o", 12, 34) == 0 && stat("o", &st) == 0 && st.st_uid == 12 && st.st_gid == 34);
    SAME(st.st_mode & 07777, 0755);
    CHECK(fchownat(AT_FDCWD, "o", -1, 56, 0) == 0 && stat("o", &st) == 0 && st.st_uid == 12 && st.st_gid == 56);
    CHECK(symlink("o", "ol") == 0 && lchown("ol", 78, -1) == 0);
    CHECK(stat("ol", &st) == 0 && st.st_uid == 12 && lstat("ol", &st) == 0 && st.st_uid == 78);
    CHECK(unlink("ol") == 0 && unlink("o") == 0);
}

static void rename_with_conditions(void) {
    CHECK(close(file_with("a", "A")) == 0 && close(file_with("b", "B")) == 0 && mkdir("d", 0755) == 0);
    CHECK(close(file_with("d/in", "I")) == 0);
    FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE), EEXIST);
    CHECK(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) == 0);
    CHECK(holds("a", "B") && holds("b", "A"));
    CHECK(renameat2(AT_FDCWD, "a", AT_FDCWD, "d", RENAME_EXCHANGE) == 0);
    CHECK(holds("d", "B") && holds("a/in", "I"));
    FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "none", RENAME_EXCHANGE), ENOENT);
    FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
    CHECK(unlink("a/in") == 0 && rmdir("a") == 0 && unlink("b") == 0 && unlink("d") == 0);
}

static void working_directory_moves_along(void) {
    char before[PATH_MAX], now[PATH_MAX];
    CHECK(getcwd(before, sizeof before) != NULL && mkdir("w", 0755) == 0 && mkdir("w/x", 0755) == 0);
    CHECK(chdir("w/x") == 0 && rename("../../w", "../../v") == 0 && getcwd(now, sizeof now) != NULL);
    CHECK(strncmp(now, before, strlen(before)) == 0 && strcmp(now + strlen(before), "/v/x") == 0);
    CHECK(rmdir("../x") == 0);
    FAILS(getcwd(now, sizeof now) == NULL ? -1 : 0, ENOENT);
    CHECK(chdir(before) == 0 && rmdir("v") == 0);
}

static void links_at(void) {
    CHECK(close(file_with("f", "x")) == 0 && symlinkat("f", AT_FDCWD, "s") == 0);
    char b[8] = {0};
    SAME(readlinkat(AT_FDCWD, "s", b, sizeof b), 1);
    struct stat st;
    CHECK(linkat(AT_FDCWD, "s", AT_FDCWD, "to-link", 0) == 0 && lstat("to-link", &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(linkat(AT_FDCWD, "s", AT_FDCWD, "to-file", AT_SYMLINK_FOLLOW) == 0);
    CHECK(lstat("to-file", &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 2);
    CHECK(unlink("to-link") == 0 && unlink("to-file") == 0 && unlink("s") == 0 && unlink("f") == 0);
}

static void unnamed_files(void) {
    int f = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(f >= 0 && write(f, "later", 5) == 5);
    struct stat st;
    CHECK(fstat(f, &st) == 0 && st.st_nlink == 0 && st.st_size == 5);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    CHECK(write(f, "!", 1) == 1 && holds("named", "later!"));
    CHECK(close(f) == 0 && unlink("named") == 0);
    f = memfd_create("name", MFD_CLOEXEC);
    CHECK(f >= 0 && ftruncate(f, 8192) == 0 && fcntl(f, F_GETFD) == FD_CLOEXEC);
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    CHECK(p != MAP_FAILED);
    p[4096] = 'm';
    char c;
    CHECK(pread(f, &c, 1, 4096) == 1 && c == 'm' && munmap(p, 8192) == 0 && close(f) == 0);
}

static void space(void) {
    int f = file_with("s", "hello");
    struct stat st;
    CHECK(f >= 0 && posix_fallocate(f, 0, 100) == 0 && fstat(f, &st) == 0 && st.st_size == 100);
    CHECK(fallocate(f, FALLOC_FL_KEEP_SIZE, 0, 1000) == 0 && fstat(f, &st) == 0 && st.st_size == 100);
    FAILS(fallocate(f, 0, -1, 5), EINVAL);
    FAILS(fallocate(f, 0, 0, 0), EINVAL);
    char b[8] = {0};
    if (fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1, 3) == 0)
        CHECK(pread(f, b, 5, 0) == 5 && memcmp(b, "h\0\0\0o", 5) == 0);
    SAME(lseek(f, 0, SEEK_DATA), 0);
    FAILS(lseek(f, 100, SEEK_HOLE), ENXIO);
    CHECK(close(f) == 0 && unlink("s") == 0);
}

static void bytes_between_files(void) {
    int a = file_with("a", "0123456789"), b = file_with("b", "");
    CHECK(a >= 0 && b >= 0);
    loff_t from = 2, to = 1;
    SAME(copy_file_range(a, &from, b, &to, 4, 0), 4);
    CHECK(from == 6 && to == 5 && lseek(a, 0, SEEK_CUR) == 10 && lseek(b, 0, SEEK_CUR) == 0);
    char c[16] = {0};
    CHECK(pread(b, c, 8, 0) == 5 && memcmp(c, "\0"
                                              "2345", 5) == 0);
    int p[2];
    CHECK(pipe(p) == 0);
    from = 7;
    SAME(splice(a, &from, p[1], NULL, 100, 0), 3);
    SAME(from, 10);
    SAME(splice(p[0], NULL, b, NULL, 100, 0), 3);
    CHECK(pread(b, c, 8, 0) == 5 && memcmp(c, "78945", 5) == 0);
    FAILS(splice(a, NULL, b, NULL, 1, 0), EINVAL);
    from = 0;
    FAILS(splice(p[0], &from, b, NULL, 1, 0), ESPIPE);
    close(p[0]), close(p[1]), close(a), close(b);
    CHECK(unlink("a") == 0 && unlink("b") == 0);
}

static void several_buffers_at_a_place(void) {
    int f = file_with("v", "0123456789");
    CHECK(f >= 0);
    char a[3] = {0}, b[3] = {0};
    struct iovec v[2] = {{a, 2}, {b, 2}};
    SAME(preadv2(f, v, 2, 3, 0), 4);
    CHECK(memcmp(a, "34", 2) == 0 && memcmp(b, "56", 2) == 0);
    SAME(pwritev(f, v, 2, 8), 4);
    SAME(lseek(f, 0, SEEK_CUR), 10);
    SAME(lseek(f, 4, SEEK_SET), 4);
    SAME(pwritev2(f, v, 1, -1, 0), 2);
    SAME(lseek(f, 0, SEEK_CUR), 6);
    CHECK(close(f) == 0 && holds("v", "012334673456"));
    CHECK(unlink("v") == 0);
}

GUEST_WITH(scratch_enter(), T(confined_opening), T(paths_only), T(statx_says_what_stat_says), T(times), T(owners),
           T(rename_with_conditions), T(working_directory_moves_along), T(links_at), T(unnamed_files), T(space),
           T(bytes_between_files), T(several_buffers_at_a_place))
