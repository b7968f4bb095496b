/* Job control: stopping, continuing, process groups, sessions, orphans. setpgid(2), waitpid(2), credentials(7). */
#include "guest.h"
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char **environ;
static char self[PATH_MAX];

static pid_t start_in(pid_t group, const char *what, const char *a) {
    char *argv[] = {self, "child", (char *)what, (char *)a, NULL};
    posix_spawnattr_t attr;
    pid_t pid;
    posix_spawnattr_init(&attr);
    if (group >= 0) {
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attr, group);
    }
    int r = posix_spawn(&pid, self, NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    return r == 0 ? pid : -1;
}
static pid_t start(const char *what, const char *a) { return start_in(-1, what, a); }

/* What the re-executed program does; never returns for a child. */
static void act_as_child(int argc, char **argv) {
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        exit(1);
    if (argc < 3 || strcmp(argv[1], "child") != 0)
        return;
    alarm(20); /* no test needs one longer, and none is to be left behind */
    if (strcmp(argv[2], "sleep") == 0) {
        sleep_ms(atoi(argv[3]));
        _exit(0);
    }
    if (strcmp(argv[2], "stop itself") == 0) {
        raise(SIGSTOP);
        _exit(4);
    }
    if (strcmp(argv[2], "leave an orphan") == 0)
        _exit(start("sleep", "50") > 0 ? 0 : 1);
    if (strcmp(argv[2], "session") == 0) {
        pid_t s = setsid();
        _exit(s == getpid() && getsid(0) == s && getpgrp() == s && setsid() == -1 && errno == EPERM ? 0 : 1);
    }
    _exit(98);
}

static volatile sig_atomic_t count, code, status;
static void on_child(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    count++, code = i->si_code, status = i->si_status;
}
static void on_count(int s) { (void)s, count++; }

static void stopping_and_continuing(void) {
    struct sigaction sa = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    int st;
    CHECK(sigaction(SIGCHLD, &sa, NULL) == 0);
    pid_t p = start("sleep", "15000");
    sleep_ms(30);
    CHECK(kill(p, SIGSTOP) == 0);
    SAME(waitpid(p, &st, WUNTRACED), p);
    CHECK(WIFSTOPPED(st) && WSTOPSIG(st) == SIGSTOP);
    sleep_ms(5);
    SAME(code, CLD_STOPPED);
    SAME(status, SIGSTOP);
    SAME(waitpid(p, &st, WUNTRACED | WNOHANG), 0); /* reported once */
    CHECK(kill(p, SIGCONT) == 0);
    SAME(waitpid(p, &st, WCONTINUED), p);
    CHECK(WIFCONTINUED(st));
    sleep_ms(5);
    SAME(code, CLD_CONTINUED);
    siginfo_t i;
    memset(&i, 0, sizeof i);
    CHECK(kill(p, SIGSTOP) == 0 && waitid(P_PID, (id_t)p, &i, WSTOPPED) == 0);
    SAME(i.si_code, CLD_STOPPED);
    SAME(i.si_status, SIGSTOP);
    CHECK(kill(p, SIGTERM) == 0); /* stays pending until it is continued */
    sleep_ms(20);
    SAME(waitpid(p, &st, WNOHANG), 0);
    CHECK(kill(p, SIGCONT) == 0);
    SAME(waitpid(p, &st, 0), p);
    CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGTERM);
    signal(SIGCHLD, SIG_DFL);
}

static void killing_what_is_stopped(void) {
    int st;
    pid_t p = start("sleep", "15000");
    CHECK(kill(p, SIGSTOP) == 0 && kill(p, SIGKILL) == 0);
    SAME(waitpid(p, &st, 0), p);
    CHECK(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
    p = start("stop itself", NULL);
    SAME(waitpid(p, &st, WUNTRACED), p);
    CHECK(WIFSTOPPED(st) && kill(p, SIGCONT) == 0);
    SAME(waitpid(p, &st, 0), p);
    SAME(WEXITSTATUS(st), 4);
}

static void sleeping_while_stopped(void) {
    int st;
    uint64_t begin = now_ms();
    pid_t p = start("sleep", "100");
    sleep_ms(10);
    kill(p, SIGSTOP), sleep_ms(200), kill(p, SIGCONT);
    SAME(waitpid(p, &st, 0), p);
    CHECK(WIFEXITED(st) && lasted(now_ms() - begin, 210));
}

static void process_groups(void) {
    int st;
    pid_t a = start("sleep", "15000");
    sleep_ms(20);
    SAME(getpgid(a), getpgrp());
    FAILS(setpgid(a, a), EACCES); /* it has executed */
    FAILS(setpgid(1, 1), ESRCH);
    FAILS(setpgid(0, -1), EINVAL);
    FAILS(getpgid(999999), ESRCH);
    pid_t b = start_in(0, "sleep", "15000"), c = start_in(b, "sleep", "15000");
    SAME(getpgid(b), b);
    SAME(getpgid(c), b);
    SAME(getsid(c), getsid(0));
    CHECK(kill(-b, SIGTERM) == 0);
    CHECK(waitpid(-b, &st, 0) > 0 && waitpid(-b, &st, 0) > 0);
    FAILS(waitpid(-b, &st, 0), ECHILD);
    FAILS(kill(-b, 0), ESRCH);
    CHECK(kill(a, SIGKILL) == 0);
    SAME(wait(&st), a);
}

static void sessions(void) {
    int st;
    pid_t p = start("session", NULL);
    SAME(waitpid(p, &st, 0), p);
    SAME(WEXITSTATUS(st), 0);
    FAILS(getsid(999999), ESRCH);
}

static void orphans_go_to_the_reaper(void) {
    int st;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L) == 0);
    pid_t p = start("leave an orphan", NULL);
    SAME(waitpid(p, &st, 0), p);
    SAME(WEXITSTATUS(st), 0);
    pid_t orphan = wait(&st);
    CHECK(orphan > 0 && orphan != p);
    SAME(WEXITSTATUS(st), 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0L, 0L, 0L, 0L) == 0);
    FAILS(wait(&st), ECHILD);
}

static void interrupted_waits(void) {
    struct sigaction sa = {.sa_handler = on_count, .sa_flags = SA_RESTART};
    struct itimerval it = {{0, 0}, {0, 20000}};
    int st;
    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    pid_t p = start("sleep", "100");
    count = 0;
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    SAME(waitpid(p, &st, 0), p);
    SAME(count, 1);
    sa.sa_flags = 0;
    CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
    p = start("sleep", "100");
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    FAILS(waitpid(p, &st, 0), EINTR);
    SAME(waitpid(p, &st, 0), p);
    signal(SIGALRM, SIG_DFL);
}

GUEST_WITH(act_as_child(argc, argv), T(stopping_and_continuing), T(killing_what_is_stopped), T(sleeping_while_stopped),
           T(process_groups), T(sessions), T(orphans_go_to_the_reaper), T(interrupted_waits))
