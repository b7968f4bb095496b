/* What takes a capability, asked for as root, as a user, and as a user with the one capability that it takes:
 * capabilities(7), kill(2), setpriority(2), sched(7), prlimit(2), ip(7), socket(7), fcntl(2), shmctl(2), ptrace(2).
 * Needs root to become somebody else; without, there is nothing to test. */
#include "guest.h"
#include <arpa/inet.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sched.h>

enum { WHO = 4321, OTHER = 4322 };

/* The victim of what is done to others: a process of OTHER, or root's. */
static pid_t victim, roots;
static int segment = -1;

static int kill_other(void) { return kill(victim, SIGUSR1); }
static int kill_none(void) { return kill(victim, 0); }
static int kill_roots(void) { return kill(roots, SIGCONT); }
static int queue_other(void) {
    siginfo_t info = {.si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, victim, SIGUSR1, &info);
}
static int nice_other(void) { return setpriority(PRIO_PROCESS, victim, 1); }
static int nice_down(void) { return setpriority(PRIO_PROCESS, 0, -3); }
static int real_time(void) {
    struct sched_param p = {.sched_priority = 2};
    return sched_setscheduler(0, SCHED_FIFO, &p);
}
static int policy_other(void) {
    struct sched_param p = {0};
    return sched_setscheduler(victim, SCHED_BATCH, &p);
}
static int affinity_other(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return sched_setaffinity(victim, sizeof set, &set);
}
static int limits_other(void) {
    struct rlimit l;
    return syscall(SYS_prlimit64, victim, RLIMIT_CORE, NULL, &l);
}
static int limit_raised(void) {
    struct rlimit l;
    getrlimit(RLIMIT_MSGQUEUE, &l);
    l.rlim_max++;
    return setrlimit(RLIMIT_MSGQUEUE, &l);
}
static int low_port(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(847), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int r = bind(s, (struct sockaddr *)&a, sizeof a), e = errno;
    close(s);
    errno = e;
    return r;
}
static int low_port_udp(void) {
    int s = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(848)};
    int r = bind(s, (struct sockaddr *)&a, sizeof a), e = errno;
    close(s);
    errno = e;
    return r;
}
static int option(int level, int name, int value) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    int r = setsockopt(s, level, name, &value, sizeof value), e = errno;
    close(s);
    errno = e;
    return r;
}
static int mark(void) { return option(SOL_SOCKET, SO_MARK, 7); }
static int high_priority(void) { return option(SOL_SOCKET, SO_PRIORITY, 7); }
static int forced_send(void) { return option(SOL_SOCKET, SO_SNDBUFFORCE, 100000); }
static int forced_receive(void) { return option(SOL_SOCKET, SO_RCVBUFFORCE, 100000); }
static int debug(void) { return option(SOL_SOCKET, SO_DEBUG, 1); }
static int transparent(void) { return option(IPPROTO_IP, IP_TRANSPARENT, 1); }
static int raw_socket(void) {
    int s = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    return s < 0 ? -1 : close(s);
}
static int big_pipe(void) {
    int p[2];
    if (pipe(p) != 0)
        return -1;
    int r = fcntl(p[0], F_SETPIPE_SZ, 1 << 21), e = errno;
    close(p[0]), close(p[1]);
    errno = e;
    return r < 0 ? -1 : 0;
}
static int lock_segment(void) { return shmctl(segment, SHM_LOCK, NULL); }
static int look_at_files(void) {
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/cwd", victim);
    return readlink(path, text, sizeof text) < 0 ? -1 : 0;
}
static int compare(void) { return syscall(SYS_kcmp, getpid(), victim, 1, 0, 0) < 0 ? -1 : 0; }
static int take_descriptor(void) {
    int p = syscall(SYS_pidfd_open, victim, 0);
    int r = syscall(SYS_pidfd_getfd, p, 0, 0), e = errno;
    if (r >= 0)
        close(r);
    close(p);
    errno = e;
    return r < 0 ? -1 : 0;
}
static int change_root(void) { return chroot("/"); }
static int name_host(void) {
    char name[65];
    gethostname(name, sizeof name);
    return sethostname(name, strlen(name));
}
static int wake_machine(void) {
    struct timespec t = {0, 1};
    return syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME_ALARM, 0, &t, NULL);
}
static int give_away(void) { return chown("mine", OTHER, OTHER); }
static int write_closed(void) {
    int f = open("closed", O_WRONLY);
    return f < 0 ? -1 : close(f);
}
static int read_closed(void) {
    int f = open("closed", O_RDONLY);
    return f < 0 ? -1 : close(f);
}
static int mode_of_other(void) { return chmod("closed", 0600); }
static int lower_oom(void) {
    int f = open("/proc/self/oom_score_adj", O_WRONLY);
    int r = write(f, "-5", 2), e = errno;
    close(f);
    errno = e;
    return r < 0 ? -1 : 0;
}

