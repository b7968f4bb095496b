/* Watching files and directories, inotify(7): which events come, in which order, with which names. */
#include "guest.h"
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static int in;
static char said[8192];

/* All events so far as text: `<watch>:<flags>[:<name>] ...`; cookies of moves must match. */
static const char *events(void) {
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{IN_ACCESS, "ACCESS"}, {IN_MODIFY, "MODIFY"}, {IN_ATTRIB, "ATTRIB"}, {IN_CLOSE_WRITE, "CLOSE_WRITE"},
                 {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"}, {IN_OPEN, "OPEN"}, {IN_MOVED_FROM, "MOVED_FROM"},
                 {IN_MOVED_TO, "MOVED_TO"}, {IN_CREATE, "CREATE"}, {IN_DELETE, "DELETE"}, {IN_DELETE_SELF, "DELETE_SELF"},
                 {IN_MOVE_SELF, "MOVE_SELF"}, {IN_IGNORED, "IGNORED"}, {IN_ISDIR, "+DIR"}};
    static char buffer[65536] __attribute__((aligned(8)));
    size_t at = 0;
    uint32_t cookie = 0;
    ssize_t n = read(in, buffer, sizeof buffer);
    said[0] = 0;
    for (char *p = buffer; n > 0 && p < buffer + n;) {
        struct inotify_event *e = (struct inotify_event *)p;
        at += (size_t)sprintf(said + at, "%s%d:", at ? " " : "", e->wd);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (e->mask & names[i].bit)
                at += (size_t)sprintf(said + at, "%s", names[i].name);
        if (e->len)
            at += (size_t)sprintf(said + at, ":%s", e->name);
        if (e->mask & IN_MOVED_FROM)
            cookie = e->cookie;
        int moved = (e->mask & IN_MOVED_FROM) || (e->mask & IN_MOVED_TO && cookie == 0);
        if ((moved ? e->cookie == 0 : e->cookie != (e->mask & IN_MOVED_TO ? cookie : 0)) || e->len % 16 != 0)
            at += (size_t)sprintf(said + at, "!");
        p += sizeof *e + e->len;
    }
    return said;
}
#define SAID(text) do { if (strcmp(events(), text) != 0) { printf("# said \"%s\"\n# not  \"%s\"\n", said, text); \
    guest_report(__FILE__, __LINE__, "events"); return; } } while (0)

static int begin(void) { return (in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) >= 0 && mkdir("d", 0755) == 0; }
static void end(void) { close(in), rmdir("d"); }
static void put(const char *name, const char *text) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (text[0])
        write(fd, text, strlen(text));
    close(fd);
}

static void files_in_a_directory(void) {
    CHECK(begin());
    int w = inotify_add_watch(in, "d", IN_ALL_EVENTS);
    SAME(w, 1);
    put("d/a", "text");
    SAID("1:CREATE:a 1:OPEN:a 1:MODIFY:a 1:CLOSE_WRITE:a");
    put("d/a", "");
    SAID("1:OPEN:a 1:MODIFY:a 1:CLOSE_WRITE:a");
    char b[8];
    put("d/a", "text"), events();
    int fd = open("d/a", O_RDONLY);
    CHECK(read(fd, b, sizeof b) == 4 && read(fd, b, sizeof b) == 0 && close(fd) == 0);
    SAID("1:OPEN:a 1:ACCESS:a 1:CLOSE_NOWRITE:a");
    CHECK(chmod("d/a", 0600) == 0);
    SAID("1:ATTRIB:a");
    CHECK(truncate("d/a", 1) == 0);
    SAID("1:MODIFY:a");
    CHECK(unlink("d/a") == 0);
    SAID("1:DELETE:a");
    SAID("");
    end();
}

