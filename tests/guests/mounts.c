/* mount(2), umount2(2) and what mounts forbid; propagation; loop devices. All in a namespace of its own. */
#include "mounts.h"
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif
#define ST_RELATIME_ 0x1000

static void a_tmpfs_hides_and_goes(void) {
    struct stat outside, inside;
    struct statfs s;
    char source[] = "a b";
    CHECK(mkdir("m", 0755) == 0 && put("m/hidden", "below") && stat("m", &outside) == 0);
    SAME(mount(source, "m", "tmpfs", 0, "size=1m,mode=700"), 0);
    CHECK(stat("m", &inside) == 0 && inside.st_dev != outside.st_dev);
    SAME(inside.st_mode, S_IFDIR | 0700);
    SAME(inside.st_ino, 1);
    FAILS(access("m/hidden", F_OK), ENOENT);
    CHECK(put("m/f", "text") && mkdir("m/d", 0755) == 0 && put("m/d/g", "more") && holds("m/d/../f", "text"));
    CHECK(statfs("m", &s) == 0);
    SAME(s.f_type, 0x01021994);
    SAME(s.f_blocks, 256);
    SAME(s.f_blocks - s.f_bfree, 2);
    SAME(s.f_flags, ST_VALID | ST_RELATIME_);
    CHECK(strstr(line_with("/proc/self/mounts", "/m tmpfs "), " rw,relatime,size=1024k,mode=700") != NULL);
    CHECK(strncmp(line_with("/proc/self/mounts", "/m tmpfs "), "a\\040b ", 6) == 0);
    CHECK(strstr(line_with("/proc/self/mountinfo", "/m rw,relatime "), " / ") != NULL);
    CHECK(strstr(line_with("/proc/self/mountinfo", "/m rw,relatime "), "- tmpfs a\\040b rw,size=1024k,mode=700") != NULL);
    struct statx x;
    unsigned id = 0;
    CHECK(statx(AT_FDCWD, "m", 0, STATX_BASIC_STATS | 0x1000, &x) == 0 && (x.stx_mask & 0x1000) && (x.stx_attributes & 0x2000));
    sscanf(line_with("/proc/self/mountinfo", "/m rw,relatime "), "%u", &id);
    SAME(*(uint64_t *)((char *)&x + 0x90), id);
    CHECK(chdir("m/d") == 0);
    char path[PATH_MAX], wanted[PATH_MAX + 8];
    snprintf(wanted, sizeof wanted, "%s/m/d", guest_scratch);
    CHECK(getcwd(path, sizeof path) != NULL && strcmp(path, wanted) == 0);
    FAILS(umount2("..", 0), EBUSY);
    CHECK(chdir("../..") == 0 && access("m", F_OK) == 0);
    int f = open("m/f", O_RDONLY);
    FAILS(umount("m"), EBUSY);
    CHECK(close(f) == 0);
    FAILS(rmdir("m"), EBUSY);
    FAILS(rename("m", "n"), EBUSY);
    SAME(umount("m"), 0);
    CHECK(holds("m/hidden", "below") && strcmp(line_with("/proc/self/mounts", "/m tmpfs "), "") == 0);
    FAILS(umount("m"), EINVAL);
    CHECK(unlink("m/hidden") == 0 && rmdir("m") == 0);
}

