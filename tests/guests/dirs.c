/* Names: directories, links, renaming, permissions to look, the working directory. path_resolution(7). */
#include "guest.h"
#include <sys/syscall.h>
#include <dirent.h>
#include <sys/wait.h>

static int touch(const char *name) {
    int f = open(name, O_WRONLY | O_CREAT, 0644);
    return f < 0 ? -1 : close(f);
}

static void make_and_remove(void) {
    CHECK(mkdir("d", 0755) == 0);
    FAILS(mkdir("d", 0755), EEXIST);
    FAILS(mkdir("x/y", 0755), ENOENT);
    struct stat st;
    CHECK(stat("d", &st) == 0 && S_ISDIR(st.st_mode));
    SAME(st.st_mode & 0777, 0755);
    CHECK(touch("d/f") == 0);
    FAILS(rmdir("d"), ENOTEMPTY);
    FAILS(rmdir("d/f"), ENOTDIR);
    FAILS(unlink("d"), EISDIR);
    CHECK(unlink("d/f") == 0);
    FAILS(unlink("d/f"), ENOENT);
    CHECK(rmdir("d") == 0);
    FAILS(rmdir("d"), ENOENT);
}

static void list(void) {
    CHECK(mkdir("l", 0755) == 0);
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "l/file-%03d", i);
        CHECK(touch(name) == 0);
    }
    CHECK(mkdir("l/sub", 0755) == 0);
    DIR *d = opendir("l");
    CHECK(d != NULL);
    int files = 0, dirs = 0, dots = 0;
    struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            dots++;
        else if (e->d_type == DT_DIR)
            dirs++;
        else if (e->d_type == DT_REG)
            files++;
    }
    SAME(dots, 2);
    SAME(dirs, 1);
    SAME(files, 200);
    rewinddir(d);
    CHECK(readdir(d) != NULL);
    closedir(d);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "l/file-%03d", i);
        CHECK(unlink(name) == 0);
    }
    CHECK(rmdir("l/sub") == 0 && rmdir("l") == 0);
}

static void renaming(void) {
    CHECK(touch("r1") == 0 && touch("r2") == 0 && mkdir("rd", 0755) == 0);
    struct stat a, b;
    CHECK(stat("r1", &a) == 0 && rename("r1", "r2") == 0 && stat("r2", &b) == 0);
    CHECK(a.st_ino == b.st_ino);
    FAILS(stat("r1", &a), ENOENT);
    FAILS(rename("r1", "r3"), ENOENT);
    FAILS(rename("r2", "rd"), EISDIR);
    FAILS(rename("rd", "r2"), ENOTDIR);
    CHECK(rename("r2", "rd/inside") == 0);
    CHECK(mkdir("re", 0755) == 0);
    FAILS(rename("re", "rd"), ENOTEMPTY);
    FAILS(rename("rd", "rd/below"), EINVAL);
    CHECK(rename("rd", "re") == 0); /* replaces an empty directory */
    CHECK(access("re/inside", F_OK) == 0);
    CHECK(unlink("re/inside") == 0 && rmdir("re") == 0);
}

