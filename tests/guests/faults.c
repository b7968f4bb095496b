/* Faults of the processor, caught and recovered from as Java, Go and emulators do. sigaction(2). */
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

static sigjmp_buf escape;
static volatile sig_atomic_t sig, code;
static void *volatile address;
static volatile greg_t rip, trap, error;

static void jump_out(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    sig = s, code = i->si_code, address = i->si_addr;
    rip = u->uc_mcontext.gregs[REG_RIP];
    trap = u->uc_mcontext.gregs[REG_TRAPNO];
    error = u->uc_mcontext.gregs[REG_ERR];
    siglongjmp(escape, 1);
}

static int handle(int s, void (*f)(int, siginfo_t *, void *), int flags) {
    struct sigaction sa = {.sa_sigaction = f, .sa_flags = SA_SIGINFO | flags};
    return sigaction(s, &sa, NULL);
}

__attribute__((noinline)) static void poke(volatile char *p) { *p = 1; }

static void nil_dereference(void) {
    CHECK(handle(SIGSEGV, jump_out, 0) == 0);
    if (sigsetjmp(escape, 1) == 0) {
        poke((volatile char *)0x10);
        CHECK(!"writing to page 0 went well");
    }
    SAME(sig, SIGSEGV);
    SAME(code, SEGV_MAPERR);
    CHECK(address == (void *)0x10);
    SAME(trap, 14);
    SAME(error & 6, 6); /* a write, by a user */
    CHECK(rip >= (greg_t)(uintptr_t)poke && rip < (greg_t)(uintptr_t)poke + 64);
    signal(SIGSEGV, SIG_DFL);
}

static void write_to_a_read_only_page(void) {
    char *m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED && handle(SIGSEGV, jump_out, 0) == 0);
    if (sigsetjmp(escape, 1) == 0) {
        poke(m + 100);
        CHECK(!"it went well");
    }
    SAME(code, SEGV_ACCERR);
    CHECK(address == m + 100);
    munmap(m, 4096);
    signal(SIGSEGV, SIG_DFL);
}

static char *barrier_page;
static volatile sig_atomic_t mended;
static void unprotect(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    if ((char *)i->si_addr >= barrier_page && (char *)i->si_addr < barrier_page + 4096) {
        mprotect(barrier_page, 4096, PROT_READ | PROT_WRITE);
        mended++;
    } else {
        _exit(99);
    }
}

static void mending_and_going_on(void) {
    barrier_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(barrier_page != MAP_FAILED && handle(SIGSEGV, unprotect, 0) == 0);
    for (int i = 0; i < 50; i++) {
        CHECK(mprotect(barrier_page, 4096, PROT_NONE) == 0);
        poke(barrier_page + i); /* the handler returns and the instruction is run again */
        SAME(barrier_page[i], 1);
    }
    SAME(mended, 50);
    munmap(barrier_page, 4096);
    signal(SIGSEGV, SIG_DFL);
}

static void skip(int s, siginfo_t *i, void *c) {
    ucontext_t *u = c;
    (void)s, (void)i;
    u->uc_mcontext.gregs[REG_RIP] += 2;   /* ud2 */
    u->uc_mcontext.gregs[REG_RBX] = 4711; /* registers that the handler writes are loaded */
}

static void handler_changes_registers(void) {
    CHECK(handle(SIGILL, skip, 0) == 0);
    long rbx = 1;
    __asm__ volatile("ud2" : "+b"(rbx)::"memory");
    SAME(rbx, 4711);
    signal(SIGILL, SIG_DFL);
}

static void division(void) {
    CHECK(handle(SIGFPE, jump_out, 0) == 0);
    volatile int zero = 0, result = 1;
    if (sigsetjmp(escape, 1) == 0) {
        __asm__ volatile("movl $7, %%eax; cltd; idivl %1" : "=&a"(result) : "r"(zero) : "edx", "cc");
        CHECK(!"dividing by zero went well");
    }
    SAME(sig, SIGFPE);
    SAME(code, FPE_INTDIV);
    SAME(trap, 0);
    signal(SIGFPE, SIG_DFL);
}

static void breakpoint(void) {
    CHECK(handle(SIGTRAP, jump_out, 0) == 0);
    if (sigsetjmp(escape, 1) == 0) {
        __asm__ volatile("int3");
        CHECK(!"int3 went by");
    }
    SAME(sig, SIGTRAP);
    if (sigsetjmp(escape, 1) == 0) {
        __asm__ volatile(".byte 0xf1");
        CHECK(!"int1 went by");
    }
    SAME(sig, SIGTRAP);
    SAME(code, TRAP_BRKPT);
    signal(SIGTRAP, SIG_DFL);
}

static volatile int level;
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#endif
__attribute__((noinline)) static int recurse(int n) {
    volatile char space[4096];
    space[0] = (char)n;
    level = n;
    return recurse(n + 1) + space[0];
}
#pragma GCC diagnostic pop

static void *overflow(void *x) {
    static char stack[65536];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
    TCHECK(sigaltstack(&ss, NULL) == 0);
    if (sigsetjmp(escape, 1) == 0)
        recurse(0);
    TCHECK(sig == SIGSEGV && level > 10);
    return x;
}

static void stack_overflow_on_another_stack(void) {
    pthread_t t;
    CHECK(handle(SIGSEGV, jump_out, SA_ONSTACK) == 0);
    CHECK(pthread_create(&t, NULL, overflow, NULL) == 0);
    pthread_join(t, NULL);
    signal(SIGSEGV, SIG_DFL);
}

static void jump_to_nowhere(void) {
    CHECK(handle(SIGSEGV, jump_out, 0) == 0);
    void (*volatile nowhere)(void) = (void (*)(void))0x20;
    if (sigsetjmp(escape, 1) == 0)
        nowhere();
    SAME(sig, SIGSEGV);
    SAME(rip, 0x20);
    /* not canonical: a general protection fault, without an address */
    void (*volatile far)(void) = (void (*)(void))0x8000000000000000u;
    if (sigsetjmp(escape, 1) == 0)
        far();
    SAME(code, SI_KERNEL);
    CHECK(address == NULL);
    signal(SIGSEGV, SIG_DFL);
}

static void open_up(int s, siginfo_t *i, void *c) {
    (void)s, (void)c;
    mprotect((void *)((uintptr_t)i->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}
static void *fault_often(void *x) {
    char *m = mmap(NULL, 30 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TCHECK(m != MAP_FAILED);
    for (int i = 0; i < 30; i++) {
        m[i * 4096] = (char)i;
        TCHECK(m[i * 4096] == i);
    }
    munmap(m, 30 * 4096);
    return x;
}

static void in_many_threads(void) {
    pthread_t t[8];
    CHECK(handle(SIGSEGV, open_up, SA_NODEFER) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&t[i], NULL, fault_often, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
    signal(SIGSEGV, SIG_DFL);
}

GUEST(T(nil_dereference), T(write_to_a_read_only_page), T(mending_and_going_on), T(handler_changes_registers),
      T(division), T(breakpoint), T(stack_overflow_on_another_stack), T(jump_to_nowhere), T(in_many_threads))
