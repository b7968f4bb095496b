/* What madvise(2), mlock(2), mmap(2) and fork(2) make of pages: marks that last, limits, low addresses. */
#include "guest.h"
#include <sys/ioctl.h>
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

static int touch(char *at) { return at[0] = 1; }
static int crossing(char *at) {
    int ends[2], got = -1;
    if (pipe(ends) == 0 && write(ends[1], "ab", 2) == 2)
        got = read(ends[0], at + PAGE - 1, 2) < 0 ? errno : 0;
    return got;
}
static void note(int n, siginfo_t *info, void *context) {
    (void)n, (void)context;
    _exit(info->si_code == SEGV_MAPERR ? 7 : 8);
}
static int fault_code(char *at) {
    struct sigaction a = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
    return *(volatile char *)at;
}
static void guard_pages(void) {
    enum { INSTALL = 102, REMOVE = 103 }; /* MADV_GUARD_*, since Linux 6.13 */
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 5, 4 * PAGE);
    if (madvise(p + PAGE, PAGE, INSTALL) != 0 && errno == EINVAL && may_lack_calls()) {
        munmap(p, 4 * PAGE);
        return;
    }
    SAME(child_says(touch, p), 1);
    SAME(child_says(touch, p + PAGE), 256 + SIGSEGV);
    SAME(child_says(fault_code, p + PAGE), 7);
    SAME(child_says(touch, p + 2 * PAGE), 1);
    SAME(child_says(crossing, p), EFAULT);
    FAILS(madvise(p + PAGE, PAGE, 22), EFAULT);
    SAME(mprotect(p, 4 * PAGE, PROT_READ), 0);
    SAME(mprotect(p, 4 * PAGE, PROT_READ | PROT_WRITE), 0);
    SAME(child_says(touch, p + PAGE), 256 + SIGSEGV);
    SAME(madvise(p, 2 * PAGE, MADV_DONTNEED), 0);
    SAME(child_says(touch, p + PAGE), 256 + SIGSEGV);
    SAME(p[0] + p[2 * PAGE], 5);
    SAME(madvise(p, 4 * PAGE, REMOVE), 0);
    SAME(p[PAGE] + p[2 * PAGE], 5);
    SAME(child_says(touch, p + PAGE), 1);
    SAME(mlock(p, PAGE), 0);
    FAILS(madvise(p, PAGE, INSTALL), EINVAL);
    SAME(munlock(p, PAGE), 0);
    munmap(p + 3 * PAGE, PAGE);
    FAILS(madvise(p + 2 * PAGE, 2 * PAGE, INSTALL), ENOMEM);
    SAME(child_says(touch, p + 2 * PAGE), 256 + SIGSEGV);
    munmap(p, 3 * PAGE);
}

