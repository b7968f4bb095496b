/* Clocks, sleeping and timers: they agree with one another. clock_gettime(2), nanosleep(2), timerfd_create(2). */
#include "guest.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>

static void clocks_agree(void) {
    struct timeval tv;
    uint64_t a = now_ns(CLOCK_REALTIME);
    CHECK(gettimeofday(&tv, NULL) == 0);
    uint64_t b = (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000;
    uint64_t c = now_ns(CLOCK_REALTIME);
    CHECK(b + 1000 >= a && b <= c);
    time_t t = time(NULL);
    CHECK(t + 1 >= (time_t)(a / 1000000000) && /* the coarse clock lags by a tick */
          t <= (time_t)(now_ns(CLOCK_REALTIME) / 1000000000));
    CHECK(now_ns(CLOCK_REALTIME_COARSE) <= now_ns(CLOCK_REALTIME));
    CHECK(now_ns(CLOCK_MONOTONIC_COARSE) <= now_ns(CLOCK_MONOTONIC));
    CHECK(now_ns(CLOCK_BOOTTIME) + 1000000 >= now_ns(CLOCK_MONOTONIC));
    struct timespec r;
    CHECK(clock_getres(CLOCK_MONOTONIC, &r) == 0 && r.tv_sec == 0 && r.tv_nsec >= 1 && r.tv_nsec <= 10000000);
    FAILS(clock_gettime(9999, &r), EINVAL);
}

static void coarse_clocks_tick(void) {
    struct timespec r;
    CHECK(clock_getres(CLOCK_MONOTONIC_COARSE, &r) == 0);
    SAME(r.tv_sec, 0);
    CHECK(r.tv_nsec == 1000000 || r.tv_nsec == 4000000 || r.tv_nsec == 10000000); /* by the kernel's HZ */
    CHECK(clock_getres(CLOCK_REALTIME_COARSE, &r) == 0 && r.tv_nsec >= 1000000);
    /* whoever looks in pairs sees a tick within a pair now and then */
    int within = 0;
    uint64_t until = now_ns(CLOCK_MONOTONIC) + 10000000000u;
    for (int i = 0; within < 3 && (++i % 1000 || now_ns(CLOCK_MONOTONIC) < until);) {
        uint64_t a = now_ns(CLOCK_MONOTONIC_COARSE), b = now_ns(CLOCK_MONOTONIC_COARSE);
        CHECK(a <= b);
        within += a != b;
    }
    SAME(within, 3);
    struct timespec soon = {0, 1000};
    SAME(clock_nanosleep(CLOCK_MONOTONIC_COARSE, 0, &soon, NULL), ENOTSUP);
    timer_t t;
    FAILS(timer_create(CLOCK_REALTIME_COARSE, NULL, &t), ENOTSUP);
}

static void clocks_never_go_back(void) {
    uint64_t last = now_ns(CLOCK_MONOTONIC), first = last;
    for (int i = 0; i < 5000; i++) {
        uint64_t n = now_ns(CLOCK_MONOTONIC);
        CHECK(n >= last);
        last = n;
    }
    CHECK(last > first); /* nor do they stand still for one who asks long enough */
}

static void spinning_ends(void) {
    uint64_t until = now_ns(CLOCK_MONOTONIC) + 5000000;
    while (now_ns(CLOCK_MONOTONIC) < until) {
    }
}

static void sleeps(void) {
    uint64_t m = now_ns(CLOCK_MONOTONIC), r = now_ns(CLOCK_REALTIME);
    struct timespec t = {0, 120000000}, left;
    CHECK(nanosleep(&t, NULL) == 0);
    uint64_t dm = now_ns(CLOCK_MONOTONIC) - m, dr = now_ns(CLOCK_REALTIME) - r;
    CHECK(dm >= 120000000 && dr >= 119000000 && lasted(dm / 1000000, 120));
    CHECK((dm > dr ? dm - dr : dr - dm) < 50000000);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left) == 0);
    t.tv_nsec = 1000000000;
    FAILS(nanosleep(&t, NULL), EINVAL);
    t.tv_nsec = 0, t.tv_sec = -1;
    FAILS(nanosleep(&t, NULL), EINVAL);
    CHECK(usleep(1000) == 0);
}

static void absolute_sleep(void) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    t.tv_nsec += 50000000;
    if (t.tv_nsec >= 1000000000)
        t.tv_sec++, t.tv_nsec -= 1000000000;
    uint64_t want = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    SAME(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0);
    CHECK(now_ns(CLOCK_MONOTONIC) >= want);
    SAME(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0); /* the past is over at once */
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec -= 10;
    SAME(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL), 0);
    SAME(clock_nanosleep(12345, 0, &t, NULL), EINVAL);
}

static volatile sig_atomic_t ticks;
static void on_tick(int s) { ticks += s > 0; }

static void interrupted_sleep(void) {
    struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART}, old;
    CHECK(sigaction(SIGALRM, &sa, &old) == 0);
    struct itimerval it = {.it_value = {0, 100000}};
    ticks = 0;
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    struct timespec t = {2, 0}, left = {0, 0};
    FAILS(nanosleep(&t, &left), EINTR);
    SAME(ticks, 1);
    CHECK(left.tv_sec == 1 && left.tv_nsec > 0 && left.tv_nsec <= 910000000);
    sigaction(SIGALRM, &old, NULL);
}

