/* Mount namespaces, pivot_root(2), mounts in no place, and the calls that make mounts step by step. In a namespace of its own. */
#include "mounts.h"
#include "uring.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void a_namespace_has_its_own(void) {
    char before[64] = "", after[64] = "";
    CHECK(mkdir("m", 0755) == 0);
    CHECK(readlink("/proc/self/ns/mnt", before, sizeof before - 1) > 0);
    int back = open("/proc/self/ns/mnt", O_RDONLY);
    SAME(unshare(CLONE_NEWNS), 0);
    CHECK(readlink("/proc/self/ns/mnt", after, sizeof after - 1) > 0 && strcmp(before, after) != 0);
    CHECK(mount("x", "m", "tmpfs", 0, NULL) == 0 && put("m/f", "text"));
    SAME(setns(back, CLONE_NEWNS), 0);
    CHECK(chdir(guest_scratch) == 0 && close(back) == 0);
    FAILS(access("m/f", F_OK), ENOENT);
    CHECK(readlink("/proc/self/ns/mnt", after, sizeof after - 1) > 0 && strcmp(before, after) == 0);
    CHECK(rmdir("m") == 0);
}

static void another_root(void) {
    int back = open("/proc/self/ns/mnt", O_RDONLY);
    CHECK(back >= 0 && mkdir("m", 0755) == 0 && unshare(CLONE_NEWNS) == 0);
    FAILS(syscall(SYS_pivot_root, "m", "m"), EBUSY);
    CHECK(mount("x", "m", "tmpfs", 0, NULL) == 0 && mkdir("m/old", 0755) == 0 && put("m/f", "text"));
    FAILS(syscall(SYS_pivot_root, "m", "none"), ENOENT);
    FAILS(syscall(SYS_pivot_root, "m", "m/f"), ENOTDIR);
    SAME(syscall(SYS_pivot_root, "m", "m/old"), 0);
    CHECK(holds("/f", "text") && access("/old/proc", F_OK) == 0);
    char path[PATH_MAX], wanted[PATH_MAX + 8];
    snprintf(wanted, sizeof wanted, "/old%s", guest_scratch);
    CHECK(getcwd(path, sizeof path) != NULL && strcmp(path, wanted) == 0);
    CHECK(chdir("/") == 0 && umount2("/old", MNT_DETACH) == 0);
    FAILS(access("/old/proc", F_OK), ENOENT);
    SAME(setns(back, CLONE_NEWNS), 0);
    CHECK(chdir(guest_scratch) == 0 && close(back) == 0 && rmdir("m") == 0);
}

/* The root of one process that has changed it, where the namespace keeps its own. */
static void a_root_of_ones_own(void) {
    CHECK(mkdir("m", 0755) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS | CLONE_FS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
            _exit(1);
        int outside = open("/", O_PATH);
        if (outside < 0 || mount("x", "m", "tmpfs", 0, NULL) != 0 || chroot("m") != 0 || chdir("/") != 0)
            _exit(2);
        if (mkdir("/new", 0755) != 0 || mkdir("/other", 0755) != 0 || !put("/f", "old"))
            _exit(3);
        if (mount("y", "/new", "tmpfs", 0, NULL) != 0 || mkdir("/new/put", 0755) != 0 || !put("/new/f", "new"))
            _exit(4);
        if (mount("z", "/other", "tmpfs", 0, NULL) != 0 || chdir("/other") != 0)
            _exit(5);
        if (syscall(SYS_pivot_root, "/new", "/other") != -1 || errno != EINVAL)
            _exit(6);
        if (syscall(SYS_pivot_root, "/new", "/new/put") != 0)
            _exit(7);
        if (!holds("/f", "new") || !holds("/put/f", "old"))
            _exit(8);
        char path[64] = "";
        if (getcwd(path, sizeof path) == NULL || strcmp(path, "/put/other") != 0)
            _exit(9);
        if (umount("/put/other") != -1 || errno != EBUSY || chdir("/") != 0 || umount2("/put", MNT_DETACH) != 0)
            _exit(10);
        char *inside = malloc(PATH_MAX + 8);
        snprintf(inside, PATH_MAX + 8, ".%s/m/f", guest_scratch);
        if (fchdir(outside) != 0 || !holds(inside, "new"))
            _exit(11);
        _exit(0);
    }
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    CHECK(rmdir("m") == 0);
}

