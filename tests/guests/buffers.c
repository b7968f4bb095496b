/* The memory that calls are given: what counts is what is in it when the call looks, whoever has changed it until
 * then; what it has written is there for everybody; what is not there is an error and changes nothing else. */
#include "guest.h"
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define P 4096
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

static char *map(size_t pages, int flags) {
    char *m = mmap(NULL, pages * P, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return m == MAP_FAILED ? NULL : m;
}

/* A pipe that has no room: the next write waits. */
static int full_pipe(int p[2]) {
    char junk[P] = {0};
    return pipe(p) == 0 && fcntl(p[1], F_SETPIPE_SZ, P) == P && write(p[1], junk, P) == P ? 0 : -1;
}

static int the_pipe[2];
static char *the_buffer;

/* Changes what the writer waits with, then makes room for it. */
static void *change_and_drain(void *unused) {
    (void)unused;
    char junk[P];
    sleep_ms(50);
    memcpy(the_buffer, "after", 5);
    TCHECK(read(the_pipe[0], junk, P) == P);
    return NULL;
}

static void a_thread_changes_what_a_write_waits_with(void) {
    static char buffer[64];
    CHECK(full_pipe(the_pipe) == 0);
    the_buffer = buffer;
    memcpy(buffer, "before", 6);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, change_and_drain, NULL) == 0);
    SAME(write(the_pipe[1], buffer, 6), 6);
    CHECK(pthread_join(t, NULL) == 0);
    char got[6];
    SAME(read(the_pipe[0], got, 6), 6);
    CHECK(memcmp(got, "aftere", 6) == 0);
    close(the_pipe[0]), close(the_pipe[1]);
}

static void a_process_changes_what_a_write_waits_with(void) {
    CHECK(full_pipe(the_pipe) == 0);
    the_buffer = map(1, MAP_SHARED);
    CHECK(the_buffer != NULL);
    memcpy(the_buffer, "before", 6);
    pid_t child = fork();
    if (child == 0) {
        guest_failed = 0;
        change_and_drain(NULL);
        _exit(guest_failed);
    }
    SAME(write(the_pipe[1], the_buffer, 6), 6);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    char got[6];
    SAME(read(the_pipe[0], got, 6), 6);
    CHECK(memcmp(got, "aftere", 6) == 0);
    close(the_pipe[0]), close(the_pipe[1]), munmap(the_buffer, P);
}

static struct pollfd *the_array;
static void *unmap_and_write(void *unused) {
    (void)unused;
    sleep_ms(50);
    TCHECK(munmap(the_array, P) == 0);
    TCHECK(write(the_pipe[1], "x", 1) == 1);
    return NULL;
}

static void the_array_of_poll_goes_while_it_waits(void) {
    for (nfds_t count = 1; count <= 2; count++) {
        CHECK(pipe(the_pipe) == 0);
        the_array = (struct pollfd *)map(1, MAP_PRIVATE);
        CHECK(the_array != NULL);
        the_array[0] = (struct pollfd){the_pipe[0], POLLIN, 0};
        the_array[1] = (struct pollfd){-1, 0, 0};
        pthread_t t;
        CHECK(pthread_create(&t, NULL, unmap_and_write, NULL) == 0);
        FAILS(poll(the_array, count, 5000), EFAULT);
        CHECK(pthread_join(t, NULL) == 0);
        close(the_pipe[0]), close(the_pipe[1]);
    }
}

static void *unmap_and_send(void *socket) {
    sleep_ms(50);
    TCHECK(mprotect(the_buffer, P, PROT_READ) == 0);
    TCHECK(send(*(int *)socket, "late", 4, 0) == 4);
    return NULL;
}

