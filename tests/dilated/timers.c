/* Every call that sets a timer: when it expires by CLOCK_MONOTONIC, which signal and fields come, overruns, what reading a timer gives, and that
   nothing but the program's own signals interrupts a call. Runs natively as well; an argument scales all spans. One line for each:
   name, result, errno, seconds, least seconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double scale = 1;
static double by(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static double now(void) { return by(CLOCK_MONOTONIC); }
static double began;
static void begin(void) { began = now(); }
static void print(const char *name, long result, int error, double took, double least) {
    printf("%s %ld %d %.6f %.6f\n", name, result, error, took, least);
    fflush(stdout);
}
static void say(const char *name, long result, double least) {
    int error = result < 0 ? errno : 0;
    print(name, result, error, now() - began, least * scale);
}
/* In whole microseconds. */
static struct timespec span(double seconds) {
    long us = (long)(seconds * scale * 1e6 + 0.5);
    return (struct timespec){us / 1000000, us % 1000000 * 1000};
}
static struct itimerspec setting(double value, double interval) { return (struct itimerspec){span(interval), span(value)}; }
static struct itimerval microseconds(double value, double interval) {
    struct itimerspec s = setting(value, interval);
    return (struct itimerval){{s.it_interval.tv_sec, s.it_interval.tv_nsec / 1000}, {s.it_value.tv_sec, s.it_value.tv_nsec / 1000}};
}
static int rest(double seconds) {
    struct timespec t = span(seconds);
    return nanosleep(&t, NULL);
}
static double seconds(struct timespec t) { return t.tv_sec + t.tv_nsec / 1e9; }

static volatile sig_atomic_t count;
static siginfo_t last;
static void handle(int n, siginfo_t *info, void *context) { (void)n; (void)context; last = *info; count++; }
static void on(int signal, int flags) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | flags};
    sigaction(signal, &action, NULL);
}
static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}
static void block(int signal) { sigset_t set = only(signal); pthread_sigmask(SIG_BLOCK, &set, NULL); }
static void unblock(int signal) { sigset_t set = only(signal); pthread_sigmask(SIG_UNBLOCK, &set, NULL); }
static int suspended(int signal) {
    sigset_t set;
    sigprocmask(SIG_BLOCK, NULL, &set);
    sigdelset(&set, signal);
    return sigsuspend(&set);
}
static siginfo_t taken(int signal) {
    sigset_t set = only(signal);
    siginfo_t info = {0};
    if (sigwaitinfo(&set, &info) < 0)
        perror("sigwaitinfo");
    return info;
}
/* The fields of a signal of a timer: 15 if all are right. */
static int fields(const siginfo_t *info, timer_t timer, int value) {
    return (info->si_code == SI_TIMER) | (info->si_timerid == (int)(long)timer) << 1 | (info->si_value.sival_int == value) << 2 | (info->si_overrun == 0) << 3;
}
static timer_t made(clockid_t clock, int notify, int signal, int value) {
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = signal, .sigev_value.sival_int = value};
    event._sigev_un._tid = gettid();
    timer_t timer = 0;
    if (timer_create(clock, &event, &timer) != 0)
        perror("timer_create");
    return timer;
}
/* 1 if `left` is what is left of `value`, which was set between two times, as read between two others. */
static int is_left(double left, double value, double set0, double set1, double read0, double read1) {
    value *= scale;
    int fits = left >= value - (read1 - set0) - 1e-5 && left <= value - (read0 - set1) + 1e-5;
    if (!fits)
        fprintf(stderr, "left %.6f of %.6f after %.6f to %.6f\n", left, value, read0 - set1, read1 - set0);
    return fits;
}
/* 1 if a periodic timer has `n` expiries beyond the first. A thread of this machine may be late for one. */
static int is_count(long n, double interval, double set0, double set1, double read0, double read1) {
    interval *= scale;
    long most = (long)((read1 - set0) / interval) - 1, least = (long)((read0 - set1) / interval) - 2;
    if (n < least || n > most)
        fprintf(stderr, "%ld overruns, not %ld to %ld\n", n, least, most);
    return n >= least && n <= most;
}

