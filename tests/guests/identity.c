/* Who and where am I: ids, uname, limits, randomness, /proc/self. proc(5). */
#include "guest.h"
#include <dirent.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>

static char **main_argv;

static void ids(void) {
    CHECK(getpid() > 0 && getppid() >= 0);
    SAME(syscall(SYS_gettid), getpid());
    SAME(getuid(), geteuid());
    uid_t r, e, s;
    CHECK(getresuid(&r, &e, &s) == 0 && r == getuid() && s == e);
    CHECK(getpgrp() > 0 && getsid(0) > 0 && getpgid(0) == getpgrp());
    CHECK(getgroups(0, NULL) >= 0);
}

static void names(void) {
    struct utsname u;
    char h[256];
    CHECK(uname(&u) == 0 && strcmp(u.sysname, "Linux") == 0 && strcmp(u.machine, "x86_64") == 0);
    CHECK(gethostname(h, sizeof h) == 0 && strcmp(h, u.nodename) == 0 && h[0] != 0);
    int major = 0;
    CHECK(sscanf(u.release, "%d.", &major) == 1 && major >= 4);
    FAILS(uname((struct utsname *)8), EFAULT);
}

static void the_machine(void) {
    struct sysinfo si;
    CHECK(sysinfo(&si) == 0 && si.totalram > 0 && si.mem_unit >= 1 && si.freeram <= si.totalram && si.procs >= 1);
    CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1);
    SAME(CPU_COUNT(&set), sysconf(_SC_NPROCESSORS_ONLN));
    CHECK(sched_getcpu() >= 0);
    struct tms t;
    CHECK(times(&t) != (clock_t)-1);
}

static void own_name(void) {
    struct utsname before, after;
    char big[70] = {0};
    CHECK(uname(&before) == 0);
    memset(big, 'n', sizeof big - 1);
    if (geteuid() != 0) {
        FAILS(sethostname(before.nodename, strlen(before.nodename)), EPERM);
        return;
    }
    FAILS(sethostname(big, 65), EINVAL);
    FAILS(setdomainname(big, 65), EINVAL);
    int r = sethostname(before.nodename, strlen(before.nodename));
    CHECK(r == 0 || errno == EPERM); /* a container's root may not be allowed to */
    CHECK(uname(&after) == 0 && strcmp(before.nodename, after.nodename) == 0);
    /* the same by a file, which is not to be written everywhere */
    FILE *f = fopen("/proc/sys/kernel/domainname", "w");
    if (f != NULL && fprintf(f, "%s\n", before.domainname) > 0 && fclose(f) == 0)
        CHECK(uname(&after) == 0 && strcmp(before.domainname, after.domainname) == 0);
}

static void limits(void) {
    struct rlimit r;
    CHECK(getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur >= 65536);
    CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur >= 64 && r.rlim_cur <= r.rlim_max);
    r.rlim_cur = r.rlim_max;
    r.rlim_cur--;
    CHECK(setrlimit(RLIMIT_NOFILE, &r) == 0 && getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur == r.rlim_max - 1);
    r.rlim_cur = 10, r.rlim_max = 5;
    FAILS(setrlimit(RLIMIT_NOFILE, &r), EINVAL);
    FAILS(getrlimit(999, &r), EINVAL);
    struct rusage u;
    CHECK(getrusage(RUSAGE_SELF, &u) == 0 && u.ru_maxrss >= 0);
    FAILS(getrusage(77, &u), EINVAL);
}

