/* A GS base of a program's own, which C libraries leave to others: arch_prctl(2). */
#include "guest.h"
#include <sys/syscall.h>
#include <sys/wait.h>

/* asm/prctl.h */
enum { ARCH_SET_GS = 0x1001, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS };

static int set_gs(void *base) { return (int)syscall(SYS_arch_prctl, ARCH_SET_GS, base); }

static unsigned long gs_word(void) {
    unsigned long word;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(word));
    return word;
}

static void *gs_base(void) {
    void *base = NULL;
    return syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 ? base : (void *)-1;
}

static void is_none_at_first(void) { CHECK(gs_base() == NULL); }

static void stays_through_calls(void) {
    unsigned long block[2] = {0, 4711};
    CHECK(set_gs(block) == 0 && gs_base() == block);
    struct timespec now;
    for (unsigned i = 0; i < 300; i++) {
        block[1] = i;
        CHECK(getppid() > 0 && clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        SAME(gs_word(), i);
    }
    CHECK(set_gs(NULL) == 0 && gs_base() == NULL);
    CHECK(getppid() > 0);
}

static void *own_block(void *number) {
    unsigned long block[2] = {0, (unsigned long)number};
    TCHECK(set_gs(block) == 0);
    for (int i = 0; i < 50; i++) {
        usleep(10);
        TCHECK(gs_word() == (unsigned long)number && gs_base() == block);
    }
    return number;
}

static void is_each_threads_own(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, own_block, (void *)(i + 1)) == 0);
    for (long i = 0; i < 4; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0);
        SAME((long)result, i + 1);
    }
    CHECK(gs_base() == NULL);
}

static volatile unsigned long seen;
static void look(int signal) {
    (void)signal;
    seen = gs_word();
    getppid();
}

static void is_there_in_handlers(void) {
    unsigned long block[2] = {0, 17};
    CHECK(set_gs(block) == 0);
    signal(SIGUSR1, look);
    seen = 0;
    CHECK(raise(SIGUSR1) == 0);
    SAME(seen, 17);
    SAME(gs_word(), 17);
    /* a timer that interrupts a loop without calls */
    signal(SIGALRM, look);
    block[1] = 18;
    ualarm(1000, 0);
    while (seen != 18)
        getppid();
    SAME(gs_word(), 18);
    CHECK(set_gs(NULL) == 0);
}

static void children_have_it(void) {
    unsigned long block[2] = {0, 23};
    CHECK(set_gs(block) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(gs_word() == 23 && gs_base() == block && getppid() > 0 && gs_word() == 23 ? 0 : 1);
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    SAME(status, 0);
    SAME(gs_word(), 23);
    CHECK(set_gs(NULL) == 0);
}

static void must_be_of_user_space(void) {
    FAILS(set_gs((void *)0xffff800000000000), EPERM);
    FAILS(syscall(SYS_arch_prctl, ARCH_SET_FS, 0xffff800000000000), EPERM);
    FAILS(syscall(SYS_arch_prctl, 4711, 0), EINVAL);
    FAILS(syscall(SYS_arch_prctl, ARCH_GET_GS, 8), EFAULT);
}

GUEST(T(is_none_at_first), T(stays_through_calls), T(is_each_threads_own), T(is_there_in_handlers), T(children_have_it),
      T(must_be_of_user_space))