static void interval_timer(void) {
    struct sigaction sa = {.sa_handler = on_tick}, old;
    CHECK(sigaction(SIGALRM, &sa, &old) == 0);
    struct itimerval it = {{0, 20000}, {0, 20000}}, off = {{0, 0}, {0, 0}}, was;
    ticks = 0;
    uint64_t start = now_ms();
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    while (ticks < 5)
        pause();
    CHECK(lasted(now_ms() - start, 100));
    CHECK(getitimer(ITIMER_REAL, &was) == 0);
    CHECK(was.it_interval.tv_usec == 20000 && was.it_value.tv_sec == 0 && was.it_value.tv_usec <= 20000);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    alarm(1);
    unsigned rest = alarm(0);
    SAME(rest, 1);
    int n = ticks;
    sleep_ms(50);
    SAME(ticks, n);
    sigaction(SIGALRM, &old, NULL);
}

static volatile sig_atomic_t timer_value;
static void on_timer(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    if (i->si_code == SI_TIMER)
        timer_value = i->si_value.sival_int;
    ticks++;
}

static void posix_timer(void) {
    struct sigaction sa = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO}, old;
    CHECK(sigaction(SIGUSR2, &sa, &old) == 0);
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2, .sigev_value.sival_int = 4711};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &ev, &timer) == 0);
    struct itimerspec at = {{0, 10000000}, {0, 30000000}}, was;
    ticks = timer_value = 0;
    uint64_t start = now_ms();
    CHECK(timer_settime(timer, 0, &at, NULL) == 0);
    CHECK(timer_gettime(timer, &was) == 0 && was.it_value.tv_nsec <= 30000000 && was.it_interval.tv_nsec == 10000000);
    while (ticks < 3)
        pause();
    SAME(timer_value, 4711);
    CHECK(lasted(now_ms() - start, 50));
    CHECK(timer_delete(timer) == 0);
    FAILS(timer_gettime(timer, &was), EINVAL);
    sigaction(SIGUSR2, &old, NULL);
}

static void timer_descriptor(void) {
    int t = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    CHECK(t >= 0);
    struct itimerspec at = {{0, 0}, {0, 40000000}}, was;
    uint64_t n = 0, start = now_ms();
    CHECK(timerfd_settime(t, 0, &at, NULL) == 0);
    SAME(read(t, &n, 8), 8);
    SAME(n, 1);
    CHECK(lasted(now_ms() - start, 40));
    CHECK(timerfd_gettime(t, &was) == 0);
    SAME(was.it_value.tv_nsec, 0);
    FAILS(read(t, &n, 4), EINVAL);
    at.it_interval.tv_nsec = at.it_value.tv_nsec = 10000000;
    CHECK(timerfd_settime(t, 0, &at, NULL) == 0);
    sleep_ms(55);
    SAME(read(t, &n, 8), 8);
    CHECK(n >= 5); /* counts what was missed */
    struct itimerspec off = {{0, 0}, {0, 0}};
    CHECK(timerfd_settime(t, 0, &off, &was) == 0);
    SAME(was.it_interval.tv_nsec, 10000000);
    CHECK(fcntl(t, F_SETFL, O_NONBLOCK) == 0);
    FAILS(read(t, &n, 8), EAGAIN);
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    struct itimerspec past = {{0, 0}, now};
    CHECK(timerfd_settime(t, TFD_TIMER_ABSTIME, &past, NULL) == 0);
    struct pollfd f = {t, POLLIN, 0};
    SAME(poll(&f, 1, 100), 1);
    FAILS(timerfd_create(999, 0), EINVAL);
    FAILS(timerfd_settime(1, 0, &at, NULL), EINVAL);
    close(t);
}

/* What the C library answers without a call, and the call itself. */
static void readings_and_calls_agree(void) {
    static const int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 300; i++) {
            int clock = clocks[i % 4];
            struct timespec call;
            uint64_t before = now_ns(clock);
            CHECK(syscall(SYS_clock_gettime, clock, &call) == 0);
            uint64_t between = (uint64_t)call.tv_sec * 1000000000u + (uint64_t)call.tv_nsec;
            CHECK(before <= between && between <= now_ns(clock));
            struct timeval read, called;
            CHECK(gettimeofday(&read, NULL) == 0 && syscall(SYS_gettimeofday, &called, NULL) == 0);
            CHECK(timercmp(&read, &called, <=) && read.tv_usec < 1000000);
        }
        time_t stored = 0, given = time(&stored);
        CHECK(stored == given && given <= syscall(SYS_time, NULL));
        sleep_ms(7);
    }
}

static void cpu_clocks_exist(void) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 && clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    CHECK(clock() != (clock_t)-1);
}

GUEST(T(clocks_agree), T(coarse_clocks_tick), T(clocks_never_go_back), T(spinning_ends), T(sleeps), T(absolute_sleep), T(interrupted_sleep),
      T(interval_timer), T(posix_timer), T(timer_descriptor), T(readings_and_calls_agree),
      T(cpu_clocks_exist))