static void symbolic_links(void) {
    char b[64];
    CHECK(touch("target") == 0 && symlink("target", "s") == 0);
    FAILS(symlink("target", "s"), EEXIST);
    SAME(readlink("s", b, sizeof b), 6);
    CHECK(memcmp(b, "target", 6) == 0);
    SAME(readlink("s", b, 3), 3);
    FAILS(readlink("target", b, sizeof b), EINVAL);
    struct stat l, t, s;
    CHECK(lstat("s", &l) == 0 && S_ISLNK(l.st_mode));
    SAME(l.st_size, 6);
    CHECK(stat("s", &s) == 0 && stat("target", &t) == 0 && s.st_ino == t.st_ino);
    FAILS(open("s", O_RDONLY | O_NOFOLLOW), ELOOP);
    CHECK(unlink("target") == 0);
    FAILS(open("s", O_RDONLY), ENOENT);
    CHECK(access("s", F_OK) == -1 && lstat("s", &l) == 0);
    CHECK(unlink("s") == 0);
    CHECK(symlink("loop2", "loop1") == 0 && symlink("loop1", "loop2") == 0);
    FAILS(open("loop1", O_RDONLY), ELOOP);
    CHECK(unlink("loop1") == 0 && unlink("loop2") == 0);
    CHECK(mkdir("sd", 0755) == 0 && symlink("sd", "ld") == 0 && touch("ld/f") == 0);
    CHECK(access("sd/f", F_OK) == 0 && access("sd/../ld/./f", F_OK) == 0);
    CHECK(unlink("sd/f") == 0 && unlink("ld") == 0 && rmdir("sd") == 0);
}

static void hard_links(void) {
    CHECK(touch("h1") == 0 && link("h1", "h2") == 0);
    struct stat a, b;
    CHECK(stat("h1", &a) == 0 && stat("h2", &b) == 0);
    SAME(a.st_ino, b.st_ino);
    SAME(a.st_nlink, 2);
    FAILS(link("h1", "h2"), EEXIST);
    CHECK(unlink("h1") == 0 && stat("h2", &b) == 0);
    SAME(b.st_nlink, 1);
    CHECK(unlink("h2") == 0);
}

static void modes_and_access(void) {
    mode_t old = umask(022);
    int f = open("m", O_WRONLY | O_CREAT, 0777);
    CHECK(f >= 0);
    struct stat st;
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_mode & 07777, 0755);
    CHECK(fchmod(f, 0600) == 0 && fstat(f, &st) == 0);
    SAME(st.st_mode & 07777, 0600);
    FAILS(access("m", X_OK), EACCES); /* nobody may execute it, not even root */
    CHECK(chmod("m", 0700) == 0 && access("m", X_OK | R_OK | W_OK) == 0);
    FAILS(access("m2", F_OK), ENOENT);
    FAILS(chmod("m2", 0600), ENOENT);
    close(f);
    CHECK(unlink("m") == 0);
    SAME(umask(old), 022);
}

static void stat_of_a_file(void) {
    int f = open("st", O_WRONLY | O_CREAT | O_TRUNC, 0640);
    CHECK(f >= 0);
    SAME(write(f, "12345", 5), 5);
    struct stat a, b;
    CHECK(fstat(f, &a) == 0 && fstatat(AT_FDCWD, "st", &b, 0) == 0);
    CHECK(a.st_ino == b.st_ino && a.st_dev == b.st_dev && S_ISREG(a.st_mode));
    SAME(a.st_size, 5);
    SAME(a.st_nlink, 1);
    SAME(a.st_uid, geteuid());
    CHECK(a.st_blksize > 0);
    time_t now = time(NULL);
    CHECK(a.st_mtim.tv_sec >= now - 60 && a.st_mtim.tv_sec <= now + 60);
    close(f);
    CHECK(unlink("st") == 0);
    FAILS(fstat(f, &a), EBADF);
}

static void relative_to_a_directory(void) {
    CHECK(mkdir("at", 0755) == 0);
    int d = open("at", O_RDONLY | O_DIRECTORY);
    CHECK(d >= 0);
    int f = openat(d, "f", O_WRONLY | O_CREAT, 0644);
    CHECK(f >= 0 && close(f) == 0);
    struct stat st;
    CHECK(fstatat(d, "f", &st, 0) == 0 && faccessat(d, "f", R_OK, 0) == 0);
    CHECK(mkdirat(d, "g", 0755) == 0 && renameat(d, "f", d, "h") == 0);
    FAILS(openat(d, "f", O_RDONLY), ENOENT);
    FAILS(unlinkat(d, "g", 0), EISDIR);
    CHECK(unlinkat(d, "g", AT_REMOVEDIR) == 0 && unlinkat(d, "h", 0) == 0);
    int plain = open("/dev/null", O_RDONLY);
    FAILS(openat(plain, "x", O_RDONLY), ENOTDIR);
    FAILS(openat(999, "x", O_RDONLY), EBADF);
    close(plain);
    close(d);
    CHECK(rmdir("at") == 0);
}

