/* UDP without checksums (SO_NO_CHECK, UDP_NO_CHECK6_TX and _RX), the longest datagrams, and control messages of other levels. udp(7). */
#include "privileged.h"
#include <netinet/ip.h>

#define UDP_CORK 1
#define NO_CHECK6_TX 101
#define NO_CHECK6_RX 102
#define GRO 104
#define PROTOCOL 52

static unsigned char body[70000], got[70000];

static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }

static int get(int s, int level, int name) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(s, level, name, &value, &n) == 0 ? value : -errno;
}

static int pair(int domain, int protocol, int ends[2]) {
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in a4 = at("127.0.0.1", 0);
    struct sockaddr *a = domain == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
    socklen_t n = domain == AF_INET ? sizeof a4 : sizeof a6;
    lo_up();
    for (int i = 0; i < 2; i++)
        ends[i] = socket(domain, SOCK_DGRAM | SOCK_NONBLOCK, protocol);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = i * 13 + i / 251;
    return ends[1] >= 0 && bind(ends[1], a, n) == 0 && getsockname(ends[1], a, &n) == 0 && connect(ends[0], a, n) == 0;
}

static void both_close(int e[2]) { close(e[0]), close(e[1]); }

/* The checksum of the datagram that a raw socket has seen next; -1 if none comes. */
static int seen(int raw, int v4) {
    unsigned char packet[200];
    if (!comes(raw, 1000) || recv(raw, packet, sizeof packet, 0) < 8)
        return -1;
    unsigned char *udp = packet + (v4 ? 20 : 0);
    return udp[6] << 8 | udp[7];
}

static void none_over_ipv4(void) {
    int e[2];
    CHECK(pair(AF_INET, 0, e));
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
    SAME(get(e[0], SOL_SOCKET, SO_NO_CHECK), 0);
    SAME(send(e[0], body, 10, 0), 10);
    CHECK(seen(raw, 1) > 0);
    SAME(set(e[0], SOL_SOCKET, SO_NO_CHECK, 7), 0);
    SAME(get(e[0], SOL_SOCKET, SO_NO_CHECK), 1);
    SAME(send(e[0], body, 10, 0), 10);
    SAME(seen(raw, 1), 0);
    /* what is said of IPv6 is nothing to IPv4 */
    SAME(set(e[0], SOL_SOCKET, SO_NO_CHECK, 0), 0);
    SAME(set(e[0], IPPROTO_UDP, NO_CHECK6_TX, 1), 0);
    SAME(send(e[0], body, 10, 0), 10);
    CHECK(seen(raw, 1) > 0);
    for (int i = 0; i < 3; i++)
        CHECK(comes(e[1], 1000) && recv(e[1], got, sizeof got, 0) == 10 && memcmp(got, body, 10) == 0);
    close(raw), both_close(e);
}

