/* Options of IPv6 sockets that packets and binding show: IPV6_V6ONLY, IPV6_AUTOFLOWLABEL. ipv6(7). */
#include "privileged.h"
#include <net/ethernet.h>

#define AUTOFLOWLABEL 70

static int option(int s, int name) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(s, IPPROTO_IPV6, name, &value, &n) == 0 ? value : -errno;
}

static int set(int s, int name, int value) { return setsockopt(s, IPPROTO_IPV6, name, &value, sizeof value); }

static struct sockaddr_in6 own(int port) {
    return (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
}
#define ADDR(a) (struct sockaddr *)&(a), sizeof(a)

/* Not any more once a socket has a port, or what stands in its place. */
static void v6only_is_settled_by_a_port(void) {
    struct sockaddr_in6 a = own(0), nine = own(9);
    int u = socket(AF_INET6, SOCK_DGRAM, 0);
    SAME(set(u, IPV6_V6ONLY, 1), 0);
    SAME(connect(u, ADDR(nine)), 0);
    FAILS(set(u, IPV6_V6ONLY, 0), EINVAL);
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    SAME(connect(u, &none, sizeof none), 0);
    SAME(set(u, IPV6_V6ONLY, 0), 0);
    SAME(bind(u, ADDR(a)), 0);
    FAILS(set(u, IPV6_V6ONLY, 0), EINVAL);
    SAME(option(u, IPV6_V6ONLY), 1); /* an address of IPv6 makes it so */
    int t = socket(AF_INET6, SOCK_STREAM, 0);
    SAME(listen(t, 1), 0);
    FAILS(set(t, IPV6_V6ONLY, 1), EINVAL);
    int refused = socket(AF_INET6, SOCK_STREAM, 0);
    FAILS(connect(refused, ADDR(nine)), ECONNREFUSED);
    SAME(set(refused, IPV6_V6ONLY, 1), 0);
    int raw = socket(AF_INET6, SOCK_RAW, 89);
    CHECK(raw >= 0);
    FAILS(set(raw, IPV6_V6ONLY, 1), EINVAL);
    close(u), close(t), close(refused), close(raw);
}

/* The flow label of the next packet of a protocol that passes. */
static unsigned label(int tap, int protocol) {
    unsigned char p[2048];
    while (comes(tap, 1000)) {
        int n = recv(tap, p, sizeof p, 0);
        if (n >= 40 && p[0] >> 4 == 6 && p[6] == protocol)
            return (p[1] & 15) << 16 | p[2] << 8 | p[3];
    }
    return ~0u;
}

static void drain(int tap) {
    char p[2048];
    while (recv(tap, p, sizeof p, MSG_DONTWAIT) >= 0)
        ;
}

static void flow_labels_can_be_left_out(void) {
    int tap = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IPV6)), u = socket(AF_INET6, SOCK_DGRAM, 0);
    CHECK(tap >= 0);
    SAME(option(u, AUTOFLOWLABEL), 1);
    struct sockaddr_in6 nine = own(9), at = own(0);
    socklen_t n = sizeof at;
    drain(tap);
    SAME(sendto(u, "x", 1, 0, ADDR(nine)), 1);
    unsigned first = label(tap, IPPROTO_UDP);
    CHECK(first != 0 && first != ~0u);
    drain(tap);
    SAME(sendto(u, "x", 1, 0, ADDR(nine)), 1);
    SAME(label(tap, IPPROTO_UDP), first); /* the same of all packets of a flow */
    SAME(set(u, AUTOFLOWLABEL, 0), 0);
    drain(tap);
    SAME(sendto(u, "x", 1, 0, ADDR(nine)), 1);
    SAME(label(tap, IPPROTO_UDP), 0);
    SAME(set(u, AUTOFLOWLABEL, 5), 0);
    SAME(option(u, AUTOFLOWLABEL), 1);
    int l = socket(AF_INET6, SOCK_STREAM, 0), c = socket(AF_INET6, SOCK_STREAM, 0);
    SAME(bind(l, ADDR(at)), 0);
    SAME(listen(l, 1), 0);
    SAME(getsockname(l, (struct sockaddr *)&at, &n), 0);
    SAME(set(c, AUTOFLOWLABEL, 0), 0);
    drain(tap);
    SAME(connect(c, ADDR(at)), 0);
    SAME(label(tap, IPPROTO_TCP), 0);
    close(tap), close(u), close(l), close(c);
}

