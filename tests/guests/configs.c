/* The files in /etc that say who a host is are files like any other: read, written, cut, replaced, removed. Under Belljar
 * they are made up until a program changes them; elsewhere copies of that name in a directory stand for them, so that the
 * machine keeps its own. */
#include "guest.h"
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/utsname.h>
#include <sys/xattr.h>

static const char *directory = "/etc";
static const char *NAMES[] = {"resolv.conf", "hosts", "hostname", "nsswitch.conf", "machine-id", "timezone"};
enum { COUNT = sizeof NAMES / sizeof *NAMES };

static const char *path(int i) {
    static char text[PATH_MAX];
    snprintf(text, sizeof text, "%s/%s", directory, NAMES[i]);
    return text;
}
static int slurp(const char *name, char *text, int size) {
    int f = open(name, O_RDONLY);
    if (f < 0)
        return -1;
    int n = read(f, text, size - 1);
    close(f);
    if (n >= 0)
        text[n] = 0;
    return n;
}

static void their_size_is_that_of_their_text(void) {
    for (int i = 0; i < COUNT; i++) {
        char text[4096];
        int n = slurp(path(i), text, sizeof text), f = open(path(i), O_RDONLY);
        struct stat st;
        CHECK(n > 0 && f >= 0 && fstat(f, &st) == 0);
        SAME(st.st_size, n);
        SAME(lseek(f, 0, SEEK_END), n);
        SAME(lseek(f, -1, SEEK_END), n - 1);
        char last;
        CHECK(read(f, &last, 1) == 1 && last == text[n - 1]);
        close(f);
    }
}

static void mapped(void) {
    char text[4096];
    int n = slurp(path(1), text, sizeof text), f = open(path(1), O_RDONLY);
    CHECK(n > 0 && f >= 0);
    char *map = mmap(NULL, n, PROT_READ, MAP_PRIVATE, f, 0);
    CHECK(map != MAP_FAILED);
    CHECK(memcmp(map, text, n) == 0);
    munmap(map, n);
    close(f);
}

static void appended_to(void) {
    char before[4096], after[4096];
    int n = slurp(path(0), before, sizeof before), f = open(path(0), O_WRONLY | O_APPEND);
    CHECK(n > 0 && f >= 0);
    SAME(write(f, "options ndots:2\n", 16), 16);
    close(f);
    SAME(slurp(path(0), after, sizeof after), n + 16);
    CHECK(memcmp(before, after, n) == 0 && strcmp(after + n, "options ndots:2\n") == 0);
}