static const struct {
    const char *name;
    int (*run)(void);
    int refused; /* what a user is told; 0: nothing is kept from users */
    int capability;
} OPERATIONS[] = {
    {"kill", kill_other, EPERM, CAP_KILL},
    {"kill 0", kill_none, EPERM, CAP_KILL},
    {"sigqueue", queue_other, EPERM, CAP_KILL},
    {"SIGCONT in the session", kill_roots, 0, 0},
    {"nice of another", nice_other, EPERM, CAP_SYS_NICE},
    {"nice below", nice_down, EACCES, CAP_SYS_NICE},
    {"SCHED_FIFO", real_time, EPERM, CAP_SYS_NICE},
    {"policy of another", policy_other, EPERM, CAP_SYS_NICE},
    {"affinity of another", affinity_other, EPERM, CAP_SYS_NICE},
    {"limits of another", limits_other, EPERM, CAP_SYS_RESOURCE},
    {"hard limit", limit_raised, EPERM, CAP_SYS_RESOURCE},
    {"port 847", low_port, EACCES, CAP_NET_BIND_SERVICE},
    {"UDP port 848", low_port_udp, EACCES, CAP_NET_BIND_SERVICE},
    {"SO_MARK", mark, EPERM, CAP_NET_ADMIN},
    {"SO_PRIORITY 7", high_priority, EPERM, CAP_NET_ADMIN},
    {"SO_SNDBUFFORCE", forced_send, EPERM, CAP_NET_ADMIN},
    {"SO_RCVBUFFORCE", forced_receive, EPERM, CAP_NET_ADMIN},
    {"SO_DEBUG", debug, EACCES, CAP_NET_ADMIN},
    {"IP_TRANSPARENT", transparent, EPERM, CAP_NET_RAW},
    {"raw socket", raw_socket, EPERM, CAP_NET_RAW},
    {"pipe of 2 MiB", big_pipe, EPERM, CAP_SYS_RESOURCE},
    {"SHM_LOCK", lock_segment, EPERM, CAP_IPC_LOCK},
    {"cwd of another", look_at_files, EACCES, CAP_SYS_PTRACE},
    {"kcmp", compare, EPERM, CAP_SYS_PTRACE},
    {"pidfd_getfd", take_descriptor, EPERM, CAP_SYS_PTRACE},
    {"chroot", change_root, EPERM, CAP_SYS_CHROOT},
    {"sethostname", name_host, EPERM, CAP_SYS_ADMIN},
    {"chown", give_away, EPERM, CAP_CHOWN},
    {"write to a closed file", write_closed, EACCES, CAP_DAC_OVERRIDE},
    {"read of a closed file", read_closed, EACCES, CAP_DAC_READ_SEARCH},
    {"chmod of another's", mode_of_other, EPERM, CAP_FOWNER},
    {"oom_score_adj below", lower_oom, EACCES, CAP_SYS_RESOURCE},
};
enum { COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

/* In a child: becomes WHO with one capability (or none for -1) and does it; its exit status says what came of it. */
static int tried(int (*run)(void), int as_user, int capability) {
    pid_t child = fork();
    if (child == 0) {
        if (as_user) {
            prctl(PR_SET_KEEPCAPS, 1);
            if (setresgid(WHO, WHO, WHO) != 0 || setresuid(WHO, WHO, WHO) != 0)
                _exit(250);
            struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
            struct __user_cap_data_struct data[2] = {{0}};
            if (capability >= 0) {
                data[capability / 32].effective = data[capability / 32].permitted = 1u << capability % 32;
            }
            if (syscall(SYS_capset, &header, data) != 0)
                _exit(251);
            prctl(PR_SET_DUMPABLE, 1); /* its files in /proc are its own */
        }
        errno = 0;
        _exit(run() == 0 ? 0 : errno);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Whether the one who runs the tests has a capability at all. */
static int has(int capability) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 && data[capability / 32].permitted >> capability % 32 & 1;
}

static pid_t sleeper(unsigned user) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGUSR1, SIG_IGN);
        if (user != 0 && (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0))
            _exit(1);
        prctl(PR_SET_DUMPABLE, 1);
        for (;;)
            pause();
    }
    return child;
}

static long setting(const char *path, long otherwise) {
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return otherwise;
    if (fscanf(f, "%ld", &otherwise) != 1)
        otherwise = 0;
    fclose(f);
    return otherwise;
}

