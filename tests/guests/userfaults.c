/* Page faults that programs handle themselves: userfaultfd(2), ioctl_userfaultfd(2). The structures are written out: libcs have no headers. */
#include "guest.h"
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PAGE = 4096, USER_ONLY = 1, FAULT = 0x12 };
#define API 0xc018aa3fu
#define REGISTER 0xc020aa00u
#define UNREGISTER 0x8010aa01u
#define WAKE 0x8010aa02u
#define COPY 0xc028aa03u
#define ZERO 0xc020aa04u
#define MOVE 0xc028aa05u
struct message { uint8_t event, r[7]; uint64_t flags, address; uint32_t tid, rest; };
struct api { uint64_t api, features, ioctls; };
struct range { uint64_t start, len; };
struct registration { struct range range; uint64_t mode, ioctls; };
struct copy { uint64_t to, from, len, mode; int64_t done; };
struct zero { struct range range; uint64_t mode; int64_t done; };

static int asked(int flags) {
    int u = (int)syscall(SYS_userfaultfd, flags | USER_ONLY);
    struct api a = {0xaa, 0, 0};
    return u >= 0 && ioctl(u, API, &a) == 0 ? u : -1;
}
static char *memory(int pages) {
    char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
static int watch(int u, char *p, int pages) {
    struct registration r = {{(uintptr_t)p, pages * PAGE}, 1, 0};
    return ioctl(u, REGISTER, &r) == 0 && (r.ioctls & 0x1c) == 0x1c;
}
static long put(int u, char *to, const char *from, int pages, int mode) {
    struct copy c = {(uintptr_t)to, (uintptr_t)from, pages * PAGE, mode, 0};
    return ioctl(u, COPY, &c) == 0 ? c.done : -errno;
}

struct work {
    int u, count;
    char *content;
    struct message seen[16];
};
/* Answers faults with a page of content that begins with its number. */
static void *answers(void *at) {
    struct work *w = at;
    for (int n = 0; n < w->count; n++) {
        struct pollfd p = {w->u, POLLIN, 0};
        if (poll(&p, 1, -1) != 1 || read(w->u, &w->seen[n], sizeof *w->seen) != (long)sizeof *w->seen)
            return at;
        memset(w->content, 'a' + n, PAGE);
        if (put(w->u, (char *)(uintptr_t)(w->seen[n].address & ~0xfffUL), w->content, 1, 0) != PAGE)
            return at;
    }
    return NULL;
}

static void missing_pages_are_told(void) {
    int u = asked(O_CLOEXEC | O_NONBLOCK);
    char *p = memory(4);
    struct work w = {u, 3, memory(1), {{0}}};
    struct message m;
    CHECK(u >= 0 && p != NULL && w.content != NULL);
    p[3 * PAGE] = 'x';
    CHECK(watch(u, p, 4));
    FAILS(read(u, &m, sizeof m), EAGAIN);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, answers, &w) == 0);
    SAME(p[3 * PAGE], 'x'); /* it is there */
    SAME(p[PAGE + 5], 'a');
    p[7] = 'w';
    SAME(p[0] * 1000 + p[7], 'b' * 1000 + 'w');
    SAME(p[2 * PAGE + 1], 'c');
    void *failed = &w;
    CHECK(pthread_join(t, &failed) == 0 && failed == NULL);
    SAME(w.seen[0].event, FAULT);
    CHECK(w.seen[0].address == (uintptr_t)p + PAGE && w.seen[1].address == (uintptr_t)p && w.seen[2].address == (uintptr_t)p + 2 * PAGE);
    SAME(w.seen[0].flags, 0);
    SAME(w.seen[1].flags, 1); /* written */
    SAME(put(u, p, w.content, 1, 0), -EEXIST);
    CHECK(munmap(p, 4 * PAGE) == 0);
    SAME(put(u, p, w.content, 1, 0), -ENOENT);
    munmap(w.content, PAGE), close(u);
}

