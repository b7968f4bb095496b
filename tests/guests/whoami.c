/* Calls that only ask who one is, made over and over again: each answer is that of the moment, and nothing but RAX, RCX and R11 is
   another one afterwards. getpid(2), credentials(7), setpgid(2), syscall(2). */
#include "guest.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { OFTEN = 40 };

/* Ends the process, which may be a child, when the condition does not hold. */
#define MUST(cond) do { if (!(cond)) { guest_report(__FILE__, __LINE__, #cond); _exit(1); } } while (0)

/* Every call by a site of its own, as libraries have them; clobbered is what the instruction destroys. */
#define ID(name) \
    static long name##_here(void) { \
        long value; \
        __asm__ volatile("mov %1, %%eax\n\tsyscall" : "=a"(value) : "i"(SYS_##name) : "rcx", "r11", "memory"); \
        return value; \
    }
ID(getpid) ID(gettid) ID(getppid) ID(getpgrp) ID(getuid) ID(geteuid) ID(getgid) ID(getegid)

struct who { long pid, tid, ppid, pgrp, uid, euid, gid, egid; };

static struct who by_sites(void) {
    return (struct who){getpid_here(), gettid_here(), getppid_here(), getpgrp_here(),
                        getuid_here(), geteuid_here(), getgid_here(), getegid_here()};
}

/* The same by other calls and files, as the kernel tells them. */
static struct who by_others(void) {
    uid_t r, e, s;
    gid_t rg, eg, sg;
    MUST(getresuid(&r, &e, &s) == 0 && getresgid(&rg, &eg, &sg) == 0);
    long pid = 0, ppid = 0, tid = 0;
    FILE *f = fopen("/proc/thread-self/status", "r");
    MUST(f != NULL);
    for (char line[256]; fgets(line, sizeof line, f) != NULL;) {
        sscanf(line, "Tgid: %ld", &pid);
        sscanf(line, "PPid: %ld", &ppid);
        sscanf(line, "Pid: %ld", &tid);
    }
    fclose(f);
    return (struct who){pid, tid, ppid, getpgid(0), r, e, rg, eg};
}

static void agree(void) {
    struct who others = by_others();
    for (int i = 0; i < OFTEN; i++) {
        struct who here = by_sites();
        MUST(memcmp(&here, &others, sizeof here) == 0);
    }
}

static void in_child(void (*what)(void)) {
    pid_t child = fork();
    if (child == 0) {
        agree();
        what();
        agree();
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    agree();
}

static void groups(void) {
    MUST(setpgid(0, 0) == 0 && getpgrp_here() == getpid_here());
    pid_t child = fork();
    if (child == 0) {
        agree();
        MUST(setsid() == getpid_here());
        agree();
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

static void users(void) {
    if (geteuid() != 0)
        return;
    MUST(setegid(1002) == 0 && getegid_here() == 1002);
    agree();
    MUST(setregid(1003, 1004) == 0 && getgid_here() == 1003);
    agree();
    MUST(seteuid(1001) == 0 && geteuid_here() == 1001 && getuid_here() == 0);
    agree();
    MUST(seteuid(0) == 0 && setuid(1005) == 0 && getuid_here() == 1005);
}

/* Its parent puts it into a group, and then dies before it. */
static int to_child[2], to_parent[2];
static void orphans(void) {
    char c = 0;
    MUST(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t middle = fork();
    if (middle == 0) {
        pid_t child = fork();
        if (child == 0) {
            MUST(setpgid(0, 0) == 0);
            agree();
            MUST(getppid_here() == getppid() && write(to_parent[1], "g", 1) == 1 && read(to_child[0], &c, 1) == 1);
            MUST(getpgrp_here() != getpid_here());
            agree();
            long before = getppid_here();
            MUST(write(to_parent[1], "d", 1) == 1);
            while (getppid_here() == before)
                sched_yield();
            agree();
            MUST(write(to_parent[1], "o", 1) == 1);
            _exit(0);
        }
        MUST(read(to_parent[0], &c, 1) == 1 && c == 'g' && setpgid(child, getpgrp()) == 0);
        MUST(write(to_child[1], "g", 1) == 1 && read(to_parent[0], &c, 1) == 1 && c == 'd');
        _exit(0);
    }
    int status;
    MUST(waitpid(middle, &status, 0) == middle && status == 0);
    MUST(read(to_parent[0], &c, 1) == 1 && c == 'o');
}

static void *thread(void *leader) {
    for (int i = 0; i < OFTEN; i++) {
        MUST(gettid_here() != *(long *)leader && getpid_here() == *(long *)leader);
        if (i % 8 == 0)
            sched_yield();
    }
    agree();
    return NULL;
}

static void threads(void) {
    pthread_t two[2];
    long leader = getpid_here();
    for (int i = 0; i < 2; i++)
        MUST(pthread_create(&two[i], NULL, thread, &leader) == 0);
    agree();
    for (int i = 0; i < 2; i++)
        MUST(pthread_join(two[i], NULL) == 0);
}

/* A child that shares its memory has other ids. */
static void vforks(void) {
    for (int i = 0; i < 3; i++) {
        volatile long parent = getpid_here();
        pid_t child = vfork();
        if (child == 0)
            _exit(getpid_here() != parent && getppid_here() == parent ? 0 : 1);
        int status;
        MUST(waitpid(child, &status, 0) == child && status == 0);
        MUST(getpid_here() == parent);
    }
}

/* Flags that arithmetic sets, before and after, what R11 says of them, and the address in RCX. */
static void registers(void) {
    static const uint64_t flags[] = {0x000, 0x001, 0x004, 0x010, 0x040, 0x080, 0x800, 0x8d5, 0x841, 0x094};
    for (int i = 0; i < OFTEN; i++) {
        uint64_t set = 0x202 | flags[i % 10], after, r11, rcx, behind, value, rbx = 7;
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n\tpush %[set]\n\tpopf\n\tlea 128(%%rsp), %%rsp\n\t"
            "mov %[nr], %%eax\n\tsyscall\n1:\n\t"
            "lea -128(%%rsp), %%rsp\n\tpushf\n\tpop %[after]\n\tlea 128(%%rsp), %%rsp\n\t"
            "lea 1b(%%rip), %[behind]"
            : "=&a"(value), "=&c"(rcx), [after] "=&r"(after), [behind] "=&r"(behind), "+&b"(rbx)
            : [set] "r"(set), [nr] "i"(SYS_getpid)
            : "r11", "memory", "cc");
        MUST(value == (uint64_t)getpid() && rcx == behind && after == set && rbx == 7);
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n\tpush %[set]\n\tpopf\n\tlea 128(%%rsp), %%rsp\n\t"
            "mov %[nr], %%eax\n\tsyscall\n\tmov %%r11, %[r11]"
            : "=&a"(value), [r11] "=&r"(r11)
            : [set] "r"(set), [nr] "i"(SYS_getppid)
            : "rcx", "r11", "memory", "cc");
        MUST(value == (uint64_t)getppid() && r11 == set);
    }
}

/* Who steps himself through instructions comes through them, at the same addresses each time. */
static volatile uint64_t places[64];
static volatile int steps;
static void on_step(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (steps < 64)
        places[steps] = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    steps++;
}
static void stepped(void) {
    struct sigaction sa = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGTRAP, &sa, NULL) == 0);
    uint64_t site = 0;
    for (int i = 0; i < OFTEN; i++) {
        steps = 0;
        long value;
        __asm__ volatile(
            "lea -128(%%rsp), %%rsp\n\t"
            "lea 1f(%%rip), %[site]\n\t"
            "pushf\n\torq $0x100, (%%rsp)\n\tpopf\n"
            "1:\tmov %[nr], %%eax\n\tsyscall\n\t"
            "pushf\n\tandq $~0x100, (%%rsp)\n\tpopf\n\t"
            "lea 128(%%rsp), %%rsp"
            : "=&a"(value), [site] "=&r"(site) : [nr] "i"(SYS_gettid) : "rcx", "r11", "memory", "cc");
        MUST(value == gettid_here());
        /* Behind mov, behind the instruction after syscall, which itself is no step, and behind two more. */
        MUST(places[0] == site + 5 && places[1] == site + 8 && steps == 4);
    }
}

/* More of them than are free: the program goes on, and so does time. */
static void many(void) {
    long pid = getpid_here();
    for (int i = 0; i < 5000; i++)
        MUST(getpid_here() == pid);
    struct timespec t;
    MUST(clock_gettime(CLOCK_REALTIME, &t) == 0);
    printf("# it is %lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
}

static void groups_change(void) { in_child(groups); }
static void users_change(void) { in_child(users); }
static void parents_change(void) { in_child(orphans); }

GUEST(T(agree), T(registers), T(groups_change), T(users_change), T(parents_change), T(threads), T(vforks), T(stepped), T(many))
