/* fanotify(7): which events come, with which files, handles and names; marks and ignore masks; permission. Most of it is for root alone. */
#include "guest.h"
#include <sched.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef AT_HANDLE_FID
#define AT_HANDLE_FID 0x200
#endif

static int root, fan;
static char said[8192];
static struct { int bytes, type; unsigned char data[128]; } file_handle, dir_handle;

static void handle_of(const char *path, void *handle) {
    int mount;
    *(int *)handle = 128;
    syscall(SYS_name_to_handle_at, AT_FDCWD, path, handle, &mount, AT_HANDLE_FID);
}
/* Whose handle it is, and whether its file system is that of the working directory. */
static const char *whose(struct fanotify_event_info_fid *fid) {
    struct statfs fs;
    int bytes = *(int *)fid->handle;
    statfs(".", &fs);
    if (memcmp(&fs.f_fsid, &fid->fsid, sizeof fid->fsid) != 0)
        return "?fs";
    if (bytes == file_handle.bytes && memcmp(fid->handle, &file_handle, 8 + (size_t)bytes) == 0)
        return "f";
    return bytes == dir_handle.bytes && memcmp(fid->handle, &dir_handle, 8 + (size_t)bytes) == 0 ? "d" : "?";
}

/* All events so far as text: `<flags>[=<what its descriptor reads as>][ <record>(<handle>[ <name>])...]; ...`. Descriptors are closed. */
static const char *events(void) {
    static const struct { uint64_t bit; const char *name; } names[] = {
        {FAN_ACCESS, "ACCESS"}, {FAN_MODIFY, "MODIFY"}, {FAN_ATTRIB, "ATTRIB"}, {FAN_CLOSE_WRITE, "CLOSE_WRITE"},
        {FAN_CLOSE_NOWRITE, "CLOSE_NOWRITE"}, {FAN_OPEN, "OPEN"}, {FAN_MOVED_FROM, "FROM"}, {FAN_MOVED_TO, "TO"},
        {FAN_CREATE, "CREATE"}, {FAN_DELETE, "DELETE"}, {FAN_DELETE_SELF, "DELETE_SELF"}, {FAN_MOVE_SELF, "MOVE_SELF"},
        {FAN_OPEN_EXEC, "EXEC"}, {FAN_Q_OVERFLOW, "OVERFLOW"}, {FAN_RENAME, "RENAME"}, {FAN_ONDIR, "+DIR"}};
    static char buffer[65536] __attribute__((aligned(8)));
    size_t at = 0;
    ssize_t n = read(fan, buffer, sizeof buffer);
    said[0] = 0;
    for (char *p = buffer; n > 0 && p < buffer + n;) {
        struct fanotify_event_metadata *e = (void *)p;
        at += (size_t)sprintf(said + at, "%s", at ? "; " : "");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (e->mask & names[i].bit)
                at += (size_t)sprintf(said + at, "%s", names[i].name);
        if (e->vers != 3 || e->metadata_len != 24 || e->pid != getpid())
            at += (size_t)sprintf(said + at, "!%d", e->pid);
        if (e->fd >= 0) {
            char link[64], path[PATH_MAX];
            sprintf(link, "/proc/self/fd/%d", e->fd);
            ssize_t len = readlink(link, path, sizeof path - 1);
            path[len < 0 ? 0 : len] = 0;
            at += (size_t)sprintf(said + at, "=%s", strrchr(path, '/') + 1);
            close(e->fd);
        }
        for (char *r = p + e->metadata_len; r < p + e->event_len;) {
            struct fanotify_event_info_header *head = (void *)r;
            if (head->info_type == FAN_EVENT_INFO_TYPE_PIDFD) {
                int pidfd = ((struct fanotify_event_info_pidfd *)r)->pidfd;
                at += (size_t)sprintf(said + at, " %d(%s)", head->info_type, pidfd >= 0 && close(pidfd) == 0 ? "pidfd" : "none");
            } else {
                struct fanotify_event_info_fid *fid = (void *)r;
                at += (size_t)sprintf(said + at, " %d(%s", head->info_type, whose(fid));
                if (head->info_type != FAN_EVENT_INFO_TYPE_FID && head->info_type != FAN_EVENT_INFO_TYPE_DFID)
                    at += (size_t)sprintf(said + at, " %s", (char *)fid->handle + 8 + *(int *)fid->handle);
                at += (size_t)sprintf(said + at, ")");
            }
            r += head->len;
        }
        p += e->event_len;
    }
    return said;
}
#define SAID(text) do { if (strcmp(events(), text) != 0) { printf("# said \"%s\"\n# not  \"%s\"\n", said, text); \
    guest_report(__FILE__, __LINE__, "events"); return; } } while (0)

