/* What mode bits and owners let others do with files: path_resolution(7), chmod(2), chown(2), unlink(2), access(2).
 * Needs root to become somebody else; without, there is nothing to test. */
#include "guest.h"
#include <sys/fsuid.h>
#include <utime.h>

enum { WHO = 4321, OTHER = 4322 };

static int is_root(void) { return geteuid() == 0; }

static void become(unsigned who) {
    setfsgid(who);
    setfsuid(who);
    seteuid(who);
}
static void back(void) {
    seteuid(0);
    setfsuid(0);
    setfsgid(0);
}
static int made(const char *name, unsigned mode, unsigned owner) {
    int f = open(name, O_CREAT | O_RDWR, 0600);
    if (f < 0 || fchown(f, owner, owner) != 0 || fchmod(f, mode) != 0)
        return -1;
    return close(f);
}

static void reading_and_writing(void) {
    if (!is_root())
        return;
    CHECK(made("mine", 0600, WHO) == 0 && made("theirs", 0604, OTHER) == 0 && made("secret", 0600, 0) == 0);
    become(WHO);
    int mine = open("mine", O_RDWR), theirs = open("theirs", O_RDONLY);
    int e1 = (errno = 0, open("theirs", O_WRONLY) < 0 ? errno : 0), e2 = (errno = 0, open("secret", O_RDONLY) < 0 ? errno : 0);
    int e3 = (errno = 0, truncate("theirs", 0) < 0 ? errno : 0);
    int path = open("secret", O_PATH);
    back();
    CHECK(mine >= 0 && theirs >= 0 && path >= 0);
    SAME(e1, EACCES);
    SAME(e2, EACCES);
    SAME(e3, EACCES);
    close(mine), close(theirs), close(path);
    CHECK(open("secret", O_RDWR) >= 0); /* root may do everything */
    close(3);
    unlink("mine"), unlink("theirs"), unlink("secret");
}

static void directories_are_passed_and_changed(void) {
    if (!is_root())
        return;
    CHECK(mkdir("closed", 0700) == 0 && made("closed/file", 0666, 0) == 0);
    CHECK(mkdir("open", 0755) == 0 && mkdir("wide", 0777) == 0 && chmod("wide", 0777) == 0);
    become(WHO);
    struct stat st;
    int e1 = (errno = 0, stat("closed/file", &st) < 0 ? errno : 0);
    int e2 = (errno = 0, open("closed/file", O_RDONLY) < 0 ? errno : 0);
    int e3 = (errno = 0, open("open/new", O_CREAT | O_WRONLY, 0666) < 0 ? errno : 0);
    int e4 = (errno = 0, mkdir("open/new", 0777) < 0 ? errno : 0);
    int e5 = (errno = 0, chdir("closed") < 0 ? errno : 0);
    int e6 = (errno = 0, open("closed", O_RDONLY) < 0 ? errno : 0);
    int f = open("wide/new", O_CREAT | O_WRONLY, 0666);
    fstat(f, &st);
    back();
    SAME(e1, EACCES);
    SAME(e2, EACCES);
    SAME(e3, EACCES);
    SAME(e4, EACCES);
    SAME(e5, EACCES);
    SAME(e6, EACCES);
    CHECK(f >= 0);
    SAME(st.st_uid, WHO);
    SAME(st.st_gid, WHO);
    close(f);
    CHECK(unlink("wide/new") == 0 && unlink("closed/file") == 0);
    CHECK(rmdir("wide") == 0 && rmdir("open") == 0 && rmdir("closed") == 0);
}

/* A process goes on in a directory that it holds, whatever becomes of its rights to those above. */
static void directories_that_are_held(void) {
    if (!is_root())
        return;
    CHECK(mkdir("above", 0700) == 0 && mkdir("above/here", 0777) == 0 && chmod("above/here", 0777) == 0);
    CHECK(made("above/beside", 0666, 0) == 0 && chdir("above/here") == 0);
    become(WHO);
    int f = open("file", O_CREAT | O_RDWR, 0666), again = open("./file", O_RDONLY), by_link = open("/proc/self/cwd/file", O_RDONLY);
    struct stat st;
    int e1 = stat(".", &st) < 0 ? errno : 0, e2 = stat("..", &st) < 0 ? errno : 0, e3 = stat("../beside", &st) < 0 ? errno : 0;
    int e4 = stat("../here", &st) < 0 ? errno : 0;
    char path[4096];
    int named = getcwd(path, sizeof path) != NULL;
    int absolute = named && stat(path, &st) < 0 ? errno : 0;
    back();
    CHECK(f >= 0 && again >= 0 && by_link >= 0 && named);
    SAME(e1, 0);
    SAME(e2, 0);
    SAME(e3, EACCES);
    SAME(e4, EACCES);
    SAME(absolute, EACCES);
    close(f), close(again), close(by_link);
    CHECK(unlink("file") == 0 && chdir("../..") == 0);
    CHECK(rmdir("above/here") == 0 && unlink("above/beside") == 0 && rmdir("above") == 0);
}