/* Where nothing can be written any more when the datagram comes, it is lost to an error. */
static void a_buffer_becomes_read_only_while_a_receive_waits(void) {
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
    the_buffer = map(1, MAP_PRIVATE);
    CHECK(the_buffer != NULL);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, unmap_and_send, &s[1]) == 0);
    FAILS(recv(s[0], the_buffer, 16, 0), EFAULT);
    CHECK(pthread_join(t, NULL) == 0);
    SAME(the_buffer[0], 0);
    SAME(mprotect(the_buffer, P, PROT_READ | PROT_WRITE), 0);
    SAME(send(s[1], "next", 4, 0), 4);
    SAME(recv(s[0], the_buffer, 16, 0), 4);
    CHECK(memcmp(the_buffer, "next", 4) == 0);
    close(s[0]), close(s[1]), munmap(the_buffer, P);
}

/* Two pages, of which the second one is not there. */
static char *cliff(void) {
    char *m = map(2, MAP_PRIVATE);
    return m != NULL && munmap(m + P, P) == 0 ? m : NULL;
}

static void buffers_over_the_edge(void) {
    char *m = cliff();
    CHECK(m != NULL);
    char *edge = m + P;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof here;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    SAME(bind(s, (struct sockaddr *)&here, sizeof here), 0);
    SAME(getsockname(s, (struct sockaddr *)&here, &n), 0);
    memset(m, 'm', P);
    FAILS(sendto(s, edge - 8, 16, 0, (struct sockaddr *)&here, n), EFAULT);
    FAILS(sendto(s, m, 16, 0, (struct sockaddr *)(edge - 8), n), EFAULT);
    FAILS(sendto(s, edge, 16, 0, (struct sockaddr *)&here, n), EFAULT);
    SAME(sendto(s, edge - 16, 16, 0, (struct sockaddr *)&here, n), 16);
    FAILS(recv(s, edge - 8, 16, 0), EFAULT);
    SAME(sendto(s, "0123456789abcdef", 16, 0, (struct sockaddr *)&here, n), 16);
    SAME(recv(s, edge - 16, 16, 0), 16);
    CHECK(memcmp(edge - 16, "0123456789abcdef", 16) == 0);
    FAILS(getsockname(s, (struct sockaddr *)&here, (socklen_t *)(edge - 2)), EFAULT);
    FAILS(bind(s, (struct sockaddr *)(edge - 8), 16), EFAULT);
    FAILS(connect(s, (struct sockaddr *)(edge - 8), 16), EFAULT);
    FAILS(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, edge - 8, 16), EFAULT);
    struct iovec part = {edge - 8, 16};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = &here, .msg_namelen = n};
    FAILS(sendmsg(s, &message, 0), EFAULT);
    message.msg_iov = (struct iovec *)(edge - 8);
    FAILS(sendmsg(s, &message, 0), EFAULT);
    FAILS(syscall(SYS_sendmsg, s, edge - 8, 0), EFAULT);
    FAILS(syscall(SYS_recvmsg, s, edge - 8, 0), EFAULT);
    close(s), munmap(m, P);
}

static void structures_over_the_edge(void) {
    char *m = cliff();
    CHECK(m != NULL);
    char *edge = m + P;
    FAILS(syscall(SYS_poll, edge - 8, 2, 0), EFAULT);
    FAILS(syscall(SYS_nanosleep, edge - 8, NULL), EFAULT);
    FAILS(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, edge, NULL), EFAULT);
    FAILS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, edge - 4, NULL, 8), EFAULT);
    FAILS(syscall(SYS_rt_sigaction, SIGUSR1, edge - 8, NULL, 8), EFAULT);
    int e = epoll_create1(0), p[2];
    CHECK(pipe(p) == 0);
    FAILS(syscall(SYS_epoll_ctl, e, EPOLL_CTL_ADD, p[0], edge - 4), EFAULT);
    struct epoll_event event = {.events = EPOLLIN};
    memcpy(edge - sizeof event, &event, sizeof event);
    SAME(syscall(SYS_epoll_ctl, e, EPOLL_CTL_ADD, p[0], edge - sizeof event), 0);
    /* a path that ends where the memory does is one, a path that does not is none */
    memcpy(edge - 5, "/etc", 5);
    SAME(access(edge - 5, F_OK), 0);
    FAILS(access(edge - 4, F_OK), ENOENT);
    edge[-1] = 'x';
    FAILS(access(edge - 5, F_OK), EFAULT);
    FAILS(open(edge - 5, O_RDONLY), EFAULT);
    FAILS(writev(p[1], (struct iovec *)(edge - 8), 1), EFAULT);
    struct iovec parts[2] = {{edge - 4, 4}, {edge, 4}};
    SAME(writev(p[1], parts, 1), 4);
    close(e), close(p[0]), close(p[1]), munmap(m, P);
}

