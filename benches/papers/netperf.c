/* The workload of the SimBricks paper's tables 1 and 3: throughput of one TCP connection (TCP_STREAM), then round trips of
 * one byte on another (TCP_RR).
 *
 *     netperf                           serves
 *     netperf HOST MILLISECONDS COUNT   says "stream MBIT rr MICROSECONDS" */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 12865 };
static char block[65536];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The first byte says what is wanted: everything until the end is taken and its length answered, or bytes come back. */
static void serve(int connection) {
    char kind;
    int on = 1;
    int64_t total = 0;
    ssize_t got;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (read(connection, &kind, 1) != 1)
        return;
    while ((got = read(connection, block, sizeof block)) > 0) {
        total += got;
        if (kind == 'r' && write(connection, block, (size_t)got) != got)
            return;
    }
    if (kind == 's' && write(connection, &total, sizeof total) != sizeof total)
        fail("write");
}

static int opened(struct in_addr address, char kind) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = address};
    int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(s, (struct sockaddr *)&to, sizeof to) != 0 || write(s, &kind, 1) != 1)
        fail("connect");
    return s;
}

int main(int argc, char **argv) {
    if (argc == 1) {
        struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(PORT)};
        int s = socket(AF_INET, SOCK_STREAM, 0), on = 1;
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(s, (struct sockaddr *)&here, sizeof here) != 0 || listen(s, 8) != 0)
            fail("listen");
        for (;;) {
            int connection = accept(s, NULL, NULL);
            if (connection < 0)
                fail("accept");
            serve(connection);
            close(connection);
        }
    }
    struct in_addr address;
    if (argc != 4 || inet_aton(argv[1], &address) == 0)
        return 2;
    int64_t until, begin = now(), total = 0, received = 0;
    int s = opened(address, 's');
    for (until = begin + atoll(argv[2]) * 1000000; now() < until; total += sizeof block)
        for (size_t sent = 0; sent < sizeof block;) {
            ssize_t part = write(s, block + sent, sizeof block - sent);
            if (part <= 0)
                fail("write");
            sent += (size_t)part;
        }
    shutdown(s, SHUT_WR);
    if (read(s, &received, sizeof received) != sizeof received || received != total) {
        fprintf(stderr, "%lld bytes sent, %lld received\n", (long long)total, (long long)received);
        return 1;
    }
    double mbit = (double)total * 8000 / (double)(now() - begin);
    close(s);
    s = opened(address, 'r');
    long count = atol(argv[3]);
    char byte = 1;
    begin = now();
    for (long n = 0; n < count; n++)
        if (write(s, &byte, 1) != 1 || read(s, &byte, 1) != 1)
            fail("round trip");
    printf("stream %.2f rr %.3f\n", mbit, count ? (double)(now() - begin) / 1000 / (double)count : 0.0);
    return 0;
}
