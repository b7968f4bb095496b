/* Files in memory: private and shared mappings. mmap(2). */
#include "guest.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

static int file_of(const char *name, size_t n) {
    int f = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (size_t i = 0; f >= 0 && i < n; i++)
        if (pwrite(f, &"abcdefghijklmnopqrstuvwxyz"[i % 26], 1, (off_t)i) != 1)
            return -1;
    return f;
}

static void private_copy(void) {
    int f = file_of("p", 100);
    char *m = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0);
    CHECK(m != MAP_FAILED);
    SAME(m[1], 'b');
    SAME(m[100], 0); /* the rest of the page is zero */
    m[1] = 'X';
    char c;
    SAME(pread(f, &c, 1, 1), 1);
    SAME(c, 'b');
    CHECK(munmap(m, 100) == 0);
    close(f);
    CHECK(unlink("p") == 0);
}

static void shared_view(void) {
    int f = file_of("s", 10);
    CHECK(ftruncate(f, 2 * PAGE) == 0);
    char *m = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    char *n = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, f, PAGE);
    CHECK(m != MAP_FAILED && n != MAP_FAILED);
    close(f); /* the mapping keeps the file */
    memcpy(m + PAGE, "through memory", 14);
    CHECK(memcmp(n, "through memory", 14) == 0);
    f = open("s", O_RDWR);
    char b[14];
    SAME(pread(f, b, 14, PAGE), 14);
    CHECK(memcmp(b, "through memory", 14) == 0);
    SAME(pwrite(f, "written", 7, 0), 7);
    CHECK(memcmp(m, "written", 7) == 0);
    CHECK(msync(m, 2 * PAGE, MS_SYNC) == 0);
    CHECK(munmap(m, 2 * PAGE) == 0 && munmap(n, PAGE) == 0);
    close(f);
    CHECK(unlink("s") == 0);
}

static void refusals(void) {
    int f = file_of("r", 10), ro = open("r", O_RDONLY), wo = open("r", O_WRONLY), p[2];
    CHECK(pipe(p) == 0);
#define MAP_FAILS(call, err) do { errno = 0; CHECK((call) == MAP_FAILED); SAME(errno, err); } while (0)
    MAP_FAILS(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, f, 0), EINVAL);
    MAP_FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, f, 1), EINVAL);
    MAP_FAILS(mmap(NULL, PAGE, PROT_READ, 0, f, 0), EINVAL);
    MAP_FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 999, 0), EBADF);
    MAP_FAILS(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
    MAP_FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, wo, 0), EACCES);
    MAP_FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, p[0], 0), ENODEV);
    void *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ro, 0);
    CHECK(m != MAP_FAILED && munmap(m, PAGE) == 0);
    close(f), close(ro), close(wo), close(p[0]), close(p[1]);
    CHECK(unlink("r") == 0);
}

static sigjmp_buf escape;
static volatile sig_atomic_t code;
static void on_bus(int sig, siginfo_t *i, void *c) {
    (void)sig, (void)c;
    code = i->si_code;
    siglongjmp(escape, 1);
}

static void beyond_the_end_is_sigbus(void) {
    int f = file_of("b", 10);
    char *m = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, f, 0);
    CHECK(m != MAP_FAILED);
    struct sigaction sa = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO}, old;
    CHECK(sigaction(SIGBUS, &sa, &old) == 0);
    if (sigsetjmp(escape, 1) == 0) {
        volatile char c = m[PAGE];
        (void)c;
        CHECK(!"reading beyond the end went well");
    }
    SAME(code, BUS_ADRERR);
    /* a system call gets EFAULT, not a signal */
    int p[2];
    CHECK(pipe(p) == 0);
    FAILS(write(p[1], m + PAGE, 1), EFAULT);
    close(p[0]), close(p[1]);
    sigaction(SIGBUS, &old, NULL);
    CHECK(munmap(m, 2 * PAGE) == 0);
    close(f);
    CHECK(unlink("b") == 0);
}