static void intervals(void) {
    struct itimerval off = {0}, set = microseconds(0.1, 0), found;
    begin();
    setitimer(ITIMER_REAL, &set, NULL);
    say("setitimer", suspended(SIGALRM), 0.1);
    begin(); say("setitimer_code", last.si_code, 0);
    set = microseconds(0.001, 0);
    begin();
    setitimer(ITIMER_REAL, &set, NULL);
    say("setitimer_short", suspended(SIGALRM), 0.001);
    if (scale == 1) {
        begin();
        alarm(1);
        say("alarm", suspended(SIGALRM), 1);
        begin(); alarm(10); say("alarm_again", alarm(3), 0);
        begin(); say("alarm_off", alarm(0), 0);
    }
    set = microseconds(5, 0.04321);
    double set0 = now();
    setitimer(ITIMER_REAL, &set, NULL);
    double set1 = now();
    rest(0.1);
    begin();
    double read0 = now();
    getitimer(ITIMER_REAL, &found);
    double read1 = now();
    double left = found.it_value.tv_sec + found.it_value.tv_usec / 1e6;
    say("getitimer", is_left(left, 5, set0, set1, read0, read1), 0);
    begin(); say("getitimer_interval", memcmp(&found.it_interval, &set.it_interval, sizeof set.it_interval) == 0, 0);
    read0 = now();
    setitimer(ITIMER_REAL, &off, &found);
    read1 = now();
    left = found.it_value.tv_sec + found.it_value.tv_usec / 1e6;
    begin(); say("setitimer_old", is_left(left, 5, set0, set1, read0, read1), 0);
    set = microseconds(0.05, 0.03);
    int early = 0;
    begin();
    setitimer(ITIMER_REAL, &set, NULL);
    for (int n = 0; n < 5; n++) {
        suspended(SIGALRM);
        early += now() - began < (0.05 + 0.03 * n) * scale - 1e-6;
    }
    say("setitimer_periodic", early, 0.17 - 1e-5);
    setitimer(ITIMER_REAL, &off, NULL);
    /* One that has been disarmed does not come. */
    set = microseconds(0.05, 0);
    setitimer(ITIMER_REAL, &set, NULL);
    setitimer(ITIMER_REAL, &off, NULL);
    unblock(SIGALRM);
    count = 0;
    begin(); say("disarmed", rest(0.1), 0.1);
    begin(); say("disarmed_signals", count, 0);
    /* Interrupted calls, and restarted ones. The signal comes again if it comes before the call. */
    set = microseconds(0.05, 0.05);
    int ends[2];
    char byte;
    (void)!pipe(ends);
    begin();
    setitimer(ITIMER_REAL, &set, NULL);
    say("read_interrupted", read(ends[0], &byte, 1), 0.05);
    on(SIGALRM, SA_RESTART);
    begin();
    setitimer(ITIMER_REAL, &set, NULL);
    say("nanosleep_interrupted", rest(5), 0.05);
    set = microseconds(0.05, 0);
    count = 0;
    begin();
    setitimer(ITIMER_REAL, &set, NULL);
    if (fork() == 0) {
        rest(0.15);
        (void)!write(ends[1], "x", 1);
        _exit(0);
    }
    say("read_restarted", read(ends[0], &byte, 1), 0.15);
    wait(NULL);
    begin(); say("restarted_signals", count, 0);
    /* Without a signal no freeze ends a wait. */
    begin(); struct pollfd idle = {ends[0], POLLIN, 0}; say("poll", poll(&idle, 1, (int)(200 * scale)), (int)(200 * scale) / 1e3 / scale);
    on(SIGALRM, 0);
    block(SIGALRM);
    close(ends[0]);
    close(ends[1]);
}