static void working_directory(void) {
    char before[PATH_MAX], after[PATH_MAX], small[2];
    CHECK(getcwd(before, sizeof before) != NULL && before[0] == '/');
    CHECK(mkdir("w", 0755) == 0 && chdir("w") == 0);
    CHECK(getcwd(after, sizeof after) != NULL);
    CHECK(strncmp(after, before, strlen(before)) == 0 && strcmp(after + strlen(before), "/w") == 0);
    CHECK(getcwd(small, sizeof small) == NULL && errno == ERANGE);
    CHECK(touch("here") == 0 && access("../w/here", F_OK) == 0 && unlink("here") == 0);
    int up = open("..", O_RDONLY | O_DIRECTORY);
    CHECK(up >= 0 && fchdir(up) == 0 && close(up) == 0);
    CHECK(getcwd(after, sizeof after) != NULL && strcmp(after, before) == 0);
    FAILS(chdir("nowhere"), ENOENT);
    FAILS(chdir("/dev/null"), ENOTDIR);
    CHECK(chdir("/") == 0 && getcwd(after, sizeof after) != NULL && strcmp(after, "/") == 0);
    CHECK(chdir(before) == 0 && rmdir("w") == 0);
    CHECK(realpath(".", after) != NULL && strcmp(after, before) == 0);
}

/* A name that is to be made or taken away is not followed, not even with a slash behind it. */
static void slashes_behind_links(void) {
    struct stat s;
    CHECK(symlink("nothing", "dangling") == 0 && mkdir("d", 0700) == 0 && symlink("d", "link") == 0);
    int f = open("file", O_CREAT | O_WRONLY, 0600);
    CHECK(f >= 0 && close(f) == 0);
    FAILS(mkdir("dangling/", 0700), EEXIST);
    FAILS(mkdir("link/", 0700), EEXIST);
    FAILS(mkdir("file/", 0700), EEXIST);
    FAILS(lstat("nothing", &s), ENOENT);
    FAILS(rmdir("link/"), ENOTDIR);
    FAILS(unlink("link/"), ENOTDIR);
    FAILS(unlink("file/"), ENOTDIR);
    FAILS(rename("link/", "other"), ENOTDIR);
    FAILS(rename("file", "other/"), ENOTDIR);
    FAILS(rename("file", "link/"), ENOTDIR);
    FAILS(rename("file/", "other"), ENOTDIR);
    FAILS(symlink("x", "new/"), ENOENT);
    FAILS(stat("dangling/", &s), ENOENT);
    CHECK(lstat("link/", &s) == 0 && S_ISDIR(s.st_mode)); /* but a file that is looked at is */
    CHECK(rename("d/", "e/") == 0 && rmdir("e") == 0);
    CHECK(unlink("dangling") == 0 && unlink("link") == 0 && unlink("file") == 0);
}

/* A directory may lie deeper than any path reaches. */
static void deeper_than_paths(void) {
    char name[201], cwd[PATH_MAX];
    memset(name, 'd', 200), name[200] = 0;
    int depth = 0;
    for (; depth < 30; depth++)
        CHECK(mkdir(name, 0700) == 0 && chdir(name) == 0);
    FAILS(syscall(SYS_getcwd, cwd, sizeof cwd), ENAMETOOLONG);
    int f = open("file", O_CREAT | O_RDWR, 0600);
    CHECK(f >= 0 && write(f, "deep", 4) == 4 && close(f) == 0);
    CHECK(rename("file", "renamed") == 0 && symlink("renamed", "link") == 0 && link("renamed", "second") == 0);
    CHECK((f = open("link", O_RDONLY)) >= 0 && read(f, cwd, 10) == 4 && close(f) == 0);
    CHECK(unlink("link") == 0 && unlink("second") == 0 && unlink("renamed") == 0);
    for (; depth > 0; depth--)
        CHECK(chdir("..") == 0 && rmdir(name) == 0);
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
}

