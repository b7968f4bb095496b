/* What a system call leaves alone: registers, vector state, flags, the red zone; and instructions that a simulator
 * must take care of. Each site runs several times, since it may be treated otherwise from the second time on. */
#include "guest.h"
#include <cpuid.h>
#include <immintrin.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

static void general_registers(void) {
    for (int round = 0; round < 5; round++) {
        uint64_t in[12], out[12], result;
        for (int i = 0; i < 12; i++)
            in[i] = 0x1111111111111111u * (unsigned)(i + 1);
        __asm__ volatile(
            "sub $128, %%rsp\n push %%rbp\n push %%rbx\n"
            "mov %[in], %%rax\n push %[out]\n"
            "mov (%%rax), %%rbx\n mov 8(%%rax), %%rdx\n mov 16(%%rax), %%rsi\n mov 24(%%rax), %%rdi\n mov 32(%%rax), %%rbp\n"
            "mov 40(%%rax), %%r8\n mov 48(%%rax), %%r9\n mov 56(%%rax), %%r10\n mov 64(%%rax), %%r12\n"
            "mov 72(%%rax), %%r13\n mov 80(%%rax), %%r14\n mov 88(%%rax), %%r15\n"
            "mov %[nr], %%eax\n syscall\n"
            "mov %%rax, %%rcx\n pop %%rax\n"
            "mov %%rbx, (%%rax)\n mov %%rdx, 8(%%rax)\n mov %%rsi, 16(%%rax)\n mov %%rdi, 24(%%rax)\n mov %%rbp, 32(%%rax)\n"
            "mov %%r8, 40(%%rax)\n mov %%r9, 48(%%rax)\n mov %%r10, 56(%%rax)\n mov %%r12, 64(%%rax)\n"
            "mov %%r13, 72(%%rax)\n mov %%r14, 80(%%rax)\n mov %%r15, 88(%%rax)\n"
            "pop %%rbx\n pop %%rbp\n add $128, %%rsp\n"
            : "=c"(result)
            : [in] "D"(in), [out] "S"(out), [nr] "i"(SYS_getpid)
            : "rax", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
        SAME(result, getpid());
        for (int i = 0; i < 12; i++)
            SAME(out[i], in[i]);
    }
}

static void rcx_r11_and_flags(void) {
    for (int round = 0; round < 5; round++) {
        uint64_t rcx, r11, after, flags;
        __asm__ volatile("sub $128, %%rsp\n stc\n mov %4, %%eax\n syscall\n 1: lea 1b(%%rip), %%rdx\n"
                         "pushf\n pop %%rbx\n mov %%r11, %%rax\n add $128, %%rsp\n"
                         : "=c"(rcx), "=d"(after), "=b"(flags), "=a"(r11)
                         : "i"(SYS_getpid)
                         : "r11", "memory", "cc");
        SAME(rcx, after); /* the address behind the instruction */
        CHECK((r11 & 1) && (flags & 1)); /* the carry flag is as it was, in r11 too */
        SAME(flags & 0x400, 0);
    }
}

__attribute__((noinline)) static long red_zone(void) {
    long a, b, c;
    __asm__ volatile("movq $11, -8(%%rsp)\n movq $22, -64(%%rsp)\n movq $33, -128(%%rsp)\n"
                     "mov %3, %%eax\n syscall\n"
                     "mov -8(%%rsp), %0\n mov -64(%%rsp), %1\n mov -128(%%rsp), %2\n"
                     : "=&r"(a), "=&r"(b), "=&r"(c)
                     : "i"(SYS_getpid)
                     : "rax", "rcx", "r11", "memory");
    return a * 10000 + b * 100 + c;
}

static void below_the_stack_pointer(void) {
    for (int round = 0; round < 5; round++)
        SAME(red_zone(), 112233);
}

static void sse_and_x87(void) {
    for (int round = 0; round < 5; round++) {
        double in[16], out[16];
        for (int i = 0; i < 16; i++)
            in[i] = i * 1.25 + round;
        unsigned short cw = 0x27f, cw_after; /* double precision instead of extended */
        unsigned mxcsr = 0x1f80 | 0x8000, mxcsr_after, old = 0x1f80; /* flush to zero */
        unsigned short cw_old = 0x37f;
        double top = 2.5, st;
        __asm__ volatile(
            "fldcw %[cw]\n fldl %[top]\n ldmxcsr %[mx]\n"
            "movsd (%[in]), %%xmm0\n movsd 8(%[in]), %%xmm1\n movsd 56(%[in]), %%xmm7\n movsd 120(%[in]), %%xmm15\n"
            "mov %[nr], %%eax\n syscall\n"
            "movsd %%xmm0, (%[out])\n movsd %%xmm1, 8(%[out])\n movsd %%xmm7, 56(%[out])\n movsd %%xmm15, 120(%[out])\n"
            "stmxcsr %[mxa]\n fstpl %[st]\n fnstcw %[cwa]\n ldmxcsr %[old]\n fldcw %[cwo]\n"
            : [mxa] "=m"(mxcsr_after), [st] "=m"(st), [cwa] "=m"(cw_after)
            : [cw] "m"(cw), [top] "m"(top), [mx] "m"(mxcsr), [in] "D"(in), [out] "S"(out), [nr] "i"(SYS_getpid), [old] "m"(old),
              [cwo] "m"(cw_old)
            : "rax", "rcx", "r11", "xmm0", "xmm1", "xmm7", "xmm15", "memory");
        CHECK(out[0] == in[0] && out[1] == in[1] && out[7] == in[7] && out[15] == in[15]);
        SAME(mxcsr_after & 0xffc0, mxcsr & 0xffc0);
        SAME(cw_after, cw);
        CHECK(st == 2.5);
    }
}

__attribute__((target("avx"))) static int upper_halves(int nr) {
    float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8], out9[8];
    __asm__ volatile("vmovups (%[in]), %%ymm3\n vmovups (%[in]), %%ymm9\n mov %[nr], %%eax\n syscall\n"
                     "vmovups %%ymm3, (%[out])\n vmovups %%ymm9, (%[o9])\n vzeroupper\n"
                     :
                     : [in] "b"(in), [out] "r"(out), [o9] "r"(out9), [nr] "r"(nr)
                     : "rax", "rcx", "r11", "xmm3", "xmm9", "memory");
    return memcmp(in, out, sizeof in) == 0 && memcmp(in, out9, sizeof in) == 0;
}