static void names(void) {
    CHECK(begin());
    SAME(inotify_add_watch(in, "d", IN_CREATE | IN_DELETE | IN_MOVE), 1);
    CHECK(mkdir("d/sub", 0755) == 0 && symlink("x", "d/link") == 0 && mkfifo("d/fifo", 0600) == 0);
    SAID("1:CREATE+DIR:sub 1:CREATE:link 1:CREATE:fifo");
    put("d/f", "");
    CHECK(link("d/f", "d/g") == 0);
    SAID("1:CREATE:f 1:CREATE:g");
    CHECK(rename("d/g", "d/h") == 0);
    SAID("1:MOVED_FROM:g 1:MOVED_TO:h");
    CHECK(rename("d/sub", "out") == 0);
    SAID("1:MOVED_FROM+DIR:sub");
    CHECK(rename("out", "d/in") == 0);
    SAID("1:MOVED_TO+DIR:in");
    put("d/k", "");
    CHECK(rename("d/k", "d/h") == 0);
    SAID("1:CREATE:k 1:MOVED_FROM:k 1:MOVED_TO:h");
    CHECK(rmdir("d/in") == 0 && unlink("d/link") == 0 && unlink("d/fifo") == 0 && unlink("d/f") == 0 && unlink("d/h") == 0);
    SAID("1:DELETE+DIR:in 1:DELETE:link 1:DELETE:fifo 1:DELETE:f 1:DELETE:h");
    end();
}

static void a_file_itself(void) {
    CHECK(begin());
    put("d/f", "x");
    SAME(inotify_add_watch(in, "d/f", IN_ALL_EVENTS), 1);
    SAME(inotify_add_watch(in, "d", IN_DELETE | IN_MOVED_TO), 2);
    CHECK(rename("d/f", "d/g") == 0);
    SAID("2:MOVED_TO:g 1:MOVE_SELF");
    CHECK(link("d/g", "d/h") == 0 && unlink("d/g") == 0);
    SAID("1:ATTRIB 2:DELETE:g");
    CHECK(unlink("d/h") == 0);
    SAID("1:ATTRIB 1:DELETE_SELF 1:IGNORED 2:DELETE:h");
    FAILS(inotify_rm_watch(in, 1), EINVAL);
    put("d/f", "x");
    int fd = open("d/f", O_RDONLY);
    SAME(inotify_add_watch(in, "d/f", IN_DELETE_SELF | IN_CLOSE), 3);
    CHECK(unlink("d/f") == 0); /* still open */
    SAID("2:DELETE:f");
    close(fd);
    SAID("3:CLOSE_NOWRITE 3:DELETE_SELF 3:IGNORED");
    end();
}

static void a_directory_itself(void) {
    CHECK(begin());
    CHECK(mkdir("d/s", 0755) == 0);
    SAME(inotify_add_watch(in, "d/s", IN_DELETE_SELF | IN_MOVE_SELF | IN_OPEN | IN_ATTRIB), 1);
    SAME(inotify_add_watch(in, "d", IN_DELETE), 2);
    int fd = open("d/s", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0 && close(fd) == 0);
    SAID("1:OPEN+DIR");
    CHECK(chmod("d/s", 0700) == 0);
    SAID("1:ATTRIB+DIR");
    CHECK(rename("d/s", "d/t") == 0);
    SAID("1:MOVE_SELF");
    CHECK(rmdir("d/t") == 0);
    SAID("1:DELETE_SELF 1:IGNORED 2:DELETE+DIR:t");
    end();
}

