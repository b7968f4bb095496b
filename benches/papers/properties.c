/* A program with a property of table 2 of the Phantom paper, by definitions and flags of the compiler: THREADS, PROCESSES,
 * BARE (no C library at all), ASSEMBLY (system calls without it). It sleeps 50 ms, sends itself a datagram, and prints what
 * came and whether its clock has moved on. */
#include <linux/in.h>
#include <linux/net.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifdef BARE
#include <linux/time.h>
#else
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#endif

#define AF_INET_ 2
#define SOCK_DGRAM_ 2

static long call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(BARE) || defined(ASSEMBLY)
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, a, b, c, d, e, f);
#endif
}

static int64_t now(void) {
    struct timespec t = {0, 0};
    call(SYS_clock_gettime, 1, (long)&t, 0, 0, 0, 0);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void say(const char *text, size_t length) { call(SYS_write, 1, (long)text, (long)length, 0, 0, 0); }

/* 0 if all went well. */
static int exchange(void) {
    int64_t begin = now();
    struct timespec pause = {0, 50000000};
    call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
    if (now() - begin < 50000000)
        return 1;
    struct sockaddr_in to = {.sin_family = AF_INET_};
    to.sin_addr.s_addr = 0x0100007f;
    unsigned length = sizeof to;
    char got[8] = "";
    long s = call(SYS_socket, AF_INET_, SOCK_DGRAM_, 0, 0, 0, 0);
    if (s < 0 || call(SYS_bind, s, (long)&to, sizeof to, 0, 0, 0) != 0 || call(SYS_getsockname, s, (long)&to, (long)&length, 0, 0, 0) != 0)
        return 2;
    if (call(SYS_sendto, s, (long)"hello\n", 6, 0, (long)&to, sizeof to) != 6 || call(SYS_recvfrom, s, (long)got, sizeof got, 0, 0, 0) != 6)
        return 3;
    say(got, 6);
    return 0;
}

#ifdef BARE
void _start(void) { call(SYS_exit_group, exchange(), 0, 0, 0, 0, 0); }
#else
#ifdef THREADS
static void *thread(void *result) {
    *(int *)result = exchange();
    return NULL;
}
#endif

int main(void) {
    int failed = 0;
#ifdef THREADS
    pthread_t threads[4];
    int results[4];
    for (int i = 0; i < 4; i++)
        failed |= pthread_create(&threads[i], NULL, thread, &results[i]);
    for (int i = 0; i < 4; i++) {
        failed |= pthread_join(threads[i], NULL);
        failed |= results[i];
    }
#elif defined(PROCESSES)
    for (int i = 0; i < 4; i++)
        if (fork() == 0)
            _exit(exchange());
    int status;
    while (wait(&status) > 0)
        failed |= status;
#else
    failed = exchange();
#endif
    return failed != 0;
}
#endif