static int grows_to_the_gap(char *top) {
    /* downwards as far as one looks, over a page that is not touched */
    top[-PAGE] = 1, top[-3 * PAGE] = 2;
    return top[-2 * PAGE] == 0 && top[-3 * PAGE] == 2;
}
static int grows_no_further(char *top) { return top[-8 * PAGE] = 1; }
static void downwards(void) {
    enum { ALL = 1024 };
    char *p = mmap(NULL, ALL * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && munmap(p, ALL * PAGE) == 0);
    char *top = p + (ALL - 1) * PAGE;
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN;
    CHECK(mmap(top, PAGE, PROT_READ | PROT_WRITE, how, -1, 0) == top);
    SAME(child_says(grows_to_the_gap, top), 1);
    struct rlimit all, few = {8 * PAGE, 0};
    CHECK(getrlimit(RLIMIT_STACK, &all) == 0);
    few.rlim_max = all.rlim_max;
    CHECK(setrlimit(RLIMIT_STACK, &few) == 0);
    SAME(child_says(grows_to_the_gap, top), 1);
    SAME(child_says(grows_no_further, top), 256 + SIGSEGV); /* nine pages */
    CHECK(setrlimit(RLIMIT_STACK, &all) == 0);
    SAME(child_says(grows_no_further, top), 1);
    CHECK(mmap(top - 200 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    SAME(child_says(grows_no_further, top), 256 + SIGSEGV); /* too near to what is below */
    munmap(top - 200 * PAGE, PAGE);
    CHECK(mmap(top - 200 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    SAME(child_says(grows_no_further, top), 1);
    munmap(top - 200 * PAGE, PAGE), munmap(top, PAGE);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0) == MAP_FAILED && errno == EINVAL);
}

static void other_pages_of_the_file(void) {
    int f = open("remapped", O_RDWR | O_CREAT, 0600);
    CHECK(f >= 0 && ftruncate(f, 8 * PAGE) == 0);
    for (char n = 0; n < 8; n++)
        CHECK(pwrite(f, &n, 1, n * PAGE) == 1);
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    CHECK(p != MAP_FAILED);
    SAME(remap_file_pages(p, PAGE, 0, 7, 0), 0);
    SAME(remap_file_pages(p + 2 * PAGE, 2 * PAGE, 0, 4, 0), 0);
    SAME(p[0] * 1000 + p[PAGE] * 100 + p[2 * PAGE] * 10 + p[3 * PAGE], 7145);
    p[1] = 9;
    char got = 0;
    CHECK(pread(f, &got, 1, 7 * PAGE + 1) == 1);
    SAME(got, 9);
    FAILS(remap_file_pages(p, PAGE, PROT_READ, 0, 0), EINVAL);
    FAILS(remap_file_pages(p, 0, 0, 0, 0), EINVAL);
    FAILS(remap_file_pages(p + 4 * PAGE, PAGE, 0, 0, 0), EINVAL);
    char *own = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, f, 0);
    FAILS(remap_file_pages(own, PAGE, 0, 1, 0), EINVAL);
    munmap(own, PAGE), munmap(p, 4 * PAGE), close(f), unlink("remapped");
}

static char *remap(char *p, size_t old, size_t new, int flags, void *to) {
    return (char *)syscall(SYS_mremap, p, old, new, flags, to);
}
static void moved_and_kept(void) {
    enum { KEEP = 4 }; /* MREMAP_DONTUNMAP, since Linux 5.7 */
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p[0] = 5;
    CHECK(remap(p, PAGE, PAGE, KEEP, NULL) == MAP_FAILED && errno == EINVAL);
    CHECK(remap(p, PAGE, 2 * PAGE, KEEP | MREMAP_MAYMOVE, NULL) == MAP_FAILED && errno == EINVAL);
    CHECK(remap(p, PAGE, PAGE, KEEP | MREMAP_MAYMOVE, (void *)1) == MAP_FAILED && errno == EINVAL);
    CHECK(remap(p, PAGE, PAGE, KEEP | MREMAP_MAYMOVE, p) == MAP_FAILED && errno == EINVAL);
    char *to = remap(p, PAGE, PAGE, KEEP | MREMAP_MAYMOVE, NULL);
    CHECK(to != MAP_FAILED && to != p);
    SAME(to[0] * 10 + p[0], 50);
    p[0] = 6;
    SAME(to[0] * 10 + p[0], 56);
    munmap(p, 2 * PAGE), munmap(to, PAGE);
    /* shared pages once more, for an old length of 0 */
    for (int kind = 0; kind < 2; kind++) {
        int f = open("shared", O_RDWR | O_CREAT, 0600);
        CHECK(f >= 0 && ftruncate(f, 3 * PAGE) == 0);
        p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, kind ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, kind ? f : -1, 0);
        CHECK(p != MAP_FAILED);
        to = mremap(p + PAGE, 0, 2 * PAGE, MREMAP_MAYMOVE);
        CHECK(to != MAP_FAILED && to != p + PAGE);
        p[PAGE] = 3, to[PAGE] = 4;
        SAME(to[0] * 10 + p[2 * PAGE], 34);
        CHECK(munmap(p, 3 * PAGE) == 0);
        SAME(to[0] * 10 + to[PAGE], 34);
        CHECK(munmap(to, 2 * PAGE) == 0 && close(f) == 0 && unlink("shared") == 0);
    }
    p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(p, 0, PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
    munmap(p, PAGE);
}

static void pages_as_a_file(void) {
    int f = open("/proc/self/pagemap", O_RDONLY), plain = open("paged", O_RDWR | O_CREAT, 0600);
    char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t got[4];
    CHECK(f >= 0 && plain >= 0 && p != MAP_FAILED && ftruncate(plain, PAGE) == 0 && write(plain, "x", 1) == 1);
    p[PAGE] = 1;
    SAME(pread(f, got, sizeof got, (uintptr_t)p / PAGE * 8), (long)sizeof got);
    for (int n = 0; n < 4; n++)
        SAME(got[n] >> 61, n == 1 ? 4 : 0); /* present; a file's; in swap */
    char *q = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, plain, 0);
    CHECK(q != MAP_FAILED && q[0] == 'x');
    SAME(lseek(f, (uintptr_t)q / PAGE * 8, SEEK_SET), (long)((uintptr_t)q / PAGE * 8));
    SAME(read(f, got, 8), 8);
    SAME(got[0] >> 61, 5);
    munmap(q, PAGE), munmap(p, 4 * PAGE);
    SAME(pread(f, got, 8, (uintptr_t)p / PAGE * 8), 8);
    SAME(got[0] >> 61, 0);
    FAILS(pread(f, got, 8, 4), EINVAL);
    FAILS(pread(f, got, 7, 8), EINVAL);
    SAME(pread(f, got, 8, 1L << 38), 0);
    close(f), close(plain), unlink("paged");
}