static void put(const char *name, const char *text) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (text[0])
        write(fd, text, strlen(text));
    close(fd);
}
static void take(const char *name) {
    char b[16];
    int fd = open(name, O_RDONLY);
    read(fd, b, sizeof b);
    close(fd);
}
static int begin(unsigned flags) {
    mkdir("d", 0755);
    put("d/f", "text");
    handle_of("d/f", &file_handle), handle_of("d", &dir_handle);
    return (fan = fanotify_init(flags | FAN_NONBLOCK | FAN_CLOEXEC, O_RDONLY)) >= 0;
}
static void end(void) { close(fan), unlink("d/f"), unlink("d/g"), rmdir("d"); }
static int add(unsigned flags, uint64_t mask, const char *path) {
    return fanotify_mark(fan, FAN_MARK_ADD | flags, mask, AT_FDCWD, path);
}

static void arguments(void) {
    if (!root) {
        FAILS(fanotify_init(0, O_RDONLY), EPERM);
        FAILS(fanotify_init(FAN_REPORT_FID | FAN_UNLIMITED_QUEUE, O_RDONLY), EPERM);
        return;
    }
    FAILS(fanotify_init(1u << 30, O_RDONLY), EINVAL);
    FAILS(fanotify_init(FAN_CLASS_CONTENT | FAN_CLASS_PRE_CONTENT, O_RDONLY), EINVAL);
    FAILS(fanotify_init(FAN_CLASS_CONTENT | FAN_REPORT_FID, O_RDONLY), EINVAL);
    FAILS(fanotify_init(FAN_REPORT_NAME, O_RDONLY), EINVAL);
    FAILS(fanotify_init(0, O_CREAT), EINVAL);
    FAILS(fanotify_init(0, O_ACCMODE), EINVAL);
    CHECK(begin(0));
    FAILS(fanotify_mark(fan, 0, FAN_OPEN, AT_FDCWD, "d"), EINVAL);
    FAILS(add(0, 0, "d"), EINVAL);
    FAILS(add(0, 1ull << 40, "d"), EINVAL);
    FAILS(add(FAN_MARK_REMOVE, FAN_OPEN, "d"), EINVAL);
    FAILS(add(FAN_MARK_IGNORE | FAN_MARK_IGNORED_MASK, FAN_OPEN, "d"), EINVAL);
    FAILS(add(0, FAN_CREATE, "d"), EINVAL); /* needs handles */
    FAILS(add(0, FAN_OPEN_PERM, "d"), EINVAL); /* needs a class */
    FAILS(add(0, FAN_OPEN, "none"), ENOENT);
    FAILS(add(FAN_MARK_ONLYDIR, FAN_OPEN, "d/f"), ENOTDIR);
    FAILS(fanotify_mark(-1, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "d"), EBADF);
    FAILS(fanotify_mark(0, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "d"), EINVAL);
    FAILS(fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN, -1, NULL), EBADF);
    FAILS(fanotify_mark(fan, FAN_MARK_REMOVE, FAN_OPEN, AT_FDCWD, "d"), ENOENT);
    SAME(add(0, FAN_OPEN | FAN_ACCESS, "d/f"), 0);
    SAME(fanotify_mark(fan, FAN_MARK_REMOVE, FAN_OPEN | FAN_ACCESS, AT_FDCWD, "d/f"), 0);
    FAILS(fanotify_mark(fan, FAN_MARK_REMOVE, FAN_OPEN, AT_FDCWD, "d/f"), ENOENT);
    SAME(fanotify_mark(fan, FAN_MARK_FLUSH, 0, AT_FDCWD, NULL), 0);
    char b[8];
    FAILS(read(fan, b, sizeof b), EAGAIN);
    FAILS(write(fan, b, 4), EINVAL);
    struct fanotify_response answer = {.fd = 77, .response = FAN_ALLOW};
    FAILS(write(fan, &answer, sizeof answer), ENOENT);
    answer.fd = -1;
    FAILS(write(fan, &answer, sizeof answer), EINVAL);
    end();
}