static void what_cannot_be_mounted(void) {
    CHECK(mkdir("m", 0755) == 0 && put("f", ""));
    FAILS(mount("x", "none", "tmpfs", 0, NULL), ENOENT);
    FAILS(mount("x", "f/x", "tmpfs", 0, NULL), ENOTDIR);
    FAILS(mount("x", "f", "tmpfs", 0, NULL), ENOTDIR);
    FAILS(mount("x", "m", "nosuchfs", 0, NULL), ENODEV);
    FAILS(mount("x", "m", NULL, 0, NULL), EINVAL);
    FAILS(mount("x", "m", "tmpfs", 0, "nonsense=1"), EINVAL);
    FAILS(mount("x", "m", "tmpfs", 0, "size=many"), EINVAL);
    FAILS(mount("x", "m", "tmpfs", MS_REMOUNT, NULL), EINVAL);
    FAILS(mount("x", "m", "tmpfs", MS_REMOUNT | MS_BIND, NULL), EINVAL);
    FAILS(mount("none", "m", NULL, MS_BIND, NULL), ENOENT);
    FAILS(mount(NULL, "m", NULL, MS_BIND, NULL), EINVAL);
    FAILS(mount("f", "m", NULL, MS_BIND, NULL), ENOTDIR);
    FAILS(mount("m", "f", NULL, MS_BIND, NULL), ENOTDIR);
    FAILS(mount("m", "m", NULL, MS_MOVE, NULL), EINVAL);
    FAILS(mount(NULL, "m", NULL, MS_PRIVATE, NULL), EINVAL);
    FAILS(mount(NULL, "m", NULL, MS_PRIVATE | MS_SHARED, NULL), EINVAL);
    FAILS(mount("x", (char *)8, "tmpfs", 0, NULL), EFAULT);
    FAILS(mount("x", "m", (char *)8, 0, NULL), EFAULT);
    FAILS(mount((char *)8, "m", "tmpfs", 0, NULL), EFAULT);
    FAILS(mount("x", "m", "tmpfs", 0, (char *)8), EFAULT);
    FAILS(umount2("m", 0x100), EINVAL);
    FAILS(umount2("m", MNT_EXPIRE), EINVAL);
    FAILS(umount("none"), ENOENT);
    FAILS(umount((char *)8), EFAULT);
    CHECK(seteuid(65534) == 0);
    int first = mount("x", "m", "tmpfs", 0, NULL), error = errno, second = umount("m"), other = errno;
    CHECK(seteuid(0) == 0);
    SAME(first, -1);
    SAME(error, EPERM);
    SAME(second, -1);
    SAME(other, EPERM);
    CHECK(unlink("f") == 0 && rmdir("m") == 0);
}

static void nothing_changes_where_it_is_read_only(void) {
    struct timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    CHECK(mkdir("m", 0755) == 0 && mount("x", "m", "tmpfs", 0, NULL) == 0);
    CHECK(put("m/f", "text") && mkdir("m/d", 0755) == 0 && symlink("f", "m/l") == 0 && mkfifo("m/p", 0644) == 0);
    int f = open("m/f", O_RDWR), r = open("m/f", O_RDONLY);
    FAILS(mount(NULL, "m", NULL, MS_REMOUNT | MS_RDONLY, NULL), EBUSY);
    FAILS(mount(NULL, "m", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), EBUSY);
    CHECK(close(f) == 0);
    for (int bind = 0; bind < 2; bind++) {
        SAME(mount(NULL, "m", NULL, MS_REMOUNT | (bind ? MS_BIND : 0) | MS_RDONLY, NULL), 0);
        CHECK(strstr(line_with("/proc/self/mounts", "/m tmpfs "), " ro,relatime") != NULL);
        FAILS(open("m/new", O_RDWR | O_CREAT, 0600), EROFS);
        FAILS(open("m/f", O_WRONLY), EROFS);
        FAILS(open("m/f", O_RDONLY | O_TRUNC), EROFS);
        FAILS(open("m", O_RDWR | O_TMPFILE, 0600), EROFS);
        FAILS(open("m/new", O_RDONLY), ENOENT);
        FAILS(mkdir("m/new", 0700), EROFS);
        FAILS(mkdir("m/d", 0700), EEXIST);
        FAILS(rmdir("m/d"), EROFS);
        FAILS(unlink("m/f"), EROFS);
        FAILS(unlink("m/none"), EROFS);
        FAILS(rename("m/f", "m/g"), EROFS);
        FAILS(link("m/f", "m/g"), EROFS);
        FAILS(symlink("f", "m/g"), EROFS);
        FAILS(mknod("m/g", S_IFIFO | 0600, 0), EROFS);
        FAILS(chmod("m/f", 0600), EROFS);
        FAILS(chown("m/f", 1, 1), EROFS);
        FAILS(lchown("m/l", 1, 1), EROFS);
        FAILS(fchmod(r, 0600), EROFS);
        FAILS(truncate("m/f", 1), EROFS);
        FAILS(utimensat(AT_FDCWD, "m/f", times, 0), EROFS);
        FAILS(futimens(r, times), EROFS);
        FAILS(setxattr("m/f", "trusted.x", "1", 1, 0), EROFS);
        FAILS(removexattr("m/f", "trusted.x"), EROFS);
        FAILS(access("m/f", W_OK), EROFS);
        SAME(access("m/f", R_OK), 0);
        int p = open("m/p", O_RDWR);
        CHECK(p >= 0 && close(p) == 0 && holds("m/l", "text"));
        struct statfs s;
        CHECK(statfs("m", &s) == 0);
        SAME(s.f_flags, ST_VALID | ST_RELATIME_ | 1);
        SAME(mount(NULL, "m", NULL, MS_REMOUNT | (bind ? MS_BIND : 0), NULL), 0);
        CHECK(put("m/f", "text"));
    }
    CHECK(close(r) == 0 && umount("m") == 0 && rmdir("m") == 0);
}

