/* Children by vfork and posix_spawn, what they inherit, and waiting for them. vfork(2), execve(2), wait(2). */
#include "guest.h"
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;
static char self[PATH_MAX];

/* What the re-executed program does; never returns for a child. */
static void act_as_child(int argc, char **argv) {
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        exit(1);
    if (argc > 1 && strcmp(argv[1], "child say") == 0) /* see scripts() */
        _exit(argc == 4 && strcmp(argv[2], "./script") == 0 && strcmp(argv[3], "arg") == 0 ? 33 : 1);
    if (argc < 3 || strcmp(argv[1], "child") != 0)
        return;
    const char *what = argv[2];
    if (strcmp(what, "exit") == 0)
        _exit(atoi(argv[3]));
    if (strcmp(what, "signal") == 0) {
        raise(atoi(argv[3]));
        _exit(99);
    }
    if (strcmp(what, "sleep") == 0) {
        sleep_ms(atoi(argv[3]));
        _exit(0);
    }
    if (strcmp(what, "fd") == 0)
        _exit(fcntl(atoi(argv[3]), F_GETFD) == -1 ? 1 : 0);
    if (strcmp(what, "env") == 0) {
        const char *v = getenv(argv[3]);
        _exit(v != NULL && strcmp(v, argv[4]) == 0 ? 0 : 1);
    }
    if (strcmp(what, "say") == 0) {
        for (int i = 3; i < argc; i++)
            printf("[%s]", argv[i]);
        fflush(stdout);
        _exit(0);
    }
    if (strcmp(what, "parent") == 0)
        _exit(getppid() == atoi(argv[3]) ? 0 : 1);
    if (strcmp(what, "signals") == 0) { /* handlers are gone, ignored stays, the mask stays */
        struct sigaction a, b;
        sigset_t m;
        sigaction(SIGUSR1, NULL, &a), sigaction(SIGUSR2, NULL, &b), sigprocmask(SIG_SETMASK, NULL, &m);
        _exit(a.sa_handler == SIG_DFL && b.sa_handler == SIG_IGN && sigismember(&m, SIGTERM) ? 0 : 1);
    }
    if (strcmp(what, "cwd") == 0) {
        char b[PATH_MAX];
        _exit(getcwd(b, sizeof b) != NULL && strcmp(b, argv[3]) == 0 ? 0 : 1);
    }
    _exit(98);
}

static pid_t start(const char *what, const char *a, const char *b) {
    char *argv[] = {self, "child", (char *)what, (char *)a, (char *)b, NULL};
    pid_t pid;
    return posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0 ? pid : -1;
}
static int result(pid_t pid) {
    int st;
    return pid > 0 && waitpid(pid, &st, 0) == pid ? st : -1;
}

static void exit_codes(void) {
    int codes[] = {0, 1, 7, 255, 256 + 3};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char s[16];
        snprintf(s, sizeof s, "%d", codes[i]);
        int st = result(start("exit", s, NULL));
        CHECK(WIFEXITED(st));
        SAME(WEXITSTATUS(st), codes[i] & 255);
    }
}

static void deaths_by_signal(void) {
    int sigs[] = {SIGTERM, SIGKILL, SIGSEGV, SIGABRT, SIGUSR1, SIGALRM};
    struct rlimit r = {0, 0}, old;
    getrlimit(RLIMIT_CORE, &old);
    r.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_CORE, &r);
    for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++) {
        char s[16];
        snprintf(s, sizeof s, "%d", sigs[i]);
        int st = result(start("signal", s, NULL));
        CHECK(WIFSIGNALED(st));
        SAME(WTERMSIG(st), sigs[i]);
    }
}

static void killed_by_the_parent(void) {
    pid_t pid = start("sleep", "100000", NULL);
    int st;
    SAME(waitpid(pid, &st, WNOHANG), 0);
    CHECK(kill(pid, SIGTERM) == 0);
    st = result(pid);
    CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGTERM);
    FAILS(kill(pid, 0), ESRCH);
    FAILS(waitpid(pid, &st, 0), ECHILD);
}

static void waiting_for_any(void) {
    pid_t a = start("sleep", "120", NULL), b = start("sleep", "40", NULL);
    int st;
    SAME(wait(&st), b);
    SAME(waitpid(-1, &st, 0), a);
    FAILS(wait(&st), ECHILD);
    struct rusage u;
    a = start("exit", "5", NULL);
    SAME(wait4(a, &st, 0, &u), a);
    SAME(WEXITSTATUS(st), 5);
}