static void posix(clockid_t clock, const char *name) {
    char text[64];
    int signal = SIGRTMIN;
    timer_t timer = made(clock, SIGEV_SIGNAL, signal, 42);
    struct itimerspec set = setting(0.1, 0), off = {0}, found;
    begin();
    timer_settime(timer, 0, &set, NULL);
    siginfo_t info = taken(signal);
    snprintf(text, sizeof text, "%s_once", name);
    say(text, fields(&info, timer, 42), 0.1);
    struct timespec at;
    begin();
    clock_gettime(clock, &at);
    double due = seconds(at) + 0.1 * scale;
    set = (struct itimerspec){{0, 0}, {(long)due, (long)((due - (long)due) * 1e9)}};
    timer_settime(timer, TIMER_ABSTIME, &set, NULL);
    info = taken(signal);
    snprintf(text, sizeof text, "%s_absolute", name);
    /* A double has wall-clock times by steps of 0.24 us. */
    say(text, fields(&info, timer, 42), 0.1 - 2e-6 / scale);
    set.it_value = (struct timespec){1, 0};
    begin();
    timer_settime(timer, TIMER_ABSTIME, &set, NULL);
    info = taken(signal);
    snprintf(text, sizeof text, "%s_past", name);
    say(text, fields(&info, timer, 42), 0);
    set = setting(5, 0.0123456);
    double set0 = now();
    timer_settime(timer, 0, &set, NULL);
    double set1 = now();
    rest(0.1);
    begin();
    double read0 = now();
    timer_gettime(timer, &found);
    double read1 = now();
    snprintf(text, sizeof text, "%s_gettime", name);
    say(text, is_left(seconds(found.it_value), 5, set0, set1, read0, read1), 0);
    snprintf(text, sizeof text, "%s_gettime_interval", name);
    begin(); say(text, memcmp(&found.it_interval, &set.it_interval, sizeof found.it_interval) == 0, 0);
    read0 = now();
    timer_settime(timer, 0, &off, &found);
    read1 = now();
    snprintf(text, sizeof text, "%s_old", name);
    begin(); say(text, is_left(seconds(found.it_value), 5, set0, set1, read0, read1), 0);
    set = setting(0.05, 0.03);
    int early = 0;
    begin();
    timer_settime(timer, 0, &set, NULL);
    for (int n = 0; n < 5; n++) {
        info = taken(signal);
        n += info.si_overrun;
        early += now() - began < (0.05 + 0.03 * n) * scale - 1e-6;
    }
    snprintf(text, sizeof text, "%s_periodic", name);
    say(text, early, 0.17 - 1e-5);
    timer_delete(timer);
    begin();
    snprintf(text, sizeof text, "%s_deleted", name);
    say(text, timer_gettime(timer, &found), 0);
}

static void overruns(int notify, const char *name) {
    char text[64];
    int signal = SIGRTMIN + 1;
    timer_t timer = made(CLOCK_MONOTONIC, notify, signal, 7);
    struct itimerspec set = setting(0.02, 0.02), off = {0};
    double set0 = now();
    timer_settime(timer, 0, &set, NULL);
    double set1 = now();
    rest(0.21);
    double read0 = now();
    siginfo_t info = taken(signal);
    int reported = timer_getoverrun(timer);
    double read1 = now();
    snprintf(text, sizeof text, "%s_overruns", name);
    begin(); say(text, is_count(info.si_overrun, 0.02, set0, set1, read0, read1) | (reported == info.si_overrun) << 1, 0);
    int before = info.si_overrun;
    began = set0;
    info = taken(signal);
    snprintf(text, sizeof text, "%s_after", name);
    say(text, fields(&info, timer, 7) & 7, (before + 2) * 0.02 - 1e-5);
    /* Setting a timer withdraws its pending signal. */
    rest(0.05);
    timer_settime(timer, 0, &off, NULL);
    sigset_t wanted = only(signal);
    struct timespec none = {0, 0};
    snprintf(text, sizeof text, "%s_withdrawn", name);
    begin(); say(text, sigtimedwait(&wanted, NULL, &none), 0);
    timer_delete(timer);
}

static sem_t called;
static void call(union sigval value) { (void)value; sem_post(&called); }
static void *own_timer(void *argument) {
    timer_t timer = made(CLOCK_MONOTONIC, SIGEV_THREAD_ID, SIGRTMIN + 2, 9);
    struct itimerspec set = setting(0.1, 0);
    begin();
    timer_settime(timer, 0, &set, NULL);
    siginfo_t info = taken(SIGRTMIN + 2);
    say("of_thread", fields(&info, timer, 9), 0.1);
    timer_delete(timer);
    return argument;
}