static void flags_take_rights(void) {
    CHECK(mkdir("m", 0755) == 0);
    SAME(mount("x", "m", "tmpfs", MS_NOEXEC | MS_NODEV | MS_NOSYMFOLLOW | MS_NOATIME, NULL), 0);
    CHECK(strstr(line_with("/proc/self/mounts", "/m tmpfs "), " rw,nodev,noexec,noatime,nosymfollow") != NULL);
    CHECK(put("m/f", "#!/bin/sh\n") && chmod("m/f", 0755) == 0 && symlink("f", "m/l") == 0);
    FAILS(access("m/f", X_OK), EACCES);
    FAILS(execl("m/f", "f", NULL), EACCES);
    int f = open("m/f", O_RDONLY);
    CHECK(f >= 0);
    errno = 0;
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, f, 0) == MAP_FAILED && errno == EPERM);
    CHECK(close(f) == 0);
    FAILS(open("m/l", O_RDONLY), ELOOP);
    CHECK(mknod("m/null", S_IFCHR | 0666, 0x103) == 0);
    FAILS(open("m/null", O_RDWR), EACCES);
    struct statfs s;
    CHECK(statfs("m", &s) == 0);
    SAME(s.f_flags & ~0x2000, ST_VALID | 4 | 8 | 0x400);
    SAME(mount(NULL, "m", NULL, MS_REMOUNT, NULL), 0);
    CHECK(strstr(line_with("/proc/self/mounts", "/m tmpfs "), " rw,noatime") != NULL);
    int null = open("m/null", O_RDWR);
    CHECK(null >= 0 && write(null, "x", 1) == 1 && close(null) == 0 && access("m/f", X_OK) == 0 && access("m/l", R_OK) == 0);
    CHECK(umount("m") == 0 && rmdir("m") == 0);
}

