/* ptrace(2) as debuggers, strace(1) and sanitizers use it, and process_vm_readv(2). */
#include "guest.h"
#include <elf.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
/* musl calls the structure otherwise */
struct call_info { uint8_t op; uint8_t pad[3]; uint32_t arch; uint64_t ip, sp, fields[7]; };
#define GET_SYSCALL_INFO 0x420e

#define P(request, pid, addr, data) ptrace(request, pid, (void *)(addr), (void *)(data))

/* A child that runs `f`, and is killed whatever the test does. */
static pid_t child(void (*f)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        f();
        _exit(0);
    }
    return pid;
}
static int status;
/* The next stop of a tracee: the signal, and the event above it; -1 for an end. */
static int stop_of(pid_t pid) {
    if (waitpid(pid, &status, __WALL) != pid)
        return -2;
    return WIFSTOPPED(status) ? status >> 8 : -1;
}
static void finish(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, __WALL);
}

static void traced(void) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
}

static void calls_getppid(void) {
    traced();
    syscall(SYS_getppid);
    close(-1);
    _exit(7);
}

static void calls_are_shown_before_and_after(void) {
    pid_t pid = child(calls_getppid);
    CHECK(pid > 0);
    SAME(stop_of(pid), SIGSTOP);
    CHECK(P(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    struct user_regs_struct regs;
    struct call_info info;
    /* the end of raise(), and what the C library does around it */
    int number = -1, guard = 0;
    while (number != SYS_getppid && guard++ < 40) {
        CHECK(P(PTRACE_SYSCALL, pid, 0, 0) == 0);
        SAME(stop_of(pid), SIGTRAP | 0x80);
        CHECK(P(GET_SYSCALL_INFO, pid, sizeof info, &info) > 0);
        if (info.op == 1)
            number = (int)info.fields[0];
    }
    CHECK(P(PTRACE_GETREGS, pid, 0, &regs) == 0);
    SAME(regs.orig_rax, SYS_getppid);
    SAME((long)regs.rax, -ENOSYS);
    SAME(P(GET_SYSCALL_INFO, pid, sizeof info, &info), 80);
    SAME(info.arch, 0xc000003e);
    CHECK(info.ip == regs.rip && info.sp == regs.rsp && regs.cs == 0x33 && regs.ss == 0x2b);
    CHECK(P(PTRACE_SYSCALL, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP | 0x80);
    CHECK(P(PTRACE_GETREGS, pid, 0, &regs) == 0);
    SAME(regs.rax, getpid());
    SAME(regs.orig_rax, SYS_getppid);
    SAME(P(GET_SYSCALL_INFO, pid, sizeof info, &info), 33);
    CHECK(info.op == 2 && (pid_t)info.fields[0] == getpid() && (info.fields[1] & 0xff) == 0);
    /* close(-1) becomes getpid() */
    CHECK(P(PTRACE_SYSCALL, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP | 0x80);
    errno = 0;
    SAME(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, orig_rax), 0), SYS_close);
    CHECK(P(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), SYS_getpid) == 0);
    CHECK(P(PTRACE_SYSCALL, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP | 0x80);
    SAME(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rax), 0), pid);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static volatile int usr1, usr2;
static void on_usr(int s) { *(s == SIGUSR1 ? &usr1 : &usr2) += 1; }
static void takes_signals(void) {
    signal(SIGUSR1, on_usr);
    signal(SIGUSR2, on_usr);
    signal(SIGWINCH, SIG_IGN);
    traced();
    raise(SIGUSR1); /* dropped */
    raise(SIGUSR1); /* taken */
    raise(SIGUSR1); /* becomes SIGUSR2 */
    raise(SIGWINCH); /* ignored, and shown all the same */
    _exit(usr1 * 10 + usr2);
}

static void a_tracer_decides_about_signals(void) {
    pid_t pid = child(takes_signals);
    SAME(stop_of(pid), SIGSTOP);
    long give[] = {0, SIGUSR1, SIGUSR2};
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    for (int i = 0; i < 3; i++) {
        SAME(stop_of(pid), SIGUSR1);
        siginfo_t info;
        CHECK(P(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
        CHECK(info.si_signo == SIGUSR1 && info.si_code == SI_TKILL && info.si_pid == pid);
        CHECK(P(PTRACE_CONT, pid, 0, give[i]) == 0);
    }
    SAME(stop_of(pid), SIGWINCH);
    CHECK(P(PTRACE_CONT, pid, 0, SIGWINCH) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status));
    SAME(WEXITSTATUS(status), 11);
}

static void waits(void) {
    for (;;)
        pause();
}

static void seizing_interrupting_and_listening(void) {
    pid_t pid = child(waits);
    FAILS(P(PTRACE_CONT, pid, 0, 0), ESRCH);
    CHECK(P(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    FAILS(P(PTRACE_SEIZE, pid, 0, 0), EPERM);
    SAME(waitpid(pid, &status, WNOHANG | __WALL), 0);
    CHECK(P(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP | PTRACE_EVENT_STOP << 8);
    /* with its process */
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    kill(pid, SIGSTOP);
    SAME(stop_of(pid), SIGSTOP);
    CHECK(P(PTRACE_CONT, pid, 0, SIGSTOP) == 0);
    SAME(stop_of(pid), SIGSTOP | PTRACE_EVENT_STOP << 8);
    CHECK(P(PTRACE_LISTEN, pid, 0, 0) == 0);
    FAILS(P(PTRACE_CONT, pid, 0, 0), ESRCH);
    kill(pid, SIGCONT);
    SAME(stop_of(pid), SIGTRAP | PTRACE_EVENT_STOP << 8);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGCONT);
    CHECK(P(PTRACE_DETACH, pid, 0, 0) == 0);
    FAILS(P(PTRACE_INTERRUPT, pid, 0, 0), ESRCH);
    finish(pid);
    CHECK(WIFSIGNALED(status));
}

static volatile long word = 0x1122334455667788;
static char text[5000];

static void memory_is_read_and_written(void) {
    strcpy(text, "before");
    pid_t pid = child(waits);
    CHECK(P(PTRACE_ATTACH, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGSTOP);
    errno = 0;
    SAME(ptrace(PTRACE_PEEKDATA, pid, &word, 0), 0x1122334455667788);
    CHECK(P(PTRACE_POKEDATA, pid, &word, 42) == 0);
    SAME(word, 0x1122334455667788);
    SAME(ptrace(PTRACE_PEEKTEXT, pid, &word, 0), 42);
    FAILS(ptrace(PTRACE_PEEKDATA, pid, (void *)8, 0), EIO);
    /* text, which nobody may write */
    long code = ptrace(PTRACE_PEEKTEXT, pid, waits, 0);
    SAME(code, *(long *)(void *)waits);
    CHECK(P(PTRACE_POKETEXT, pid, waits, code ^ 0xff) == 0);
    SAME(ptrace(PTRACE_PEEKTEXT, pid, waits, 0), code ^ 0xff);
    SAME(*(long *)(void *)waits, code);
    CHECK(P(PTRACE_POKETEXT, pid, waits, code) == 0);
    /* several pieces at once, across pages */
    char here[3000], there[3000];
    memset(text + 2000, 'x', 3000);
    struct iovec local[] = {{here, 1000}, {there, 3000}}, remote[] = {{text, 2500}, {text + 2500, 1500}};
    SAME(process_vm_readv(pid, local, 2, remote, 2, 0), 4000);
    CHECK(strcmp(here, "before") == 0 && there[2999] == 0);
    memset(here, 'y', sizeof here);
    SAME(process_vm_writev(pid, local, 1, remote, 1, 0), 1000);
    SAME(process_vm_readv(pid, local + 1, 1, remote, 1, 0), 2500);
    CHECK(there[0] == 'y' && there[999] == 'y' && there[1000] == 0 && text[0] == 'b');
    struct iovec nowhere = {(void *)8, 8};
    FAILS(process_vm_readv(pid, local, 1, &nowhere, 1, 0), EFAULT);
    FAILS(process_vm_readv(pid, local, 1, remote, 1, 1), EINVAL);
    /* as files */
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    SAME(pread(fd, line, 10, (off_t)(uintptr_t)text), 10);
    CHECK(memcmp(line, "yyyyyyyyyy", 10) == 0);
    SAME(pwrite(fd, "mem", 3, (off_t)(uintptr_t)text), 3);
    SAME(pread(fd, line, 4, (off_t)(uintptr_t)text), 4);
    CHECK(memcmp(line, "memy", 4) == 0);
    FAILS(pread(fd, line, 8, 8), EIO);
    close(fd);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    fd = open(path, O_RDONLY);
    ssize_t len = read(fd, line, sizeof line - 1);
    CHECK(len > 0);
    line[len] = 0;
    close(fd);
    char expected[64];
    snprintf(expected, sizeof expected, "\nTracerPid:\t%d\n", getpid());
    CHECK(strstr(line, expected) != NULL && strstr(line, "State:\tt (tracing stop)") != NULL);
    finish(pid);
}

static void forks_and_execs(void) {
    traced();
    pid_t pid = fork();
    if (pid == 0)
        _exit(9);
    waitpid(pid, NULL, 0);
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
}

static void events_of_fork_and_exec(void) {
    pid_t pid = child(forks_and_execs);
    SAME(stop_of(pid), SIGSTOP);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    CHECK(P(PTRACE_SETOPTIONS, pid, 0, options) == 0);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP | PTRACE_EVENT_FORK << 8);
    unsigned long made = 0;
    CHECK(P(PTRACE_GETEVENTMSG, pid, 0, &made) == 0);
    CHECK((pid_t)made > pid);
    SAME(stop_of((pid_t)made), SIGSTOP);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0 && P(PTRACE_CONT, made, 0, 0) == 0);
    SAME(stop_of((pid_t)made), SIGTRAP | PTRACE_EVENT_EXIT << 8);
    unsigned long code = 0;
    CHECK(P(PTRACE_GETEVENTMSG, made, 0, &code) == 0 && code == 9 << 8);
    CHECK(P(PTRACE_CONT, made, 0, 0) == 0);
    SAME(stop_of((pid_t)made), -1);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    SAME(stop_of(pid), SIGCHLD);
    CHECK(P(PTRACE_CONT, pid, 0, SIGCHLD) == 0);
    SAME(stop_of(pid), SIGTRAP | PTRACE_EVENT_EXEC << 8);
    CHECK(P(PTRACE_GETEVENTMSG, pid, 0, &made) == 0 && (pid_t)made == pid);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP | PTRACE_EVENT_EXIT << 8);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void just_execs(void) {
    traced();
    execl("/bin/true", "true", (char *)NULL);
}

static void without_options_exec_is_a_sigtrap(void) {
    pid_t pid = child(just_execs);
    SAME(stop_of(pid), SIGSTOP);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status));
}

static void *idle(void *arg) {
    pause();
    return arg;
}
static int report[2];
static void has_threads(void) {
    pthread_t t;
    pthread_create(&t, NULL, idle, NULL);
    char path[64];
    pid_t tid = getpid() + 1;
    /* the thread's number, wherever it has got to */
    for (; tid < getpid() + 1000; tid++) {
        snprintf(path, sizeof path, "/proc/self/task/%d", tid);
        if (access(path, F_OK) == 0)
            break;
    }
    write(report[1], &tid, sizeof tid);
    waits();
}

static void threads_are_attached_to_one_by_one(void) {
    CHECK(pipe(report) == 0);
    pid_t pid = child(has_threads), tid = 0;
    SAME(read(report[0], &tid, sizeof tid), sizeof tid);
    close(report[0]);
    close(report[1]);
    CHECK(P(PTRACE_ATTACH, tid, 0, 0) == 0);
    SAME(stop_of(tid), SIGSTOP);
    CHECK(P(PTRACE_ATTACH, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGSTOP);
    struct user_regs_struct one, other;
    struct iovec set = {&one, sizeof one};
    CHECK(P(PTRACE_GETREGSET, pid, NT_PRSTATUS, &set) == 0);
    SAME(set.iov_len, sizeof one);
    CHECK(P(PTRACE_GETREGS, tid, 0, &other) == 0);
    CHECK(one.rsp != other.rsp && one.fs_base != other.fs_base);
    unsigned char vectors[4096];
    set = (struct iovec){vectors, sizeof vectors};
    CHECK(P(PTRACE_GETREGSET, tid, 0x202, &set) == 0 && set.iov_len >= 576);
    FAILS(P(PTRACE_GETREGSET, tid, 0x777, &set), EINVAL);
    CHECK(P(PTRACE_DETACH, tid, 0, 0) == 0 && P(PTRACE_DETACH, pid, 0, 0) == 0);
    finish(pid);
}

static void nothing(void) {
    traced();
    for (volatile int i = 0; i < 1000; i++) {
    }
}

static void single_steps(void) {
    pid_t pid = child(nothing);
    SAME(stop_of(pid), SIGSTOP);
    struct user_regs_struct regs;
    unsigned long long last = 0;
    for (int i = 0; i < 50; i++) {
        CHECK(P(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
        SAME(stop_of(pid), SIGTRAP);
        CHECK(P(PTRACE_GETREGS, pid, 0, &regs) == 0);
        CHECK(regs.rip != last && (regs.eflags & 0x100) == 0);
        last = regs.rip;
    }
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status));
}

static volatile int reached;
__attribute__((noinline)) static void target(void) { reached++; }
static void calls_target(void) {
    traced();
    target();
    _exit(reached);
}

static void a_breakpoint_is_an_int3(void) {
    pid_t pid = child(calls_target);
    SAME(stop_of(pid), SIGSTOP);
    long code = ptrace(PTRACE_PEEKTEXT, pid, target, 0);
    CHECK(P(PTRACE_POKETEXT, pid, target, (code & ~0xffL) | 0xcc) == 0);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP);
    struct user_regs_struct regs;
    CHECK(P(PTRACE_GETREGS, pid, 0, &regs) == 0);
    SAME(regs.rip, (uintptr_t)target + 1);
    CHECK(P(PTRACE_POKETEXT, pid, target, code) == 0);
    regs.rip--;
    CHECK(P(PTRACE_SETREGS, pid, 0, &regs) == 0);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status));
    SAME(WEXITSTATUS(status), 1);
}