static void targets(void) {
    struct itimerspec set = setting(0.1, 0), found;
    pthread_t thread;
    pthread_create(&thread, NULL, own_timer, NULL);
    pthread_join(thread, NULL);
    sem_init(&called, 0, 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = call};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    begin();
    timer_settime(timer, 0, &set, NULL);
    say("by_thread", sem_wait(&called), 0.1);
    timer_delete(timer);
    timer = made(CLOCK_MONOTONIC, SIGEV_NONE, 0, 0);
    timer_settime(timer, 0, &set, NULL);
    rest(0.12);
    timer_gettime(timer, &found);
    begin(); say("of_none", found.it_value.tv_sec + found.it_value.tv_nsec, 0);
    timer_delete(timer);
    /* A handler has the fields, too. */
    timer = made(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGALRM, 5);
    begin();
    timer_settime(timer, 0, &set, NULL);
    suspended(SIGALRM);
    say("handler", fields(&last, timer, 5), 0.1);
    sigset_t wanted = only(SIGALRM);
    int watched = signalfd(-1, &wanted, 0);
    struct signalfd_siginfo got = {0};
    begin();
    timer_settime(timer, 0, &set, NULL);
    long size = read(watched, &got, sizeof got);
    say("signalfd", size == sizeof got && got.ssi_code == SI_TIMER && got.ssi_int == 5 && got.ssi_overrun == 0, 0.1);
    close(watched);
    struct timespec half = span(0.05);
    begin();
    timer_settime(timer, 0, &set, NULL);
    double set0 = began;
    say("sigtimedwait_short", sigtimedwait(&wanted, NULL, &half), 0.05);
    began = set0;
    half = span(1);
    say("sigtimedwait", sigtimedwait(&wanted, NULL, &half), 0.1);
    timer_delete(timer);
}

static void descriptors(void) {
    struct itimerspec set = setting(0.1, 0), off = {0}, read_back;
    uint64_t n = 0;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    begin();
    timerfd_settime(timer, 0, &set, NULL);
    say("timerfd", read(timer, &n, sizeof n) == sizeof n ? (long)n : -1, 0.1);
    begin();
    timerfd_gettime(timer, &read_back);
    say("timerfd_expired", read_back.it_value.tv_sec + read_back.it_value.tv_nsec, 0);
    begin();
    timerfd_settime(timer, 0, &set, NULL);
    struct pollfd watched = {timer, POLLIN, 0};
    say("timerfd_poll", poll(&watched, 1, 5000), 0.1);
    int wall = timerfd_create(CLOCK_REALTIME, 0);
    begin();
    double due = by(CLOCK_REALTIME) + 0.1 * scale;
    set = (struct itimerspec){{0, 0}, {(long)due, (long)((due - (long)due) * 1e9)}};
    timerfd_settime(wall, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &set, NULL);
    say("timerfd_wall", read(wall, &n, sizeof n) == sizeof n ? (long)n : -1, 0.1 - 2e-6 / scale);
    set = setting(5, 0.0123456);
    double set0 = now();
    timerfd_settime(timer, 0, &set, NULL);
    double set1 = now();
    rest(0.1);
    double read0 = now();
    timerfd_gettime(timer, &read_back);
    double read1 = now();
    begin(); say("timerfd_gettime", is_left(seconds(read_back.it_value), 5, set0, set1, read0, read1), 0);
    begin(); say("timerfd_interval", memcmp(&read_back.it_interval, &set.it_interval, sizeof set.it_interval) == 0, 0);
    set = setting(0.02, 0.02);
    set0 = now();
    timerfd_settime(timer, 0, &set, &read_back);
    set1 = now();
    rest(0.21);
    read0 = now();
    long got = read(timer, &n, sizeof n);
    read1 = now();
    began = set0;
    say("timerfd_count", got == sizeof n && is_count((long)n - 1, 0.02, set0, set1, read0, read1), 0.21);
    double least = 0.02 * (n + 1);
    got = read(timer, &n, sizeof n);
    say("timerfd_next", got == sizeof n, least - 1e-5);
    /* Another process reads it. */
    set = setting(0.1, 0);
    begin();
    timerfd_settime(timer, 0, &set, NULL);
    fflush(stdout);
    if (fork() == 0) {
        timerfd_gettime(timer, &read_back);
        double left = seconds(read_back.it_value);
        got = read(timer, &n, sizeof n);
        say("timerfd_of_parent", got == sizeof n && left > 0 && left <= 0.1 * scale + 1e-3, 0.1);
        _exit(0);
    }
    wait(NULL);
    /* The process that set it ends first. */
    int ends[2];
    (void)!pipe(ends);
    if (fork() == 0) {
        timerfd_settime(timer, 0, &set, NULL);
        if (fork() == 0) {
            got = read(timer, &n, sizeof n);
            (void)!write(ends[1], &n, sizeof n);
        }
        _exit(0);
    }
    wait(NULL);
    n = 0;
    got = read(ends[0], &n, sizeof n);
    print("timerfd_of_the_dead", got == sizeof n ? (long)n : -1, 0, 0, 0);
    timerfd_settime(timer, 0, &set, NULL);
    timerfd_settime(timer, 0, &off, NULL);
    fcntl(timer, F_SETFL, O_NONBLOCK);
    rest(0.12);
    begin(); say("timerfd_off", read(timer, &n, sizeof n), 0);
    close(timer);
    close(wall);
}