static void events_with_files(void) {
    if (!root)
        return;
    CHECK(begin(0));
    uint64_t some = FAN_OPEN | FAN_ACCESS | FAN_MODIFY | FAN_CLOSE;
    SAME(add(0, some | FAN_EVENT_ON_CHILD, "d"), 0);
    SAID("");
    take("d/f");
    struct pollfd p = {.fd = fan, .events = POLLIN | POLLOUT};
    CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLIN);
    int bytes;
    CHECK(ioctl(fan, FIONREAD, &bytes) == 0 && bytes == 24);
    char b[20];
    FAILS(read(fan, b, sizeof b), EINVAL);
    SAID("ACCESSCLOSE_NOWRITEOPEN=f"); /* merged: in the order of the table above */
    put("d/f", "other");
    SAID("MODIFYCLOSE_WRITEOPEN=f");
    CHECK(truncate("d/f", 2) == 0 && chmod("d/f", 0600) == 0);
    SAID("");
    /* Directories only where they are asked for, the marked one itself too. */
    close(open("d", O_RDONLY | O_DIRECTORY));
    SAID("");
    SAME(add(0, FAN_ONDIR, "d"), 0);
    close(open("d", O_RDONLY | O_DIRECTORY));
    SAID("CLOSE_NOWRITEOPEN=d");
    /* A file that is gone can still be read. */
    int fd = open("d/f", O_RDONLY);
    CHECK(unlink("d/f") == 0 && close(fd) == 0);
    struct fanotify_event_metadata e;
    CHECK(read(fan, &e, sizeof e) == 24 && e.mask == (FAN_OPEN | FAN_CLOSE_NOWRITE) && read(e.fd, b, 20) == 2);
    SAME(fcntl(e.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    close(e.fd);
    SAID("");
    end();
}

static void ignored(void) {
    if (!root)
        return;
    CHECK(begin(0));
    SAME(add(0, FAN_OPEN | FAN_EVENT_ON_CHILD, "d"), 0);
    SAME(add(FAN_MARK_IGNORED_MASK, FAN_OPEN, "d/f"), 0);
    take("d/f");
    SAID("");
    put("d/f", "new"); /* a change ends it */
    take("d/f");
    SAID("OPEN=f");
    SAME(add(FAN_MARK_IGNORED_MASK | FAN_MARK_IGNORED_SURV_MODIFY, FAN_OPEN, "d/f"), 0);
    put("d/f", "newer");
    take("d/f");
    SAID("");
    FAILS(add(FAN_MARK_IGNORE, FAN_OPEN, "d/f"), EEXIST);
    FAILS(add(FAN_MARK_IGNORE, FAN_OPEN, "d"), EISDIR);
    char path[64], text[4096] = "";
    sprintf(path, "/proc/self/fdinfo/%d", fan);
    int fd = open(path, O_RDONLY);
    CHECK(read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    CHECK(strstr(text, "\nfanotify flags:3 event-flags:8000\nfanotify ino:") != NULL);
    CHECK(strstr(text, " mflags:40 mask:0 ignored_mask:20 fhandle-bytes:") != NULL);
    CHECK(strstr(text, " mflags:0 mask:8000020 ignored_mask:0 fhandle-bytes:") != NULL);
    end();
}

static void handles_and_names(void) {
    CHECK(begin(FAN_REPORT_FID | FAN_REPORT_DIR_FID | FAN_REPORT_NAME));
    uint64_t names = FAN_CREATE | FAN_DELETE | FAN_MOVE | FAN_ONDIR;
    SAME(add(0, names | FAN_OPEN | FAN_ATTRIB | FAN_EVENT_ON_CHILD, "d"), 0);
    SAME(add(0, FAN_DELETE_SELF | FAN_MOVE_SELF, "d/f"), 0);
    close(open("d/f", O_RDONLY));
    SAID("OPEN 2(d f) 1(f)");
    CHECK(chmod("d/f", 0600) == 0 && chmod("d", 0700) == 0);
    SAID("ATTRIB 2(d f) 1(f); ATTRIB+DIR 2(d .)");
    CHECK(rename("d/f", "d/g") == 0);
    SAID("FROM 2(d f); TO 2(d g); MOVE_SELF 1(f)");
    CHECK(mkdir("d/s", 0700) == 0 && rmdir("d/s") == 0);
    SAID("CREATEDELETE+DIR 2(d s)");
    CHECK(symlink("x", "d/l") == 0 && unlink("d/l") == 0 && unlink("d/g") == 0);
    SAID("CREATEDELETE 2(d l); DELETE_SELF 1(f); DELETE 2(d g)");
    end();
}

static void renames_and_targets(void) {
    CHECK(begin(FAN_REPORT_FID | FAN_REPORT_DIR_FID | FAN_REPORT_NAME | FAN_REPORT_TARGET_FID));
    SAME(add(0, FAN_RENAME | FAN_MOVED_TO, "d"), 0);
    FAILS(add(0, FAN_RENAME, "d/f"), ENOTDIR);
    CHECK(rename("d/f", "d/g") == 0);
    SAID("RENAME 10(d f) 12(d g) 1(f); TO 2(d g) 1(f)");
    CHECK(rename("d/g", "out") == 0);
    SAID("RENAME 10(d g) 1(f)");
    CHECK(rename("out", "d/f") == 0);
    SAID("RENAME 12(d f) 1(f); TO 2(d f) 1(f)");
    end();
    CHECK(begin(FAN_REPORT_DIR_FID));
    SAME(add(0, FAN_OPEN | FAN_CREATE | FAN_EVENT_ON_CHILD, "d"), 0);
    take("d/f");
    put("d/g", "");
    SAID("OPENCREATE 3(d)");
    end();
}

static void for_everybody(void) {
    pid_t child = fork();
    if (child == 0) {
        if (root && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(1);
        int f = fanotify_init(FAN_REPORT_FID, O_RDONLY), ok = f >= 0;
        ok = ok && fanotify_init(0, O_RDONLY) == -1 && errno == EPERM;
        ok = ok && fanotify_mark(f, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "/etc/passwd") == 0;
        ok = ok && fanotify_mark(f, FAN_MARK_ADD | FAN_MARK_MOUNT, FAN_OPEN, AT_FDCWD, "/") == -1 && errno == EPERM;
        pid_t other = fork();
        if (other == 0) {
            close(open("/etc/passwd", O_RDONLY));
            _exit(0);
        }
        waitpid(other, NULL, 0);
        close(open("/etc/passwd", O_RDONLY));
        char b[256] __attribute__((aligned(8)));
        struct fanotify_event_metadata *e = (void *)b;
        ok = ok && read(f, b, sizeof b) > (ssize_t)e->event_len && e->pid == 0;
        e = (void *)(b + e->event_len);
        ok = ok && e->pid == getpid() && e->fd == FAN_NOFD;
        _exit(ok ? 0 : 2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAME(status, 0);
}

static void processes(void) {
    if (!root)
        return;
    CHECK(begin(FAN_REPORT_PIDFD));
    SAME(add(0, FAN_OPEN, "d/f"), 0);
    take("d/f");
    SAID("OPEN=f 4(pidfd)");
    end();
}

static void mounts_and_systems(void) {
    if (!root)
        return;
    CHECK(begin(0));
    CHECK(mkdir("m", 0755) == 0 && mount("none", "m", "tmpfs", 0, NULL) == 0);
    CHECK(mkdir("m/sub", 0755) == 0 && mkdir("b", 0755) == 0 && mount("m", "b", NULL, MS_BIND, NULL) == 0);
    put("m/f", "x"), put("m/sub/g", "y");
    SAME(add(FAN_MARK_MOUNT, FAN_OPEN, "m/sub"), 0);
    take("m/f"), take("m/sub/g"), take("d/f"), take("b/f");
    SAID("OPEN=f; OPEN=g");
    SAME(fanotify_mark(fan, FAN_MARK_FLUSH | FAN_MARK_MOUNT, 0, AT_FDCWD, NULL), 0);
    SAME(add(FAN_MARK_FILESYSTEM, FAN_OPEN, "m"), 0);
    take("b/f"), take("m/sub/g"), take("d/f");
    SAID("OPEN=f; OPEN=g");
    CHECK(umount("b") == 0 && umount("m") == 0 && rmdir("b") == 0 && rmdir("m") == 0);
    end();
}

/* A child that opens the file, or runs it, and ends with the errno. */
static pid_t tries(int how) {
    pid_t child = fork();
    if (child == 0) {
        close(fan); /* the group goes with its last descriptor */
        if (how == 'x') {
            execl("d/f", "f", NULL);
            _exit(errno);
        }
        int fd = open(how == 'c' ? "d/g" : "d/f", how == 'c' ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY, 0600);
        char b[4];
        _exit(fd < 0 || (how == 'r' && read(fd, b, 4) < 0) ? errno : 0);
    }
    return child;
}
static int ended(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
/* Waits for a request and answers it; its mask. */
static uint64_t answer(uint32_t response) {
    struct fanotify_event_metadata e;
    struct pollfd p = {.fd = fan, .events = POLLIN};
    if (poll(&p, 1, 20000) != 1 || read(fan, &e, sizeof e) != sizeof e)
        return 0;
    struct fanotify_response r = {.fd = e.fd, .response = response};
    write(fan, &r, sizeof r);
    close(e.fd);
    return e.mask;
}

static void permission(void) {
    if (!root)
        return;
    CHECK(begin(FAN_CLASS_CONTENT));
    SAME(add(0, FAN_OPEN_PERM | FAN_EVENT_ON_CHILD, "d"), 0);
    pid_t child = tries('o');
    SAME(answer(FAN_ALLOW), FAN_OPEN_PERM);
    SAME(ended(child), 0);
    child = tries('o');
    SAME(answer(FAN_DENY), FAN_OPEN_PERM);
    SAME(ended(child), EPERM);
    child = tries('c'); /* a file that it has just made */
    SAME(answer(FAN_ALLOW), FAN_OPEN_PERM);
    SAME(ended(child), 0);
    SAME(add(0, FAN_ACCESS_PERM, "d/f"), 0);
    child = tries('r');
    SAME(answer(FAN_ALLOW), FAN_OPEN_PERM);
    SAME(answer(FAN_DENY), FAN_ACCESS_PERM);
    SAME(ended(child), EPERM);
    /* Whoever does not answer and goes allows it. */
    child = tries('o');
    struct pollfd p = {.fd = fan, .events = POLLIN};
    CHECK(poll(&p, 1, 20000) == 1 && close(fan) == 0);
    SAME(ended(child), 0);
    end();
    CHECK(begin(FAN_CLASS_CONTENT));
    /* A program that never runs. */
    put("d/f", "#!/bin/true\n");
    CHECK(chmod("d/f", 0700) == 0);
    SAME(add(0, FAN_OPEN_EXEC_PERM, "d/f"), 0);
    child = tries('o');
    SAME(ended(child), 0);
    child = tries('x');
    SAME(answer(FAN_DENY), FAN_OPEN_EXEC_PERM);
    SAME(ended(child), EPERM);
    child = tries('x');
    SAME(answer(FAN_ALLOW), FAN_OPEN_EXEC_PERM);
    SAME(ended(child), 0);
    end();
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {T(arguments), T(events_with_files), T(ignored), T(handles_and_names),
                                              T(renames_and_targets), T(for_everybody), T(processes),
                                              T(mounts_and_systems), T(permission)};
    scratch_enter();
    int handle[34] = {128}, mounted;
    int newest = fanotify_init(FAN_REPORT_FID | FAN_REPORT_DIR_FID | FAN_REPORT_NAME | FAN_REPORT_TARGET_FID, O_RDONLY);
    if (newest < 0 || syscall(SYS_name_to_handle_at, AT_FDCWD, ".", handle, &mounted, AT_HANDLE_FID) != 0 ||
        fanotify_mark(newest, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, ".") != 0) {
        printf("# skipped: fanotify with handles of files (Linux 6.5) cannot be had here: %s\n", strerror(errno));
        return 77;
    }
    close(newest);
    fan = fanotify_init(0, O_RDONLY);
    root = fan >= 0;
    if (root) {
        close(fan);
        /* what is mounted here goes with this process */
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
            printf("# skipped: no namespace of mounts can be had: %s\n", strerror(errno));
            return 77;
        }
    }
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
