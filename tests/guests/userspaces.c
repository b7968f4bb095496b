/* User namespaces, user_namespaces(7), and those of host names, uts_namespaces(7): maps of ids and who may write them, capabilities that
 * hold within, ioctl_ns(2), System V objects of their own. Each test runs in children, and as root some of them as an ordinary user. */
#include "guest.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>

enum { USER = 4711 };

/* The line at which a child fails is its exit status. */
#define NEED(cond) do { if (!(cond)) { printf("# line %d: %s (errno %d)\n", __LINE__, #cond, errno); fflush(stdout); _exit(1); } } while (0)
#define REFUSED(call, err) do { errno = 0; NEED((call) == -1); NEED(errno == (err)); } while (0)

static int in_child(void (*run)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int e = errno;
    close(fd);
    errno = e;
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static const char *get(const char *path) {
    static char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

static const char *line_of(const char *name) {
    static char line[256];
    const char *found = strstr(get("/proc/self/status"), name);
    snprintf(line, sizeof line, "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
    return line;
}

static void become_user(void) {
    if (getuid() == 0) {
        NEED(setgroups(0, NULL) == 0);
        NEED(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
        prctl(PR_SET_DUMPABLE, 1);
    }
}

static char *number(const char *format, unsigned id) {
    static char text[2][64];
    static int turn;
    turn = !turn;
    snprintf(text[turn], sizeof text[turn], format, id);
    return text[turn];
}

static void unmapped(void) {
    become_user();
    NEED(unshare(CLONE_NEWUSER) == 0);
    NEED(getuid() == 65534 && geteuid() == 65534 && getgid() == 65534);
    NEED(strcmp(get("/proc/self/uid_map"), "") == 0);
    NEED(strcmp(get("/proc/self/setgroups"), "allow\n") == 0);
    NEED(strcmp(line_of("CapEff:"), "CapEff:\t000001ffffffffff") == 0);
    NEED(strcmp(line_of("CapBnd:"), "CapBnd:\t000001ffffffffff") == 0);
    NEED(strcmp(line_of("CapInh:"), "CapInh:\t0000000000000000") == 0);
    REFUSED(setuid(0), EINVAL);
    REFUSED(setgroups(0, NULL), EPERM);
    /* All rights are over what belongs to it, and none over the host. */
    REFUSED(sethostname("x", 1), EPERM);
    REFUSED(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), EPERM);
    struct stat s;
    NEED(stat("/", &s) == 0 && s.st_uid == 65534 && s.st_gid == 65534);
}
static void a_user_without_a_number(void) { CHECK(in_child(unmapped)); }

static void root_inside(void) {
    become_user();
    unsigned uid = getuid(), gid = getgid();
    int outside = open("made", O_CREAT | O_WRONLY, 0600);
    NEED(unshare(CLONE_NEWUSER | CLONE_NEWUTS) == 0);
    REFUSED(put("/proc/self/uid_map", number("0 %u 2\n", uid)), EPERM);
    REFUSED(put("/proc/self/uid_map", "0 0 0"), EINVAL);
    REFUSED(put("/proc/self/uid_map", "0 1"), EINVAL);
    REFUSED(put("/proc/self/uid_map", "0 4294967295 1"), EINVAL);
    NEED(put("/proc/self/uid_map", number("0 %u 1\n", uid)) == 0);
    REFUSED(put("/proc/self/uid_map", number("0 %u 1\n", uid)), EPERM);
    /* Who could drop a group might get where that group may not. */
    REFUSED(put("/proc/self/gid_map", number("0 %u 1\n", gid)), EPERM);
    REFUSED(put("/proc/self/setgroups", "forbid"), EINVAL);
    NEED(put("/proc/self/setgroups", "deny") == 0);
    REFUSED(put("/proc/self/setgroups", "allow"), EPERM);
    NEED(put("/proc/self/gid_map", number("0 %u 1\n", gid)) == 0);
    NEED(getuid() == 0 && geteuid() == 0 && getgid() == 0);
    char line[64];
    snprintf(line, sizeof line, "%10u %10u %10u\n", 0, uid, 1);
    NEED(strcmp(get("/proc/self/uid_map"), line) == 0);
    NEED(strcmp(line_of("Uid:"), "Uid:\t0\t0\t0\t0") == 0);
    REFUSED(setgroups(0, NULL), EPERM);
    REFUSED(setuid(1), EINVAL);
    struct stat s;
    if (outside >= 0)
        NEED(fstat(outside, &s) == 0 && s.st_uid == 0 && s.st_gid == 0);
    NEED(stat("/", &s) == 0 && s.st_uid == 65534);
    NEED(sethostname("inside", 6) == 0);
    struct utsname name;
    NEED(uname(&name) == 0 && strcmp(name.nodename, "inside") == 0);
    NEED(strcmp(get("/proc/sys/kernel/hostname"), "inside\n") == 0);
    REFUSED(chown("/etc/passwd", 0, 0), EPERM);
    REFUSED(settimeofday(&(struct timeval){1, 0}, NULL), EPERM);
    /* An execution keeps root's rights inside. */
    char *command[] = {"sh", "-c", "grep -q '^CapEff:.000001ffffffffff' /proc/self/status", NULL};
    pid_t child = fork();
    if (child == 0) {
        execv("/bin/sh", command);
        _exit(9);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && status == 0);
}
static void a_user_is_root_inside(void) {
    struct utsname before, after;
    CHECK(uname(&before) == 0);
    mode_t mask = umask(0);
    CHECK(chmod(".", 0777) == 0);
    umask(mask);
    int good = in_child(root_inside);
    unlink("made");
    CHECK(good && uname(&after) == 0);
    CHECK(strcmp(before.nodename, after.nodename) == 0);
}

static void mapped_by_parent(void) {
    int go[2], ready[2];
    char byte;
    NEED(pipe(go) == 0 && pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        NEED(unshare(CLONE_NEWUSER) == 0 && write(ready[1], "x", 1) == 1);
        NEED(read(go[0], &byte, 1) == 1);
        NEED(getuid() == 5 && getgid() == 6);
        NEED(setgroups(2, (gid_t[]){6, 7}) == 0);
        gid_t groups[4];
        NEED(getgroups(4, groups) == 2 && groups[0] == 6 && groups[1] == 7);
        REFUSED(setgroups(1, (gid_t[]){4000}), EINVAL);
        NEED(setresuid(100, 101, 102) == 0);
        uid_t r, e, s;
        NEED(getresuid(&r, &e, &s) == 0 && r == 100 && e == 101 && s == 102);
        NEED(strcmp(line_of("Uid:"), "Uid:\t100\t101\t102\t101") == 0);
        REFUSED(setresuid(2000, -1, -1), EINVAL);
        _exit(0);
    }
    NEED(read(ready[0], &byte, 1) == 1);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    NEED(put(path, "5 0 1\n100 100100 10\n") == 0);
    NEED(strcmp(get(path), "         5          0          1\n       100     100100         10\n") == 0);
    snprintf(path, sizeof path, "/proc/%d/gid_map", child);
    NEED(put(path, "6 0 1\n7 100 1\n") == 0);
    NEED(write(go[1], "x", 1) == 1);
    int status;
    NEED(waitpid(child, &status, 0) == child && status == 0);
}
static void ranges_are_mapped_from_outside(void) {
    if (getuid() == 0)
        CHECK(in_child(mapped_by_parent));
}

static void signals_between(void) {
    become_user();
    int ready[2];
    char byte;
    NEED(pipe(ready) == 0);
    pid_t inside = fork();
    if (inside == 0) {
        NEED(unshare(CLONE_NEWUSER) == 0 && write(ready[1], "x", 1) == 1);
        pause();
        _exit(0);
    }
    NEED(read(ready[0], &byte, 1) == 1);
    /* Its maker outside has all rights over it. */
    NEED(kill(inside, 0) == 0);
    char path[64], link[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", inside);
    NEED(readlink(path, link, sizeof link) > 6);
    int fd = open(path, O_RDONLY);
    NEED(fd >= 0 && setns(fd, CLONE_NEWUSER) == 0);
    REFUSED(setns(fd, CLONE_NEWUSER), EINVAL);
    NEED(getuid() == 65534 && strcmp(line_of("CapEff:"), "CapEff:\t000001ffffffffff") == 0);
    NEED(kill(inside, SIGKILL) == 0);
    int status;
    NEED(waitpid(inside, &status, 0) == inside && WTERMSIG(status) == SIGKILL);
}
static void its_maker_may_enter_it(void) { CHECK(in_child(signals_between)); }

static void inside_of_inside(void) {
    become_user();
    NEED(unshare(CLONE_NEWUSER) == 0);
    int outer = open("/proc/self/ns/user", O_RDONLY);
    unsigned uid = 12345;
    NEED(ioctl(outer, NS_GET_OWNER_UID, &uid) == 0 && uid == 65534);
    NEED(ioctl(outer, NS_GET_NSTYPE) == CLONE_NEWUSER);
    /* Nobody looks beyond the own one. */
    REFUSED(ioctl(outer, NS_GET_PARENT), EPERM);
    REFUSED(ioctl(outer, NS_GET_USERNS), EPERM);
    /* Who has no number cannot make one. */
    REFUSED(unshare(CLONE_NEWUSER), EPERM);
}
static void namespaces_tell_of_each_other(void) {
    CHECK(in_child(inside_of_inside));
    int own = open("/proc/self/ns/uts", O_RDONLY), user = open("/proc/self/ns/user", O_RDONLY);
    CHECK(own >= 0 && user >= 0);
    int owner = ioctl(own, NS_GET_USERNS);
    struct stat a, b;
    CHECK(owner >= 0 && fstat(owner, &a) == 0 && fstat(user, &b) == 0);
    CHECK(a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    CHECK(fcntl(owner, F_GETFD) == FD_CLOEXEC);
    SAME(ioctl(own, NS_GET_NSTYPE), CLONE_NEWUTS);
    FAILS(ioctl(own, NS_GET_PARENT), EINVAL);
    FAILS(ioctl(own, NS_GET_OWNER_UID, &a), EINVAL);
    close(own);
    close(user);
    close(owner);
}

static void nested(void) {
    become_user();
    unsigned uid = getuid(), gid = getgid();
    NEED(unshare(CLONE_NEWUSER) == 0);
    NEED(put("/proc/self/setgroups", "deny") == 0);
    NEED(put("/proc/self/uid_map", number("0 %u 1", uid)) == 0 && put("/proc/self/gid_map", number("0 %u 1", gid)) == 0);
    int outer = open("/proc/self/ns/user", O_RDONLY);
    NEED(unshare(CLONE_NEWUSER | CLONE_NEWUTS) == 0 && getuid() == 65534);
    NEED(strcmp(get("/proc/self/setgroups"), "deny\n") == 0);
    NEED(put("/proc/self/uid_map", "7 0 1") == 0 && put("/proc/self/gid_map", "8 0 1") == 0);
    NEED(getuid() == 7 && getgid() == 8 && strcmp(get("/proc/self/uid_map"), "         7          0          1\n") == 0);
    REFUSED(setns(outer, CLONE_NEWUSER), EPERM);
    int uts = open("/proc/self/ns/uts", O_RDONLY), owner = ioctl(uts, NS_GET_USERNS);
    struct stat a, b;
    NEED(owner >= 0 && fstat(owner, &a) == 0 && stat("/proc/self/ns/user", &b) == 0 && a.st_ino == b.st_ino);
    NEED(sethostname("deep", 4) == 0);
}
static void namespaces_lie_in_each_other(void) { CHECK(in_child(nested)); }

static void *idle(void *none) {
    pause();
    return none;
}
static void with_threads(void) {
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, idle, NULL) == 0);
    REFUSED(unshare(CLONE_NEWUSER), EINVAL);
}
static void flags_that_exclude_each_other(void) {
    CHECK(in_child(with_threads));
    FAILS(unshare(0x1), EINVAL);
    FAILS(syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0, 0, 0, 0), EINVAL);
    FAILS(syscall(SYS_clone, CLONE_NEWIPC | CLONE_SYSVSEM | SIGCHLD, 0, 0, 0, 0), geteuid() == 0 ? EINVAL : EPERM);
    FAILS(syscall(SYS_clone, CLONE_NEWPID | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0, 0), EINVAL);
    int own = open("/proc/self/ns/user", O_RDONLY), file = open("/proc/self/status", O_RDONLY);
    FAILS(setns(own, 0), EINVAL);
    FAILS(setns(own, CLONE_NEWUTS), EINVAL);
    FAILS(setns(file, 0), EINVAL);
    close(own);
    close(file);
}

static void by_clone(void) {
    become_user();
    pid_t child = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWUTS | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        NEED(getuid() == 65534 && sethostname("clone", 5) == 0);
        _exit(0);
    }
    int status;
    NEED(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    struct utsname name;
    NEED(uname(&name) == 0 && strcmp(name.nodename, "clone") != 0);
    REFUSED(unshare(CLONE_NEWUTS), EPERM);
    REFUSED(syscall(SYS_clone, CLONE_NEWUTS | SIGCHLD, 0, 0, 0, 0), EPERM);
}
static void a_child_is_made_in_one(void) { CHECK(in_child(by_clone)); }

static void objects(void) {
    become_user();
    int outside = semget(77001, 1, IPC_CREAT | 0600);
    NEED(outside >= 0);
    pid_t child = fork();
    if (child == 0) {
        NEED(unshare(CLONE_NEWUSER | CLONE_NEWIPC) == 0);
        REFUSED(semget(77001, 1, 0), ENOENT);
        int inside = semget(77001, 1, IPC_CREAT | IPC_EXCL | 0600);
        NEED(inside >= 0 && semctl(inside, 0, SETVAL, 5) == 0 && semctl(inside, 0, GETVAL) == 5);
        _exit(0);
    }
    int status;
    int ended = waitpid(child, &status, 0) == child && status == 0;
    int value = semctl(outside, 0, GETVAL);
    semctl(outside, 0, IPC_RMID);
    NEED(ended && value == 0);
}
static void objects_of_system_v_belong_to_their_namespace(void) { CHECK(in_child(objects)); }

static void credentials(void) {
    become_user();
    int pair[2], on = 1;
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    NEED(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    unsigned uid = getuid();
    pid_t child = fork();
    if (child == 0) {
        NEED(unshare(CLONE_NEWUSER) == 0 && put("/proc/self/uid_map", number("3 %u 1", uid)) == 0);
        struct ucred peer;
        socklen_t len = sizeof peer;
        NEED(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0);
        NEED(peer.uid == 3 && peer.gid == 65534);
        NEED(write(pair[0], "x", 1) == 1);
        _exit(0);
    }
    char byte, control[64];
    struct iovec one = {&byte, 1};
    struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    NEED(recvmsg(pair[1], &m, 0) == 1);
    struct ucred *from = (struct ucred *)CMSG_DATA(CMSG_FIRSTHDR(&m));
    NEED(from->pid == child && from->uid == uid);
    int status;
    NEED(waitpid(child, &status, 0) == child && status == 0);
}
static void credentials_are_those_of_the_reader(void) { CHECK(in_child(credentials)); }

static void mounts_inside(void) {
    become_user();
    unsigned uid = getuid(), gid = getgid();
    NEED(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    NEED(put("/proc/self/setgroups", "deny") == 0);
    NEED(put("/proc/self/uid_map", number("0 %u 1", uid)) == 0 && put("/proc/self/gid_map", number("0 %u 1", gid)) == 0);
    NEED(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    NEED(mount("tmpfs", "/tmp", "tmpfs", 0, "mode=0750,uid=0") == 0);
    struct stat s;
    NEED(stat("/tmp", &s) == 0 && s.st_uid == 0 && (s.st_mode & 07777) == 0750);
    NEED(mkdir("/tmp/a", 0700) == 0 && mount("/tmp", "/tmp/a", NULL, MS_BIND, NULL) == 0);
    NEED(umount("/tmp/a") == 0);
    /* What came with the namespace hides something, and stays. */
    REFUSED(umount2("/proc", MNT_DETACH), EINVAL);
    /* The processes that it would show are the host's. */
    REFUSED(mount("proc", "/tmp/a", "proc", 0, NULL), EPERM);
    REFUSED(mknod("/tmp/null", S_IFCHR | 0666, 0x103), EPERM);
    NEED(umount("/tmp") == 0);
    REFUSED(mount(NULL, "/", NULL, MS_REMOUNT, NULL), EPERM);
}
static void mounts_are_made_with_rights_inside(void) { CHECK(in_child(mounts_inside)); }

static void flags_inside(void) {
    become_user();
    unsigned uid = getuid(), gid = getgid();
    NEED(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
    NEED(put("/proc/self/setgroups", "deny") == 0);
    NEED(put("/proc/self/uid_map", number("0 %u 1", uid)) == 0 && put("/proc/self/gid_map", number("0 %u 1", gid)) == 0);
    NEED(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    NEED(mount("/dev", "/dev", NULL, MS_BIND | MS_REC, NULL) == 0);
    NEED(mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0);
    /* The file systems of the host can be shown read-only there, and are not changed by it. */
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | MS_NODEV;
    NEED(mount(NULL, "/tmp", NULL, flags | MS_RDONLY, NULL) == 0);
    REFUSED(mkdir("/tmp/a", 0700), EROFS);
    NEED(mount(NULL, "/tmp", NULL, flags, NULL) == 0 && mkdir("/tmp/a", 0700) == 0);
}
static void flags_of_mounts_inside(void) {
    CHECK(in_child(flags_inside));
    CHECK(access("/dev/null", W_OK) == 0);
}

static void confined(void) {
    NEED(chroot(".") == 0);
    REFUSED(unshare(CLONE_NEWUSER), EPERM);
}
static void a_part_of_the_files_gives_no_rights(void) {
    if (getuid() == 0)
        CHECK(in_child(confined));
}

static void entered_by_pidfd(void) {
    become_user();
    int ready[2];
    char byte;
    NEED(pipe(ready) == 0);
    pid_t inside = fork();
    if (inside == 0) {
        NEED(unshare(CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWIPC) == 0 && sethostname("pidfd", 5) == 0);
        NEED(write(ready[1], "x", 1) == 1);
        pause();
    }
    NEED(read(ready[0], &byte, 1) == 1);
    int handle = syscall(SYS_pidfd_open, inside, 0);
    REFUSED(setns(handle, 0), EINVAL);
    REFUSED(setns(handle, CLONE_NEWUTS), EPERM);
    NEED(setns(handle, CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWIPC) == 0);
    struct utsname name;
    NEED(uname(&name) == 0 && strcmp(name.nodename, "pidfd") == 0);
    NEED(kill(inside, SIGKILL) == 0 && waitpid(inside, NULL, 0) == inside);
    REFUSED(setns(handle, CLONE_NEWUTS), ESRCH);
}
static void several_are_entered_at_once(void) { CHECK(in_child(entered_by_pidfd)); }

static void made_inside(void) {
    become_user();
    unsigned uid = getuid(), gid = getgid();
    int nice = getpriority(PRIO_USER, 0);
    NEED(unshare(CLONE_NEWUSER) == 0);
    NEED(put("/proc/self/setgroups", "deny") == 0);
    NEED(put("/proc/self/uid_map", number("0 %u 1", uid)) == 0 && put("/proc/self/gid_map", number("0 %u 1", gid)) == 0);
    int file = open("inside", O_CREAT | O_WRONLY, 0600);
    struct stat s;
    NEED(file >= 0 && fstat(file, &s) == 0 && s.st_uid == 0 && s.st_gid == 0);
    REFUSED(fchown(file, 1, 1), EINVAL);
    NEED(fchown(file, 0, 0) == 0 && getpriority(PRIO_USER, 0) == nice);
    REFUSED(getpriority(PRIO_USER, 9), ESRCH);
}
static void files_made_inside_are_the_makers(void) {
    CHECK(chmod(".", 0777) == 0);
    int good = in_child(made_inside);
    struct stat s;
    CHECK(good && stat("inside", &s) == 0);
    SAME(s.st_uid, getuid() == 0 ? USER : getuid());
    unlink("inside");
}

static void links(void) {
    static const char *names[] = {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"};
    char path[64], text[64];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
        ssize_t n = readlink(path, text, sizeof text - 1);
        CHECK(n > 0);
        text[n] = 0;
        struct stat s;
        unsigned long inode;
        CHECK(sscanf(strchr(text, '['), "[%lu]", &inode) == 1 && stat(path, &s) == 0);
        SAME(s.st_ino, inode);
    }
}

GUEST_WITH(scratch_enter(), T(a_user_without_a_number), T(a_user_is_root_inside), T(ranges_are_mapped_from_outside), T(its_maker_may_enter_it),
           T(namespaces_tell_of_each_other), T(namespaces_lie_in_each_other), T(flags_that_exclude_each_other), T(a_child_is_made_in_one),
           T(objects_of_system_v_belong_to_their_namespace), T(credentials_are_those_of_the_reader), T(mounts_are_made_with_rights_inside),
           T(flags_of_mounts_inside), T(a_part_of_the_files_gives_no_rights), T(several_are_entered_at_once),
           T(files_made_inside_are_the_makers), T(links))
