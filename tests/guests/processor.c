/* Timers and limits of processor time: setitimer(2), timer_create(2), RLIMIT_CPU. */
#include "guest.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t count, last;
static void on_signal(int s) { count++, last = s; }

/* Uses processor time until `wanted` signals have come; false if the time is up before. */
static int spin(int wanted) {
    uint64_t from = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    while (count < wanted)
        if (now_ns(CLOCK_PROCESS_CPUTIME_ID) - from > 3000000000u)
            return 0;
    return 1;
}

static void an_interval_timer(int which, int signo) {
    struct itimerval it = {{0, 20000}, {0, 50000}}, now, off = {{0, 0}, {0, 0}};
    count = 0;
    signal(signo, on_signal);
    CHECK(getitimer(which, &now) == 0);
    CHECK(now.it_value.tv_usec == 0 && now.it_interval.tv_usec == 0);
    CHECK(setitimer(which, &it, NULL) == 0 && getitimer(which, &now) == 0);
    CHECK(now.it_value.tv_sec == 0 && now.it_value.tv_usec > 0 && now.it_value.tv_usec <= 60000);
    SAME(now.it_interval.tv_usec, 20000);
    sleep_ms(150); /* sleeping is no processor time */
    SAME(count, 0);
    CHECK(spin(3));
    SAME(last, signo);
    CHECK(setitimer(which, &off, &now) == 0);
    SAME(now.it_interval.tv_usec, 20000);
    signal(signo, SIG_DFL);
}
static void profiling_timer(void) { an_interval_timer(ITIMER_PROF, SIGPROF); }
static void virtual_timer(void) { an_interval_timer(ITIMER_VIRTUAL, SIGVTALRM); }

static void a_posix_timer(clockid_t clock) {
    timer_t timer;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec spec = {{0, 20000000}, {0, 50000000}}, now;
    count = 0;
    signal(SIGUSR1, on_signal);
    CHECK(timer_create(clock, &e, &timer) == 0);
    CHECK(timer_gettime(timer, &now) == 0 && now.it_value.tv_nsec == 0);
    CHECK(timer_settime(timer, 0, &spec, NULL) == 0 && timer_gettime(timer, &now) == 0);
    CHECK(now.it_value.tv_nsec > 0 && now.it_value.tv_nsec <= 60000000);
    sleep_ms(100);
    SAME(count, 0);
    CHECK(spin(2));
    CHECK(timer_delete(timer) == 0);
    signal(SIGUSR1, SIG_DFL);
}
static void timer_of_the_process(void) { a_posix_timer(CLOCK_PROCESS_CPUTIME_ID); }
static void timer_of_the_thread(void) { a_posix_timer(CLOCK_THREAD_CPUTIME_ID); }

static void absolute_timer(void) {
    timer_t timer;
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec spec = {{0, 0}, {0, 0}};
    uint64_t at = now_ns(CLOCK_PROCESS_CPUTIME_ID) + 50000000;
    spec.it_value.tv_sec = (time_t)(at / 1000000000), spec.it_value.tv_nsec = (long)(at % 1000000000);
    count = 0;
    signal(SIGUSR1, on_signal);
    CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, &e, &timer) == 0);
    CHECK(timer_settime(timer, TIMER_ABSTIME, &spec, NULL) == 0);
    CHECK(spin(1) && now_ns(CLOCK_PROCESS_CPUTIME_ID) >= at);
    CHECK(timer_delete(timer) == 0);
    signal(SIGUSR1, SIG_DFL);
}

static void children_have_none(void) {
    struct itimerval it = {{0, 0}, {10, 0}}, off = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_PROF, &it, NULL) == 0);
    int status;
    pid_t p = fork();
    if (p == 0) {
        struct itimerval now;
        _exit(getitimer(ITIMER_PROF, &now) != 0 || now.it_value.tv_sec != 0 || now.it_value.tv_usec != 0);
    }
    CHECK(waitpid(p, &status, 0) == p);
    SAME(status, 0);
    CHECK(setitimer(ITIMER_PROF, &off, NULL) == 0);
}

static void the_limit(void) {
    int status;
    pid_t p = fork();
    if (p == 0) {
        struct rlimit limit = {1, 3};
        signal(SIGXCPU, on_signal);
        count = 0;
        _exit(setrlimit(RLIMIT_CPU, &limit) != 0 || !spin(1) || last != SIGXCPU);
    }
    CHECK(waitpid(p, &status, 0) == p);
    SAME(status, 0);
}

GUEST(T(profiling_timer), T(virtual_timer), T(timer_of_the_process), T(timer_of_the_thread), T(absolute_timer),
      T(children_have_none), T(the_limit))
