/* Instructions that read the machine: random numbers of every size with their flags, and the processor's number. */
#include "guest.h"
#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>

/* CF PF AF ZF SF OF */
#define ARITHMETIC 0x8d5ul
#define CARRY 1ul
/* A real random number may have run out; then CF is clear. */
#define PATIENCE 1000

struct drawn {
    uint64_t value, flags;
};

/* An instruction with this destination, which has all bits set before; OF, SF and AF are set, too. */
#define DRAW(name, instruction, suffix, destination)                                                              \
    __attribute__((noinline)) static struct drawn name(void) {                                                    \
        struct drawn d;                                                                                           \
        for (int n = 0; n < PATIENCE; n++) {                                                                      \
            __asm__ volatile("mov $-1, %%" destination "\n mov $0x7f, %%ah\n add $1, %%ah\n" instruction         \
                             " %%" suffix "\n pushfq\n pop %[flags]\n mov %%" destination ", %[value]\n"          \
                             : [value] "=&S"(d.value), [flags] "=&D"(d.flags)                                     \
                             :                                                                                    \
                             : "rax", destination, "cc", "memory");                                               \
            if (d.flags & CARRY)                                                                                  \
                break;                                                                                            \
        }                                                                                                         \
        return d;                                                                                                 \
    }

DRAW(rdrand16, "rdrand", "dx", "rdx")
DRAW(rdrand32, "rdrand", "ecx", "rcx")
DRAW(rdrand64, "rdrand", "rbx", "rbx")
DRAW(rdrand16_high, "rdrand", "r9w", "r9")
DRAW(rdrand32_high, "rdrand", "r12d", "r12")
DRAW(rdrand64_high, "rdrand", "r15", "r15")
DRAW(rdseed16, "rdseed", "cx", "rcx")
DRAW(rdseed32, "rdseed", "edx", "rdx")
DRAW(rdseed64, "rdseed", "rcx", "rcx")
DRAW(rdseed16_high, "rdseed", "r8w", "r8")
DRAW(rdseed32_high, "rdseed", "r13d", "r13")
DRAW(rdseed64_high, "rdseed", "r14", "r14")

/* A random number fills `size` bytes; a destination of 2 bytes leaves the rest, one of 4 clears it. Sixteen are not the same. */
static int is_random(struct drawn (*draw)(void), int size) {
    uint64_t first = 0, differ = 0;
    for (int n = 0; n < 16; n++) {
        struct drawn d = draw();
        uint64_t rest = size == 8 ? 0 : size == 4 ? d.value >> 32 : ~d.value >> 16;
        if ((d.flags & ARITHMETIC) != CARRY || rest != 0)
            return 0;
        if (n == 0)
            first = d.value;
        differ |= first ^ d.value;
    }
    return differ != 0;
}

static int has_rdrand(void) {
    unsigned a, b, c = 0, d;
    return !may_lack_calls() || (__get_cpuid(1, &a, &b, &c, &d) && (c & (1u << 30)));
}
static int has(unsigned bit_of_b, unsigned bit_of_c) {
    unsigned a, b = 0, c = 0, d;
    return !may_lack_calls() || (__get_cpuid_count(7, 0, &a, &b, &c, &d) && ((b & bit_of_b) || (c & bit_of_c)));
}

static void rdrand_fills_its_register(void) {
    if (!has_rdrand())
        return;
    CHECK(is_random(rdrand16, 2) && is_random(rdrand16_high, 2));
    CHECK(is_random(rdrand32, 4) && is_random(rdrand32_high, 4));
    CHECK(is_random(rdrand64, 8) && is_random(rdrand64_high, 8));
}

static void rdseed_fills_its_register(void) {
    if (!has(1u << 18, 0))
        return;
    CHECK(is_random(rdseed16, 2) && is_random(rdseed16_high, 2));
    CHECK(is_random(rdseed32, 4) && is_random(rdseed32_high, 4));
    CHECK(is_random(rdseed64, 8) && is_random(rdseed64_high, 8));
}

/* As compilers use it: `setb` and a loop. */
static void a_loop_draws_until_it_has_a_number(void) {
    if (!has_rdrand())
        return;
    unsigned long value = 0, all = 0;
    unsigned char ok;
    for (int n = 0; n < 100; n++) {
        do
            __asm__ volatile("rdrand %0\n setb %1" : "=r"(value), "=qm"(ok)::"cc");
        while (!ok);
        all |= value;
    }
    CHECK(all == ~0ul);
}

__attribute__((noinline)) static unsigned long processor(void) {
    unsigned long number;
    __asm__ volatile("rdpid %0" : "=r"(number));
    return number;
}

static void rdpid_gives_the_processor(void) {
    if (!has(0, 1u << 22))
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    unsigned cpu, node;
    CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
    SAME(processor(), node << 12 | cpu);
}

GUEST(T(rdrand_fills_its_register), T(rdseed_fills_its_register), T(a_loop_draws_until_it_has_a_number), T(rdpid_gives_the_processor))
