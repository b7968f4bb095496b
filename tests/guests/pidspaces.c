/* Process namespaces, pid_namespaces(7): numbers inside and outside, process 1 and its end, signals, credentials, /proc. Each test runs
 * in children, in a user namespace unless root runs it. */
#include "guest.h"
#include <dirent.h>
#include <linux/nsfs.h>
#include <linux/reboot.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define NEED(cond) do { if (!(cond)) { printf("# line %d: %s (errno %d)\n", __LINE__, #cond, errno); fflush(stdout); _exit(1); } } while (0)
#define REFUSED(call, err) do { errno = 0; NEED((call) == -1); NEED(errno == (err)); } while (0)

static int reaped(pid_t child, int want) {
    int status = -1;
    pid_t got = waitpid(child, &status, 0);
    if (got != child || status != want)
        printf("# waitpid: %d for %d, status 0x%x\n", got, child, status);
    return got == child && status == want;
}

static int in_child(void (*run)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    return child > 0 && reaped(child, 0);
}

static const char *get(const char *path) {
    static char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return text;
}
static const char *line_of(const char *path, const char *name) {
    static char line[256];
    const char *found = strstr(get(path), name);
    snprintf(line, sizeof line, "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
    return line;
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    NEED(fd >= 0 && write(fd, text, strlen(text)) > 0);
    close(fd);
}

/* New namespaces, with one of users for an ordinary user, who is the same there. */
static int part(int flags) {
    unsigned uid = getuid(), gid = getgid();
    if (uid == 0)
        return unshare(flags);
    if (unshare(flags | CLONE_NEWUSER) == -1)
        return -1;
    char line[64];
    put("/proc/self/setgroups", "deny");
    snprintf(line, sizeof line, "%u %u 1", uid, uid);
    put("/proc/self/uid_map", line);
    snprintf(line, sizeof line, "%u %u 1", gid, gid);
    put("/proc/self/gid_map", line);
    return 0;
}

static void numbers(void) {
    NEED(part(CLONE_NEWPID) == 0);
    pid_t own = getpid();
    char link[64];
    /* Before process 1 is there, there is nothing to enter. */
    REFUSED(readlink("/proc/self/ns/pid_for_children", link, sizeof link), ENOENT);
    REFUSED(unshare(CLONE_NEWPID), EINVAL);
    int pipes[2];
    NEED(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        NEED(getpid() == 1 && getppid() == 0 && syscall(SYS_gettid) == 1);
        NEED(getpgrp() == 0 && getsid(0) == 0 && getpgid(1) == 0);
        REFUSED(kill(own, 0), ESRCH);
        pid_t second = fork();
        if (second == 0) {
            NEED(getpid() == 2 && getppid() == 1);
            NEED(setsid() == 2 && getpgrp() == 2 && getsid(1) == 0);
            _exit(7);
        }
        siginfo_t info;
        NEED(second == 2 && waitid(P_PID, 2, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == 2 && info.si_status == 7);
        NEED(reaped(2, 7 << 8));
        NEED(write(pipes[1], "x", 1) == 1);
        pause();
    }
    NEED(child > 1 && getpid() == own);
    char byte, path[64], want[64];
    NEED(read(pipes[0], &byte, 1) == 1);
    snprintf(path, sizeof path, "/proc/%d/status", child);
    snprintf(want, sizeof want, "NSpid:\t%d\t1", child);
    NEED(strcmp(line_of(path, "NSpid:"), want) == 0);
    NEED(readlink("/proc/self/ns/pid_for_children", link, sizeof link) > 4);
    struct stat a, b;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", child);
    NEED(stat(path, &a) == 0 && stat("/proc/self/ns/pid_for_children", &b) == 0 && a.st_ino == b.st_ino);
    NEED(stat("/proc/self/ns/pid", &b) == 0 && a.st_ino != b.st_ino);
    int inner = open(path, O_RDONLY), outer = ioctl(inner, NS_GET_PARENT);
    NEED(outer >= 0 && fstat(outer, &a) == 0 && a.st_ino == b.st_ino);
    REFUSED(ioctl(outer, NS_GET_PARENT), EPERM);
    NEED(kill(child, SIGKILL) == 0 && reaped(child, SIGKILL));
    /* It has ended with its process 1. */
    REFUSED(fork(), ENOMEM);
}
static void numbers_inside_and_outside(void) { CHECK(in_child(numbers)); }

static void end(void) {
    NEED(part(CLONE_NEWPID) == 0);
    int out[2];
    NEED(pipe(out) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* Orphans are process 1's, and with it they end. */
        pid_t middle = fork();
        if (middle == 0) {
            if (fork() == 0) {
                while (getppid() != 1)
                    sched_yield();
                NEED(write(out[1], "o", 1) == 1);
                pause();
            }
            _exit(0);
        }
        NEED(reaped(middle, 0));
        char byte;
        NEED(read(out[0], &byte, 1) == 1);
        NEED(write(out[1], "r", 1) == 1);
        _exit(5);
    }
    close(out[1]);
    NEED(reaped(child, 5 << 8));
    char bytes[4];
    NEED(read(out[0], bytes, 4) == 1 && bytes[0] == 'r');
    /* Nobody is left who could write. */
    NEED(read(out[0], bytes, 4) == 0);
}
static void all_end_with_process_1(void) { CHECK(in_child(end)); }

static volatile sig_atomic_t seen, sender;
static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    seen = signal;
    sender = info->si_pid;
}

static void signals(void) {
    NEED(part(CLONE_NEWPID) == 0);
    int go[2], ready[2];
    char byte;
    NEED(pipe(go) == 0 && pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigaction(SIGUSR1, &action, NULL);
        pid_t second = fork();
        if (second == 0) {
            /* What it has no handler for does nothing to process 1. */
            NEED(kill(1, SIGTERM) == 0 && kill(1, SIGKILL) == 0 && kill(1, SIGSTOP) == 0 && kill(1, SIGUSR2) == 0);
            NEED(kill(1, SIGUSR1) == 0);
            _exit(0);
        }
        NEED(reaped(second, 0));
        NEED(seen == SIGUSR1 && sender == 2);
        NEED(kill(1, SIGTERM) == 0 && kill(0, 0) == 0);
        /* -1 is all but process 1 and oneself. */
        pid_t third = fork();
        if (third == 0) {
            pause();
            _exit(0);
        }
        NEED(kill(-1, SIGKILL) == 0 && reaped(third, SIGKILL));
        NEED(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
        NEED(seen == SIGUSR1 && sender == 0);
        NEED(write(ready[1], "y", 1) == 1);
        for (;;)
            pause();
    }
    NEED(read(ready[0], &byte, 1) == 1);
    seen = 0;
    NEED(kill(child, SIGTERM) == 0 && kill(child, SIGUSR1) == 0);
    NEED(write(go[1], "x", 1) == 1 && read(ready[0], &byte, 1) == 1);
    NEED(kill(child, SIGKILL) == 0 && reaped(child, SIGKILL));
}
static void signals_to_process_1(void) { CHECK(in_child(signals)); }

static void fault(void) {
    NEED(part(CLONE_NEWPID) == 0);
    pid_t child = fork();
    if (child == 0) {
        *(volatile int *)8 = 1;
        _exit(0);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
static void faults_end_process_1(void) { CHECK(in_child(fault)); }

static void credentials(void) {
    int pair[2], on = 1;
    NEED(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    NEED(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    NEED(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    NEED(part(CLONE_NEWPID) == 0);
    struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
    int file = open("locked", O_CREAT | O_RDWR, 0600);
    NEED(fcntl(file, F_SETLK, &lock) == 0);
    pid_t child = fork();
    char byte, control[64];
    struct iovec one = {&byte, 1};
    struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct ucred *from = (struct ucred *)CMSG_DATA((struct cmsghdr *)control);
    if (child == 0) {
        NEED(write(pair[0], "x", 1) == 1);
        NEED(recvmsg(pair[0], &m, 0) == 1 && from->pid == 0);
        NEED(fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == 0);
        struct ucred own = {.pid = 1, .uid = getuid(), .gid = getgid()};
        struct { struct cmsghdr head; struct ucred body; } said = {{CMSG_LEN(sizeof own), SOL_SOCKET, SCM_CREDENTIALS}, own};
        struct msghdr out = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &said, .msg_controllen = sizeof said};
        NEED(sendmsg(pair[0], &out, 0) == 1);
        _exit(0);
    }
    NEED(recvmsg(pair[1], &m, 0) == 1 && from->pid == child);
    NEED(write(pair[1], "y", 1) == 1);
    m.msg_controllen = sizeof control;
    NEED(recvmsg(pair[1], &m, 0) == 1 && from->pid == child);
    NEED(reaped(child, 0));
}
static void credentials_are_translated(void) {
    CHECK(in_child(credentials));
    unlink("locked");
}

static int listed(int *processes) {
    DIR *proc = opendir("/proc");
    int most = 0;
    *processes = 0;
    for (struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        int number = atoi(entry->d_name);
        *processes += number > 0;
        most = number > most ? number : most;
    }
    closedir(proc);
    return most;
}

static void proc(void) {
    NEED(part(CLONE_NEWPID | CLONE_NEWNS) == 0);
    pid_t child = fork();
    if (child == 0) {
        char link[64] = "";
        /* /proc shows the namespace that it was mounted from. */
        NEED(readlink("/proc/self", link, sizeof link) > 1);
        NEED(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        NEED(mount("proc", "/proc", "proc", 0, NULL) == 0);
        memset(link, 0, sizeof link);
        NEED(readlink("/proc/self", link, sizeof link) == 1 && link[0] == '1');
        NEED(readlink("/proc/thread-self", link, sizeof link) == 8 && memcmp(link, "1/task/1", 8) == 0);
        pid_t second = fork();
        if (second == 0) {
            pause();
            _exit(0);
        }
        int processes;
        NEED(listed(&processes) == 2 && processes == 2);
        NEED(strcmp(line_of("/proc/2/status", "Pid:"), "Pid:\t2") == 0);
        NEED(strcmp(line_of("/proc/2/status", "PPid:"), "PPid:\t1") == 0);
        NEED(strcmp(line_of("/proc/2/status", "NSpid:"), "NSpid:\t2") == 0);
        NEED(strcmp(line_of("/proc/1/status", "PPid:"), "PPid:\t0") == 0);
        int pid, ppid;
        char name[32], state;
        NEED(sscanf(get("/proc/2/stat"), "%d %31s %c %d", &pid, name, &state, &ppid) == 4 && pid == 2 && ppid == 1);
        NEED(access("/proc/2/task/2/comm", F_OK) == 0 && access("/proc/3", F_OK) == -1);
        NEED(kill(2, SIGKILL) == 0 && reaped(2, SIGKILL) && access("/proc/2", F_OK) == -1);
        _exit(0);
    }
    NEED(reaped(child, 0));
}
static void proc_shows_a_namespace(void) { CHECK(in_child(proc)); }

static void entering(void) {
    int pid[2], go[2];
    NEED(part(CLONE_NEWPID) == 0 && pipe(pid) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        NEED(write(pid[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
        /* A child of somebody outside has no parent here. */
        _exit(kill(2, 0) == 0 ? 0 : 1);
    }
    char byte, path[64];
    NEED(read(pid[0], &byte, 1) == 1);
    int handle = syscall(SYS_pidfd_open, child, 0);
    NEED(handle >= 0);
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", handle);
    snprintf(path + 32, 32, "NSpid:\t%d\t1", child);
    NEED(strcmp(line_of(path, "NSpid:"), path + 32) == 0);
    NEED(setns(handle, CLONE_NEWPID) == 0);
    pid_t other = fork();
    if (other == 0) {
        NEED(getpid() == 2 && getppid() == 0);
        pause();
    }
    NEED(write(go[1], "x", 1) == 1);
    /* It goes with process 1. */
    NEED(reaped(other, SIGKILL));
    NEED(reaped(child, 0));
    int own = open("/proc/self/ns/pid", O_RDONLY);
    if (getuid() != 0) {
        /* One may not go back to what is the host's. */
        REFUSED(setns(own, CLONE_NEWPID), EPERM);
        return;
    }
    NEED(setns(own, CLONE_NEWPID) == 0);
    pid_t last = fork();
    if (last == 0)
        _exit(getppid() > 1 ? 0 : 1);
    NEED(reaped(last, 0));
}
static void processes_are_made_in_one(void) { CHECK(in_child(entering)); }

static void by_clone(void) {
    int flags = CLONE_NEWPID | (getuid() == 0 ? 0 : CLONE_NEWUSER);
    int parent_tid = 0, child_tid = 0;
    pid_t child = syscall(SYS_clone, flags | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, 0, &parent_tid, &child_tid, 0);
    if (child == 0) {
        NEED(getpid() == 1 && child_tid == 1);
        _exit(3);
    }
    NEED(child > 1 && parent_tid == child && reaped(child, 3 << 8));
    pid_t plain = fork();
    if (plain == 0)
        _exit(getpid() > 1 ? 0 : 1);
    NEED(reaped(plain, 0));
}
static void a_child_is_process_1(void) { CHECK(in_child(by_clone)); }

static void *lock(void *mutex) {
    pthread_mutex_lock(mutex);
    return (void *)syscall(SYS_gettid);
}
static void threads(void) {
    NEED(part(CLONE_NEWPID) == 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutexattr_t how;
        pthread_mutex_t mutex;
        pthread_mutexattr_init(&how);
        pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT);
        pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&mutex, &how);
        pthread_t thread;
        void *tid;
        NEED(pthread_create(&thread, NULL, lock, &mutex) == 0 && pthread_join(thread, &tid) == 0);
        NEED((long)tid == 2);
        /* Its word has the number inside: the lock is known to be a dead thread's. */
        NEED(pthread_mutex_lock(&mutex) == EOWNERDEAD && (mutex.__data.__lock & 0x3fffffff) == 1);
        _exit(0);
    }
    NEED(reaped(child, 0));
}
static void threads_have_numbers_inside(void) { CHECK(in_child(threads)); }

static void nested(void) {
    NEED(part(CLONE_NEWPID) == 0);
    int ready[2], go[2];
    char byte;
    NEED(pipe(ready) == 0 && pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
        NEED(unshare(CLONE_NEWPID) == 0);
        pid_t inner = fork();
        if (inner == 0) {
            NEED(getpid() == 1 && getppid() == 0);
            NEED(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
            _exit(0);
        }
        NEED(inner == 2);
        /* A thread is made in the namespace that its process is in, which is another now. */
        pthread_t thread;
        NEED(pthread_create(&thread, NULL, lock, NULL) == EINVAL);
        pause();
    }
    NEED(read(ready[0], &byte, 1) == 1);
    char path[64], line[64], want[64];
    int inner = child + 1;
    for (; inner < child + 1000; inner++) {
        snprintf(path, sizeof path, "/proc/%d/status", inner);
        snprintf(line, sizeof line, "%s", line_of(path, "NSpid:"));
        snprintf(want, sizeof want, "NSpid:\t%d\t2\t1", inner);
        if (strcmp(line, want) == 0)
            break;
    }
    NEED(inner < child + 1000);
    NEED(kill(inner, 0) == 0 && kill(child, SIGKILL) == 0 && reaped(child, SIGKILL));
    /* What is within a namespace ends with it. */
    NEED(kill(inner, 0) == -1 && errno == ESRCH);
}
static void namespaces_lie_in_each_other(void) { CHECK(in_child(nested)); }

static void owners(void) {
    NEED(part(CLONE_NEWPID) == 0);
    int pair[2], ready[2], go[2];
    char byte;
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(ready) == 0 && pipe(go) == 0);
    NEED(fcntl(pair[1], F_SETOWN, getpid()) == 0);
    pid_t child = fork();
    if (child == 0) {
        NEED(fcntl(pair[1], F_GETOWN) == 0);
        REFUSED(fcntl(pair[0], F_SETOWN, 77), ESRCH);
        NEED(fcntl(pair[0], F_SETOWN, 1) == 0 && fcntl(pair[0], F_GETOWN) == 1);
        NEED(setsid() == 1);
        struct f_owner_ex owner = {F_OWNER_PGRP, 1};
        NEED(fcntl(pair[1], F_SETOWN_EX, &owner) == 0);
        owner.pid = 0;
        NEED(fcntl(pair[1], F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_PGRP && owner.pid == 1);
        NEED(write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1);
        _exit(0);
    }
    NEED(read(ready[0], &byte, 1) == 1);
    NEED(fcntl(pair[0], F_GETOWN) == child);
    struct f_owner_ex owner;
    NEED(fcntl(pair[1], F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_PGRP && owner.pid == child);
    NEED(write(go[1], "x", 1) == 1 && reaped(child, 0));
}
static void owners_of_files_are_translated(void) { CHECK(in_child(owners)); }

static void clocks(void) {
    NEED(part(CLONE_NEWPID) == 0);
    pid_t own = getpid(), child = fork();
    if (child == 0) {
        clockid_t clock;
        struct timespec now;
        NEED(clock_getcpuclockid(1, &clock) == 0 && clock_gettime(clock, &now) == 0);
        NEED(clock_getcpuclockid(own, &clock) == ESRCH);
        struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
        sigaction(SIGUSR1, &action, NULL);
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
        event._sigev_un._tid = own;
        timer_t timer;
        NEED(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == -1 && errno == EINVAL);
        event._sigev_un._tid = 1;
        int number;
        NEED(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &number) == 0);
        struct itimerspec soon = {.it_value.tv_nsec = 1000000};
        NEED(syscall(SYS_timer_settime, number, 0, &soon, NULL) == 0);
        while (seen != SIGUSR1)
            sched_yield();
        /* A signal of a timer does nothing to process 1 either, if it has no handler for it. */
        struct itimerval once = {.it_value.tv_usec = 1000};
        NEED(setitimer(ITIMER_REAL, &once, NULL) == 0);
        do {
            sched_yield();
            NEED(getitimer(ITIMER_REAL, &once) == 0);
        } while (once.it_value.tv_usec != 0);
        _exit(0);
    }
    NEED(reaped(child, 0));
}
static void clocks_and_timers_name_threads_inside(void) { CHECK(in_child(clocks)); }

static void tracing(void) {
    NEED(part(CLONE_NEWPID) == 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t traced = fork();
        if (traced == 0) {
            NEED(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 && raise(SIGSTOP) == 0);
            pid_t third = fork();
            _exit(third == 3 || third == 0 ? 0 : 1);
        }
        NEED(traced == 2);
        int status;
        NEED(waitpid(2, &status, 0) == 2 && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        NEED(ptrace(PTRACE_SETOPTIONS, 2, 0, PTRACE_O_TRACEFORK) == 0 && ptrace(PTRACE_CONT, 2, 0, 0) == 0);
        NEED(waitpid(2, &status, 0) == 2 && status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8));
        unsigned long message = 0;
        NEED(ptrace(PTRACE_GETEVENTMSG, 2, 0, &message) == 0 && message == 3);
        NEED(waitpid(3, &status, __WALL) == 3 && WIFSTOPPED(status));
        NEED(ptrace(PTRACE_DETACH, 3, 0, 0) == 0 && ptrace(PTRACE_DETACH, 2, 0, 0) == 0);
        NEED(reaped(2, 0));
        _exit(0);
    }
    NEED(reaped(child, 0));
}
static void tracers_name_threads_inside(void) { CHECK(in_child(tracing)); }

static void restart(unsigned command, int by) {
    pid_t child = fork();
    if (child == 0) {
        NEED(getpid() == 1);
        pid_t second = fork();
        if (second == 0) {
            syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, command, NULL);
            _exit(9);
        }
        pause();
    }
    NEED(reaped(child, by));
}
static void restarts(void) {
    NEED(part(CLONE_NEWPID) == 0);
    restart(LINUX_REBOOT_CMD_RESTART, SIGHUP);
}
static void halts(void) {
    NEED(part(CLONE_NEWPID) == 0);
    restart(LINUX_REBOOT_CMD_POWER_OFF, SIGINT);
}
static void a_namespace_restarts_as_a_machine(void) {
    CHECK(in_child(restarts));
    CHECK(in_child(halts));
}

GUEST_WITH(scratch_enter(), T(numbers_inside_and_outside), T(all_end_with_process_1), T(signals_to_process_1), T(faults_end_process_1),
           T(credentials_are_translated), T(proc_shows_a_namespace), T(processes_are_made_in_one), T(a_child_is_process_1),
           T(threads_have_numbers_inside), T(namespaces_lie_in_each_other), T(owners_of_files_are_translated),
           T(clocks_and_timers_name_threads_inside), T(tracers_name_threads_inside), T(a_namespace_restarts_as_a_machine))
