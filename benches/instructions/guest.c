/* Guests of instructions.py. A *mark* is an `int3`, which step.c stops at: the first one begins the section that is counted, the
 * second one ends it.
 *
 *     guest section NS             marks now and after NS of simulated time
 *     guest getppid COUNT          COUNT calls between the marks, after half as many, in which call sites are rewritten
 *     guest lseek COUNT            the same of a call that the kernel answers
 *     guest datagrams HOST COUNT   a train of COUNT datagrams of 1 KiB each millisecond
 *     guest discard                receives datagrams, those of a millisecond at once
 *     guest stream HOST            sends as fast as TCP allows
 *     guest drain                  receives from one TCP connection; its units are bytes
 */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

static char buffer[128 << 10];

static int check(int result, const char *call) {
    if (result < 0) {
        perror(call);
        exit(1);
    }
    return result;
}

/* Not inlined, so that both marks have the same address. */
static __attribute__((noinline)) void mark(void) { __asm__ volatile("int3" ::: "memory"); }

static struct timespec after(struct timespec t, long ns) {
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void section(long ns) {
    mark();
    struct timespec length = after((struct timespec){0, 0}, ns);
    nanosleep(&length, NULL);
    mark();
}

static void calls(long count, int asks_kernel) {
    FILE *file = tmpfile();
    check(file == NULL ? -1 : 0, "tmpfile");
    int fd = fileno(file);
    struct timespec pause = {0, 1000000};
    for (int round = 0; round < 2; round++) {
        long n = round == 0 ? count / 2 : count;
        /* The first 1,000 calls since the clock last moved take no simulated time. */
        nanosleep(&pause, NULL);
        if (round == 1)
            mark();
        if (asks_kernel)
            for (long i = 0; i < n; i++)
                lseek(fd, 0, SEEK_CUR);
        else
            for (long i = 0; i < n; i++)
                getppid();
    }
    unit(count);
    mark();
}

/* A socket that is bound to port 7000, or connected to that of a host. */
static int endpoint(int kind, const char *host) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = kind, .ai_flags = host == NULL ? AI_PASSIVE : 0}, *found;
    if (getaddrinfo(host, "7000", &hints, &found) != 0) {
        fprintf(stderr, "%s: no such host\n", host);
        exit(1);
    }
    int s = check(socket(AF_INET, kind, 0), "socket");
    if (host == NULL)
        check(bind(s, found->ai_addr, found->ai_addrlen), "bind");
    else
        check(connect(s, found->ai_addr, found->ai_addrlen), "connect");
    return s;
}

enum { TRAIN = 64, MILLISECOND = 1000000 };

/* Sends or receives trains. */
static void trains(int s, unsigned count, int sends) {
    struct iovec part = {buffer, 1024};
    struct mmsghdr messages[TRAIN] = {0};
    for (int i = 0; i < TRAIN; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (;;) {
        if (sends) {
            check(sendmmsg(s, messages, count, 0), "sendmmsg");
        } else {
            int got = recvmmsg(s, messages, TRAIN, MSG_DONTWAIT, NULL);
            if (got > 0)
                unit(got);
        }
        due = after(due, MILLISECOND);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    if (!strcmp(kind, "section") && argc == 3) {
        section(atol(argv[2]));
    } else if (!strcmp(kind, "getppid") && argc == 3) {
        calls(atol(argv[2]), 0);
    } else if (!strcmp(kind, "lseek") && argc == 3) {
        calls(atol(argv[2]), 1);
    } else if (!strcmp(kind, "datagrams") && argc == 4) {
        trains(endpoint(SOCK_DGRAM, argv[2]), (unsigned)atoi(argv[3]), 1);
    } else if (!strcmp(kind, "discard") && argc == 2) {
        trains(endpoint(SOCK_DGRAM, NULL), 0, 0);
    } else if (!strcmp(kind, "stream") && argc == 3) {
        int s = endpoint(SOCK_STREAM, argv[2]);
        for (;;)
            check(write(s, buffer, sizeof buffer), "write");
    } else if (!strcmp(kind, "drain") && argc == 2) {
        int s = endpoint(SOCK_STREAM, NULL);
        check(listen(s, 1), "listen");
        s = check(accept(s, NULL, NULL), "accept");
        for (long got; (got = check(recv(s, buffer, sizeof buffer, 0), "recv")) > 0;)
            unit(got);
    } else {
        fprintf(stderr, "usage: see the head of guest.c\n");
        return 2;
    }
    return 0;
}