/* The numbers of x86-64: libcs are older than the calls. */
#define OPEN_TREE 428
#define MOVE_MOUNT 429
#define FSOPEN 430
#define FSCONFIG 431
#define FSMOUNT 432
#define FSPICK 433
#define MOUNT_SETATTR 442
enum { SET_FLAG_, SET_STRING_, CMD_CREATE_ = 6, CMD_RECONFIGURE_ };
struct attributes { uint64_t set, clear, propagation, namespace; };

static void step_by_step(void) {
    struct statfs s;
    CHECK(mkdir("m", 0755) == 0 && mkdir("n", 0755) == 0);
    FAILS(syscall(FSOPEN, "nosuchfs", 0), ENODEV);
    FAILS(syscall(FSOPEN, "tmpfs", 2), EINVAL);
    FAILS(syscall(FSOPEN, (char *)8, 0), EFAULT);
    int c = syscall(FSOPEN, "tmpfs", 1);
    CHECK(c >= 0 && fcntl(c, F_GETFD) == FD_CLOEXEC);
    FAILS(syscall(FSCONFIG, c, SET_STRING_, NULL, "x", 0), EINVAL);
    FAILS(syscall(FSCONFIG, c, 99, "x", "x", 0), EOPNOTSUPP);
    FAILS(syscall(FSCONFIG, -1, SET_STRING_, "source", "x", 0), EINVAL);
    FAILS(syscall(FSCONFIG, 999, SET_STRING_, "source", "x", 0), EBADF);
    FAILS(syscall(FSCONFIG, 0, SET_STRING_, "source", "x", 0), EINVAL);
    FAILS(syscall(FSCONFIG, c, SET_STRING_, "nonsense", "x", 0), EINVAL);
    SAME(syscall(FSCONFIG, c, SET_STRING_, "source", "steps", 0), 0);
    SAME(syscall(FSCONFIG, c, SET_STRING_, "size", "64k", 0), 0);
    SAME(syscall(FSCONFIG, c, SET_FLAG_, "ro", NULL, 0), 0);
    FAILS(syscall(FSMOUNT, c, 0, 0), EINVAL);
    SAME(syscall(FSCONFIG, c, CMD_CREATE_, NULL, NULL, 0), 0);
    FAILS(syscall(FSMOUNT, c, 2, 0), EINVAL);
    FAILS(syscall(FSMOUNT, c, 0, 0x100), EINVAL);
    FAILS(syscall(FSMOUNT, 999, 0, 0), EBADF);
    int m = syscall(FSMOUNT, c, 0, 8 | 0x10);
    CHECK(m >= 0 && close(c) == 0);
    FAILS(syscall(MOVE_MOUNT, m, "", AT_FDCWD, "none", 4), ENOENT);
    FAILS(syscall(MOVE_MOUNT, m, "", AT_FDCWD, "m", 8), EINVAL);
    FAILS(syscall(MOVE_MOUNT, 999, "", AT_FDCWD, "m", 4), EBADF);
    SAME(syscall(MOVE_MOUNT, m, "", AT_FDCWD, "m", 4), 0);
    CHECK(strstr(line_with("/proc/self/mounts", "/m tmpfs "), "steps ") != NULL);
    CHECK(strstr(line_with("/proc/self/mounts", "/m tmpfs "), " ro,noexec,noatime,size=64k") != NULL);
    FAILS(mkdirat(m, "d", 0755), EROFS);
    FAILS(umount("m"), EBUSY);
    c = syscall(FSPICK, AT_FDCWD, "m", 0);
    CHECK(c >= 0);
    SAME(syscall(FSCONFIG, c, SET_FLAG_, "rw", NULL, 0), 0);
    SAME(syscall(FSCONFIG, c, CMD_RECONFIGURE_, NULL, NULL, 0), 0);
    CHECK(close(c) == 0 && mkdirat(m, "d", 0755) == 0 && close(m) == 0);
    FAILS(syscall(FSPICK, AT_FDCWD, "m/d", 0), EINVAL);
    FAILS(syscall(FSPICK, AT_FDCWD, "m", 0x10), EINVAL);
    /* a copy that is attached nowhere, with flags of its own */
    int t = syscall(OPEN_TREE, AT_FDCWD, "m", 1);
    CHECK(t >= 0 && faccessat(t, "d", F_OK, 0) == 0);
    struct attributes a = {.set = 1};
    SAME(syscall(MOUNT_SETATTR, t, "", AT_EMPTY_PATH, &a, sizeof a), 0);
    FAILS(mkdirat(t, "e", 0755), EROFS);
    CHECK(mkdir("m/e", 0755) == 0 && faccessat(t, "e", F_OK, 0) == 0);
    SAME(syscall(MOVE_MOUNT, t, "", AT_FDCWD, "n", 4), 0);
    CHECK(close(t) == 0 && statfs("n", &s) == 0);
    SAME(s.f_flags, ST_VALID | 1 | 8 | 0x400);
    a = (struct attributes){.clear = 1};
    SAME(syscall(MOUNT_SETATTR, AT_FDCWD, "n", 0, &a, sizeof a), 0);
    CHECK(rmdir("n/e") == 0);
    a = (struct attributes){.set = 0x20};
    FAILS(syscall(MOUNT_SETATTR, AT_FDCWD, "n", 0, &a, sizeof a), EINVAL);
    a = (struct attributes){.propagation = 7};
    FAILS(syscall(MOUNT_SETATTR, AT_FDCWD, "n", 0, &a, sizeof a), EINVAL);
    FAILS(syscall(MOUNT_SETATTR, AT_FDCWD, "n", 0, &a, 8), EINVAL);
    a = (struct attributes){.set = 2};
    FAILS(syscall(MOUNT_SETATTR, AT_FDCWD, "n/d", 0, &a, sizeof a), EINVAL);
    CHECK(umount("n") == 0);
    t = syscall(OPEN_TREE, AT_FDCWD, "m/d", 0);
    CHECK(t >= 0 && close(t) == 0);
    FAILS(syscall(OPEN_TREE, AT_FDCWD, "none", 1), ENOENT);
    FAILS(syscall(OPEN_TREE, -1, "m", 1), EBADF);
    FAILS(syscall(OPEN_TREE, AT_FDCWD, "m", 0x40000000), EINVAL);
    CHECK(umount("m") == 0 && rmdir("m") == 0 && rmdir("n") == 0);
}