static void waitid_and_nowait(void) {
    siginfo_t i;
    memset(&i, 0, sizeof i);
    pid_t a = start("exit", "6", NULL);
    CHECK(waitid(P_PID, (id_t)a, &i, WEXITED | WNOWAIT) == 0);
    SAME(i.si_pid, a);
    SAME(i.si_status, 6);
    SAME(i.si_code, CLD_EXITED);
    SAME(i.si_signo, SIGCHLD);
    int st = result(a); /* still there */
    SAME(WEXITSTATUS(st), 6);
    memset(&i, 0, sizeof i);
    a = start("sleep", "100", NULL);
    CHECK(waitid(P_ALL, 0, &i, WEXITED | WNOHANG) == 0);
    SAME(i.si_pid, 0);
    CHECK(waitid(P_ALL, 0, &i, WEXITED) == 0);
    SAME(i.si_pid, a);
    FAILS(waitid(P_ALL, 0, &i, WEXITED), ECHILD);
    FAILS(waitid(P_ALL, 0, &i, 0), EINVAL);
}

static volatile sig_atomic_t chld_pid, chld_code, chld_status;
static void on_child(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    chld_pid = i->si_pid, chld_code = i->si_code, chld_status = i->si_status;
}

static void sigchld(void) {
    struct sigaction sa = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
    sigset_t s, old;
    sigemptyset(&s), sigaddset(&s, SIGCHLD);
    CHECK(sigaction(SIGCHLD, &sa, NULL) == 0 && sigprocmask(SIG_BLOCK, &s, &old) == 0);
    pid_t a = start("exit", "3", NULL);
    sigdelset(&old, SIGCHLD);
    while (chld_pid == 0)
        sigsuspend(&old);
    sigprocmask(SIG_SETMASK, &old, NULL);
    SAME(chld_pid, a);
    SAME(chld_code, CLD_EXITED);
    SAME(chld_status, 3);
    CHECK(result(a) >= 0);
    signal(SIGCHLD, SIG_IGN); /* nobody to wait for then */
    a = start("exit", "0", NULL);
    int st;
    FAILS(waitpid(a, &st, 0), ECHILD);
    signal(SIGCHLD, SIG_DFL);
}

static void vfork_shares_and_stops_the_parent(void) {
    static volatile int shared;
    volatile pid_t parent = getpid();
    shared = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        shared = getppid() == parent && getpid() != parent ? 42 : 43;
        char *argv[] = {self, "child", "sleep", "30", NULL};
        execv(self, argv);
        _exit(97);
    }
    CHECK(pid > 0);
    SAME(shared, 42);
    int st = result(pid);
    CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
    pid = vfork();
    if (pid == 0) {
        execl("/nonexistent/program", "x", (char *)NULL);
        shared = errno;
        _exit(12);
    }
    SAME(shared, ENOENT);
    st = result(pid);
    SAME(WEXITSTATUS(st), 12);
}

static void failing_exec(void) {
    char *argv[] = {"x", NULL};
    pid_t pid;
    FAILS(execv("/nonexistent", argv), ENOENT);
    FAILS(execv("/etc", argv), EACCES);
    FAILS(execv("/etc/passwd", argv), EACCES);
    FAILS(execv("/etc/passwd/x", argv), ENOTDIR);
    int f = open("garbage", O_WRONLY | O_CREAT, 0755);
    CHECK(f >= 0 && write(f, "\1\2\3\4garbage", 11) == 11 && close(f) == 0);
    FAILS(execv("./garbage", argv), ENOEXEC);
    CHECK(unlink("garbage") == 0);
    /* Arguments that together are more than a quarter of the stack, each of them short enough. */
    struct rlimit stack = {8 << 20, RLIM_INFINITY};
    static char part[100000], *many[64];
    memset(part, 'x', sizeof part - 1);
    for (int i = 0; i < 63; i++)
        many[i] = part;
    pid = fork();
    if (pid == 0)
        _exit(setrlimit(RLIMIT_STACK, &stack) == 0 && execv(self, many) == -1 && errno == E2BIG ? 0 : 1);
    int st;
    CHECK(pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0);
    SAME(posix_spawn(&pid, "/nonexistent", NULL, NULL, argv, environ), ENOENT);
}

static void descriptors_on_exec(void) {
    int keep = open("/dev/null", O_RDONLY), drop = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char k[8], d[8];
    snprintf(k, sizeof k, "%d", keep), snprintf(d, sizeof d, "%d", drop);
    SAME(WEXITSTATUS(result(start("fd", k, NULL))), 0);
    SAME(WEXITSTATUS(result(start("fd", d, NULL))), 1);
    close(keep), close(drop);
}