static void avx(void) {
    if (!__builtin_cpu_supports("avx"))
        return;
    for (int round = 0; round < 5; round++)
        CHECK(upper_halves(SYS_getpid) && upper_halves(SYS_sched_yield));
}

static void *dirty_registers(void *x) {
    volatile double d = 1;
    for (int i = 0; i < 200; i++) {
        d = d * 1.1 + (double)(intptr_t)x;
        sched_yield();
    }
    return NULL;
}

static void vector_state_is_each_threads_own(void) {
    pthread_t t[4];
    for (intptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, dirty_registers, (void *)i) == 0);
    int ok = 1;
    if (__builtin_cpu_supports("avx"))
        for (int i = 0; i < 200; i++)
            ok &= upper_halves(SYS_sched_yield);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    CHECK(ok);
}

static void time_stamp_counter(void) {
    unsigned aux;
    uint64_t a = __builtin_ia32_rdtsc(), b = __builtin_ia32_rdtscp(&aux);
    CHECK(b > a);
    sleep_ms(20);
    CHECK(__builtin_ia32_rdtsc() > b);
}

/* The end of a child that may not read the counter. */
static int end_of_a_reader(int with_aux) {
    pid_t pid = fork();
    if (pid == 0) {
        unsigned aux;
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
        int state = 0;
        if (prctl(PR_GET_TSC, &state) != 0 || state != PR_TSC_SIGSEGV)
            _exit(1);
        _exit((with_aux ? __builtin_ia32_rdtscp(&aux) : __builtin_ia32_rdtsc()) == 0);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void the_counter_can_be_forbidden(void) {
    FAILS(prctl(PR_SET_TSC, 7), EINVAL);
    SAME(end_of_a_reader(0), SIGSEGV);
    SAME(end_of_a_reader(1), SIGSEGV);
    int state = 0;
    CHECK(prctl(PR_GET_TSC, &state) == 0 && state == PR_TSC_ENABLE);
}

static void cpuid_leaves(void) {
    unsigned a, b, c, d;
    for (int round = 0; round < 4; round++) {
        CHECK(__get_cpuid(0, &a, &b, &c, &d) && a >= 1);
        CHECK(__get_cpuid(1, &a, &b, &c, &d) && (d & (1u << 26))); /* SSE2 belongs to x86-64 */
    }
}

static void the_32_bit_gate(void) {
    /* eax = 20 is getpid there; the kernel may be built without, then it is a fault and this program ends */
    long r;
    for (int round = 0; round < 3; round++) {
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "r8", "r9", "r10", "r11", "memory", "cc");
        SAME(r, getpid());
    }
}

static void unknown_calls(void) {
    FAILS(syscall(100000), ENOSYS);
    FAILS(syscall(-1), ENOSYS);
    FAILS(syscall(400), ENOSYS); /* a hole in the table; 335 and 336 are uprobes, which kill */
}

static void vdso_of_the_auxiliary_vector(void) {
    const unsigned char *image = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
    CHECK(image == NULL || memcmp(image, "\177ELF", 4) == 0);
}

static void direction_flag(void) {
    char from[8] = "abcdefg", to[8] = {0};
    for (int round = 0; round < 3; round++) {
        __asm__ volatile("mov %0, %%eax\n syscall\n" ::"i"(SYS_getpid) : "rax", "rcx", "r11", "memory");
        void *d = to;
        const void *s = from;
        size_t n = 8;
        __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n)::"memory");
        CHECK(memcmp(from, to, 8) == 0);
    }
}