struct query {
    uint64_t size, flags, address, start, end, bits, page, offset, inode;
    uint32_t major, minor, name_size, id_size;
    uint64_t name, id;
};
static void mappings_are_asked_for(void) {
    enum { ASK = (int)0xc0686611, NEXT = 0x10, OF_FILE = 0x20 }; /* PROCMAP_QUERY, since Linux 6.11 */
    int maps = open("/proc/self/maps", O_RDONLY), f = open("asked", O_RDWR | O_CREAT, 0600);
    char name[4096] = "", path[4096];
    CHECK(maps >= 0 && f >= 0 && ftruncate(f, 4 * PAGE) == 0 && realpath("asked", path) != NULL);
    char *room = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = mmap(room + 2 * PAGE, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, f, PAGE);
    CHECK(p == room + 2 * PAGE && munmap(room, 2 * PAGE) == 0);
    struct query q = {.size = sizeof q, .address = (uintptr_t)p + PAGE, .name = (uintptr_t)name, .name_size = sizeof name};
    if (ioctl(maps, ASK, &q) != 0 && errno == ENOTTY && may_lack_calls()) {
        munmap(room + 2 * PAGE, 6 * PAGE), close(maps), close(f), unlink("asked");
        return;
    }
    struct stat st;
    CHECK(fstat(f, &st) == 0);
    CHECK(q.start == (uintptr_t)p && q.end == (uintptr_t)p + 2 * PAGE);
    SAME(q.bits, 1);
    SAME(q.page, PAGE);
    SAME(q.offset, PAGE);
    SAME(q.inode, (long)st.st_ino);
    CHECK(strcmp(name, path) == 0);
    SAME(q.name_size, (long)strlen(path) + 1);
    q = (struct query){.size = sizeof q, .address = (uintptr_t)room};
    FAILS(ioctl(maps, ASK, &q), ENOENT);
    q.flags = NEXT | OF_FILE;
    SAME(ioctl(maps, ASK, &q), 0);
    CHECK(q.start == (uintptr_t)p && q.address == (uintptr_t)room);
    q = (struct query){.size = sizeof q, .address = (uintptr_t)p, .flags = 2};
    FAILS(ioctl(maps, ASK, &q), ENOENT);
    q.flags = 0x40;
    FAILS(ioctl(maps, ASK, &q), EINVAL);
    q = (struct query){.size = sizeof q, .address = (uintptr_t)p, .name = (uintptr_t)name};
    FAILS(ioctl(maps, ASK, &q), EINVAL);
    q.name_size = 3;
    FAILS(ioctl(maps, ASK, &q), ENAMETOOLONG);
    q.size = 16;
    FAILS(ioctl(maps, ASK, &q), EINVAL);
    q.size = 5000;
    FAILS(ioctl(maps, ASK, &q), E2BIG);
    munmap(room + 2 * PAGE, 6 * PAGE), close(maps), close(f), unlink("asked");
}

GUEST(T(wiped_on_fork), T(left_by_fork), T(locked_pages_are_counted), T(touched_pages_are_resident), T(users_lock_as_much_as_they_may), T(low_addresses),
      T(where_the_tid_is_cleared), T(guard_pages), T(downwards), T(other_pages_of_the_file), T(moved_and_kept), T(pages_as_a_file),
      T(mappings_are_asked_for))