/* What raw and ping sockets have in common: shut ends, and what is told of a packet. */
static void shut_ends_of_sockets_without_ports(void) {
    FILE *f = fopen("/proc/sys/net/ipv4/ping_group_range", "w");
    if (f) {
        fputs("0 0", f);
        fclose(f);
    }
    int sockets[] = {socket(AF_INET, SOCK_RAW, 89), socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP)}, one = 1;
    for (int i = 0; i < 2; i++) {
        int s = sockets[i];
        CHECK(s >= 0);
        unsigned char echo[11] = {8}, got[64], control[200];
        SAME(setsockopt(s, IPPROTO_IP, IP_PKTINFO, &one, sizeof one), 0);
        SAME(setsockopt(s, IPPROTO_IP, IP_RECVTOS, &one, sizeof one), 0);
        SAME(setsockopt(s, IPPROTO_IP, IP_RECVTTL, &one, sizeof one), 0);
        FAILS(shutdown(s, SHUT_RD), ENOTCONN);
        struct pollfd p = {s, POLLIN | POLLRDHUP, 0};
        SAME(poll(&p, 1, 0), 1);
        SAME(p.revents, POLLIN | POLLRDHUP);
        struct sockaddr_in to = at("127.0.0.1", 0);
        SAME(sendto(s, echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to), sizeof echo);
        struct iovec v = {got, sizeof got};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        CHECK(recvmsg(s, &m, 0) > 0); /* what comes is still received */
        int types[3] = {0}, n = 0;
        for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h && n < 3; h = CMSG_NXTHDR(&m, h))
            types[n++] = h->cmsg_type;
        CHECK(types[0] == IP_PKTINFO && types[1] == IP_TTL && types[2] == IP_TOS);
        FAILS(recv(s, got, sizeof got, MSG_DONTWAIT), EAGAIN);
        SAME(recv(s, got, sizeof got, 0), 0);
        FAILS(recv(s, got, sizeof got, MSG_OOB), EOPNOTSUPP);
        FAILS(shutdown(s, SHUT_WR), ENOTCONN);
        SAME(poll(&p, 1, 0), 1);
        SAME(p.revents, POLLIN | POLLRDHUP | POLLHUP);
        if (i == 0) /* a raw socket does not mind */
            SAME(sendto(s, echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to), sizeof echo);
        else
            FAILS(sendto(s, echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to), EPIPE);
        close(s);
    }
}

/* IPV6_CHECKSUM by both of its levels: RFC 3542, section 3.1; daemons use either. */
static void checksums_of_raw_sockets(void) {
    int other = socket(AF_INET6, SOCK_RAW, 253), icmp = socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
    int value = 2, got = 7;
    socklen_t len = sizeof got;
    CHECK(other >= 0 && icmp >= 0);
    CHECK(getsockopt(other, IPPROTO_IPV6, IPV6_CHECKSUM, &got, &len) == 0 && got == -1);
    CHECK(getsockopt(icmp, SOL_RAW, IPV6_CHECKSUM, &got, &len) == 0 && got == 2);
    CHECK(setsockopt(other, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value) == 0);
    CHECK(getsockopt(other, SOL_RAW, IPV6_CHECKSUM, &got, &len) == 0 && got == 2);
    CHECK(setsockopt(icmp, SOL_RAW, IPV6_CHECKSUM, &value, sizeof value) == 0);
    FAILS(setsockopt(icmp, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value), EINVAL);
    value = 3;
    FAILS(setsockopt(other, IPPROTO_IPV6, IPV6_CHECKSUM, &value, sizeof value), EINVAL);
    value = 2;
    /* The kernel fills it in, and what has a wrong one does not come. */
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    unsigned char packet[8] = {1, 2, 0, 0, 5, 6, 7, 8}, back[8] = {0};
    CHECK(sendto(other, packet, sizeof packet, 0, (struct sockaddr *)&to, sizeof to) == sizeof packet);
    CHECK(comes(other, 1000) && recv(other, back, sizeof back, 0) == sizeof back);
    CHECK(back[2] != 0 || back[3] != 0);
    close(other), close(icmp);
}