static void every_privileged_operation(void) {
    victim = sleeper(OTHER), roots = sleeper(0);
    sleep_ms(50);
    segment = shmget(IPC_PRIVATE, 4096, 0600);
    int f = open("closed", O_CREAT | O_RDWR, 0600);
    fchown(f, OTHER, OTHER), fchmod(f, 0600), close(f);
    f = open("mine", O_CREAT | O_RDWR, 0600);
    fchown(f, WHO, WHO), close(f);
    for (int i = 0; i < COUNT; i++) {
        if (!has(OPERATIONS[i].capability))
            continue; /* root of a container */
        if (OPERATIONS[i].capability == CAP_NET_BIND_SERVICE && setting("/proc/sys/net/ipv4/ip_unprivileged_port_start", 1024) <= 848)
            continue; /* the machine lets everybody */
        if (OPERATIONS[i].run == big_pipe && setting("/proc/sys/fs/pipe-max-size", 1 << 20) >= 1 << 21)
            continue;
        int as_root = tried(OPERATIONS[i].run, 0, -1);
        fchownat(AT_FDCWD, "mine", WHO, WHO, 0);
        int as_user = tried(OPERATIONS[i].run, 1, -1);
        int with_it = OPERATIONS[i].refused == 0 ? 0 : tried(OPERATIONS[i].run, 1, OPERATIONS[i].capability);
        fchownat(AT_FDCWD, "mine", WHO, WHO, 0);
        /* One that does not help. */
        int useless = OPERATIONS[i].refused == 0 ? 0 : tried(OPERATIONS[i].run, 1, CAP_LEASE);
        if (as_root != 0 || as_user != OPERATIONS[i].refused || with_it != 0 || useless != OPERATIONS[i].refused) {
            guest_failed = 1;
            printf("# %s: root %d, user %d (expected %d), with capability %d: %d, with another: %d\n", OPERATIONS[i].name, as_root,
                   as_user, OPERATIONS[i].refused, OPERATIONS[i].capability, with_it, useless);
        }
    }
    kill(victim, SIGKILL), kill(roots, SIGKILL);
    waitpid(victim, NULL, 0), waitpid(roots, NULL, 0);
    shmctl(segment, IPC_RMID, NULL);
    unlink("mine"), unlink("closed");
}

static int to_groups(void) { return kill(-getpgrp(), SIGUSR2) == 0 && kill(-1, 0) == 0 ? 0 : -1; }
static void one_of_several_is_enough(void) {
    signal(SIGUSR2, SIG_IGN);
    SAME(tried(to_groups, 1, -1), 0); /* the caller's own group: itself at least */
    signal(SIGUSR2, SIG_DFL);
}

static char socket_path[] = "here";
static int reach(void) {
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, socket_path);
    int r = connect(s, (struct sockaddr *)&a, sizeof a), e = errno;
    close(s);
    errno = e;
    return r;
}
static void sockets_with_paths_have_modes(void) {
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, socket_path);
    CHECK(bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 9) == 0);
    CHECK(chmod(socket_path, 0700) == 0);
    SAME(tried(reach, 1, -1), EACCES);
    SAME(tried(reach, 1, CAP_DAC_OVERRIDE), 0);
    SAME(tried(reach, 0, -1), 0);
    CHECK(chmod(socket_path, 0702) == 0);
    SAME(tried(reach, 1, -1), 0);
    close(s);
    unlink(socket_path);
}

static int nice_up(void) { return setpriority(PRIO_PROCESS, 0, 19); }
static int idle_and_back(void) {
    struct sched_param p = {0};
    return sched_setscheduler(0, SCHED_BATCH, &p) == 0 && sched_setscheduler(0, SCHED_OTHER, &p) == 0 ? 0 : -1;
}
static int lowered_limit(void) {
    struct rlimit l;
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max = 64;
    return setrlimit(RLIMIT_NOFILE, &l);
}
static int raise_oom(void) {
    int f = open("/proc/self/oom_score_adj", O_RDWR);
    char text[16] = "";
    int w = write(f, "300\n", 4);
    lseek(f, 0, SEEK_SET);
    int r = read(f, text, sizeof text - 1);
    close(f);
    return w == 4 && r > 0 && strcmp(text, "300\n") == 0 ? 0 : -1;
}
static void what_anybody_may(void) {
    SAME(tried(nice_up, 1, -1), 0);
    SAME(tried(idle_and_back, 1, -1), 0);
    SAME(tried(lowered_limit, 1, -1), 0);
    SAME(tried(raise_oom, 1, -1), 0);
}

static void the_alarm_clocks_take_a_right(void) {
    int as_root = tried(wake_machine, 0, -1), as_user = tried(wake_machine, 1, -1);
    /* A machine without a real-time clock has no such clocks. */
    if (as_root == EOPNOTSUPP || as_root == EINVAL)
        return;
    SAME(as_root, 0);
    SAME(as_user, EPERM);
    SAME(tried(wake_machine, 1, CAP_WAKE_ALARM), 0);
}

static int nothing(void) { return 0; }

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {
        T(every_privileged_operation), T(one_of_several_is_enough), T(sockets_with_paths_have_modes), T(what_anybody_may),
        T(the_alarm_clocks_take_a_right),
    };
    if (geteuid() != 0 || tried(nothing, 1, -1) != 0) {
        puts("# skipped: becoming another user takes root");
        return 77;
    }
    scratch_enter();
    chmod(".", 0777);
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
