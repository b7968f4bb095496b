/* The clocks by number and what each of them can do: clock_gettime(2), clock_nanosleep(2), timer_create(2),
 * timerfd_create(2), clock_settime(2), and the order in which arguments are looked at. */
#include "guest.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>

/* As the kernel sees it: the library answers some itself. */
static int nap(int clock, int flags, const struct timespec *t, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, t, left);
}
static int make(int clock, timer_t *id) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    return syscall(SYS_timer_create, clock, &event, id);
}
static int set(int clock, const struct timespec *t) { return syscall(SYS_clock_settime, clock, t); }

static void each_can_what_it_can(void) {
    static const struct {
        int id, sleep, timer, descriptor, set;
    } TABLE[] = {
        {CLOCK_REALTIME, 0, 0, 0, EINVAL}, /* a time that cannot be */
        {CLOCK_MONOTONIC, 0, 0, 0, EINVAL},
        {CLOCK_MONOTONIC_RAW, EOPNOTSUPP, EOPNOTSUPP, EINVAL, EINVAL},
        {CLOCK_REALTIME_COARSE, EOPNOTSUPP, EOPNOTSUPP, EINVAL, EINVAL},
        {CLOCK_MONOTONIC_COARSE, EOPNOTSUPP, EOPNOTSUPP, EINVAL, EINVAL},
        {CLOCK_BOOTTIME, 0, 0, 0, EINVAL},
        {CLOCK_TAI, 0, 0, EINVAL, EINVAL},
        {CLOCK_THREAD_CPUTIME_ID, EOPNOTSUPP, 0, EINVAL, EINVAL},
    };
    struct timespec wrong = {0, -1};
    for (unsigned i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        int id = TABLE[i].id;
        struct timespec t, resolution;
        CHECK(clock_gettime(id, &t) == 0 && clock_getres(id, &resolution) == 0);
        struct timespec none = {0, 1000};
        if (TABLE[i].sleep == 0)
            SAME(nap(id, 0, &none, NULL), 0);
        else
            FAILS(nap(id, 0, &none, NULL), TABLE[i].sleep);
        timer_t timer;
        if (TABLE[i].timer == 0) {
            SAME(make(id, &timer), 0);
            SAME(syscall(SYS_timer_delete, timer), 0);
        } else
            FAILS(make(id, &timer), TABLE[i].timer);
        int f = timerfd_create(id, 0);
        SAME(f < 0 ? errno : 0, TABLE[i].descriptor);
        close(f);
        FAILS(set(id, &wrong), TABLE[i].set);
    }
}

static void numbers_that_are_no_clock(void) {
    struct timespec t = {0, 1};
    timer_t timer;
    static const int NONE[] = {10, 12 + 20, 99, INT_MAX, -1};
    for (int i = 0; i < 5; i++) {
        FAILS(syscall(SYS_clock_gettime, NONE[i], &t), EINVAL);
        FAILS(syscall(SYS_clock_getres, NONE[i], &t), EINVAL);
        FAILS(nap(NONE[i], 0, &t, NULL), EINVAL);
        FAILS(make(NONE[i], &timer), EINVAL);
        FAILS(set(NONE[i], &t), EINVAL);
    }
}

static void the_clock_is_looked_at_before_the_time(void) {
    struct timespec wrong = {0, 1000000000};
    FAILS(nap(CLOCK_MONOTONIC_RAW, 0, &wrong, NULL), EOPNOTSUPP);
    FAILS(nap(CLOCK_MONOTONIC_RAW, 0, (void *)8, NULL), EOPNOTSUPP);
    FAILS(nap(CLOCK_MONOTONIC, 0, (void *)8, NULL), EFAULT);
    FAILS(nap(CLOCK_MONOTONIC, 0, &wrong, NULL), EINVAL);
    FAILS(nap(CLOCK_REALTIME, 0, (void *)8, NULL), EFAULT);
    FAILS(set(CLOCK_MONOTONIC, (void *)8), EINVAL);
    FAILS(set(CLOCK_REALTIME, (void *)8), EFAULT);
    /* The event before the clock. */
    timer_t timer;
    FAILS(syscall(SYS_timer_create, 99, (void *)8, &timer), EFAULT);
    struct sigevent event = {.sigev_notify = 77};
    FAILS(syscall(SYS_timer_create, 99, &event, &timer), EINVAL);
    FAILS(syscall(SYS_timer_create, CLOCK_MONOTONIC_RAW, &event, &timer), EOPNOTSUPP);
    FAILS(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer), EINVAL);
    FAILS(syscall(SYS_clock_adjtime, 99, (void *)8), EFAULT);
    struct timex tx = {0};
    FAILS(syscall(SYS_clock_adjtime, 99, &tx), EINVAL);
    FAILS(syscall(SYS_clock_adjtime, CLOCK_MONOTONIC, &tx), EOPNOTSUPP);
    FAILS(syscall(SYS_clock_adjtime, CLOCK_TAI, &tx), EOPNOTSUPP);
}