static long cell = 42;
static void reads_gs(void) {
    pid_t parent = syscall(SYS_getppid);
    traced();
    long got;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(got));
    _exit(got == 42 && syscall(SYS_getppid) == parent);
}

#define FIELD(name) offsetof(struct user_regs_struct, name)
static void bases_of_segments(void) {
    pid_t pid = child(reads_gs);
    SAME(stop_of(pid), SIGSTOP);
    unsigned long bad[] = {1UL << 63, 1UL << 47, (1UL << 47) - 4096, -1UL};
    struct user_regs_struct regs, wrong;
    CHECK(P(PTRACE_GETREGS, pid, 0, &regs) == 0);
    for (int i = 0; i < 4; i++) {
        FAILS(P(PTRACE_POKEUSER, pid, FIELD(fs_base), bad[i]), EIO);
        FAILS(P(PTRACE_POKEUSER, pid, FIELD(gs_base), bad[i]), EIO);
        wrong = regs;
        wrong.gs_base = bad[i];
        FAILS(P(PTRACE_SETREGS, pid, 0, &wrong), EIO);
    }
    FAILS(syscall(SYS_clone, CLONE_SETTLS | SIGCHLD, 0, 0, 0, bad[1]), EPERM);
    CHECK(P(PTRACE_SETREGS, pid, 0, &regs) == 0);
    CHECK(P(PTRACE_POKEUSER, pid, FIELD(gs_base), &cell) == 0);
    SAME((uintptr_t)ptrace(PTRACE_PEEKUSER, pid, FIELD(gs_base), 0), (uintptr_t)&cell);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status));
    SAME(WEXITSTATUS(status), 1);
}