static void beneath_another(void) {
    enum { FROM_EMPTY_ = 4, BENEATH = 0x200 }; /* since Linux 6.5 */
    CHECK(mkdir("m", 0755) == 0 && mkdir("n", 0755) == 0);
    CHECK(mount("x", "m", "tmpfs", 0, NULL) == 0 && mount("y", "n", "tmpfs", 0, NULL) == 0);
    CHECK(put("m/f", "lower") && put("n/g", "upper") && mkdir("n/d", 0755) == 0);
    int t = syscall(OPEN_TREE, AT_FDCWD, "m", 1);
    CHECK(t >= 0);
    if (syscall(MOVE_MOUNT, t, "", AT_FDCWD, "n", FROM_EMPTY_ | BENEATH) != 0) {
        CHECK(errno == EINVAL && may_lack_calls());
    } else {
        CHECK(holds("n/g", "upper"));
        FAILS(access("n/f", F_OK), ENOENT);
        FAILS(syscall(MOVE_MOUNT, AT_FDCWD, "m", AT_FDCWD, "n/d", BENEATH), EINVAL);
        FAILS(syscall(MOVE_MOUNT, AT_FDCWD, "n", AT_FDCWD, "n", BENEATH), EINVAL);
        SAME(umount("n"), 0);
        CHECK(holds("n/f", "lower"));
    }
    CHECK(close(t) == 0 && umount("n") == 0 && umount("m") == 0 && rmdir("m") == 0 && rmdir("n") == 0);
}

