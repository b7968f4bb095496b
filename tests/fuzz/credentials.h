/* Operations on credentials: users, groups, capabilities, programs that change them, and what they are asked for. */
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>

/* This program as it was when the sequence began, whoever runs it now. */
static int self_image = -1;

/* What has come of it: after each change all of it is said. */
static void say_credentials(void) {
    unsigned r[3], g[3];
    gid_t groups[8];
    syscall(SYS_getresuid, r, r + 1, r + 2);
    syscall(SYS_getresgid, g, g + 1, g + 2);
    say(" u%d,%d,%d/%d g%d,%d,%d/%d", r[0], r[1], r[2], setfsuid(-1), g[0], g[1], g[2], setfsgid(-1));
    int n = getgroups(8, groups);
    for (int i = 0; i < n; i++)
        say("%s%d", i == 0 ? " of " : ",", (int)groups[i]);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {0};
    syscall(SYS_capget, &header, data);
    say(" e%x:%x p%x:%x i%x:%x", data[1].effective, data[0].effective, data[1].permitted, data[0].permitted, data[1].inheritable, data[0].inheritable);
    uint64_t bounding = 0, ambient = 0;
    for (int i = 0; i < 41; i++) {
        bounding |= (uint64_t)(prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1) << i;
        ambient |= (uint64_t)(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1) << i;
    }
    say(" b%lx a%lx s%x k%d d%d n%d", bounding, ambient, prctl(PR_GET_SECUREBITS), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}
/* What a program that was just started has of them. */
static void whoami(void) {
    say_credentials();
    say(" secure %ld euid %ld", (long)getauxval(AT_SECURE), (long)getauxval(AT_EUID));
    write(1, line, line_length);
    _exit(0);
}
static void changed(long value) {
    if (result(value) != -1)
        say_credentials();
}

/* A capability that some machines' root has not got is taken from all. */
OP(begin) {
    UNUSED;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
    setgroups(0, NULL);
    if (syscall(SYS_capget, &header, data) == 0) {
        data[0].effective &= ~(1u << CAP_SYS_RESOURCE), data[0].permitted &= ~(1u << CAP_SYS_RESOURCE), data[0].inheritable = 0;
        syscall(SYS_capset, &header, data);
    }
    chmod(".", 0777);
    say_credentials();
}
OP(setuid) { changed(syscall(SYS_setuid, (uid_t)a[0])); }
OP(setgid) { changed(syscall(SYS_setgid, (gid_t)a[0])); }
OP(setreuid) { changed(syscall(SYS_setreuid, (uid_t)a[0], (uid_t)a[1])); }
OP(setregid) { changed(syscall(SYS_setregid, (gid_t)a[0], (gid_t)a[1])); }
OP(setresuid) { changed(syscall(SYS_setresuid, (uid_t)a[0], (uid_t)a[1], (uid_t)a[2])); }
OP(setresgid) { changed(syscall(SYS_setresgid, (gid_t)a[0], (gid_t)a[1], (gid_t)a[2])); }
OP(setfsuid) { changed(syscall(SYS_setfsuid, (uid_t)a[0])); }
OP(setfsgid) { changed(syscall(SYS_setfsgid, (gid_t)a[0])); }
/* a: how many, and which. */
OP(setgroups) {
    gid_t groups[3] = {(gid_t)a[1], (gid_t)a[2], (gid_t)a[3]};
    changed(syscall(SYS_setgroups, a[0], groups));
}
/* a: effective, permitted, inheritable, of those below 32; the others stay if the last argument is 0. */
OP(capset) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {0};
    syscall(SYS_capget, &header, data);
    data[0].effective = (uint32_t)a[0], data[0].permitted = (uint32_t)a[1], data[0].inheritable = (uint32_t)a[2];
    if (a[3])
        memset(data + 1, 0, sizeof *data);
    changed(syscall(SYS_capset, &header, data));
}
OP(keepcaps) { changed(prctl(PR_SET_KEEPCAPS, a[0], 0, 0, 0)); }
OP(securebits) { changed(prctl(PR_SET_SECUREBITS, a[0], 0, 0, 0)); }
OP(bounding) { changed(prctl(PR_CAPBSET_DROP, a[0], 0, 0, 0)); }
OP(ambient) { changed(prctl(PR_CAP_AMBIENT, a[0], a[1], 0, 0)); }
OP(no_new_privs) { UNUSED; changed(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); }
OP(dumpable) { changed(prctl(PR_SET_DUMPABLE, a[0], 0, 0, 0)); }