static volatile int frame_ok;
static void look(int s, siginfo_t *i, void *c) {
    (void)s, (void)i;
    ucontext_t *u = c;
    frame_ok = u->uc_mcontext.fpregs != NULL && u->uc_mcontext.fpregs->mxcsr != 0 &&
               (u->uc_mcontext.fpregs->cwd & 0x3f) == 0x3f && (u->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == 0x33;
    /* use vector registers: the interrupted code must not notice */
    __asm__ volatile("pxor %%xmm3, %%xmm3\n pxor %%xmm9, %%xmm9" ::: "xmm3", "xmm9");
}

static void signal_frame_carries_the_state(void) {
    struct sigaction sa = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
    double in[2] = {3.25, 4.5}, out[2];
    __asm__ volatile("movups (%[in]), %%xmm3\n mov %[nr], %%eax\n syscall\n movups %%xmm3, (%[out])\n"
                     :
                     : [in] "b"(in), [out] "r"(out), [nr] "i"(SYS_kill), "D"((long)getpid()), "S"((long)SIGUSR1)
                     : "rax", "rcx", "r11", "xmm3", "memory");
    CHECK(frame_ok);
    CHECK(in[0] == out[0] && in[1] == out[1]);
    signal(SIGUSR1, SIG_DFL);
}

GUEST(T(general_registers), T(rcx_r11_and_flags), T(below_the_stack_pointer), T(sse_and_x87), T(avx),
      T(vector_state_is_each_threads_own), T(time_stamp_counter), T(the_counter_can_be_forbidden), T(cpuid_leaves), T(unknown_calls),
      T(vdso_of_the_auxiliary_vector), T(direction_flag), T(signal_frame_carries_the_state), T(the_32_bit_gate))