static void none_over_ipv6(void) {
    int e[2];
    CHECK(pair(AF_INET6, 0, e));
    int raw = socket(AF_INET6, SOCK_RAW, IPPROTO_UDP);
    SAME(set(e[0], SOL_SOCKET, SO_NO_CHECK, 1), 0); /* of IPv4 alone */
    SAME(send(e[0], body, 10, 0), 10);
    CHECK(seen(raw, 0) > 0);
    CHECK(comes(e[1], 1000) && recv(e[1], got, sizeof got, 0) == 10);
    SAME(get(e[0], IPPROTO_UDP, NO_CHECK6_TX), 0);
    SAME(set(e[0], IPPROTO_UDP, NO_CHECK6_TX, 5), 0);
    SAME(get(e[0], IPPROTO_UDP, NO_CHECK6_TX), 1);
    SAME(send(e[0], body, 10, 0), 10);
    SAME(seen(raw, 0), 0);
    CHECK(!comes(e[1], 50)); /* nobody takes it unasked, */
    SAME(get(e[1], IPPROTO_UDP, NO_CHECK6_RX), 0);
    SAME(set(e[1], IPPROTO_UDP, NO_CHECK6_RX, 1), 0);
    SAME(get(e[1], IPPROTO_UDP, NO_CHECK6_RX), 1);
    SAME(send(e[0], body, 10, 0), 10);
    CHECK(comes(e[1], 1000) && recv(e[1], got, sizeof got, 0) == 10);
    SAME(set(e[0], IPPROTO_UDP, NO_CHECK6_TX, 0), 0);
    SAME(send(e[0], body, 10, 0), 10);
    CHECK(comes(e[1], 1000) && recv(e[1], got, sizeof got, 0) == 10); /* it takes others as well */
    /* nor says anybody that nobody listens */
    close(e[1]);
    SAME(set(e[0], IPPROTO_UDP, NO_CHECK6_TX, 1), 0);
    SAME(send(e[0], body, 10, 0), 10);
    struct pollfd p = {e[0], POLLIN, 0};
    SAME(poll(&p, 1, 50), 0);
    SAME(set(e[0], IPPROTO_UDP, NO_CHECK6_TX, 0), 0);
    SAME(send(e[0], body, 10, 0), 10);
    SAME(poll(&p, 1, 1000), 1);
    SAME(get(e[0], SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    close(raw), close(e[0]);
}

/* A socket of IPv6 sends to IPv4 by IPv4's rules. */
static void mapped_addresses(void) {
    int e[2];
    CHECK(pair(AF_INET, 0, e));
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_UDP), s = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in a;
    socklen_t n = sizeof a;
    SAME(getsockname(e[1], (struct sockaddr *)&a, &n), 0);
    struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = a.sin_port};
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &b.sin6_addr);
    SAME(set(s, IPPROTO_UDP, NO_CHECK6_TX, 1), 0);
    SAME(sendto(s, body, 10, 0, (struct sockaddr *)&b, sizeof b), 10);
    CHECK(seen(raw, 1) > 0);
    SAME(set(s, SOL_SOCKET, SO_NO_CHECK, 1), 0);
    SAME(sendto(s, body, 10, 0, (struct sockaddr *)&b, sizeof b), 10);
    SAME(seen(raw, 1), 0);
    SAME(sendto(s, body, 65507, 0, (struct sockaddr *)&b, sizeof b), 65507);
    FAILS(sendto(s, body, 65508, 0, (struct sockaddr *)&b, sizeof b), EMSGSIZE);
    close(raw), close(s), both_close(e);
}

static void the_longest(void) {
    int e[2];
    for (int v6 = 0; v6 < 2; v6++) {
        ssize_t most = v6 ? 65527 : 65507;
        CHECK(pair(v6 ? AF_INET6 : AF_INET, 0, e));
        SAME(set(e[1], SOL_SOCKET, SO_RCVBUF, 200000), 0);
        SAME(send(e[0], body, most, 0), most);
        CHECK(comes(e[1], 1000));
        SAME(recv(e[1], got, sizeof got, 0), most);
        SAME(memcmp(got, body, most), 0);
        FAILS(send(e[0], body, most + 1, 0), EMSGSIZE);
        SAME(send(e[0], body, 60000, MSG_MORE), 60000);
        SAME(send(e[0], body + 60000, most - 60000, 0), most - 60000);
        CHECK(comes(e[1], 1000));
        SAME(recv(e[1], got, sizeof got, 0), most);
        SAME(memcmp(got, body, most), 0);
        SAME(send(e[0], body, 60000, MSG_MORE), 60000);
        FAILS(send(e[0], body, most - 60000 + 1, 0), EMSGSIZE);
        both_close(e);
    }
}

static ssize_t say(int s, int level, int type, int value, int room) {
    union { struct cmsghdr header; char bytes[64]; } control = {0};
    struct iovec iov = {body, 5};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(room)};
    control.header = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(room)};
    memcpy(CMSG_DATA(&control.header), &value, room < 4 ? room : 4);
    return sendmsg(s, &m, MSG_DONTWAIT);
}