/* IPV6_ADDRFORM: a connection to an IPv4 address becomes a socket of that family. */
static int family_of(int s) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(s, SOL_SOCKET, SO_DOMAIN, &value, &n) == 0 ? value : -1;
}
static void connections_change_their_family(void) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, name;
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    socklen_t n = sizeof any;
    int l = socket(AF_INET6, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    SAME(bind(l, ADDR(any)), 0);
    SAME(listen(l, 5), 0);
    SAME(getsockname(l, (struct sockaddr *)&any, &n), 0);
    four.sin_port = any.sin6_port;
    if (may_lack_calls() && set(l, IPV6_ADDRFORM, AF_INET) != 0 && errno == ENOPROTOOPT) {
        printf("# this Linux has no IPV6_ADDRFORM\n");
        close(l), close(c);
        return;
    }
    FAILS(set(l, IPV6_ADDRFORM, AF_INET), ENOTCONN);
    SAME(option(l, IPV6_ADDRFORM), -ENOTCONN);
    FAILS(set(l, IPV6_ADDRFORM, AF_INET6), EINVAL);
    SAME(connect(c, ADDR(four)), 0);
    int a = accept(l, NULL, NULL);
    CHECK(a >= 0);
    SAME(option(a, IPV6_ADDRFORM), AF_INET6);
    FAILS(setsockopt(a, IPPROTO_IPV6, IPV6_ADDRFORM, &n, 2), EINVAL);
    SAME(set(a, IPV6_ADDRFORM, AF_INET), 0);
    SAME(family_of(a), AF_INET);
    FAILS(set(a, IPV6_ADDRFORM, AF_INET), ENOPROTOOPT);
    n = sizeof name;
    SAME(getsockname(a, (struct sockaddr *)&name, &n), 0);
    SAME(n, sizeof name);
    SAME(name.sin_family, AF_INET);
    SAME(name.sin_port, four.sin_port);
    SAME(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    CHECK(send(a, "x", 1, 0) == 1 && recv(c, &n, 1, 0) == 1);
    /* It can begin anew, as a socket of IPv4. */
    SAME(connect(a, &none, sizeof none), 0);
    four.sin_port = 0;
    four.sin_addr.s_addr = INADDR_ANY;
    SAME(bind(a, ADDR(four)), 0);
    SAME(listen(a, 5), 0);
    n = sizeof name;
    SAME(getsockname(a, (struct sockaddr *)&name, &n), 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int d = socket(AF_INET, SOCK_STREAM, 0);
    SAME(connect(d, ADDR(name)), 0);
    int b = accept(a, NULL, NULL);
    CHECK(b >= 0);
    SAME(family_of(b), AF_INET);
    close(l), close(c), close(a), close(d), close(b);

    struct sockaddr_in6 nine = own(9);
    int u = socket(AF_INET6, SOCK_DGRAM, 0), r = socket(AF_INET6, SOCK_RAW, 89);
    FAILS(set(u, IPV6_ADDRFORM, AF_INET), ENOTCONN);
    SAME(connect(u, ADDR(nine)), 0);
    FAILS(set(u, IPV6_ADDRFORM, AF_INET), EADDRNOTAVAIL);
    memset(&nine.sin6_addr, 0, 16);
    nine.sin6_addr.s6_addr[10] = nine.sin6_addr.s6_addr[11] = 0xff;
    nine.sin6_addr.s6_addr[12] = 127;
    nine.sin6_addr.s6_addr[15] = 1;
    SAME(connect(u, ADDR(nine)), 0);
    SAME(set(u, IPV6_ADDRFORM, AF_INET), 0);
    SAME(family_of(u), AF_INET);
    FAILS(set(r, IPV6_ADDRFORM, AF_INET), ENOPROTOOPT);
    close(u), close(r);
}

GUEST_WITH(lo_up(), T(checksums_of_raw_sockets), T(v6only_is_settled_by_a_port), T(flow_labels_can_be_left_out), T(shut_ends_of_sockets_without_ports), T(connections_change_their_family))