static void fixed_over_another(void) {
    int f = file_of("x", 10);
    char *m = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    memset(m, '.', 3 * PAGE);
    CHECK(mmap(m + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, f, 0) == m + PAGE);
    CHECK(m[PAGE - 1] == '.' && m[PAGE] == 'a' && m[2 * PAGE] == '.');
    CHECK(munmap(m, 3 * PAGE) == 0);
    close(f);
    CHECK(unlink("x") == 0);
}

static void zeros_shared_by_a_reader_cannot_be_written(void) {
    int z = open("/dev/zero", O_RDONLY);
    char *m = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, z, 0);
    CHECK(m != MAP_FAILED && m[0] == 0);
    FAILS(mprotect(m, PAGE, PROT_READ | PROT_WRITE), EACCES);
    CHECK(munmap(m, PAGE) == 0);
    m = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, z, 0);
    CHECK(m != MAP_FAILED && mprotect(m, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(munmap(m, PAGE) == 0);
    close(z);
}

static void pages_of_a_file_are_counted(void) {
    enum { CACHESTAT = 451 };
    uint64_t range[2] = {PAGE, 0}, told[5];
    int f = open("x", O_RDWR | O_CREAT, 0644), p[2];
    char bytes[3 * PAGE + 1];
    memset(bytes, 'a', sizeof bytes);
    CHECK(f >= 0 && write(f, bytes, sizeof bytes) == sizeof bytes && pipe(p) == 0);
    long result = syscall(CACHESTAT, f, range, told, 0);
    if (result != -1 || errno != ENOSYS) {
        CHECK(result == 0 && told[0] + told[3] == 3);
        FAILS(syscall(CACHESTAT, f, range, told, 1), EINVAL);
        FAILS(syscall(CACHESTAT, f, NULL, told, 0), EFAULT);
        FAILS(syscall(CACHESTAT, f, range, NULL, 0), EFAULT);
        FAILS(syscall(CACHESTAT, -1, range, told, 0), EBADF);
        range[0] = 0, range[1] = 1;
        CHECK(syscall(CACHESTAT, f, range, told, 0) == 0 && told[0] + told[3] == 1);
        CHECK(syscall(CACHESTAT, p[0], range, told, 0) == 0 && told[0] == 0);
    }
    close(p[0]), close(p[1]), close(f);
    CHECK(unlink("x") == 0);
}

static void sealed_mappings_stay(void) {
    enum { MSEAL = 462 };
    char *m = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    long result = syscall(MSEAL, m + PAGE, PAGE, 0);
    if (result == -1 && errno == ENOSYS)
        return;
    SAME(result, 0);
    FAILS(syscall(MSEAL, m + PAGE, PAGE, 1), EINVAL);
    FAILS(syscall(MSEAL, m + 1, PAGE, 0), EINVAL);
    SAME(syscall(MSEAL, m, 0, 0), 0);
    FAILS(mprotect(m, 2 * PAGE, PROT_NONE), EPERM);
    FAILS(munmap(m, 4 * PAGE), EPERM);
    FAILS(madvise(m + PAGE, PAGE, MADV_DONTNEED), EPERM);
    CHECK(mremap(m + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EPERM);
    CHECK(mmap(m, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EPERM);
    CHECK(mprotect(m, PAGE, PROT_NONE) == 0 && munmap(m + 2 * PAGE, 2 * PAGE) == 0 && m[PAGE] == 0);
    FAILS(syscall(MSEAL, m, 3 * PAGE, 0), ENOMEM);
}

GUEST_WITH(scratch_enter(), T(sealed_mappings_stay), T(pages_of_a_file_are_counted), T(zeros_shared_by_a_reader_cannot_be_written), T(private_copy), T(shared_view), T(refusals), T(beyond_the_end_is_sigbus),
           T(fixed_over_another))
