/* What madvise(2), mlock(2), mmap(2) and fork(2) make of pages: marks that last, limits, low addresses. */
#include "guest.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PAGE = 4096 };

static int child_says(int (*look)(char *), char *at) {
    pid_t child = fork();
    if (child == 0)
        _exit(look(at));
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}
static int first(char *at) { return at[0]; }
static int second(char *at) { return at[PAGE]; }
static int grandchild(char *at) {
    at[0] = 5;
    return child_says(first, at) + 10;
}

static void wiped_on_fork(void) {
    char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 7, 3 * PAGE);
    CHECK(madvise(p, PAGE, MADV_WIPEONFORK) == 0);
    SAME(child_says(first, p), 0);
    SAME(child_says(second, p), 7);
    SAME(p[0], 7);
    SAME(child_says(grandchild, p), 10); /* the mark is inherited */
    CHECK(madvise(p, PAGE, MADV_KEEPONFORK) == 0);
    SAME(child_says(first, p), 7);
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FAILS(madvise(shared, PAGE, MADV_WIPEONFORK), EINVAL);
    munmap(shared, PAGE);
    munmap(p, 3 * PAGE);
}

static void left_by_fork(void) {
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, 7, 2 * PAGE);
    CHECK(madvise(p, PAGE, MADV_DONTFORK) == 0);
    SAME(child_says(first, p), 256 + SIGSEGV);
    SAME(child_says(second, p), 7);
    CHECK(madvise(p, PAGE, MADV_DOFORK) == 0);
    SAME(child_says(first, p), 7);
    munmap(p, 2 * PAGE);
}

static long locked_kib(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmLck: %ld kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib;
}
static void locked_pages_are_counted(void) {
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SAME(locked_kib(), 0);
    CHECK(mlock(p + 1, 2 * PAGE) == 0); /* touches three pages */
    SAME(locked_kib(), 12);
    CHECK(mlock(p, PAGE) == 0);
    SAME(locked_kib(), 12);
    FAILS(madvise(p, PAGE, MADV_DONTNEED), EINVAL);
    FAILS(msync(p, PAGE, MS_SYNC | MS_INVALIDATE), EBUSY);
    CHECK(munlock(p + PAGE, PAGE) == 0);
    SAME(locked_kib(), 8);
    CHECK(munlockall() == 0);
    SAME(locked_kib(), 0);
    CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0);
    CHECK(munmap(p + 2 * PAGE, PAGE) == 0);
    FAILS(mlock(p, 4 * PAGE), ENOMEM);
    FAILS(mlockall(0), EINVAL);
    FAILS(mlockall(MCL_ONFAULT), EINVAL);
    FAILS(syscall(SYS_mlock2, p, PAGE, 2), EINVAL);
    munmap(p, 4 * PAGE);
}

/* The pages that mincore(2) finds, a bit each. */
static int resident(char *p, int count) {
    unsigned char found[16];
    int bits = 0;
    if (mincore(p, count * PAGE, found) != 0)
        return -errno;
    for (int i = 0; i < count; i++)
        bits |= (found[i] & 1) << i;
    return bits;
}
static int resident_here(char *p) { return resident(p, 4); }
static void touched_pages_are_resident(void) {
    for (int kind = 0; kind < 2; kind++) {
        char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, (kind ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        SAME(resident(p, 4), 0);
        p[PAGE] = 1;
        SAME(resident(p, 4), 2);
        SAME(resident(p + PAGE, 3), 1);
        SAME(child_says(resident_here, p), 2);
        SAME(mlock(p + 2 * PAGE, 1), 0);
        SAME(resident(p, 4), 6);
        SAME(syscall(SYS_mlock2, p + 3 * PAGE, PAGE, 1), 0); /* MLOCK_ONFAULT */
        SAME(locked_kib(), 8);
        SAME(resident(p, 4), 6);
        p[3 * PAGE] = 1;
        SAME(resident(p, 4), 14);
        SAME(munlock(p, 4 * PAGE), 0);
        SAME(resident(p, 2), 2);
        SAME(madvise(p, 4 * PAGE, kind ? MADV_REMOVE : MADV_DONTNEED), 0);
        SAME(resident(p, 4), 0);
        FAILS(resident(p + 1, 1) < 0 ? -1 : 0, EINVAL);
        FAILS(mincore(p, PAGE, (unsigned char *)1), EFAULT);
        SAME(madvise(p, PAGE, 22), 0); /* MADV_POPULATE_READ, since Linux 5.14 */
        SAME(madvise(p + 3 * PAGE, PAGE, 23), 0); /* MADV_POPULATE_WRITE */
        SAME(resident(p, 4), 9);
        CHECK(mprotect(p, PAGE, PROT_READ) == 0);
        FAILS(madvise(p, PAGE, 23), EINVAL);
        munmap(p + 2 * PAGE, PAGE);
        SAME(resident(p, 4), -ENOMEM);
        munmap(p, 4 * PAGE);
        int how = (kind ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_POPULATE;
        p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, how, -1, 0);
        CHECK(p != MAP_FAILED);
        SAME(resident(p, 4), 15);
        munmap(p, 4 * PAGE);
    }
}

static int over_limit(char *p) {
    struct rlimit l = {2 * PAGE, 2 * PAGE};
    if (geteuid() == 0 && (setresgid(4321, 4321, 4321) != 0 || setresuid(4321, 4321, 4321) != 0))
        return 1;
    if (setrlimit(RLIMIT_MEMLOCK, &l) != 0)
        return 2;
    if (mlock(p, 2 * PAGE) != 0)
        return 3;
    if (mlock(p + 2 * PAGE, PAGE) == 0 || errno != ENOMEM)
        return 4;
    munlock(p, 2 * PAGE);
    l.rlim_cur = 0;
    setrlimit(RLIMIT_MEMLOCK, &l);
    if (mlock(p, PAGE) == 0 || errno != EPERM)
        return 5;
    if (mlockall(MCL_CURRENT) == 0 || errno != EPERM)
        return 6;
    return 0;
}
static void users_lock_as_much_as_they_may(void) {
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SAME(child_says(over_limit, p), 0);
    munmap(p, 4 * PAGE);
}

static void low_addresses(void) {
    char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(p != MAP_FAILED && (uintptr_t)p + 16 * PAGE <= 0x80000000u);
    memset(p, 3, 16 * PAGE);
    char *q = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(q != MAP_FAILED && (uintptr_t)q < 0x80000000u);
    SAME(child_says(first, p), 3);
    char *hint = (char *)0x30000000, *r = mmap(hint, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(r == hint);
    r[0] = 9;
    SAME(child_says(first, r), 9);
    munmap(p, 16 * PAGE), munmap(q, PAGE), munmap(r, PAGE);
}

static void where_the_tid_is_cleared(void) {
    int *address = NULL, mine = 0;
    long old = syscall(SYS_set_tid_address, &mine);
    SAME(old, syscall(SYS_gettid));
    if (prctl(PR_GET_TID_ADDRESS, &address) != 0)
        return; /* a kernel without CONFIG_CHECKPOINT_RESTORE */
    CHECK(address == &mine);
    syscall(SYS_set_tid_address, NULL);
}

GUEST(T(wiped_on_fork), T(left_by_fork), T(locked_pages_are_counted), T(touched_pages_are_resident), T(users_lock_as_much_as_they_may), T(low_addresses),
      T(where_the_tid_is_cleared))