static void they_become_missing_again(void) {
    int u = asked(O_NONBLOCK);
    char *p = memory(2), *from = memory(2);
    CHECK(u >= 0 && p != NULL && from != NULL && watch(u, p, 2));
    from[0] = 'A', from[PAGE] = 'B';
    SAME(put(u, p, from, 2, 0), 2 * PAGE);
    SAME(p[0] * 1000 + p[PAGE], 'A' * 1000 + 'B');
    SAME(madvise(p, 2 * PAGE, MADV_DONTNEED), 0);
    SAME(mprotect(p, 2 * PAGE, PROT_READ), 0);
    from[0] = 'C';
    SAME(put(u, p, from, 1, 0), PAGE);
    SAME(p[0], 'C');
    SAME(mprotect(p, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
    struct zero z = {{(uintptr_t)p + PAGE, PAGE}, 0, 0};
    SAME(ioctl(u, ZERO, &z), 0);
    SAME(z.done, PAGE);
    SAME(p[PAGE], 0);
    FAILS(ioctl(u, ZERO, &z), EEXIST);
    SAME(z.done, -EEXIST);
    struct copy some = {(uintptr_t)p + PAGE, (uintptr_t)from, PAGE, 0, 0};
    SAME(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
    if (ioctl(u, MOVE, &some) == 0) { /* since Linux 6.8 */
        SAME(some.done, PAGE);
        SAME(p[PAGE] * 1000 + from[0], 'C' * 1000);
    } else {
        CHECK(may_lack_calls());
    }
    SAME(madvise(p, 2 * PAGE, MADV_DONTNEED), 0);
    pid_t child = fork(); /* nobody is told of the child's */
    if (child == 0)
        _exit(p[0] == 0 && (p[PAGE] = 1) == 1 ? 0 : 1);
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    struct range r = {(uintptr_t)p, PAGE};
    SAME(ioctl(u, UNREGISTER, &r), 0);
    SAME(p[0], 0);
    close(u); /* and with it the rest */
    SAME(p[PAGE], 0);
    munmap(p, 2 * PAGE), munmap(from, 2 * PAGE);
}

static volatile sig_atomic_t caught;
static void note(int n) { caught = n; }
static char *waited_for;
static void *reads(void *at) {
    (void)at;
    return (void *)(intptr_t)waited_for[0];
}
static void who_waits(void) {
    int u = asked(0); /* it waits in read(2) */
    char *p = memory(1), *from = memory(1);
    struct message m = {0};
    void *got = NULL;
    pthread_t t;
    CHECK(u >= 0 && p != NULL && from != NULL && watch(u, p, 1));
    struct pollfd poll_it = {u, POLLIN, 0};
    SAME(poll(&poll_it, 1, 0), 1);
    SAME(poll_it.revents, POLLERR);
    waited_for = p, from[0] = 5;
    CHECK(pthread_create(&t, NULL, reads, NULL) == 0);
    SAME(read(u, &m, sizeof m), (long)sizeof m);
    CHECK(m.address == (uintptr_t)p);
    /* A signal's handler runs meanwhile, and the fault is told again or waits on. */
    struct sigaction a = {.sa_handler = note};
    sigaction(SIGUSR1, &a, NULL);
    pthread_kill(t, SIGUSR1);
    while (caught == 0)
        sched_yield();
    /* One that is woken in vain faults again. */
    struct range r = {(uintptr_t)p, PAGE};
    SAME(ioctl(u, WAKE, &r), 0);
    SAME(read(u, &m, sizeof m), (long)sizeof m);
    CHECK(m.address == (uintptr_t)p);
    SAME(put(u, p, from, 1, 1), PAGE); /* DONTWAKE */
    SAME(ioctl(u, WAKE, &r), 0);
    CHECK(pthread_join(t, &got) == 0);
    SAME((intptr_t)got, 5);
    /* The end of the descriptor is the end of waiting. */
    SAME(madvise(p, PAGE, MADV_DONTNEED), 0);
    CHECK(pthread_create(&t, NULL, reads, NULL) == 0);
    SAME(read(u, &m, sizeof m), (long)sizeof m);
    close(u);
    CHECK(pthread_join(t, &got) == 0);
    SAME((intptr_t)got, 0);
    munmap(p, PAGE), munmap(from, PAGE);
}

static void moved_memory(void) {
    int u = asked(O_NONBLOCK);
    char *p = memory(1);
    struct work w = {u, 1, memory(1), {{0}}};
    pthread_t t;
    CHECK(u >= 0 && p != NULL && w.content != NULL);
    p[0] = 'x';
    CHECK(watch(u, p, 1));
    char *to = (char *)syscall(SYS_mremap, p, PAGE, PAGE, 4 | MREMAP_MAYMOVE, NULL); /* MREMAP_DONTUNMAP */
    CHECK(to != MAP_FAILED && to[0] == 'x');
    CHECK(pthread_create(&t, NULL, answers, &w) == 0);
    SAME(p[0], 'a');
    CHECK(pthread_join(t, NULL) == 0);
    SAME(madvise(to, PAGE, MADV_DONTNEED), 0);
    SAME(to[0], 0); /* nobody is told of what is elsewhere */
    munmap(p, PAGE), munmap(to, PAGE), munmap(w.content, PAGE), close(u);
}

static void what_cannot_be_asked(void) {
    char *p = memory(2);
    struct api a = {0x55, 0, 0};
    struct registration r = {{(uintptr_t)p, PAGE}, 1, 0};
    struct message m;
    FAILS(syscall(SYS_userfaultfd, USER_ONLY | 0x1000), EINVAL);
    int u = (int)syscall(SYS_userfaultfd, USER_ONLY | O_NONBLOCK);
    CHECK(u >= 0);
    FAILS(ioctl(u, REGISTER, &r), EINVAL); /* features first */
    FAILS(read(u, &m, sizeof m), EINVAL);
    FAILS(ioctl(u, API, &a), EINVAL);
    a = (struct api){0xaa, 1ULL << 60, 0};
    FAILS(ioctl(u, API, &a), EINVAL);
    a = (struct api){0xaa, 0, 0};
    SAME(ioctl(u, API, &a), 0);
    CHECK(a.api == 0xaa && (a.ioctls & 3) == 3);
    FAILS(ioctl(u, API, &a), EINVAL);
    FAILS(read(u, &m, sizeof m - 1), EINVAL);
    FAILS(write(u, &m, sizeof m), EBADF);
    r.mode = 0;
    FAILS(ioctl(u, REGISTER, &r), EINVAL);
    r.mode = 8;
    FAILS(ioctl(u, REGISTER, &r), EINVAL);
    r = (struct registration){{(uintptr_t)p + 1, PAGE}, 1, 0};
    FAILS(ioctl(u, REGISTER, &r), EINVAL);
    r = (struct registration){{(uintptr_t)p, 0}, 1, 0};
    FAILS(ioctl(u, REGISTER, &r), EINVAL);
    CHECK(watch(u, p, 1));
    int other = asked(0);
    r = (struct registration){{(uintptr_t)p, PAGE}, 1, 0};
    FAILS(ioctl(other, REGISTER, &r), EBUSY);
    SAME(put(u, p + PAGE, p, 1, 0), -ENOENT);
    SAME(put(u, p, p + 1, 0, 0), -EINVAL);
    SAME(put(u, p, p + PAGE, 1, 4), -EINVAL);
    SAME(put(u, p, (char *)8, 1, 0), -EFAULT);
    FAILS(ioctl(u, 0x1234), EINVAL);
    close(other), close(u), munmap(p, 2 * PAGE);
}

static void may_not_be_had(void) {
    int u = (int)syscall(SYS_userfaultfd, USER_ONLY);
    if (u < 0 && may_lack_calls()) {
        printf("# skipped: userfaultfd is not to be had here (%s)\n", strerror(errno));
        exit(77);
    }
    close(u);
}

GUEST_WITH(may_not_be_had(), T(missing_pages_are_told), T(they_become_missing_again), T(who_waits), T(moved_memory), T(what_cannot_be_asked))