static void randomness(void) {
    unsigned char a[64] = {0}, b[64] = {0};
    SAME(getrandom(a, sizeof a, 0), sizeof a);
    SAME(getrandom(b, sizeof b, GRND_NONBLOCK), sizeof b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    FAILS(getrandom(a, sizeof a, 0x1000), EINVAL);
    FAILS(getrandom((void *)8, 16, 0), EFAULT);
    SAME(getrandom(a, 0, 0), 0);
    CHECK(getentropy(b, 32) == 0);
}

static char text[1 << 16];
static long slurp(const char *path) {
    int f = open(path, O_RDONLY);
    long n = 0, r;
    while (f >= 0 && n < (long)sizeof text - 1 && (r = read(f, text + n, sizeof text - 1 - (size_t)n)) > 0)
        n += r;
    text[n] = 0;
    return f < 0 ? -1 : (close(f), n);
}

static void maps(void) {
    CHECK(slurp("/proc/self/maps") > 0);
    unsigned long at = (unsigned long)(uintptr_t)maps, on_stack = (unsigned long)(uintptr_t)&at, low, high, last = 0;
    int code = 0, stack = 0, named = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char perms[5], path[PATH_MAX] = "";
        CHECK(sscanf(line, "%lx-%lx %4s %*s %*s %*s %4095s", &low, &high, perms, path) >= 3);
        CHECK(low < high && low >= last); /* in order, not overlapping */
        last = high;
        if (at >= low && at < high) {
            code = perms[0] == 'r' && perms[1] == '-' && perms[2] == 'x';
            named = strstr(path, program_invocation_short_name) != NULL;
        }
        if (on_stack >= low && on_stack < high)
            stack = perms[0] == 'r' && perms[1] == 'w' && strcmp(path, "[stack]") == 0;
    }
    CHECK(code);
    CHECK(named);
    CHECK(stack);
}

static void proc_self(void) {
    char exe[PATH_MAX] = {0}, link[64];
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0 && exe[0] == '/' && access(exe, X_OK) == 0);
    CHECK(strcmp(strrchr(exe, '/') + 1, program_invocation_short_name) == 0);
    CHECK(slurp("/proc/self/cmdline") > 0 && strcmp(text, main_argv[0]) == 0);
    snprintf(link, sizeof link, "/proc/%d/cmdline", getpid());
    CHECK(slurp(link) > 0 && strcmp(text, main_argv[0]) == 0);
    CHECK(slurp("/proc/self/stat") > 0);
    int pid, ppid;
    char comm[64], state;
    CHECK(sscanf(text, "%d (%63[^)]) %c %d", &pid, comm, &state, &ppid) == 4);
    SAME(pid, getpid());
    SAME(ppid, getppid());
    SAME(state, 'R');
    CHECK(strncmp(comm, program_invocation_short_name, 15) == 0);
    CHECK(slurp("/proc/self/status") > 0);
    char *p = strstr(text, "\nPid:");
    CHECK(p != NULL && atoi(p + 5) == getpid());
    p = strstr(text, "\nThreads:");
    CHECK(p != NULL && atoi(p + 9) == 1);
    char cwd[PATH_MAX], by_link[PATH_MAX] = {0};
    CHECK(getcwd(cwd, sizeof cwd) != NULL && readlink("/proc/self/cwd", by_link, sizeof by_link - 1) > 0);
    CHECK(strcmp(cwd, by_link) == 0);
}

/* A set of signals that /proc/self/status shows under this name. */
static uint64_t shown_set(const char *name) {
    char line[32];
    snprintf(line, sizeof line, "\n%s:\t", name);
    char *p = slurp("/proc/self/status") > 0 ? strstr(text, line) : NULL;
    return p == NULL ? ~0ull : strtoull(p + strlen(line), NULL, 16);
}
static void on_signal(int s) { (void)s; }

static void proc_signals(void) {
    sigset_t blocked, before;
    uint64_t usr1 = 1ull << (SIGUSR1 - 1), usr2 = 1ull << (SIGUSR2 - 1), winch = 1ull << (SIGWINCH - 1);
    sigemptyset(&blocked), sigaddset(&blocked, SIGUSR1);
    CHECK(shown_set("SigPnd") == 0 && shown_set("ShdPnd") == 0);
    CHECK((shown_set("SigBlk") & usr1) == 0 && (shown_set("SigIgn") & usr2) == 0 && (shown_set("SigCgt") & winch) == 0);
    signal(SIGUSR1, on_signal), signal(SIGUSR2, SIG_IGN), signal(SIGWINCH, on_signal);
    CHECK(sigprocmask(SIG_BLOCK, &blocked, &before) == 0 && raise(SIGUSR1) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    SAME(shown_set("SigPnd"), usr1);
    SAME(shown_set("ShdPnd"), usr1);
    SAME(shown_set("SigBlk") & usr1, usr1);
    SAME(shown_set("SigIgn") & usr2, usr2);
    SAME(shown_set("SigCgt") & (usr1 | usr2 | winch), usr1 | winch);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_DFL), signal(SIGWINCH, SIG_DFL);
}