/* a: path, user, group, AT_SYMLINK_NOFOLLOW. */
OP(chown) {
    struct stat s;
    if (result(fchownat(AT_FDCWD, P(a[0]), (uid_t)a[1], (gid_t)a[2], (int)a[3])) == 0 && lstat(P(a[0]), &s) == 0)
        say(" %d:%d %o", (int)s.st_uid, (int)s.st_gid, s.st_mode);
}
OP(fchown) { result(fchown(fd_at(a[0]), (uid_t)a[1], (gid_t)a[2])); }
OP(owner) {
    struct stat s;
    if (result(lstat(P(a[0]), &s)) == 0)
        say(" %d:%d %o", (int)s.st_uid, (int)s.st_gid, s.st_mode);
}
OP(faccessat2) { result(syscall(SYS_faccessat2, AT_FDCWD, P(a[0]), a[1], a[2])); }

/* A copy of this program, with an owner and a mode; then it is run. a: user, group, mode. */
OP(run_program) {
    static char image[1 << 12];
    long got;
    unlink("program");
    int copy = open("program", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (copy == -1) {
        result(-1);
        return;
    }
    for (off_t at = 0; (got = pread(self_image, image, sizeof image, at)) > 0; at += got)
        write(copy, image, (size_t)got);
    say(" chown");
    result(fchown(copy, (uid_t)a[0], (gid_t)a[1]));
    say(" chmod");
    result(fchmod(copy, (mode_t)a[2]));
    close(copy);
    int p[2];
    if (pipe(p) == -1)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        execl("program", "program", "--whoami", NULL);
        _exit(errno);
    }
    close(p[1]);
    char text[512];
    int status = 0;
    size_t length = 0;
    while ((got = read(p[0], text + length, sizeof text - 1 - length)) > 0 || (got == -1 && errno == EINTR))
        length += got > 0 ? (size_t)got : 0;
    close(p[0]);
    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
    }
    say(" ran %x%.*s", status, (int)length, text);
}