/* Messages of a level that is not the socket's say nothing; of its own, only what there is. */
static void levels(int s, int udp, int v4, int v6) {
    const int others[] = {IPPROTO_TCP, IPPROTO_ICMP, IPPROTO_RAW, 263, 999};
    for (int i = 0; i < 5; i++)
        for (int room = 0; room <= 4; room += 2)
            SAME(say(s, others[i], 1, 1, room), 5);
    SAME(say(s, SOL_SOCKET, SCM_RIGHTS, 1, 4), 5);
    SAME(say(s, SOL_SOCKET, SCM_CREDENTIALS, 1, 4), 5);
    FAILS(say(s, SOL_SOCKET, 99, 1, 4), EINVAL);
    SAME(say(s, SOL_SOCKET, SO_MARK, 1, 4), 5);
    FAILS(say(s, SOL_SOCKET, SO_MARK, 1, 2), EINVAL);
    FAILS(say(s, SOL_SOCKET, SO_TIMESTAMPING, 1, 2), EINVAL);
    if (udp) {
        FAILS(say(s, IPPROTO_UDP, 99, 1, 4), EINVAL);
        FAILS(say(s, IPPROTO_UDP, GRO, 1, 4), EINVAL);
    } else {
        SAME(say(s, IPPROTO_UDP, 99, 1, 4), 5);
    }
    const int bad4[][3] = {{99, 1, 4}, {IP_TOS, 1, 2}, {IP_TOS, 256, 4}, {IP_TTL, 0, 4}, {IP_TTL, 256, 4}, {IP_TTL, 1, 1}, {PROTOCOL, 0, 4}};
    for (int i = 0; i < 7; i++) {
        if (v4)
            FAILS(say(s, IPPROTO_IP, bad4[i][0], bad4[i][1], bad4[i][2]), EINVAL);
        else
            SAME(say(s, IPPROTO_IP, bad4[i][0], bad4[i][1], bad4[i][2]), 5);
    }
    SAME(say(s, IPPROTO_IP, IP_TOS, 8, 1), 5);
    SAME(say(s, IPPROTO_IP, IP_TTL, 9, 4), 5);
    SAME(say(s, IPPROTO_IP, PROTOCOL, 17, 4), 5);
    const int bad6[][3] = {{99, 1, 4}, {IPV6_TCLASS, 1, 1}, {IPV6_TCLASS, 256, 4}, {IPV6_HOPLIMIT, -2, 4}, {IPV6_DONTFRAG, 2, 4}};
    for (int i = 0; i < 5; i++) {
        if (v6)
            FAILS(say(s, IPPROTO_IPV6, bad6[i][0], bad6[i][1], bad6[i][2]), EINVAL);
        else
            SAME(say(s, IPPROTO_IPV6, bad6[i][0], bad6[i][1], bad6[i][2]), 5);
    }
    SAME(say(s, IPPROTO_IPV6, IPV6_TCLASS, -1, 4), 5);
    SAME(say(s, IPPROTO_IPV6, IPV6_HOPLIMIT, 9, 4), 5);
    SAME(say(s, IPPROTO_IPV6, IPV6_DONTFRAG, 1, 4), 5);
}

static void levels_of_udp(void) {
    int e[2];
    CHECK(pair(AF_INET, 0, e));
    levels(e[0], 1, 1, 0);
    both_close(e);
    CHECK(pair(AF_INET6, 0, e));
    levels(e[0], 1, 0, 1);
    both_close(e);
}

static void levels_of_tcp(void) {
    struct sockaddr_in a = at("127.0.0.1", 0);
    socklen_t n = sizeof a;
    lo_up();
    int listener = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);
    SAME(bind(listener, (struct sockaddr *)&a, n), 0);
    SAME(listen(listener, 1), 0);
    SAME(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    SAME(connect(s, (struct sockaddr *)&a, n), 0);
    levels(s, 0, 0, 0);
    close(s), close(listener);
}

GUEST(T(none_over_ipv4), T(none_over_ipv6), T(mapped_addresses), T(the_longest), T(levels_of_udp), T(levels_of_tcp))