/* Timers of a process across fork and exec. */
static void processes(const char *self) {
    struct itimerval set = microseconds(0.2, 0), found;
    setitimer(ITIMER_REAL, &set, NULL);
    begin();
    fflush(stdout);
    if (fork() == 0) {
        getitimer(ITIMER_REAL, &found);
        say("forked", found.it_value.tv_sec + found.it_value.tv_usec, 0);
        unblock(SIGALRM);
        begin(); say("forked_sleep", rest(0.3), 0.3);
        block(SIGALRM);
        char start[32], factor[32];
        snprintf(factor, sizeof factor, "%.9f", scale);
        set = microseconds(0.2, 0.05);
        snprintf(start, sizeof start, "%.9f", now());
        setitimer(ITIMER_REAL, &set, NULL);
        execl("/nowhere", "timers", NULL);
        execl(self, "timers", factor, start, NULL);
        _exit(1);
    }
    siginfo_t info = taken(SIGALRM);
    print("parent", info.si_code, 0, 0, 0);
    int status;
    wait(&status);
    begin(); say("executed", status, 0);
}
static int executed(double start) {
    began = start;
    siginfo_t info = taken(SIGALRM);
    say("exec", info.si_code, 0.2 - 1e-5);
    taken(SIGALRM);
    say("exec_periodic", 0, 0.25 - 1e-5);
    return 0;
}

/* Processor time, by the process's own clock. */
static void processor(int which, int signal, const char *name) {
    struct itimerval set = microseconds(0.1, 0);
    count = 0;
    on(signal, 0);
    double start = by(CLOCK_PROCESS_CPUTIME_ID);
    setitimer(which, &set, NULL);
    while (count == 0) {}
    /* The kernel samples it at ticks. */
    double took = by(CLOCK_PROCESS_CPUTIME_ID) - start;
    print(name, count == 1 && took > 0.03 * scale && took < 0.3 * scale + 0.03, 0, 0, 0);
}

int main(int argc, char **argv) {
    if (argc > 1)
        scale = atof(argv[1]);
    block(SIGALRM);
    for (int n = 0; n < 3; n++)
        block(SIGRTMIN + n);
    on(SIGALRM, 0);
    if (argc > 2)
        return executed(atof(argv[2]));
    intervals();
    posix(CLOCK_MONOTONIC, "monotonic");
    posix(CLOCK_REALTIME, "realtime");
    posix(CLOCK_BOOTTIME, "boottime");
    overruns(SIGEV_SIGNAL, "process");
    overruns(SIGEV_THREAD_ID, "thread");
    targets();
    descriptors();
    processes(argv[0]);
    processor(ITIMER_PROF, SIGPROF, "itimer_prof");
    processor(ITIMER_VIRTUAL, SIGVTALRM, "itimer_virtual");
    timer_t timer = made(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, SIGUSR1, 0);
    struct itimerspec set = setting(0.1, 0), found;
    on(SIGUSR1, 0);
    count = 0;
    double start = by(CLOCK_PROCESS_CPUTIME_ID);
    timer_settime(timer, 0, &set, NULL);
    timer_gettime(timer, &found);
    double left = seconds(found.it_value);
    begin(); say("cputime_gettime", left > 0 && left <= 0.1 * scale, 0);
    while (count == 0) {}
    print("cputime", count, 0, by(CLOCK_PROCESS_CPUTIME_ID) - start, 0.1 * scale);
    start = by(CLOCK_PROCESS_CPUTIME_ID);
    double due = start + 0.1 * scale;
    set.it_value = (struct timespec){(long)due, (long)((due - (long)due) * 1e9)};
    count = 0;
    timer_settime(timer, TIMER_ABSTIME, &set, NULL);
    while (count == 0) {}
    print("cputime_absolute", count, 0, by(CLOCK_PROCESS_CPUTIME_ID) - start, 0.1 * scale - 1e-6);
    puts("done");
    return 0;
}