static void watches(void) {
    CHECK(begin());
    put("d/f", "");
    SAME(inotify_add_watch(in, "d/f", IN_OPEN), 1);
    SAME(inotify_add_watch(in, "d/f", IN_ATTRIB), 1); /* replaces */
    CHECK(close(open("d/f", O_RDONLY)) == 0);
    SAID("");
    SAME(inotify_add_watch(in, "d/f", IN_OPEN | IN_MASK_ADD), 1);
    CHECK(close(open("d/f", O_RDONLY)) == 0 && chmod("d/f", 0600) == 0);
    SAID("1:OPEN 1:ATTRIB");
    FAILS(inotify_add_watch(in, "d/f", IN_OPEN | IN_MASK_CREATE), EEXIST);
    CHECK(inotify_rm_watch(in, 1) == 0);
    SAID("1:IGNORED");
    SAME(inotify_add_watch(in, "d/f", IN_OPEN | IN_ONESHOT), 2);
    CHECK(close(open("d/f", O_RDONLY)) == 0 && close(open("d/f", O_RDONLY)) == 0);
    SAID("2:OPEN 2:IGNORED");
    FAILS(inotify_add_watch(in, "d/none", IN_OPEN), ENOENT);
    FAILS(inotify_add_watch(in, "d/f", IN_OPEN | IN_ONLYDIR), ENOTDIR);
    FAILS(inotify_add_watch(in, "d/f", 0), EINVAL);
    FAILS(inotify_add_watch(1, "d/f", IN_OPEN), EINVAL);
    FAILS(inotify_rm_watch(in, 77), EINVAL);
    FAILS(inotify_init1(1), EINVAL);
    unlink("d/f");
    end();
}

static void *later(void *arg) {
    (void)arg;
    sleep_ms(50);
    put("d/late", "");
    return NULL;
}
static void reading(void) {
    char small[16], b[4096];
    CHECK(begin());
    FAILS(read(in, b, sizeof b), EAGAIN);
    SAME(inotify_add_watch(in, "d", IN_CREATE), 1);
    struct pollfd p = {in, POLLIN, 0};
    SAME(poll(&p, 1, 0), 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, later, NULL) == 0);
    SAME(poll(&p, 1, 5000), 1);
    pthread_join(t, NULL);
    int n = 0;
    CHECK(ioctl(in, FIONREAD, &n) == 0);
    SAME(n, 32);
    FAILS(read(in, small, sizeof small), EINVAL);
    put("d/x", ""), put("d/y", "");
    SAME(read(in, b, 70), 64); /* whole events only */
    SAME(read(in, b, 70), 32);
    /* the same event twice in a row is one */
    SAME(inotify_add_watch(in, "d/x", IN_MODIFY), 2);
    int fd = open("d/x", O_WRONLY);
    CHECK(write(fd, "1", 1) == 1 && write(fd, "2", 1) == 1 && close(fd) == 0);
    SAID("2:MODIFY");
    unlink("d/x"), unlink("d/y"), unlink("d/late");
    end();
}

/* What a descriptor's file in /proc says, and what is heard of a file that has lost its name. */
static void shown_and_unlinked(void) {
    CHECK(begin());
    SAME(inotify_add_watch(in, "d", IN_MODIFY | IN_EXCL_UNLINK), 1);
    char path[64], line[256] = "", seen[256] = "";
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", in);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "inotify wd:", 11) == 0)
            strcpy(seen, line);
    fclose(f);
    unsigned wd, mask, device;
    unsigned long ino;
    struct stat st;
    SAME(sscanf(seen, "inotify wd:%x ino:%lx sdev:%x mask:%x", &wd, &ino, &device, &mask), 4);
    CHECK(stat("d", &st) == 0 && wd == 1 && ino == st.st_ino);
    SAME(mask, IN_MODIFY | IN_EXCL_UNLINK);
    int file = open("d/a", O_RDWR | O_CREAT, 0644), other = inotify_init1(IN_NONBLOCK);
    SAME(inotify_add_watch(other, "d", IN_MODIFY), 1);
    CHECK(write(file, "x", 1) == 1);
    SAID("1:MODIFY:a");
    CHECK(unlink("d/a") == 0 && write(file, "x", 1) == 1);
    SAID("");
    char buffer[256] __attribute__((aligned(8)));
    CHECK(read(other, buffer, sizeof buffer) > 0); /* the other watch asks for it */
    close(file), close(other);
    end();
}

GUEST_WITH(scratch_enter(), T(files_in_a_directory), T(names), T(a_file_itself), T(a_directory_itself), T(watches),
           T(reading), T(shown_and_unlinked))
