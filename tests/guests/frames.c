/* What a handler finds and may rely on: order, stack, vector registers; timers' signals. sigaction(2), timer_create(2). */
#include "guest.h"
#include <ucontext.h>

static volatile sig_atomic_t count, order[8];
static void note(int s) { order[count++] = s; }
static void on_count(int s) { (void)s, count++; }

static void lowest_number_first(void) {
    int sigs[] = {SIGTERM, SIGRTMIN + 2, SIGUSR1, SIGHUP};
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    for (int i = 0; i < 4; i++)
        CHECK(signal(sigs[i], note) != SIG_ERR && kill(getpid(), sigs[i]) == 0);
    count = 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
    SAME(count, 4); /* each frame lies on the one before, so the last one built runs first */
    SAME(order[0], SIGRTMIN + 2);
    SAME(order[1], SIGTERM);
    SAME(order[2], SIGUSR1);
    SAME(order[3], SIGHUP);
    for (int i = 0; i < 4; i++)
        signal(sigs[i], SIG_DFL);
}

static volatile int disarmed;
static char stack[65536];
static void look_at_stack(int s) {
    stack_t now;
    disarmed = s > 0 && sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) != 0;
}

static void stack_that_disarms_itself(void) {
    int autodisarm = (int)(1u << 31);
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack, .ss_flags = autodisarm}, now, off = {.ss_flags = SS_DISABLE};
    struct sigaction sa = {.sa_handler = look_at_stack, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&ss, NULL) == 0 && sigaction(SIGUSR1, &sa, NULL) == 0);
    raise(SIGUSR1);
    SAME(disarmed, 1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack);
    SAME(now.ss_flags, autodisarm);
    CHECK(sigaltstack(&off, NULL) == 0);
    signal(SIGUSR1, SIG_DFL);
}

static void spoil_vectors(int s) {
    (void)s, count++;
    __asm__ volatile("vpxor %%ymm3, %%ymm3, %%ymm3; vpxor %%ymm9, %%ymm9, %%ymm9" ::: "xmm3", "xmm9");
}

static void vectors_survive(void) {
    if (!__builtin_cpu_supports("avx2"))
        return;
    uint64_t in[4] = {1, 2, 3, 4}, out[4] = {0};
    pid_t me = getpid();
    signal(SIGUSR1, spoil_vectors);
    count = 0;
    __asm__ volatile("vmovdqu %1, %%ymm9; mov $62, %%eax; mov %2, %%edi; mov $10, %%esi; syscall; vmovdqu %%ymm9, %0"
                     : "=m"(out)
                     : "m"(in), "r"(me)
                     : "rax", "rdi", "rsi", "rcx", "r11", "xmm9", "memory");
    SAME(count, 1);
    for (int i = 0; i < 4; i++)
        SAME(out[i], in[i]);
    signal(SIGUSR1, SIG_DFL);
}

static volatile uint32_t magic1, magic2, size;
static volatile uint64_t features;
static void look_at_state(int s, siginfo_t *i, void *c) {
    (void)s, (void)i;
    const char *state = (const char *)((ucontext_t *)c)->uc_mcontext.fpregs;
    memcpy((void *)&magic1, state + 464, 4);
    memcpy((void *)&features, state + 472, 8);
    memcpy((void *)&size, state + 480, 4);
    memcpy((void *)&magic2, state + size, 4);
}

static void extended_state_is_described(void) {
    struct sigaction sa = {.sa_sigaction = look_at_state, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    raise(SIGUSR1);
    SAME(magic1, 0x46505853);
    SAME(magic2, 0x46505845);
    CHECK((features & 3) == 3 && size >= 576);
    signal(SIGUSR1, SIG_DFL);
}

static void masks_of_polls(void) {
    sigset_t s, old, none;
    struct timespec t = {1, 0};
    int p[2];
    sigemptyset(&none), sigemptyset(&s), sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, &old);
    signal(SIGUSR1, on_count);
    count = 0;
    raise(SIGUSR1);
    FAILS(ppoll(NULL, 0, &t, &none), EINTR);
    SAME(count, 1);
    CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1);
    raise(SIGUSR1);
    struct pollfd f = {p[0], POLLIN, 0};
    SAME(ppoll(&f, 1, NULL, &none), 1); /* what is ready comes first */
    SAME(count, 1);
    sigprocmask(SIG_SETMASK, &old, NULL);
    SAME(count, 2);
    signal(SIGUSR1, SIG_DFL);
    close(p[0]), close(p[1]);
}

static void overruns(void) {
    sigset_t s, old;
    sigemptyset(&s), sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, &old);
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 5};
    struct itimerspec it = {{0, 10000000}, {0, 10000000}};
    timer_t t;
    siginfo_t i;
    CHECK(timer_create(CLOCK_MONOTONIC, &ev, &t) == 0 && timer_settime(t, 0, &it, NULL) == 0);
    sleep_ms(55);
    SAME(sigwaitinfo(&s, &i), SIGUSR1);
    SAME(i.si_code, SI_TIMER);
    SAME(i.si_value.sival_int, 5);
    CHECK(i.si_overrun >= 3 && timer_getoverrun(t) == i.si_overrun);
    SAME(sigwaitinfo(&s, &i), SIGUSR1);
    CHECK(timer_delete(t) == 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static volatile int told;
static void tell(union sigval v) { told += v.sival_int; }

static void timer_that_makes_threads(void) {
    struct sigevent ev = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell, .sigev_value.sival_int = 3};
    struct itimerspec it = {{0, 0}, {0, 10000000}};
    timer_t t;
    CHECK(timer_create(CLOCK_REALTIME, &ev, &t) == 0 && timer_settime(t, 0, &it, NULL) == 0);
    sleep_ms(80);
    SAME(told, 3);
    CHECK(timer_delete(t) == 0);
}

GUEST(T(lowest_number_first), T(stack_that_disarms_itself), T(vectors_survive), T(extended_state_is_described),
      T(masks_of_polls), T(overruns), T(timer_that_makes_threads))