/* Memory of a file that has become shorter is there for the one who maps, and not for calls. */
static void files_that_became_short(void) {
    FILE *f = tmpfile();
    CHECK(f != NULL && ftruncate(fileno(f), 2 * P) == 0);
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, s) == 0);
    for (int flags = MAP_SHARED; flags <= MAP_PRIVATE; flags++) {
        CHECK(ftruncate(fileno(f), 2 * P) == 0);
        char *m = mmap(NULL, 2 * P, PROT_READ | PROT_WRITE, flags, fileno(f), 0);
        CHECK(m != MAP_FAILED && ftruncate(fileno(f), P) == 0);
        FAILS(send(s[0], m + P, 4, 0), EFAULT);
        SAME(send(s[0], m + P - 4, 4, 0), 4);
        FAILS(recv(s[1], m + P, 4, 0), EFAULT);
        SAME(send(s[0], "data", 4, 0), 4);
        SAME(recv(s[1], m + P - 4, 4, 0), 4);
        CHECK(memcmp(m + P - 4, "data", 4) == 0);
        munmap(m, 2 * P);
    }
    fclose(f), close(s[0]), close(s[1]);
}

/* What a call has written is there when others look, in whatever way. */
static void answers_are_seen_by_all(void) {
    int p[2], q[2];
    CHECK(pipe(p) == 0 && pipe(q) == 0);
    char *m = map(1, MAP_PRIVATE);
    CHECK(m != NULL && write(p[1], "onetwo", 6) == 6);
    SAME(read(p[0], m, 3), 3);
    pid_t child = fork();
    if (child == 0)
        _exit(memcmp(m, "one", 4) != 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* the next call reads it */
    SAME(read(p[0], m + 3, 3), 3);
    SAME(write(q[1], m, 6), 6);
    char got[6];
    SAME(read(q[0], got, 6), 6);
    CHECK(memcmp(got, "onetwo", 6) == 0);
    /* parts that lie over each other: the later one counts */
    CHECK(write(p[1], "abcdefgh", 8) == 8);
    struct iovec parts[2] = {{m, 4}, {m + 2, 4}};
    SAME(readv(p[0], parts, 2), 8);
    CHECK(memcmp(m, "abefgh", 6) == 0);
    /* moved away by the call that follows */
    CHECK(write(p[1], "moved", 5) == 5);
    SAME(read(p[0], m, 5), 5);
    char *to = mremap(m, P, 2 * P, MREMAP_MAYMOVE);
    CHECK(to != MAP_FAILED && memcmp(to, "moved", 5) == 0);
    CHECK(write(p[1], "gone", 4) == 4);
    SAME(read(p[0], to, 4), 4);
    SAME(madvise(to, P, MADV_DONTNEED), 0);
    SAME(to[0], 0);
    CHECK(write(p[1], "stay", 4) == 4);
    SAME(read(p[0], to, 4), 4);
    SAME(mprotect(to, P, PROT_READ), 0);
    CHECK(memcmp(to, "stay", 4) == 0);
    munmap(to, 2 * P);
    close(p[0]), close(p[1]), close(q[0]), close(q[1]);
}

/* A write that ends at what cannot be written leaves what was there. */
static void sizes_of_all_kinds(void) {
    static const size_t sizes[] = {1, 7, 8, 127, 128, 129, 4095, 4097, 8184, 8191, 8192, 8193, 16383, 16384, 16385, 40000};
    static unsigned char out[40000], in[40001];
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0);
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (unsigned char)(i * 31 + i / 251);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        memset(in, 0xee, sizeof in);
        SAME(send(s[0], out, n, 0), n);
        SAME(recv(s[1], in, sizeof in - 1, 0), n);
        CHECK(memcmp(in, out, n) == 0 && in[n] == 0xee);
        /* in many parts, more than fit into any list */
        struct iovec from[24], to[24];
        for (size_t k = 0; k < 24; k++) {
            from[k] = (struct iovec){out + k * n / 24, (k + 1) * n / 24 - k * n / 24};
            to[k] = (struct iovec){in + k * n / 24, (k + 1) * n / 24 - k * n / 24};
        }
        memset(in, 0xee, sizeof in);
        struct msghdr message = {.msg_iov = from, .msg_iovlen = 24};
        SAME(sendmsg(s[0], &message, 0), n);
        message.msg_iov = to;
        SAME(recvmsg(s[1], &message, 0), n);
        CHECK(memcmp(in, out, n) == 0 && in[n] == 0xee);
    }
    close(s[0]), close(s[1]);
}

