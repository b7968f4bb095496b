/* What a new process finds: arguments, environment, auxiliary vector, stack. getauxval(3), environ(7). */
#include "guest.h"
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

extern char **environ;
static int main_argc;
static char **main_argv;

static void arguments(void) {
    CHECK(main_argc >= 1 && main_argv[main_argc] == NULL);
    const char *name = strrchr(main_argv[0], '/');
    CHECK(strcmp(name == NULL ? main_argv[0] : name + 1, program_invocation_short_name) == 0);
    /* strings, pointers and the vector lie above one another on the stack, in this order */
    CHECK((char *)main_argv < main_argv[0] && (char **)environ == main_argv + main_argc + 1);
}

static void environment(void) {
    CHECK(environ != NULL && getenv("PATH") != NULL && getenv("NO_SUCH_THING") == NULL);
    for (char **e = environ; *e != NULL; e++)
        CHECK(strchr(*e, '=') != NULL);
    CHECK(setenv("GUEST", "1", 1) == 0 && strcmp(getenv("GUEST"), "1") == 0);
    CHECK(unsetenv("GUEST") == 0 && getenv("GUEST") == NULL);
}

static void auxiliary_vector(void) {
    SAME(getauxval(AT_PAGESZ), 4096);
    SAME(getauxval(AT_CLKTCK), 100);
    SAME(getauxval(AT_PHENT), sizeof(ElfW(Phdr)));
    SAME(getauxval(AT_UID), getuid());
    SAME(getauxval(AT_EUID), geteuid());
    SAME(getauxval(AT_GID), getgid());
    SAME(getauxval(AT_SECURE), 0);
    CHECK(getauxval(AT_ENTRY) != 0 && getauxval(AT_PHNUM) > 0);
    const ElfW(Phdr) *ph = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    int load = 0;
    for (unsigned long i = 0; i < getauxval(AT_PHNUM); i++)
        load += ph[i].p_type == PT_LOAD;
    CHECK(load >= 1);
    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    CHECK(random != NULL);
    int same = 1;
    for (int i = 1; i < 16; i++)
        same &= random[i] == random[0];
    CHECK(!same);
    const char *platform = (const char *)getauxval(AT_PLATFORM), *execfn = (const char *)getauxval(AT_EXECFN);
    CHECK(platform != NULL && strcmp(platform, "x86_64") == 0 && execfn != NULL && execfn[0] != 0);
}

static void stack_is_aligned_and_deep(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    SAME(here % 16, 0);
    volatile char deep[2 << 20]; /* grows on demand, far below 8 MiB */
    for (size_t i = 0; i < sizeof deep; i += 4096)
        deep[i] = 1;
    SAME(deep[4096], 1);
}

static void standard_descriptors(void) {
    for (int i = 0; i < 3; i++)
        CHECK(fcntl(i, F_GETFL) >= 0);
    int f = open("/dev/null", O_RDONLY);
    CHECK(f >= 3);
    close(f);
}

static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }

static void constructors_and_floating_point(void) {
    SAME(constructed, 1);
    unsigned mxcsr = __builtin_ia32_stmxcsr();
    SAME(mxcsr & 0xffc0, 0x1f80);
    unsigned short cw;
    __asm__ volatile("fnstcw %0" : "=m"(cw));
    SAME(cw, 0x37f);
    volatile double third = 1.0 / 3;
    CHECK(third * 3 == 1.0);
    char b[32];
    snprintf(b, sizeof b, "%.17g", 0.1);
    CHECK(strcmp(b, "0.10000000000000001") == 0);
}

GUEST_WITH((main_argc = argc, main_argv = argv), T(arguments), T(environment), T(auxiliary_vector),
           T(stack_is_aligned_and_deep), T(standard_descriptors), T(constructors_and_floating_point))