static void truncated_and_written(void) {
    char text[4096];
    int f = open(path(0), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(f >= 0);
    SAME(write(f, "nameserver 10.9.8.7\n", 20), 20);
    close(f);
    SAME(slurp(path(0), text, sizeof text), 20);
    CHECK(strcmp(text, "nameserver 10.9.8.7\n") == 0);
    CHECK(truncate(path(0), 11) == 0);
    SAME(slurp(path(0), text, sizeof text), 11);
    f = open(path(0), O_RDWR);
    CHECK(f >= 0 && ftruncate(f, 4) == 0);
    SAME(pwrite(f, "x", 1, 9), 1);
    struct stat st;
    CHECK(fstat(f, &st) == 0);
    SAME(st.st_size, 10);
    close(f);
}

static void a_reader_sees_what_is_written(void) {
    int r = open(path(1), O_RDONLY), w = open(path(1), O_RDWR);
    char text[4096], first[8];
    CHECK(r >= 0 && w >= 0 && read(r, first, 4) == 4);
    int n = lseek(w, 0, SEEK_END);
    SAME(write(w, "10.0.0.77 added\n", 16), 16);
    SAME(lseek(r, 0, SEEK_END), n + 16);
    lseek(r, n, SEEK_SET);
    SAME(read(r, text, sizeof text), 16);
    CHECK(memcmp(text, "10.0.0.77 added\n", 16) == 0);
    close(r), close(w);
}

static void replaced_by_rename(void) {
    char name[PATH_MAX], text[4096];
    snprintf(name, sizeof name, "%s/.new", directory);
    int f = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    CHECK(f >= 0 && write(f, "elsewhere\n", 10) == 10);
    close(f);
    CHECK(rename(name, path(2)) == 0);
    SAME(slurp(path(2), text, sizeof text), 10);
    CHECK(strcmp(text, "elsewhere\n") == 0);
    FAILS(open(name, O_RDONLY), ENOENT);
}

static void renamed_away_and_back(void) {
    char before[4096], after[4096], name[PATH_MAX];
    snprintf(name, sizeof name, "%s/nsswitch.conf.bak", directory);
    int n = slurp(path(3), before, sizeof before);
    CHECK(n > 0 && rename(path(3), name) == 0);
    FAILS(open(path(3), O_RDONLY), ENOENT);
    SAME(slurp(name, after, sizeof after), n);
    CHECK(memcmp(before, after, n) == 0);
    CHECK(link(name, path(3)) == 0);
    struct stat st;
    CHECK(stat(path(3), &st) == 0);
    SAME(st.st_nlink, 2);
    int f = open(name, O_WRONLY | O_TRUNC);
    CHECK(f >= 0 && write(f, "both\n", 5) == 5);
    close(f);
    SAME(slurp(path(3), after, sizeof after), 5);
    CHECK(unlink(name) == 0);
}

static void removed_and_made_anew(void) {
    char text[4096];
    int held = open(path(4), O_RDONLY), n = slurp(path(4), text, sizeof text);
    CHECK(held >= 0 && n > 0);
    CHECK(unlink(path(4)) == 0);
    FAILS(access(path(4), F_OK), ENOENT);
    char after[4096];
    SAME(read(held, after, sizeof after), n); /* still open */
    CHECK(memcmp(text, after, n) == 0);
    close(held);
    int f = open(path(4), O_WRONLY | O_CREAT | O_EXCL, 0444);
    CHECK(f >= 0 && write(f, "0123456789abcdef0123456789abcdef\n", 33) == 33);
    close(f);
    SAME(slurp(path(4), text, sizeof text), 33);
}

static void with_another_mode_owner_and_time(void) {
    struct stat st;
    CHECK(chmod(path(5), 0600) == 0 && stat(path(5), &st) == 0);
    SAME(st.st_mode, S_IFREG | 0600);
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    CHECK(utimensat(AT_FDCWD, path(5), times, 0) == 0 && stat(path(5), &st) == 0);
    SAME(st.st_mtime, 2000);
    SAME(setxattr(path(5), "user.note", "abc", 3, 0), 0);
    char value[8];
    SAME(getxattr(path(5), "user.note", value, sizeof value), 3);
    char text[64];
    CHECK(slurp(path(5), text, sizeof text) > 0);
}

static void sent_and_watched(void) {
    int f = open(path(3), O_RDONLY), out = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
    struct stat st;
    CHECK(f >= 0 && out >= 0 && fstat(f, &st) == 0);
    off_t at = 0;
    SAME(sendfile(out, f, &at, 4096), st.st_size);
    close(f), close(out);
    unlink("copy");
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(watch, path(3), IN_MODIFY) > 0);
    f = open(path(3), O_WRONLY);
    CHECK(f >= 0 && write(f, "#", 1) == 1);
    close(f);
    struct inotify_event event;
    SAME(read(watch, &event, sizeof event), sizeof event);
    SAME(event.mask, IN_MODIFY);
    close(watch);
}

static void the_files_of_proc_stay(void) {
    FAILS(unlink("/proc/version"), EPERM);
    int f = open("/proc/version", O_RDONLY);
    CHECK(f >= 0);
    FAILS(mmap(NULL, 100, PROT_READ, MAP_PRIVATE, f, 0) == MAP_FAILED ? -1 : 0, EIO);
    close(f);
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {
        T(their_size_is_that_of_their_text), T(mapped), T(appended_to), T(truncated_and_written), T(a_reader_sees_what_is_written),
        T(replaced_by_rename), T(renamed_away_and_back), T(removed_and_made_anew), T(with_another_mode_owner_and_time),
        T(sent_and_watched), T(the_files_of_proc_stay),
    };
    scratch_enter();
    struct utsname name;
    uname(&name);
    if (strstr(name.release, "belljar") == NULL) {
        directory = guest_scratch;
        for (int i = 0; i < COUNT; i++) {
            int f = open(path(i), O_WRONLY | O_CREAT, 0644);
            write(f, "some text of this file\n", 23);
            close(f);
        }
    }
    int result = guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
    for (int i = 0; i < COUNT && directory == guest_scratch; i++)
        unlink(path(i));
    return result;
}
