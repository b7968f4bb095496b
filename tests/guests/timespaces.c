/* Time namespaces, time_namespaces(7): clocks that lie apart from the host's, for whoever is born or executed in one, and for those who enter it. */
#include "guest.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define HOUR 3600

static int root;

static const char *link_of(const char *name) {
    static char text[4][64];
    static int n;
    char path[64];
    char *to = text[n++ % 4];
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    ssize_t len = readlink(path, to, 63);
    to[len < 0 ? 0 : len] = 0;
    return to;
}
static int set_offsets(const char *text) {
    int fd = open("/proc/self/timens_offsets", O_WRONLY), n = (int)write(fd, text, strlen(text));
    close(fd);
    return n == (int)strlen(text) ? 0 : -1;
}
/* Runs in a process of its own; 0 where all went well, or the line where it did not. */
#define HOLDS(cond) do { if (!(cond)) return __LINE__; } while (0)
static int in_child(int (*run)(void)) {
    pid_t child = fork();
    if (child == 0) {
        int line = run();
        if (line)
            printf("# line %d: %s\n", line, strerror(errno)), fflush(stdout);
        _exit(line != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}
static int64_t seconds(clockid_t clock) { return (int64_t)(now_ns(clock) / 1000000000u); }
static int near(int64_t a, int64_t b) { return a >= b && a <= b + 20; }

static int64_t before[4];
static void look(void) { before[0] = seconds(CLOCK_MONOTONIC), before[1] = seconds(CLOCK_BOOTTIME), before[2] = seconds(CLOCK_REALTIME), before[3] = seconds(CLOCK_MONOTONIC_RAW); }

static int clocks_lie_apart(void) {
    struct sysinfo info;
    HOLDS(near(seconds(CLOCK_MONOTONIC), before[0] + 2 * HOUR) && near(seconds(CLOCK_MONOTONIC_RAW), before[3] + 2 * HOUR));
    HOLDS(near(seconds(CLOCK_MONOTONIC_COARSE), before[0] + 2 * HOUR - 1) && near(seconds(CLOCK_BOOTTIME), before[1] + HOUR));
    HOLDS(near(seconds(CLOCK_REALTIME), before[2]));
    for (int i = 0; i < 50; i++) /* often enough for those who answer it themselves */
        HOLDS(near(seconds(CLOCK_MONOTONIC), before[0] + 2 * HOUR) && near(seconds(CLOCK_BOOTTIME), before[1] + HOUR));
    HOLDS(sysinfo(&info) == 0 && near(info.uptime, before[1] + HOUR));
    FILE *f = fopen("/proc/uptime", "r");
    double up = 0;
    HOLDS(f != NULL && fscanf(f, "%lf", &up) == 1 && fclose(f) == 0 && near((int64_t)up, before[1] + HOUR));
    return 0;
}
/* Waits for points of the clocks as they are shown here. */
static int waits_are_for_what_is_shown(void) {
    struct timespec t;
    clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME};
    for (int i = 0; i < 2; i++) {
        uint64_t start = now_ns(clocks[i]);
        clock_gettime(clocks[i], &t);
        t.tv_sec += (t.tv_nsec += 50000000) / 1000000000, t.tv_nsec %= 1000000000;
        HOLDS(clock_nanosleep(clocks[i], TIMER_ABSTIME, &t, NULL) == 0);
        HOLDS(lasted((now_ns(clocks[i]) - start) / 1000000, 50));
        start = now_ns(clocks[i]);
        clock_gettime(clocks[i], &t);
        t.tv_sec += (t.tv_nsec += 50000000) / 1000000000, t.tv_nsec %= 1000000000;
        struct itimerspec at = {.it_value = t};
        int fd = timerfd_create(clocks[i], 0);
        uint64_t ticks;
        HOLDS(timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0 && read(fd, &ticks, 8) == 8 && ticks == 1 && close(fd) == 0);
        HOLDS(lasted((now_ns(clocks[i]) - start) / 1000000, 50));
        timer_t timer;
        struct sigevent none = {.sigev_notify = SIGEV_NONE};
        clock_gettime(clocks[i], &at.it_value);
        at.it_value.tv_sec += 100;
        HOLDS(timer_create(clocks[i], &none, &timer) == 0 && timer_settime(timer, TIMER_ABSTIME, &at, NULL) == 0);
        HOLDS(timer_gettime(timer, &at) == 0 && at.it_value.tv_sec >= 90 && at.it_value.tv_sec <= 100 && timer_delete(timer) == 0);
    }
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (t.tv_nsec += 50000000) / 1000000000, t.tv_nsec %= 1000000000;
    int word = 0;
    HOLDS(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY) == -1 && errno == ETIMEDOUT);
    HOLDS(lasted((now_ns(CLOCK_MONOTONIC) - start) / 1000000, 50));
    return 0;
}
static int its_own_look_and_its_way_back(void) {
    HOLDS(strcmp(link_of("time"), link_of("time_for_children")) == 0);
    HOLDS(set_offsets("monotonic 1 0") == -1 && errno == EACCES);
    HOLDS(setns(3, CLONE_NEWTIME) == 0 && near(seconds(CLOCK_MONOTONIC), before[0]) && near(seconds(CLOCK_BOOTTIME), before[1]));
    return 0;
}