static void who_may_set_the_clock(void) {
    struct timespec now;
    struct timeval t;
    struct timex tx = {.modes = 0x8000}; /* ADJ_ADJTIME alone */
    FAILS(syscall(SYS_adjtimex, &tx), EINVAL);
    FAILS(set(CLOCK_PROCESS_CPUTIME_ID, &(struct timespec){0, 1}), EINVAL);
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0 && gettimeofday(&t, NULL) == 0);
    int root = geteuid() == 0;
    if (root) {
        tx = (struct timex){.modes = ADJ_TICK, .tick = 8999};
        FAILS(syscall(SYS_adjtimex, &tx), EINVAL);
        FAILS(set(CLOCK_REALTIME, &(struct timespec){0, 1}), EINVAL); /* before the machine was started */
        CHECK(seteuid(65534) == 0);
    }
    tx = (struct timex){.modes = ADJ_TICK, .tick = 8999};
    int results[4], errors[4];
    results[0] = set(CLOCK_REALTIME, &now), errors[0] = errno;
    results[1] = syscall(SYS_settimeofday, &t, NULL), errors[1] = errno;
    results[2] = syscall(SYS_adjtimex, &tx), errors[2] = errno;
    results[3] = syscall(SYS_clock_adjtime, CLOCK_REALTIME, &tx), errors[3] = errno;
    if (root)
        CHECK(seteuid(0) == 0);
    for (int i = 0; i < 4; i++) {
        SAME(results[i], -1);
        SAME(errors[i], EPERM);
    }
    tx.modes = 0;
    int state = syscall(SYS_adjtimex, &tx);
    CHECK(state == TIME_OK || state == TIME_ERROR);
    CHECK(tx.tick == 10000 || root);
}

static void settings_of_timers(void) {
    timer_t timer;
    SAME(make(CLOCK_MONOTONIC, &timer), 0);
    struct itimerspec wrong = {{0, 0}, {0, 1000000000}}, good = {{0, 0}, {1, 0}};
    FAILS(syscall(SYS_timer_settime, timer, 0, NULL, NULL), EINVAL);
    FAILS(syscall(SYS_timer_settime, timer, 0, (void *)8, NULL), EFAULT);
    FAILS(syscall(SYS_timer_settime, timer, 0, &wrong, NULL), EINVAL);
    FAILS(syscall(SYS_timer_settime, (timer_t)(long)9999, 0, &good, NULL), EINVAL);
    SAME(syscall(SYS_timer_delete, timer), 0);
    struct itimerval bad = {{0, 0}, {0, 1000000}};
    FAILS(syscall(SYS_setitimer, 9, (void *)8, NULL), EFAULT);
    FAILS(syscall(SYS_setitimer, ITIMER_REAL, &bad, NULL), EINVAL);
    struct itimerval fine = {{0, 0}, {0, 0}};
    FAILS(syscall(SYS_setitimer, 9, &fine, NULL), EINVAL);
    FAILS(syscall(SYS_getitimer, 9, (void *)8), EINVAL);
}

static void an_alarm_that_is_taken_back_has_no_interval(void) {
    struct itimerval it = {{5, 0}, {9, 0}};
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    CHECK(getitimer(ITIMER_REAL, &it) == 0);
    SAME(it.it_interval.tv_sec, 5);
    it = (struct itimerval){{7, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &it, NULL) == 0);
    CHECK(getitimer(ITIMER_REAL, &it) == 0);
    SAME(it.it_interval.tv_sec, 0);
    SAME(it.it_value.tv_sec, 0);
}

static void far_alarms(void) {
    SAME(alarm(UINT_MAX), 0);
    unsigned left = alarm(INT_MAX);
    CHECK(left >= UINT_MAX - 5);
    left = alarm(0);
    CHECK(left >= INT_MAX - 5 && left <= INT_MAX);
    SAME(alarm(0), 0);
}

static volatile int ticks;
static void tick(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    ticks += 1 + info->si_overrun;
}
static void periods_that_are_over_are_counted(void) {
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* Began 25.5 seconds ago, every second. */
    struct itimerspec spec = {{1, 0}, {now.tv_sec - 26, 500000000 + now.tv_nsec / 2}};
    uint64_t began = spec.it_value.tv_sec * 1000000000ull + spec.it_value.tv_nsec;
    ticks = 0;
    CHECK(timer_settime(timer, TIMER_ABSTIME, &spec, NULL) == 0);
    sleep_ms(20);
    uint64_t over = (now_ns(CLOCK_MONOTONIC) - began) / 1000000000u + 1;
    SAME(ticks, over);
    struct itimerspec left;
    CHECK(timer_gettime(timer, &left) == 0);
    /* The next comes where it would have. */
    uint64_t at = now_ns(CLOCK_MONOTONIC) + left.it_value.tv_sec * 1000000000ull + left.it_value.tv_nsec;
    CHECK((at - began) % 1000000000u < 5000000 || (at - began) % 1000000000u > 995000000);
    timer_delete(timer);
}

static void processor_time_moves_in_proc(void) {
    unsigned long user = 0, system = 0;
    for (int i = 0; i < 2000000 && user + system == 0; i++) {
        FILE *f = fopen("/proc/self/stat", "r");
        char text[1024];
        CHECK(f != NULL && fgets(text, sizeof text, f) != NULL);
        fclose(f);
        CHECK(sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2);
    }
    CHECK(user + system > 0);
}

GUEST(T(each_can_what_it_can), T(numbers_that_are_no_clock), T(the_clock_is_looked_at_before_the_time), T(who_may_set_the_clock), T(settings_of_timers),
      T(an_alarm_that_is_taken_back_has_no_interval), T(far_alarms), T(periods_that_are_over_are_counted),
      T(processor_time_moves_in_proc))