static void environment_and_parent(void) {
    char me[16];
    snprintf(me, sizeof me, "%d", getpid());
    CHECK(setenv("GUEST_VALUE", "a b=c", 1) == 0);
    SAME(WEXITSTATUS(result(start("env", "GUEST_VALUE", "a b=c"))), 0);
    SAME(WEXITSTATUS(result(start("parent", me, NULL))), 0);
    char *argv[] = {self, "child", "env", "ONLY", "this", NULL}, *env[] = {"ONLY=this", NULL};
    pid_t pid;
    SAME(posix_spawn(&pid, self, NULL, NULL, argv, env), 0);
    SAME(WEXITSTATUS(result(pid)), 0);
}

static void signals_on_exec(void) {
    sigset_t s, old;
    sigemptyset(&s), sigaddset(&s, SIGTERM);
    struct sigaction sa = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &sa, NULL), signal(SIGUSR2, SIG_IGN);
    sigprocmask(SIG_BLOCK, &s, &old);
    SAME(WEXITSTATUS(result(start("signals", NULL, NULL))), 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_DFL);
}

static void working_directory_is_inherited(void) {
    char before[PATH_MAX];
    CHECK(getcwd(before, sizeof before) != NULL && chdir("/usr") == 0);
    int st = result(start("cwd", "/usr", NULL));
    CHECK(chdir(before) == 0);
    SAME(WEXITSTATUS(st), 0);
}

static void redirected_output(void) {
    int p[2];
    char b[64] = {0};
    posix_spawn_file_actions_t fa;
    CHECK(pipe2(p, O_CLOEXEC) == 0 && posix_spawn_file_actions_init(&fa) == 0);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    char *argv[] = {self, "child", "say", "one", "", "two words", NULL};
    pid_t pid;
    SAME(posix_spawn(&pid, self, &fa, NULL, argv, environ), 0);
    close(p[1]);
    size_t got = 0;
    ssize_t n;
    while ((n = read(p[0], b + got, sizeof b - 1 - got)) > 0)
        got += (size_t)n;
    CHECK(strcmp(b, "[one][][two words]") == 0);
    SAME(WEXITSTATUS(result(pid)), 0);
    posix_spawn_file_actions_destroy(&fa);
    close(p[0]);
}

static void scripts(void) {
    int f = open("script", O_WRONLY | O_CREAT, 0755);
    CHECK(f >= 0 && dprintf(f, "#!%s child say\n", self) > 0 && close(f) == 0);
    /* the rest of the first line is one argument, then come the script and the arguments but the first */
    char *argv[] = {"ignored", "arg", NULL};
    pid_t pid;
    SAME(posix_spawn(&pid, "./script", NULL, NULL, argv, environ), 0);
    SAME(WEXITSTATUS(result(pid)), 33);
    CHECK(unlink("script") == 0);
    f = open("shell", O_WRONLY | O_CREAT, 0755);
    CHECK(f >= 0 && dprintf(f, "#! /bin/sh\nexit $(($1 + $#))\n") > 0 && close(f) == 0);
    char *argv2[] = {"ignored", "40", "x", NULL};
    SAME(posix_spawn(&pid, "./shell", NULL, NULL, argv2, environ), 0);
    SAME(WEXITSTATUS(result(pid)), 42);
    CHECK(unlink("shell") == 0);
}

static void many_children(void) {
    pid_t pids[20];
    for (int i = 0; i < 20; i++) {
        char s[8];
        snprintf(s, sizeof s, "%d", i);
        pids[i] = start("exit", s, NULL);
    }
    for (int i = 0; i < 20; i++)
        SAME(WEXITSTATUS(result(pids[i])), i);
}

static void *spawner(void *x) {
    for (int i = 0; i < 5; i++) {
        int st = result(start("exit", "9", NULL));
        TCHECK(WIFEXITED(st) && WEXITSTATUS(st) == 9);
    }
    return x;
}

static void from_several_threads(void) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, spawner, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

GUEST_WITH((act_as_child(argc, argv), scratch_enter()), T(exit_codes), T(deaths_by_signal), T(killed_by_the_parent),
           T(waiting_for_any), T(waitid_and_nowait), T(sigchld), T(vfork_shares_and_stops_the_parent), T(failing_exec),
           T(descriptors_on_exec), T(environment_and_parent), T(signals_on_exec), T(working_directory_is_inherited),
           T(redirected_output), T(scripts), T(many_children), T(from_several_threads))