static int in_a_namespace(void) {
    look();
    HOLDS(dup2(open("/proc/self/ns/time", O_RDONLY), 3) == 3);
    HOLDS(unshare(CLONE_NEWTIME) == 0 && strcmp(link_of("time"), link_of("time_for_children")) != 0);
    HOLDS(set_offsets("monotonic 7200 0\nboottime 3600 0\n") == 0);
    char text[128] = "";
    int fd = open("/proc/self/timens_offsets", O_RDONLY);
    HOLDS(read(fd, text, 127) > 0 && close(fd) == 0);
    HOLDS(strcmp(text, "monotonic        7200         0\nboottime         3600         0\n") == 0);
    HOLDS(near(seconds(CLOCK_MONOTONIC), before[0])); /* its own stay */
    HOLDS(in_child(clocks_lie_apart) == 0);
    HOLDS(in_child(waits_are_for_what_is_shown) == 0);
    HOLDS(in_child(its_own_look_and_its_way_back) == 0);
    HOLDS(set_offsets("monotonic 1 0") == -1 && errno == EACCES);
    return 0;
}
static void apart_from_the_host(void) {
    if (root)
        SAME(in_child(in_a_namespace), 0);
}

static int wrong_offsets(void) {
    HOLDS(set_offsets("monotonic 1 0") == -1 && errno == EACCES); /* of the first one */
    HOLDS(unshare(CLONE_NEWTIME) == 0);
    const char *none[] = {"realtime 1 0", "monotonic 1", "monotonic 1 1000000000", "\n"};
    for (int i = 0; i < 4; i++)
        HOLDS(set_offsets(none[i]) == -1 && errno == EINVAL);
    HOLDS(set_offsets("monotonic -9000000000 0") == -1 && errno == ERANGE && set_offsets("7 5000000000 0") == -1 && errno == ERANGE);
    HOLDS(set_offsets("1 5 6") == 0);
    return 0;
}
static void offsets_that_are_refused(void) {
    if (root)
        SAME(in_child(wrong_offsets), 0);
}

static int executed(void) {
    look();
    HOLDS(unshare(CLONE_NEWTIME) == 0 && set_offsets("boottime 7200 0") == 0);
    char then[32];
    sprintf(then, "%lld", (long long)before[1] + 2 * HOUR);
    execl("/proc/self/exe", "timespaces", "-seconds", then, NULL);
    return __LINE__;
}
static void from_the_next_program_on(void) {
    if (root)
        SAME(in_child(executed), 0);
}

struct clone_request { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; };
static int born_in_one(void) {
    look();
    HOLDS(unshare(CLONE_NEWTIME) == 0 && set_offsets("monotonic 7200 0") == 0);
    const char *mine = link_of("time_for_children");
    struct clone_request request = {.flags = CLONE_NEWTIME, .exit_signal = SIGCHLD};
    pid_t child = (pid_t)syscall(SYS_clone3, &request, sizeof request);
    if (child == 0) {
        int other = strcmp(link_of("time"), mine) != 0 && strcmp(link_of("time"), link_of("time_for_children")) == 0;
        _exit(other && near(seconds(CLOCK_MONOTONIC), before[0] + 2 * HOUR) ? 0 : 1);
    }
    int status = -1;
    HOLDS(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
static void one_for_a_child(void) {
    if (root)
        SAME(in_child(born_in_one), 0);
}

static void others_may_not(void) {
    pid_t child = fork();
    if (child == 0) {
        if (root && setuid(65534) != 0)
            _exit(1);
        _exit(unshare(CLONE_NEWTIME) == -1 && errno == EPERM && set_offsets("monotonic 1 0") == -1 ? 0 : 2);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAME(status, 0);
}

int main(int argc, char **argv) {
    static const struct guest_test tests[] = {T(apart_from_the_host), T(offsets_that_are_refused), T(from_the_next_program_on), T(one_for_a_child),
                                              T(others_may_not)};
    if (argc == 3 && strcmp(argv[1], "-seconds") == 0)
        return !near(seconds(CLOCK_BOOTTIME), atoll(argv[2]));
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWTIME) == 0 ? 0 : errno);
    int status = 1;
    waitpid(child, &status, 0);
    root = status == 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EINVAL) {
        printf("# skipped: this kernel has no time namespaces\n");
        return 77;
    }
    return guest_run(argc, argv, tests, (int)(sizeof tests / sizeof *tests));
}
