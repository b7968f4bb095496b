/* Programs that compute until a signal of their own timer. */
#include "guest.h"
#include <sys/time.h>

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}
/* Computes without a call, and with registers that do not repeat. */
__attribute__((noinline)) static unsigned compute_until(int n) {
    unsigned x = 1;
    while (alarms < n)
        x = x * 1664525 + 1013904223;
    return x;
}
static void handle(void) {
    struct sigaction a = {.sa_handler = on_alarm};
    alarms = 0;
    sigaction(SIGALRM, &a, NULL);
}
static void one_computes_until_its_alarm(void) {
    handle();
    uint64_t before = now_ms();
    CHECK(ualarm(200000, 0) == 0);
    compute_until(1);
    uint64_t took = now_ms() - before;
    CHECK(took >= 199 && took < 2000);
}
static void an_interval_goes_on(void) {
    handle();
    struct itimerval every = {{0, 40000}, {0, 40000}}, none = {{0, 0}, {0, 0}};
    uint64_t before = now_ms();
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    compute_until(5);
    uint64_t took = now_ms() - before;
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    CHECK(took >= 199 && took < 2000);
}
static void a_timer_of_timer_create_comes(void) {
    handle();
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec in = {{0, 0}, {0, 100000000}};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    uint64_t before = now_ms();
    CHECK(timer_settime(timer, 0, &in, NULL) == 0);
    compute_until(1);
    uint64_t took = now_ms() - before;
    CHECK(took >= 99 && took < 2000);
    CHECK(timer_delete(timer) == 0);
}
static void one_that_ends_before_is_not_disturbed(void) {
    handle();
    alarm(100);
    unsigned x = 1;
    for (unsigned n = 0; n < 20000000; n++)
        x = x * 1664525 + 1013904223;
    SAME(alarms, 0);
    CHECK(alarm(0) > 90 && x != 1);
}
static void the_signal_is_blocked(void) {
    handle();
    sigset_t set, pending;
    sigemptyset(&set), sigaddset(&set, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(ualarm(1000, 0) == 0);
    unsigned x = 1;
    for (unsigned long n = 0; n < 200000000; n++)
        x = x * 1664525 + 1013904223;
    CHECK(x != 1 && sigpending(&pending) == 0 && sigismember(&pending, SIGALRM) == 1);
    SAME(alarms, 0);
    CHECK(ualarm(0, 0) == 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
}
GUEST(T(one_computes_until_its_alarm), T(an_interval_goes_on), T(a_timer_of_timer_create_comes), T(one_that_ends_before_is_not_disturbed),
      T(the_signal_is_blocked))