static void too_long(void) {
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    FAILS(open(name, O_RDONLY), ENAMETOOLONG);
    static char path[5000];
    for (size_t i = 0; i + 1 < sizeof path; i++)
        path[i] = i % 2 ? '/' : '.';
    FAILS(open(path, O_RDONLY), ENAMETOOLONG);
}

static void the_machines_files(void) {
    char b[64];
    int f = open("/etc/passwd", O_RDONLY);
    CHECK(f >= 0 && read(f, b, sizeof b) > 10 && close(f) == 0);
    struct stat st;
    CHECK(stat("/usr/bin", &st) == 0 && S_ISDIR(st.st_mode) && stat("/", &st) == 0 && S_ISDIR(st.st_mode));
    DIR *d = opendir("/usr");
    CHECK(d != NULL);
    int seen = 0;
    struct dirent *e;
    while ((e = readdir(d)) != NULL)
        seen |= strcmp(e->d_name, "bin") == 0;
    closedir(d);
    CHECK(seen);
}

/* What a check came to in a process of its own. */
static int in_child(int (*check)(void)) {
    pid_t child = fork();
    if (child == 0)
        _exit(check());
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int inside(void) {
    char b[64] = "";
    if (chroot("jail") != 0 || chdir("/") != 0 || getcwd(b, sizeof b) == NULL || strcmp(b, "/") != 0)
        return 1;
    if (access("/file", F_OK) != 0 || access("/../../file", F_OK) != 0 || access("link", F_OK) != 0)
        return 2;
    if (access("/etc/passwd", F_OK) == 0 || errno != ENOENT)
        return 3;
    if (mkdir("/sub", 0755) != 0 || chdir("/sub/..") != 0 || access("file", F_OK) != 0)
        return 4;
    // A root within the root.
    if (chroot("/sub") != 0 || chdir("/") != 0 || access("/file", F_OK) == 0 || access("/../file", F_OK) == 0)
        return 5;
    return 0;
}
static int stays_outside(void) {
    // The working directory is not moved, and does not lie below the root any more.
    char b[4200] = "";
    if (chroot("jail") != 0 || access("jail/file", F_OK) != 0 || access("/file", F_OK) != 0)
        return 1;
    if (access("../jail", F_OK) == 0 || syscall(SYS_getcwd, b, sizeof b) < 0)
        return 2;
    return strncmp(b, "(unreachable)", 13) == 0 ? 0 : 3;
}
static int unprivileged(void) {
    return setuid(65534) == 0 && chroot("/") == -1 && errno == EPERM ? 0 : 1;
}
static void roots(void) {
    CHECK(mkdir("jail", 0755) == 0 && touch("jail/file") == 0 && symlink("/file", "jail/link") == 0);
    FAILS(chroot("absent"), ENOENT);
    FAILS(chroot("jail/file"), ENOTDIR);
    if (geteuid() != 0) {
        FAILS(chroot("jail"), EPERM);
        return;
    }
    SAME(in_child(inside), 0);
    CHECK(access("jail/sub", F_OK) == 0);
    SAME(in_child(stays_outside), 0);
    SAME(in_child(unprivileged), 0);
}

GUEST_WITH(scratch_enter(), T(make_and_remove), T(list), T(renaming), T(symbolic_links), T(hard_links),
           T(modes_and_access), T(stat_of_a_file), T(relative_to_a_directory), T(working_directory), T(slashes_behind_links), T(deeper_than_paths), T(too_long),
           T(the_machines_files), T(roots))
