/* Traffic for routing_planes.py: datagrams at a rate or as fast as they go, or one TCP connection; and the receivers, which
 * print packets, bytes and seconds of what came after the first tenth of a second.
 *
 *     traffic udp-send ADDRESS SIZE MBIT SECONDS      MBIT of payload, 0 for as fast as possible
 *     traffic tcp-send ADDRESS SECONDS
 *     traffic udp-sink SECONDS
 *     traffic tcp-sink SECONDS
 *     traffic plain INTERFACE                         no offloads there: checksums and segments are made by the stack */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 9000
#define BATCH 32
#define WARM 0.1

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int check(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static struct sockaddr_in address(const char *text) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (text && inet_pton(AF_INET, text, &to.sin_addr) != 1) {
        fprintf(stderr, "%s is no address\n", text);
        exit(1);
    }
    return to;
}

static void udp_send(const char *to, int size, double mbit, double seconds) {
    struct sockaddr_in peer = address(to);
    int s = check(socket(AF_INET, SOCK_DGRAM, 0), "socket"), big = 4 << 20;
    setsockopt(s, SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
    check(connect(s, (struct sockaddr *)&peer, sizeof peer), "connect");
    char *payload = calloc(1, size);
    struct iovec part = {payload, size};
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < BATCH; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    double start = now(), per_second = mbit * 1e6 / 8 / size;
    long sent = 0;
    while (now() < start + seconds) {
        long due = mbit > 0 ? (long)((now() - start) * per_second) - sent : BATCH;
        if (due <= 0) {
            struct timespec nap = {0, 50000};
            nanosleep(&nap, NULL);
            continue;
        }
        int n = sendmmsg(s, messages, due < BATCH ? due : BATCH, 0);
        if (n > 0)
            sent += n;
        else if (errno != ENOBUFS && errno != ECONNREFUSED && errno != EHOSTUNREACH && errno != EAGAIN)
            check(n, "sendmmsg");
    }
    printf("%ld\n", sent);
}

static void udp_sink(double seconds) {
    struct sockaddr_in own = address(NULL);
    int s = check(socket(AF_INET, SOCK_DGRAM, 0), "socket"), big = 16 << 20;
    setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
    check(bind(s, (struct sockaddr *)&own, sizeof own), "bind");
    static char bytes[BATCH][2048];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){bytes[i], sizeof bytes[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    puts("ready");
    fflush(stdout);
    long packets = 0, length = 0;
    double first = 0, last = 0, end = now() + seconds;
    while (now() < end) {
        struct pollfd p = {s, POLLIN, 0};
        if (poll(&p, 1, 50) <= 0)
            continue;
        int n = recvmmsg(s, messages, BATCH, MSG_DONTWAIT, NULL);
        double at = now();
        if (n <= 0)
            continue;
        if (first == 0)
            first = at;
        if (at < first + WARM)
            continue;
        for (int i = 0; i < n; i++)
            length += messages[i].msg_len;
        packets += n;
        last = at;
    }
    printf("%ld %ld %.6f\n", packets, length, last > first + WARM ? last - first - WARM : 0);
}

static void tcp_send(const char *to, double seconds) {
    struct sockaddr_in peer = address(to);
    int s = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    check(connect(s, (struct sockaddr *)&peer, sizeof peer), "connect");
    static char block[1 << 17];
    double end = now() + seconds;
    while (now() < end)
        if (send(s, block, sizeof block, MSG_NOSIGNAL) < 0)
            check(-1, "send");
}

static void tcp_sink(double seconds) {
    struct sockaddr_in own = address(NULL);
    int l = check(socket(AF_INET, SOCK_STREAM, 0), "socket"), on = 1;
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(l, (struct sockaddr *)&own, sizeof own), "bind");
    check(listen(l, 1), "listen");
    puts("ready");
    fflush(stdout);
    struct pollfd p = {l, POLLIN, 0};
    if (poll(&p, 1, seconds * 1000) <= 0)
        exit(1);
    int s = check(accept(l, NULL, NULL), "accept");
    static char block[1 << 18];
    double first = now(), last = first;
    long length = 0, n;
    while ((n = recv(s, block, sizeof block, 0)) > 0) {
        last = now();
        if (last > first + WARM)
            length += n;
    }
    printf("0 %ld %.6f\n", length, last - first - WARM);
}

static void plain(const char *name) {
    __u32 off[] = {ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO};
    int s = check(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    for (unsigned i = 0; i < sizeof off / sizeof *off; i++) {
        struct ethtool_value value = {off[i], 0};
        struct ifreq request = {.ifr_data = (char *)&value};
        strncpy(request.ifr_name, name, IFNAMSIZ - 1);
        check(ioctl(s, SIOCETHTOOL, &request), "SIOCETHTOOL");
    }
}

int main(int argc, char **argv) {
    if (argc == 6 && !strcmp(argv[1], "udp-send"))
        udp_send(argv[2], atoi(argv[3]), atof(argv[4]), atof(argv[5]));
    else if (argc == 4 && !strcmp(argv[1], "tcp-send"))
        tcp_send(argv[2], atof(argv[3]));
    else if (argc == 3 && !strcmp(argv[1], "udp-sink"))
        udp_sink(atof(argv[2]));
    else if (argc == 3 && !strcmp(argv[1], "tcp-sink"))
        tcp_sink(atof(argv[2]));
    else if (argc == 3 && !strcmp(argv[1], "plain"))
        plain(argv[2]);
    else {
        fprintf(stderr, "see the head of traffic.c\n");
        return 2;
    }
    return 0;
}