/* Children wait for the end of what only the sequence's process holds: a user's end does not kill another's children. */
static int life[2] = {-1, -1};
/* A child of another user that waits. a: child, user. */
OP(fork_as) {
    int p[2];
    if (pipe(p) == -1) {
        result(-1);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(life[1]);
        if (a[1] >= 0)
            syscall(SYS_setresuid, (uid_t)a[1], (uid_t)a[1], (uid_t)a[1]);
        for (int i = 0; i < SLOTS; i++)
            close(slot[i]);
        close(p[0]);
        close(p[1]);
        char end;
        while (read(life[0], &end, 1) != 0) {
        }
        _exit(0);
    }
    close(p[1]);
    char c;
    while (read(p[0], &c, 1) == -1 && errno == EINTR) {
    }
    close(p[0]);
    worked(place_for_child(a[0], pid));
}
static pid_t of_child(long n) { return n < 0 ? 0 : child[n % CHILDREN] > 0 ? child[n % CHILDREN] : 999999; }
enum { KCMP_FS = 3 };
/* What one may do to a child, or to oneself. a: child or -1, what, value. */
OP(on_process) {
    pid_t pid = of_child(a[0]);
    struct sched_param parameter = {(int)a[2]};
    struct rlimit limit;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, pid};
    struct __user_cap_data_struct data[2] = {0};
    cpu_set_t one;
    char text[64], path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid == 0 ? getpid() : pid, a[2] % 3 == 0 ? "cwd" : a[2] % 3 == 1 ? "exe" : "root");
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    switch (a[1]) {
    case 0:
        result(setpriority(PRIO_PROCESS, (id_t)pid, (int)a[2]));
        break;
    case 1:
        errno = 0;
        result(getpriority(PRIO_PROCESS, (id_t)pid));
        break;
    case 2:
        parameter.sched_priority = 0;
        result(sched_setscheduler(pid, a[2] % 2 ? SCHED_BATCH : SCHED_OTHER, &parameter));
        break;
    case 3:
        parameter.sched_priority = 1;
        result(sched_setscheduler(pid, SCHED_FIFO, &parameter));
        parameter.sched_priority = 0;
        sched_setscheduler(pid, SCHED_OTHER, &parameter);
        break;
    case 4:
        result(prlimit(pid, RLIMIT_CORE, NULL, &limit));
        break;
    case 5:
        limit = (struct rlimit){0, 0};
        result(prlimit(pid, RLIMIT_CORE, &limit, NULL));
        break;
    case 6:
        result(sched_setaffinity(pid, sizeof one, &one));
        break;
    case 7:
        result(syscall(SYS_kcmp, getpid(), pid == 0 ? getpid() : pid, KCMP_FS, 0, 0) >= 0 ? 0 : -1);
        break;
    case 8:
        result(readlink(path, text, sizeof text) > 0 ? 0 : -1);
        break;
    case 9:
        result(syscall(SYS_ioprio_set, 1, pid, (2 << 13) | (a[2] & 7)));
        break;
    case 10:
        if (result(syscall(SYS_capget, &header, data)) == 0)
            say(" %x", data[0].effective);
        break;
    case 11:
        result(getsid(pid) == -1 ? -1 : 0);
        break;
    default:
        result(pid == 0 ? kill(getpid(), 0) : kill(pid, 0));
        break;
    }
}

/* What sockets ask for. a: what, value. */
OP(asked_of_sockets) {
    int kinds[][3] = {{AF_INET, SOCK_RAW, 1}, {AF_INET, SOCK_RAW, 255}, {AF_PACKET, SOCK_RAW, 0}, {AF_INET6, SOCK_RAW, 58}, {AF_NETLINK, SOCK_RAW, 0}};
    int on = (int)a[1], options[][2] = {{SOL_SOCKET, SO_MARK}, {SOL_SOCKET, SO_PRIORITY}, {SOL_SOCKET, SO_RCVBUFFORCE}, {SOL_SOCKET, SO_DEBUG}, {IPPROTO_IP, 19 /* IP_TRANSPARENT */}};
    if (a[0] < 5) {
        int s = socket(kinds[a[0]][0], kinds[a[0]][1], kinds[a[0]][2]);
        worked(s);
        if (s >= 0)
            close(s);
        return;
    }
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (a[0] < 10)
        result(setsockopt(s, options[a[0] - 5][0], options[a[0] - 5][1], &on, sizeof on));
    else {
        /* Nobody else's address. */
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)a[1]), .sin_addr.s_addr = htonl(0x7f000001u | ((unsigned)getpid() & 0xffff) << 8)};
        result(bind(s, (void *)&to, sizeof to));
    }
    close(s);
}
/* Credentials that are said with a message, true ones or not. a: slot, user, group, whether of this process. */
OP(say_who) {
    char data = 1, control[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec io = {&data, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_CREDENTIALS, c->cmsg_len = CMSG_LEN(sizeof(struct ucred));
    struct ucred who = {a[3] ? getpid() : 999999, (uid_t)a[1], (gid_t)a[2]};
    memcpy(CMSG_DATA(c), &who, sizeof who);
    result(sendmsg(fd_at(a[0]), &m, MSG_DONTWAIT | MSG_NOSIGNAL));
}