static uint32_t word;
static void *change_the_word(void *unused) {
    (void)unused;
    sleep_ms(30);
    word = 2;
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

static void words_of_futexes(void) {
    word = 1;
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), EAGAIN);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, change_the_word, NULL) == 0);
    SAME(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), 0);
    SAME(word, 2);
    CHECK(pthread_join(t, NULL) == 0);
    FAILS(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN);
}

/* Vector registers are each thread's own, over calls and other threads' turns. */
static int keeps(uint64_t pattern) {
    uint64_t in[4] = {pattern, ~pattern, pattern * 3, pattern ^ 0x5555}, out[8][2];
    for (int i = 0; i < 200; i++) {
        long number = SYS_sched_yield;
        __asm__ volatile("movdqu (%1), %%xmm0\n movdqu 16(%1), %%xmm7\n movdqu (%1), %%xmm8\n movdqu 16(%1), %%xmm15\n syscall\n"
                         "movdqu %%xmm0, (%2)\n movdqu %%xmm7, 16(%2)\n movdqu %%xmm8, 32(%2)\n movdqu %%xmm15, 48(%2)\n"
                         : "+a"(number) : "r"(in), "r"(out) : "rcx", "r11", "memory", "xmm0", "xmm7", "xmm8", "xmm15");
        if (memcmp(out, in, 32) != 0 || memcmp(out + 2, in, 32) != 0)
            return 0;
    }
    return 1;
}

static void *keep(void *pattern) {
    TCHECK(keeps((uint64_t)(uintptr_t)pattern));
    return NULL;
}

static volatile uint64_t seen;
static void on_signal(int s) {
    (void)s;
    seen += (uint64_t)keeps(77);
}

static void vector_registers_are_each_threads_own(void) {
    pthread_t t[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, keep, (void *)(i * 1000003 + 5)) == 0);
    CHECK(keeps(42));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    /* a handler has its own, and gives them back */
    signal(SIGUSR1, on_signal);
    uint64_t in[2] = {1, 2}, out[2];
    long number = SYS_tkill, thread = syscall(SYS_gettid);
    register long signal_number __asm__("rsi") = SIGUSR1;
    __asm__ volatile("movdqu (%3), %%xmm9\n syscall\n movdqu %%xmm9, (%4)\n"
                     : "+a"(number) : "D"(thread), "r"(signal_number), "r"(in), "r"(out) : "rcx", "r11", "memory", "xmm9");
    SAME(number, 0);
    SAME(seen, 1);
    CHECK(memcmp(in, out, 16) == 0);
    signal(SIGUSR1, SIG_DFL);
    pid_t child = fork();
    if (child == 0)
        _exit(!keeps(9));
    CHECK(keeps(10));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

GUEST(T(a_thread_changes_what_a_write_waits_with), T(a_process_changes_what_a_write_waits_with),
      T(the_array_of_poll_goes_while_it_waits), T(a_buffer_becomes_read_only_while_a_receive_waits), T(buffers_over_the_edge),
      T(structures_over_the_edge), T(files_that_became_short), T(answers_are_seen_by_all), T(sizes_of_all_kinds),
      T(words_of_futexes), T(vector_registers_are_each_threads_own))