static void proc_of_a_stopped_child(void) {
    char path[32], state;
    pid_t p = fork();
    if (p == 0)
        for (;;)
            pause();
    CHECK(kill(p, SIGSTOP) == 0 && waitpid(p, NULL, WUNTRACED) == p);
    snprintf(path, sizeof path, "/proc/%d/stat", p);
    CHECK(slurp(path) > 0 && sscanf(text, "%*d (%*[^)]) %c", &state) == 1);
    SAME(state, 'T');
    CHECK(kill(p, SIGKILL) == 0 && waitpid(p, NULL, 0) == p);
}

static void scheduling_of_init(void) {
    struct sched_param param = {.sched_priority = 9};
    cpu_set_t set;
    /* by their numbers: musl refuses them itself */
    /* some machines' init resets the scheduling of its children */
    SAME(syscall(SYS_sched_getscheduler, 1) & ~0x40000000, SCHED_OTHER);
    CHECK(syscall(SYS_sched_getparam, 1, &param) == 0);
    SAME(param.sched_priority, 0);
    CHECK(sched_getaffinity(1, sizeof set, &set) == 0);
    CHECK(getsid(1) >= 0 && getpgid(1) >= 0);
    FAILS(syscall(SYS_sched_getscheduler, 999999), ESRCH);
}

static void proc_descriptors(void) {
    int f = open("/dev/null", O_RDONLY), p[2], seen = 0;
    CHECK(f >= 0 && pipe(p) == 0);
    DIR *d = opendir("/proc/self/fd");
    CHECK(d != NULL);
    struct dirent *e;
    while ((e = readdir(d)) != NULL)
        seen |= atoi(e->d_name) == f && e->d_name[0] != '.' ? 1 : atoi(e->d_name) == p[0] ? 2 : 0;
    closedir(d);
    SAME(seen, 3);
    char name[64], target[64] = {0};
    snprintf(name, sizeof name, "/proc/self/fd/%d", f);
    CHECK(readlink(name, target, sizeof target - 1) > 0 && strcmp(target, "/dev/null") == 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", p[0]);
    memset(target, 0, sizeof target);
    CHECK(readlink(name, target, sizeof target - 1) > 0 && strncmp(target, "pipe:[", 6) == 0);
    close(f), close(p[0]), close(p[1]);
    FAILS(readlink(name, target, sizeof target), ENOENT);
}

static void proc_of_the_machine(void) {
    CHECK(slurp("/proc/cpuinfo") > 0 && strncmp(text, "processor", 9) == 0);
    CHECK(slurp("/proc/meminfo") > 0 && strncmp(text, "MemTotal:", 9) == 0);
    CHECK(strstr(text, "\nBuffers:") != NULL && strstr(text, "\nCached:") != NULL);
    CHECK(slurp("/proc/uptime") > 0);
    CHECK(slurp("/proc/sys/kernel/osrelease") > 0 || errno == EACCES);
    FAILS(open("/proc/self/nonesuch", O_RDONLY), ENOENT);
    FAILS(open("/proc/999999/stat", O_RDONLY), ENOENT);
}

static void proc_namespaces(void) {
    static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64], mine[64] = "", parents[64] = "";
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        CHECK(readlink(path, mine, sizeof mine - 1) > 0);
        CHECK(strncmp(mine, kinds[i], strlen(kinds[i])) == 0 && strstr(mine, ":[40") != NULL);
        snprintf(path, sizeof path, "/proc/thread-self/ns/%s", kinds[i]);
        CHECK(readlink(path, parents, sizeof parents - 1) > 0 && strcmp(mine, parents) == 0);
    }
    CHECK(readlink("/proc/self/ns/pid_for_children", (char[8]){0}, 7) == 7);
    FAILS(readlink("/proc/self/ns/none", (char[8]){0}, 7), ENOENT);
    DIR *d = opendir("/proc/self/ns");
    int count = 0;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        count += e->d_name[0] != '.' && e->d_type == DT_LNK;
    CHECK(d != NULL && closedir(d) == 0 && count >= 8);
}

GUEST_WITH((void)(main_argv = argv, argc), T(ids), T(names), T(the_machine), T(own_name), T(limits), T(randomness), T(maps),
           T(proc_self), T(proc_signals), T(proc_of_a_stopped_child), T(scheduling_of_init), T(proc_descriptors), T(proc_namespaces), T(proc_of_the_machine))