static void what_is_refused(void) {
    FAILS(P(PTRACE_ATTACH, getpid(), 0, 0), EPERM);
    FAILS(P(PTRACE_ATTACH, 0x3fffffff, 0, 0), ESRCH);
    FAILS(P(PTRACE_CONT, getppid(), 0, 0), ESRCH);
    pid_t pid = child(waits);
    FAILS(P(PTRACE_SEIZE, pid, 1, 0), EIO);
    CHECK(P(PTRACE_ATTACH, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGSTOP);
    FAILS(P(PTRACE_SETOPTIONS, pid, 0, 1 << 30), EINVAL);
    FAILS(P(PTRACE_CONT, pid, 0, 4711), EIO);
    FAILS(P(PTRACE_INTERRUPT, pid, 0, 0), EIO);
    CHECK(P(PTRACE_KILL, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Debug registers. */
#define DR(n) (offsetof(struct user, u_debugreg) + 8 * (n))
static volatile uint64_t watched[2];
__attribute__((noinline)) static void watched_target(void) { __asm__ volatile("" ::: "memory"); }
static void changes_what_is_watched(void) {
    traced();
    watched[1] = 7;
    watched_target();
    watched[0] = 5;
    watched[1] = 8;
    _exit(3);
}
static void hardware_breakpoints_and_watchpoints(void) {
    pid_t pid = child(changes_what_is_watched);
    siginfo_t info;
    struct user_regs_struct regs;
    SAME(stop_of(pid), SIGSTOP);
    errno = 0;
    SAME(P(PTRACE_PEEKUSER, pid, DR(6), 0), 0xffff0ff0);
    SAME(P(PTRACE_PEEKUSER, pid, DR(7), 0), 0);
    FAILS(P(PTRACE_POKEUSER, pid, DR(0), 1ul << 63), EINVAL);
    FAILS(P(PTRACE_POKEUSER, pid, DR(4), 1), EIO);
    CHECK(P(PTRACE_POKEUSER, pid, DR(0), watched_target) == 0);
    CHECK(P(PTRACE_POKEUSER, pid, DR(1), &watched[0]) == 0);
    SAME(P(PTRACE_PEEKUSER, pid, DR(1), 0), (long)&watched[0]);
    /* An execution, and a write of eight bytes. */
    FAILS(P(PTRACE_POKEUSER, pid, DR(7), 1 | 4 << 16), EINVAL);
    CHECK(P(PTRACE_POKEUSER, pid, DR(7), 1 | 1 << 2 | 9ul << 20) == 0);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP);
    CHECK(P(PTRACE_GETREGS, pid, 0, &regs) == 0 && P(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    SAME(regs.rip, (long)watched_target);
    SAME(info.si_code, 4 /* TRAP_HWBKPT */);
    SAME(P(PTRACE_PEEKUSER, pid, DR(6), 0) & 15, 1);
    SAME(P(PTRACE_PEEKDATA, pid, &watched[1], 0), 7);
    CHECK(P(PTRACE_POKEUSER, pid, DR(6), 0) == 0);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGTRAP);
    SAME(P(PTRACE_PEEKUSER, pid, DR(6), 0) & 15, 2);
    SAME(P(PTRACE_PEEKDATA, pid, &watched[0], 0), 5);
    SAME(P(PTRACE_PEEKDATA, pid, &watched[1], 0), 7);
    CHECK(P(PTRACE_POKEUSER, pid, DR(7), 0) == 0);
    CHECK(P(PTRACE_CONT, pid, 0, 0) == 0);
    SAME(stop_of(pid), -1);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}
static void waits_for_ever(void) {
    for (;;)
        pause();
}
static void ends(void) {}
static volatile unsigned spun;
static void spins(void) {
    for (;;)
        spun++;
}
static void who_is_stopped_spins_or_has_ended_is_attached_to(void) {
    pid_t pid = child(waits_for_ever);
    kill(pid, SIGSTOP);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(P(PTRACE_SEIZE, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGSTOP | PTRACE_EVENT_STOP << 8);
    finish(pid);
    pid = child(waits_for_ever);
    kill(pid, SIGSTOP);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    CHECK(P(PTRACE_ATTACH, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGSTOP);
    finish(pid);
    pid = child(spins);
    sleep_ms(20);
    CHECK(P(PTRACE_ATTACH, pid, 0, 0) == 0);
    SAME(stop_of(pid), SIGSTOP);
    finish(pid);
    pid = child(ends);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    FAILS(P(PTRACE_ATTACH, pid, 0, 0), EPERM);
    FAILS(P(PTRACE_SEIZE, pid, 0, 0), EPERM);
    finish(pid);
    FAILS(P(PTRACE_ATTACH, pid, 0, 0), ESRCH);
}

GUEST(T(calls_are_shown_before_and_after), T(a_tracer_decides_about_signals), T(seizing_interrupting_and_listening),
      T(memory_is_read_and_written), T(events_of_fork_and_exec), T(without_options_exec_is_a_sigtrap),
      T(threads_are_attached_to_one_by_one), T(single_steps), T(a_breakpoint_is_an_int3), T(bases_of_segments), T(what_is_refused),
      T(hardware_breakpoints_and_watchpoints), T(who_is_stopped_spins_or_has_ended_is_attached_to))