/* Reads a file whose last access was long ago and before its last change, then again: which of the two reads moved its access time. */
static int moved_by(const char *path) {
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    struct stat one, other;
    char c;
    int f = open(path, O_RDONLY);
    if (f < 0 || utimensat(AT_FDCWD, path, times, 0) != 0)
        return -1;
    sleep_ms(20);
    if (read(f, &c, 1) != 1 || fstat(f, &one) != 0)
        return -1;
    sleep_ms(20);
    if (lseek(f, 0, SEEK_SET) != 0 || read(f, &c, 1) != 1 || fstat(f, &other) != 0 || close(f) != 0)
        return -1;
    return (one.st_atime != 1000) | (other.st_atim.tv_nsec != one.st_atim.tv_nsec || other.st_atime != one.st_atime) << 1;
}
static void access_times_are_kept_as_mounted(void) {
    CHECK(mkdir("m", 0755) == 0 && mount("x", "m", "tmpfs", 0, NULL) == 0 && put("m/f", "text"));
    SAME(moved_by("m/f"), 1); /* relatively */
    CHECK(mount(NULL, "m", NULL, MS_REMOUNT | MS_STRICTATIME, NULL) == 0);
    SAME(moved_by("m/f"), 3);
    CHECK(mount(NULL, "m", NULL, MS_REMOUNT | MS_NOATIME, NULL) == 0);
    SAME(moved_by("m/f"), 0);
    CHECK(umount("m") == 0 && rmdir("m") == 0);
}