static void sticky_directories(void) {
    if (!is_root())
        return;
    CHECK(mkdir("sticky", 0777) == 0 && chmod("sticky", 01777) == 0);
    CHECK(made("sticky/mine", 0666, WHO) == 0 && made("sticky/theirs", 0666, OTHER) == 0);
    become(WHO);
    int e1 = (errno = 0, unlink("sticky/theirs") < 0 ? errno : 0);
    int e2 = (errno = 0, rename("sticky/theirs", "sticky/x") < 0 ? errno : 0);
    int e3 = (errno = 0, rename("sticky/mine", "sticky/theirs") < 0 ? errno : 0);
    int ok = rename("sticky/mine", "sticky/moved") == 0 && unlink("sticky/moved") == 0;
    back();
    SAME(e1, EPERM);
    SAME(e2, EPERM);
    SAME(e3, EPERM);
    CHECK(ok);
    CHECK(unlink("sticky/theirs") == 0 && rmdir("sticky") == 0);
}

static void only_owners_change_what_a_file_is(void) {
    if (!is_root())
        return;
    CHECK(made("mine", 0600, WHO) == 0 && made("theirs", 0666, OTHER) == 0);
    struct utimbuf then = {100, 100};
    become(WHO);
    int e1 = (errno = 0, chmod("theirs", 0777) < 0 ? errno : 0);
    int e2 = (errno = 0, chown("mine", OTHER, -1) < 0 ? errno : 0);
    int e3 = (errno = 0, chown("mine", -1, OTHER) < 0 ? errno : 0);
    int e4 = (errno = 0, utime("theirs", &then) < 0 ? errno : 0);
    int now = utime("theirs", NULL); /* who may write may say now */
    int own = chmod("mine", 0640) == 0 && utime("mine", &then) == 0 && chown("mine", WHO, -1) == 0;
    int e5 = (errno = 0, chroot(".") < 0 ? errno : 0);
    back();
    SAME(e1, EPERM);
    SAME(e2, EPERM);
    SAME(e3, EPERM);
    SAME(e4, EPERM);
    SAME(e5, EPERM);
    CHECK(now == 0 && own);
    CHECK(unlink("mine") == 0 && unlink("theirs") == 0);
}

static void access_asks_for_the_real_user(void) {
    if (!is_root())
        return;
    CHECK(made("secret", 0600, 0) == 0);
    FAILS(access("secret", X_OK), EACCES); /* nobody may execute it */
    CHECK(access("secret", R_OK | W_OK) == 0);
    become(WHO);
    int real = access("secret", R_OK), effective = faccessat(AT_FDCWD, "secret", R_OK, AT_EACCESS);
    back();
    SAME(real, 0);
    SAME(effective, -1);
    CHECK(unlink("secret") == 0);
}

static void set_group_id_directories_pass_their_group_on(void) {
    if (!is_root())
        return;
    struct stat st;
    CHECK(mkdir("group", 0755) == 0 && chown("group", 0, OTHER) == 0 && chmod("group", 02755) == 0);
    CHECK(made("group/file", 0644, 0) == 0 && mkdir("group/dir", 0755) == 0);
    CHECK(stat("group/dir", &st) == 0);
    SAME(st.st_gid, OTHER);
    SAME(st.st_mode & 07777, 02755);
    int f = open("group/new", O_CREAT | O_WRONLY, 0644);
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_gid, OTHER);
    close(f);
    CHECK(unlink("group/new") == 0 && unlink("group/file") == 0 && rmdir("group/dir") == 0 && rmdir("group") == 0);
}

static void writing_takes_special_bits_away(void) {
    if (!is_root())
        return;
    struct stat st;
    CHECK(made("special", 0777, WHO) == 0 && chmod("special", 06777) == 0);
    become(WHO);
    int f = open("special", O_WRONLY);
    ssize_t n = write(f, "x", 1);
    back();
    SAME(n, 1);
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_mode & 07777, 0777);
    close(f);
    CHECK(unlink("special") == 0);
}

/* The mode that is asked for decides whether a file may run as the group of its directory, not what the umask leaves of it. */
static void others_make_no_set_group_id_files(void) {
    if (!is_root())
        return;
    CHECK(mkdir("shared", 0777) == 0 && chown("shared", OTHER, OTHER) == 0 && chmod("shared", 02777) == 0);
    unsigned modes[3];
    mode_t before = umask(0);
    become(WHO);
    for (int n = 0; n < 3; n++) {
        umask(n == 0 ? 0 : 0010);
        if (n == 2 ? mknod("shared/f", S_IFREG | 02777, 0) != 0 : close(open("shared/f", O_CREAT | O_EXCL | O_RDWR, 02777)) != 0)
            modes[n] = 0;
        struct stat st = {0};
        stat("shared/f", &st);
        modes[n] = st.st_gid == OTHER ? st.st_mode & 07777 : 0;
        unlink("shared/f");
    }
    back();
    umask(before);
    SAME(modes[0], 0777);
    SAME(modes[1], 0767);
    SAME(modes[2], 0767);
    CHECK(rmdir("shared") == 0);
}

GUEST_WITH((umask(0), scratch_enter(), chmod(".", 0755)), T(reading_and_writing), T(directories_are_passed_and_changed), T(directories_that_are_held),
           T(sticky_directories), T(only_owners_change_what_a_file_is), T(access_asks_for_the_real_user),
           T(set_group_id_directories_pass_their_group_on), T(writing_takes_special_bits_away),
           T(others_make_no_set_group_id_files))