static void nothing_lies_over_descriptors(void) {
    char path[64];
    CHECK(put("f", "x") && put("g", "y"));
    int f = open("f", O_RDONLY);
    snprintf(path, sizeof path, "/proc/self/fd/%d", f);
    int link = open(path, O_PATH | O_NOFOLLOW);
    CHECK(f >= 0 && link >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", link);
    if (mount("g", path, NULL, MS_BIND, NULL) == 0) { /* before Linux 6.12 */
        CHECK(may_lack_calls() && umount2(path, MNT_DETACH) == 0);
    } else {
        SAME(errno, ENOENT);
    }
    close(f), close(link), unlink("f"), unlink("g");
}

static uint64_t own_namespace(void) {
    struct stat st;
    return stat("/proc/self/ns/mnt", &st) == 0 ? st.st_ino : 0;
}
/* Numbers of namespaces do not come again while somebody may remember them. */
static void namespaces_are_told_apart(void) {
    int back = open("/proc/self/ns/mnt", O_RDONLY);
    CHECK(back >= 0 && unshare(CLONE_NEWNS) == 0);
    uint64_t first = own_namespace();
    int kept = open("/proc/self/ns/mnt", O_RDONLY);
    CHECK(kept >= 0 && unshare(CLONE_NEWNS) == 0);
    uint64_t second = own_namespace();
    CHECK(first != 0 && second != 0 && first != second);
    CHECK(setns(kept, CLONE_NEWNS) == 0 && own_namespace() == first);
    SAME(setns(back, CLONE_NEWNS), 0);
    CHECK(chdir(guest_scratch) == 0 && close(back) == 0 && close(kept) == 0);
}

static void an_unbindable_one_is_in_new_namespaces(void) {
    int back = open("/proc/self/ns/mnt", O_RDONLY);
    CHECK(back >= 0 && mkdir("m", 0755) == 0 && mkdir("n", 0755) == 0 && mount("x", "m", "tmpfs", 0, NULL) == 0);
    CHECK(put("m/f", "text") && mount(NULL, "m", NULL, MS_UNBINDABLE, NULL) == 0);
    FAILS(mount("m", "n", NULL, MS_BIND, NULL), EINVAL);
    SAME(unshare(CLONE_NEWNS), 0);
    CHECK(holds("m/f", "text") && strstr(line_with("/proc/self/mountinfo", "/m rw,"), " unbindable") == NULL);
    CHECK(mount("m", "n", NULL, MS_BIND, NULL) == 0 && holds("n/f", "text") && umount("n") == 0);
    SAME(setns(back, CLONE_NEWNS), 0);
    CHECK(chdir(guest_scratch) == 0 && close(back) == 0 && umount("m") == 0 && rmdir("m") == 0 && rmdir("n") == 0);
}

/* Nothing lies above the root of a mount that is in no place. */
static void above_what_is_attached_nowhere(void) {
    struct stat root, above;
    CHECK(mkdir("m", 0755) == 0 && mkdir("m/d", 0755) == 0 && mkdir("m/d/e", 0755) == 0);
    int tree = syscall(OPEN_TREE, AT_FDCWD, "m/d", 1);
    CHECK(tree >= 0 && fstat(tree, &root) == 0 && fstatat(tree, "..", &above, 0) == 0);
    SAME(root.st_ino, above.st_ino);
    CHECK(fstatat(tree, "e/../..", &above, 0) == 0);
    SAME(root.st_ino, above.st_ino);
    CHECK(close(tree) == 0 && rmdir("m/d/e") == 0 && rmdir("m/d") == 0 && rmdir("m") == 0);
}

static int has_flag(const char *path, unsigned long flag) {
    struct statfs s;
    return statfs(path, &s) == 0 && (s.f_flags & flag) != 0;
}
/* mount_setattr(2) of a file system that was there before, and of all below a place. */
static void attributes_of_system_files(void) {
    struct attributes fix = {.set = 8}, back = {.clear = 8};
    int outside = open("/proc/self/ns/mnt", O_RDONLY);
    int had = has_flag("/proc", 8);
    CHECK(outside >= 0 && unshare(CLONE_NEWNS) == 0);
    SAME(syscall(MOUNT_SETATTR, AT_FDCWD, "/proc", 0, &fix, sizeof fix), 0);
    CHECK(has_flag("/proc", 8) && !has_flag(guest_scratch, 8));
    SAME(syscall(MOUNT_SETATTR, AT_FDCWD, "/proc", 0, &back, sizeof back), 0);
    CHECK(!has_flag("/proc", 8));
    if (had)
        SAME(syscall(MOUNT_SETATTR, AT_FDCWD, "/proc", 0, &fix, sizeof fix), 0);
    SAME(setns(outside, CLONE_NEWNS), 0);
    CHECK(chdir(guest_scratch) == 0 && close(outside) == 0);
}

/* What poll(2) and epoll say of a table of mounts, proc_pid_mounts(5): each change once. */
static int polled(int f, int events) {
    struct pollfd p = {f, events, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}
static void changes_of_mounts_are_told(void) {
    int f = open("/proc/self/mounts", O_RDONLY), info = open("/proc/self/mountinfo", O_RDONLY), e = epoll_create1(0);
    struct epoll_event wanted = {EPOLLPRI, {.fd = f}}, got;
    CHECK(f >= 0 && info >= 0 && mkdir("m", 0755) == 0);
    SAME(polled(f, POLLIN | POLLOUT | POLLPRI), POLLIN);
    SAME(epoll_ctl(e, EPOLL_CTL_ADD, f, &wanted), 0);
    SAME(epoll_wait(e, &got, 1, 0), 0);
    SAME(mount("none", "m", "tmpfs", 0, NULL), 0);
    SAME(polled(info, POLLIN | POLLPRI), POLLIN | POLLPRI | POLLERR);
    SAME(polled(info, POLLIN | POLLPRI), POLLIN);
    SAME(epoll_wait(e, &got, 1, 0), 1);
    SAME(got.events, EPOLLPRI | EPOLLERR);
    SAME(epoll_wait(e, &got, 1, 0), 0);
    SAME(mount("none", "m", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
    SAME(polled(info, 0), POLLERR);
    SAME(epoll_wait(e, &got, 1, 0), 1);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(umount("m") != 0);
    }
    SAME(epoll_wait(e, &got, 1, -1), 1);
    SAME(waitpid(child, NULL, 0), child);
    SAME(epoll_wait(e, &got, 1, 0), 0);
    /* Those of another namespace are not. */
    if ((child = fork()) == 0)
        _exit(unshare(CLONE_NEWNS) != 0 || mount("none", "m", "tmpfs", 0, NULL) != 0);
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    SAME(polled(f, POLLPRI), 0);
    close(f), close(info), close(e), rmdir("m");
}

/* The same by io_uring: who is told of a change has been told of it. */
static void a_poll_that_is_submitted_is_told_too(void) {
    struct ring r;
    if (ring_open(&r, 4) != 0) {
        CHECK(may_lack_calls());
        return;
    }
    int f = open("/proc/self/mounts", O_RDONLY);
    CHECK(f >= 0 && mkdir("m", 0755) == 0 && mount("none", "m", "tmpfs", 0, NULL) == 0);
    entry(&r, IORING_OP_POLL_ADD, f, NULL, 0, 0, 1)->poll32_events = POLLPRI;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, POLLPRI | POLLERR);
    SAME(polled(f, POLLPRI), 0);
    entry(&r, IORING_OP_POLL_ADD, f, NULL, 0, 0, 2)->poll32_events = POLLPRI;
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    SAME(umount("m"), 0);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 2, POLLPRI | POLLERR);
    ring_close(&r);
    close(f), rmdir("m");
}

/* struct mnt_id_req and struct statmount. */
enum { STATMOUNT = 457, LISTMOUNT = 458, UNIQUE_ID = 0x4000 };
struct request {
    uint32_t size, fd;
    uint64_t id, parameter;
};
struct answer {
    uint32_t size, options;
    uint64_t mask;
    uint32_t major, minor;
    uint64_t magic;
    uint32_t flags, kind;
    uint64_t id, parent;
    uint32_t old_id, old_parent;
    uint64_t attributes, propagation, group, master, from;
    uint32_t root, point;
    uint64_t namespace;
    uint32_t subtype, source;
    uint64_t rest[48];
    char strings[512];
};
static uint64_t id_of(const char *path, unsigned how) {
    struct statx s = {0};
    return statx(AT_FDCWD, path, 0, how, &s) == 0 && s.stx_mask & how ? s.stx_mnt_id : 0;
}
static long ask(uint64_t id, uint64_t parts, struct answer *to, size_t room) {
    struct request r = {24, 0, id, parts};
    return syscall(STATMOUNT, &r, to, room, 0);
}
static long list(uint64_t id, uint64_t last, uint64_t *to, size_t room, int flags) {
    struct request r = {24, 0, id, last};
    return syscall(LISTMOUNT, &r, to, room, flags);
}
static int listed_below_root(uint64_t which) {
    uint64_t found[256];
    int n = list(id_of("/", UNIQUE_ID), 0, found, 256, 0);
    for (int i = 0; i < n; i++)
        if (found[i] == which)
            return 1;
    return 0;
}
/* What was mounted from the start is below the root of each namespace, also of one whose root has been another's mount. */
static void mounts_of_a_new_namespace(void) {
    struct request r = {24, 0, 1, 0};
    struct answer a;
    if (syscall(STATMOUNT, &r, &a, sizeof a, 0) == -1 && errno == ENOSYS && may_lack_calls())
        return; /* before Linux 6.8 */
    CHECK(mkdir("m", 0755) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (!listed_below_root(id_of("/proc", UNIQUE_ID)))
            _exit(1);
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
            _exit(2);
        if (!listed_below_root(id_of("/proc", UNIQUE_ID)))
            _exit(3);
        if (may_lack_calls()) /* the rest changes /run of the machine */
            _exit(0);
        if (mount("/", "m", NULL, MS_BIND, NULL) != 0 || mkdir("m/run/old", 0755) != 0)
            _exit(4);
        if (syscall(SYS_pivot_root, "m", "m/run/old") != 0 || chdir("/") != 0)
            _exit(5);
        if (!listed_below_root(id_of("/run/old", UNIQUE_ID)))
            _exit(6);
        _exit(rmdir("/run/old") == -1 && errno == EBUSY ? 0 : 7);
    }
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    CHECK(may_lack_calls() || rmdir("/run/old") == 0);
    CHECK(rmdir("m") == 0);
}
static void mounts_are_asked_for(void) {
    struct answer a = {0};
    struct request r = {24, 0, 1, 0};
    if (syscall(STATMOUNT, &r, &a, sizeof a, 0) == -1 && errno == ENOSYS && may_lack_calls())
        return; /* before Linux 6.8 */
    CHECK(mkdir("m", 0755) == 0);
    SAME(mount("here", "m", "tmpfs", MS_NOSUID | MS_NOATIME, "size=1m"), 0);
    SAME(mount(NULL, "m", NULL, MS_SHARED, NULL), 0);
    CHECK(mkdir("m/in", 0755) == 0 && mkdir("m/at", 0755) == 0);
    SAME(mount("m/in", "m/at", NULL, MS_BIND, NULL), 0);
    uint64_t m = id_of("m", UNIQUE_ID), at = id_of("m/at", UNIQUE_ID), found[64];
    CHECK(m > 1u << 31 && at > m);
    SAME(ask(m, 0, &a, sizeof a), 0);
    SAME(a.size, 512);
    SAME(a.mask, 0);
    SAME(a.id, 0);
    SAME(ask(m, 0x233, &a, sizeof a), 0); /* SB_BASIC, MNT_BASIC, MNT_POINT, FS_TYPE, SB_SOURCE */
    SAME(a.mask & 0x1ff, 0x33);
    CHECK(a.size > 512);
    SAME(a.id, m);
    SAME(a.parent, id_of(".", UNIQUE_ID));
    SAME(a.old_id, id_of("m", STATX_MNT_ID));
    SAME(a.magic, 0x01021994);
    SAME(a.flags, 0);
    SAME(a.attributes, 0x12); /* nosuid, noatime */
    SAME(a.propagation, MS_SHARED);
    CHECK(a.group > 0 && a.master == 0);
    CHECK(strcmp(a.strings + a.kind, "tmpfs") == 0);
    char path[PATH_MAX + 2];
    CHECK(getcwd(path, PATH_MAX) != NULL);
    strcat(path, "/m");
    CHECK(strcmp(a.strings + a.point, path) == 0);
    SAME(ask(at, 8, &a, sizeof a), 0);
    CHECK(strcmp(a.strings + a.root, "/in") == 0);
    FAILS(ask(at, 8, &a, 512), EOVERFLOW);
    FAILS(ask(at, 8, &a, 514), EOVERFLOW);
    FAILS(ask(at, 0, NULL, sizeof a), EFAULT);
    FAILS(ask(-2, 0, &a, sizeof a), ENOENT);
    FAILS(ask(1, 0, &a, sizeof a), EINVAL);
    FAILS(syscall(STATMOUNT, &r, &a, sizeof a, 1), EINVAL);
    FAILS(syscall(STATMOUNT, NULL, &a, sizeof a, 0), EFAULT);
    r.size = 20;
    FAILS(syscall(STATMOUNT, &r, &a, sizeof a, 0), EINVAL);

    SAME(list(m, 0, found, 64, 0), 1);
    SAME(found[0], at);
    SAME(list(m, at, found, 64, 0), 0);
    int n = list(-1, 0, found, 64, 0);
    CHECK(n >= 3);
    SAME(found[n - 1], at);
    SAME(found[n - 2], m);
    SAME(list(-1, 0, found, 1, 1), 1); /* LISTMOUNT_REVERSE */
    SAME(found[0], at);
    FAILS(list(-1, 5, found, 64, 0), EINVAL);
    FAILS(list(-2, 0, found, 64, 0), ENOENT);
    FAILS(list(0, 0, found, 64, 0), EINVAL);
    FAILS(list(-1, 0, found, 64, 2), EINVAL);
    FAILS(list(-1, 0, NULL, 64, 0), EFAULT);
    pid_t child = fork();
    if (child == 0) { /* what lies outside of a root takes privileges */
        if (chroot("m/at") != 0 || setresuid(4321, 4321, 4321) != 0)
            _exit(1);
        if (list(-1, 0, found, 64, 0) != 1 || found[0] != at)
            _exit(2);
        if (ask(m, 0, &a, sizeof a) == 0 || errno != EPERM)
            _exit(3);
        if (list(m, 0, found, 64, 0) != -1 || errno != EPERM)
            _exit(4);
        _exit(ask(at, 0x10, &a, sizeof a) == 0 && strcmp(a.strings + a.point, "/") == 0 ? 0 : 5);
    }
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    CHECK(umount("m/at") == 0 && umount("m") == 0 && rmdir("m") == 0);
}

GUEST_WITH(if (!alone()) return 77,
    T(a_namespace_has_its_own), T(another_root), T(a_root_of_ones_own), T(step_by_step), T(beneath_another), T(nothing_lies_over_descriptors), T(namespaces_are_told_apart),
    T(an_unbindable_one_is_in_new_namespaces), T(above_what_is_attached_nowhere), T(attributes_of_system_files), T(changes_of_mounts_are_told), T(a_poll_that_is_submitted_is_told_too), T(mounts_are_asked_for), T(mounts_of_a_new_namespace))