static void a_place_is_shown_at_another(void) {
    struct stat one, other;
    char path[PATH_MAX], wanted[PATH_MAX + 8];
    CHECK(mkdir("a", 0755) == 0 && mkdir("a/in", 0755) == 0 && mkdir("b", 0755) == 0 && put("a/f", "text") && put("file", "other"));
    SAME(mount("a", "b", NULL, MS_BIND, NULL), 0);
    CHECK(stat("a/f", &one) == 0 && stat("b/f", &other) == 0);
    CHECK(one.st_dev == other.st_dev && one.st_ino == other.st_ino);
    CHECK(put("b/g", "new") && holds("a/g", "new") && unlink("a/g") == 0);
    FAILS(access("b/g", F_OK), ENOENT);
    FAILS(rename("a/f", "b/h"), EXDEV);
    FAILS(link("a/f", "b/h"), EXDEV);
    snprintf(wanted, sizeof wanted, "%s/b/in", guest_scratch);
    CHECK(chdir("b/in") == 0 && getcwd(path, sizeof path) != NULL && strcmp(path, wanted) == 0);
    CHECK(chdir("../..") == 0 && access("b", F_OK) == 0);
    SAME(mount(NULL, "b", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
    FAILS(open("b/f", O_WRONLY), EROFS);
    CHECK(put("a/f", "text"));
    CHECK(strstr(line_with("/proc/self/mountinfo", "/b ro,"), "/a ") != NULL);
    SAME(umount("b"), 0);
    /* a file */
    SAME(mount("file", "a/f", NULL, MS_BIND, NULL), 0);
    CHECK(holds("a/f", "other"));
    FAILS(unlink("a/f"), EBUSY);
    SAME(umount("a/f"), 0);
    CHECK(holds("a/f", "text"));
    /* with what is mounted in it, and without */
    CHECK(mount("x", "a/in", "tmpfs", 0, NULL) == 0 && put("a/in/t", "inside"));
    SAME(mount("a", "b", NULL, MS_BIND, NULL), 0);
    FAILS(access("b/in/t", F_OK), ENOENT);
    SAME(umount("b"), 0);
    SAME(mount("a", "b", NULL, MS_BIND | MS_REC, NULL), 0);
    CHECK(holds("b/in/t", "inside"));
    FAILS(umount("b"), EBUSY);
    SAME(umount2("b", MNT_DETACH), 0);
    CHECK(holds("a/in/t", "inside"));
    /* bound through a subdirectory that is unbindable */
    SAME(mount(NULL, "a/in", NULL, MS_UNBINDABLE, NULL), 0);
    FAILS(mount("a/in", "b", NULL, MS_BIND, NULL), EINVAL);
    CHECK(umount("a/in") == 0);
    CHECK(unlink("a/f") == 0 && rmdir("a/in") == 0 && rmdir("a") == 0 && rmdir("b") == 0 && unlink("file") == 0);
}

static void a_tmpfs_is_full(void) {
    static char page[8192];
    struct statfs s;
    CHECK(mkdir("m", 0755) == 0 && mount("x", "m", "tmpfs", 0, "size=64k,nr_inodes=4") == 0);
    int f = open("m/f", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 7; i++)
        SAME(write(f, page, 8192), 8192);
    SAME(write(f, page, 4096), 4096);
    SAME(write(f, page, 8192), 4096);
    FAILS(write(f, page, 1), ENOSPC);
    SAME(pwrite(f, page, 8192, 0), 8192);
    CHECK(fstatfs(f, &s) == 0 && s.f_bfree == 0 && s.f_blocks == 16);
    CHECK(ftruncate(f, 4096) == 0 && fstatfs(f, &s) == 0 && s.f_bfree == 15);
    FAILS(fallocate(f, 0, 0, 1 << 20), ENOSPC);
    SAME(fallocate(f, 0, 0, 16384), 0);
    CHECK(fstatfs(f, &s) == 0 && s.f_bfree == 12);
    SAME(s.f_files, 4);
    SAME(s.f_ffree, 2);
    CHECK(mkdir("m/1", 0700) == 0 && mkdir("m/2", 0700) == 0);
    FAILS(mkdir("m/3", 0700), ENOSPC);
    FAILS(open("m/3", O_RDWR | O_CREAT, 0600), ENOSPC);
    CHECK(rmdir("m/2") == 0 && mkdir("m/3", 0700) == 0);
    SAME(mount(NULL, "m", NULL, MS_REMOUNT, "size=128k"), 0);
    CHECK(statfs("m", &s) == 0 && s.f_blocks == 32);
    FAILS(mount(NULL, "m", NULL, MS_REMOUNT, "size=4k"), EINVAL);
    CHECK(close(f) == 0 && umount("m") == 0);
    SAME(mount("x", "m", "ramfs", 0, NULL), 0);
    CHECK(statfs("m", &s) == 0);
    SAME((unsigned)s.f_type, 0x858458f6u);
    SAME(s.f_blocks, 0);
    CHECK(put("m/f", "text") && holds("m/f", "text") && umount("m") == 0 && rmdir("m") == 0);
}

static void mounts_lie_over_each_other(void) {
    CHECK(mkdir("m", 0755) == 0 && mkdir("n", 0755) == 0);
    CHECK(mount("1", "m", "tmpfs", 0, NULL) == 0 && put("m/one", "1") && mkdir("m/d", 0755) == 0);
    CHECK(mount("2", "m", "tmpfs", 0, NULL) == 0 && put("m/two", "2"));
    FAILS(access("m/one", F_OK), ENOENT);
    SAME(umount("m"), 0);
    CHECK(holds("m/one", "1"));
    /* moved with what is mounted in it */
    CHECK(mount("3", "m/d", "tmpfs", 0, NULL) == 0 && put("m/d/three", "3"));
    FAILS(mount("m", "m/d", NULL, MS_MOVE, NULL), ELOOP);
    SAME(mount("m", "n", NULL, MS_MOVE, NULL), 0);
    CHECK(holds("n/d/three", "3") && access("m/one", F_OK) == -1);
    /* detached while a file is open, which goes on */
    int f = open("n/one", O_RDWR), d = open("n/d", O_RDONLY | O_DIRECTORY);
    SAME(umount2("n", MNT_DETACH), 0);
    FAILS(access("n/one", F_OK), ENOENT);
    char c = 0;
    CHECK(read(f, &c, 1) == 1 && c == '1' && write(f, "more", 4) == 4);
    int g = openat(d, "three", O_RDONLY);
    CHECK(g >= 0 && read(g, &c, 1) == 1 && c == '3' && close(g) == 0 && close(f) == 0 && close(d) == 0);
    /* one that nobody has used between two calls goes */
    CHECK(mount("4", "m", "tmpfs", 0, NULL) == 0);
    FAILS(umount2("m", MNT_EXPIRE | MNT_DETACH), EINVAL);
    FAILS(umount2("m", MNT_EXPIRE), EAGAIN);
    SAME(umount2("m", MNT_EXPIRE), 0);
    FAILS(umount2("m", MNT_EXPIRE), EINVAL);
    CHECK(symlink("m", "l") == 0 && mount("5", "l", "tmpfs", 0, NULL) == 0);
    FAILS(umount2("l", UMOUNT_NOFOLLOW), EINVAL);
    SAME(umount("l"), 0);
    CHECK(unlink("l") == 0 && rmdir("m") == 0 && rmdir("n") == 0);
}

static void peers_get_what_is_mounted(void) {
    CHECK(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && mkdir("c", 0755) == 0);
    CHECK(mount("x", "a", "tmpfs", 0, NULL) == 0 && mkdir("a/in", 0755) == 0);
    SAME(mount(NULL, "a", NULL, MS_SHARED, NULL), 0);
    CHECK(strstr(line_with("/proc/self/mountinfo", "/a rw,"), " shared:") != NULL);
    CHECK(mount("a", "b", NULL, MS_BIND, NULL) == 0 && mount("a", "c", NULL, MS_BIND, NULL) == 0);
    SAME(mount(NULL, "c", NULL, MS_SLAVE, NULL), 0);
    CHECK(strstr(line_with("/proc/self/mountinfo", "/c rw,"), " master:") != NULL);
    CHECK(mount("y", "a/in", "tmpfs", 0, NULL) == 0 && put("a/in/f", "text"));
    CHECK(holds("b/in/f", "text") && holds("c/in/f", "text"));
    SAME(umount("b/in"), 0);
    FAILS(access("a/in/f", F_OK), ENOENT);
    FAILS(access("c/in/f", F_OK), ENOENT);
    CHECK(mount("z", "c/in", "tmpfs", 0, NULL) == 0 && put("c/in/g", ""));
    FAILS(access("a/in/g", F_OK), ENOENT);
    CHECK(umount("c/in") == 0);
    CHECK(mount(NULL, "b", NULL, MS_PRIVATE, NULL) == 0 && mount("w", "a/in", "tmpfs", 0, NULL) == 0 && put("a/in/h", ""));
    FAILS(access("b/in/h", F_OK), ENOENT);
    CHECK(umount("a/in") == 0 && umount("a") == 0 && umount("b") == 0 && umount("c") == 0);
    CHECK(rmdir("a") == 0 && rmdir("b") == 0 && rmdir("c") == 0);
}

static void what_is_mounted_outlives_its_name(void) {
    CHECK(put("a", "kept") && put("b", "below"));
    SAME(mount("a", "b", NULL, MS_BIND, NULL), 0);
    CHECK(unlink("a") == 0 && holds("b", "kept"));
    struct stat st;
    CHECK(stat("b", &st) == 0 && st.st_nlink == 0);
    SAME(umount("b"), 0);
    CHECK(holds("b", "below") && unlink("b") == 0);
}

static void what_peers_got_within_goes_once(void) {
    CHECK(mkdir("m", 0755) == 0 && mount("x", "m", "tmpfs", 0, NULL) == 0 && mount(NULL, "m", NULL, MS_SHARED, NULL) == 0);
    CHECK(mkdir("m/p", 0755) == 0 && mount("y", "m/p", "tmpfs", 0, NULL) == 0 && mkdir("m/p/y", 0755) == 0);
    SAME(mount("m", "m/p/y", NULL, MS_BIND | MS_REC, NULL), 0);
    SAME(umount2("m/p", MNT_DETACH), 0);
    CHECK(access("m/p", F_OK) == 0);
    FAILS(access("m/p/y", F_OK), ENOENT);
    FAILS(syscall(442, AT_FDCWD, "m", 0, -1L, 64L), EFAULT);
    CHECK(umount2("m", MNT_DETACH) == 0 && rmdir("m") == 0);
}

static void a_slave_passes_nothing_back(void) {
    CHECK(mkdir("a", 0755) == 0 && mkdir("c", 0755) == 0);
    CHECK(mount("x", "a", "tmpfs", 0, NULL) == 0 && mkdir("a/in", 0755) == 0 && mount(NULL, "a", NULL, MS_SHARED, NULL) == 0);
    CHECK(mount("a", "c", NULL, MS_BIND, NULL) == 0 && mount(NULL, "c", NULL, MS_SLAVE, NULL) == 0);
    CHECK(mount("y", "a/in", "tmpfs", 0, NULL) == 0 && mkdir("a/in/deep", 0755) == 0 && access("c/in/deep", F_OK) == 0);
    CHECK(mount("z", "c/in/deep", "tmpfs", 0, NULL) == 0 && put("c/in/deep/f", ""));
    FAILS(access("a/in/deep/f", F_OK), ENOENT);
    CHECK(umount2("c", MNT_DETACH) == 0 && umount2("a", MNT_DETACH) == 0 && rmdir("a") == 0 && rmdir("c") == 0);
}

static void system_files_at_other_places(void) {
    struct statfs s;
    CHECK(mkdir("m", 0755) == 0);
    SAME(mount("proc", "m", "proc", 0, NULL), 0);
    CHECK(statfs("m", &s) == 0);
    SAME(s.f_type, 0x9fa0);
    CHECK(access("m/self/stat", R_OK) == 0 && access("m/../m/sys/kernel", X_OK) == 0);
    SAME(umount("m"), 0);
    SAME(mount("s", "m", "sysfs", 0, NULL), 0);
    FAILS(mount("s", "m", "sysfs", 0, NULL), EBUSY);
    CHECK(access("m/class", X_OK) == 0 && umount("m") == 0 && rmdir("m") == 0);
}

#define LOOP_SET_FD 0x4C00
#define LOOP_CLR_FD 0x4C01
#define LOOP_SET_STATUS64 0x4C04
#define LOOP_GET_STATUS64 0x4C05
#define LOOP_SET_CAPACITY 0x4C07
#define LOOP_CTL_GET_FREE 0x4C82
struct status { uint64_t device, inode, rdevice, offset, limit; uint32_t number, encryption, key_size, flags; char name[64], rest[112]; };

static void a_file_is_a_disk(void) {
    int control = open("/dev/loop-control", O_RDWR), n;
    if (control < 0) {
        puts("# no loop devices here");
        return;
    }
    char name[32], text[16] = "";
    static char block[4096];
    CHECK((n = ioctl(control, LOOP_CTL_GET_FREE)) >= 0 && close(control) == 0);
    snprintf(name, sizeof name, "/dev/loop%d", n);
    struct stat st;
    for (int i = 0; i < 100 && stat(name, &st) != 0; i++)
        sleep_ms(10);
    CHECK(stat(name, &st) == 0 && S_ISBLK(st.st_mode));
    SAME(st.st_rdev >> 8, 7);
    int f = open("disk", O_RDWR | O_CREAT, 0600), d = open(name, O_RDWR);
    CHECK(f >= 0 && d >= 0 && ftruncate(f, 65536 + 100) == 0 && pwrite(f, "start", 5, 0) == 5);
    struct status s;
    FAILS(ioctl(d, LOOP_GET_STATUS64, &s), ENXIO);
    FAILS(ioctl(d, LOOP_CLR_FD, 0), ENXIO);
    FAILS(ioctl(d, LOOP_SET_FD, 1000), EBADF);
    SAME(ioctl(d, LOOP_SET_FD, f), 0);
    FAILS(ioctl(d, LOOP_SET_FD, f), EBUSY);
    uint64_t bytes;
    unsigned long sectors;
    int value = -1;
    CHECK(ioctl(d, BLKGETSIZE64, &bytes) == 0 && ioctl(d, BLKGETSIZE, &sectors) == 0);
    SAME(bytes, 65536);
    SAME(sectors, 128);
    CHECK(ioctl(d, BLKROGET, &value) == 0 && value == 0 && ioctl(d, BLKSSZGET, &value) == 0 && value == 512);
    SAME(lseek(d, 0, SEEK_END), 65536);
    SAME(read(d, block, 512), 0);
    FAILS(write(d, block, 512), ENOSPC);
    CHECK(lseek(d, 0, SEEK_SET) == 0 && read(d, text, 5) == 5 && strcmp(text, "start") == 0);
    SAME(lseek(d, 0, SEEK_CUR), 5);
    SAME(pread(d, block, 4096, 65536 - 512), 512);
    memset(block, 'x', sizeof block);
    CHECK(pwrite(d, block, 4096, 8192) == 4096 && fsync(d) == 0);
    CHECK(pread(f, text, 1, 8192) == 1 && text[0] == 'x');
    CHECK(ioctl(d, LOOP_GET_STATUS64, &s) == 0 && s.number == (unsigned)n && s.offset == 0 && fstat(f, &st) == 0);
    SAME(s.inode, st.st_ino);
    memset(&s, 0, sizeof s);
    s.offset = 8192;
    s.limit = 4096;
    strcpy(s.name, "image");
    SAME(ioctl(d, LOOP_SET_STATUS64, &s), 0);
    CHECK(ioctl(d, BLKGETSIZE64, &bytes) == 0 && bytes == 4096 && pread(d, text, 1, 0) == 1 && text[0] == 'x');
    CHECK(ioctl(d, LOOP_GET_STATUS64, &s) == 0 && strcmp(s.name, "image") == 0);
    SAME(ioctl(d, LOOP_CLR_FD, 0), 0);
    SAME(close(d), 0);
    CHECK((d = open(name, O_RDWR)) >= 0);
    for (int i = 0; i < 100 && ioctl(d, LOOP_GET_STATUS64, &s) == 0; i++)
        sleep_ms(10);
    FAILS(ioctl(d, LOOP_GET_STATUS64, &s), ENXIO);
    CHECK(close(d) == 0 && close(f) == 0 && unlink("disk") == 0);
}

static void holes_of_a_full_tmpfs(void) {
    static char page[8192];
    CHECK(mkdir("m", 0755) == 0 && mount("x", "m", "tmpfs", 0, "size=64k") == 0);
    int f = open("m/f", O_RDWR | O_CREAT, 0600), g = open("m/g", O_RDWR | O_CREAT, 0600);
    CHECK(f >= 0 && g >= 0 && ftruncate(f, 1 << 20) == 0);
    SAME(pwrite(f, page, 8192, 512 << 10), 8192);
    for (int i = 0; i < 7; i++)
        SAME(write(g, page, 8192), 8192);
    FAILS(pwrite(f, page, 1, 0), ENOSPC);
    FAILS(pwrite(f, page, 4096, 600 << 10), ENOSPC);
    SAME(pwrite(f, page, 8192, 516 << 10), 4096);
    SAME(pwrite(f, page, 4096, 512 << 10), 4096);
    FAILS(fallocate(f, 0, 0, 4096), ENOSPC);
    CHECK(ftruncate(g, 0) == 0);
    SAME(pwrite(f, page, 8192, 0), 8192);
    CHECK(close(f) == 0 && close(g) == 0 && umount("m") == 0 && rmdir("m") == 0);
}

GUEST_WITH(if (!alone()) return 77,
    T(a_tmpfs_hides_and_goes), T(what_cannot_be_mounted), T(nothing_changes_where_it_is_read_only),
    T(flags_take_rights), T(access_times_are_kept_as_mounted), T(a_place_is_shown_at_another), T(a_tmpfs_is_full),
    T(mounts_lie_over_each_other), T(peers_get_what_is_mounted), T(what_is_mounted_outlives_its_name),
    T(what_peers_got_within_goes_once), T(a_slave_passes_nothing_back), T(system_files_at_other_places),
    T(a_file_is_a_disk), T(holes_of_a_full_tmpfs))
