/* UDP over loopback. udp(7), ip(7), recv(2), send(2). */
#include "guest.h"
#include <net/if.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
#define ADDR(a) (struct sockaddr *)&(a), sizeof(a)

static int bound(struct sockaddr_in *a) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t n = sizeof *a;
    *a = loopback(0);
    if (s < 0 || bind(s, (struct sockaddr *)a, n) != 0 || getsockname(s, (struct sockaddr *)a, &n) != 0)
        return -1;
    return s;
}

static void datagrams_keep_their_borders(void) {
    struct sockaddr_in aa, ba, from;
    int a = bound(&aa), b = bound(&ba);
    CHECK(a >= 0 && b >= 0 && aa.sin_port != 0 && aa.sin_port != ba.sin_port);
    char buf[64];
    socklen_t n = sizeof from;
    SAME(sendto(a, "one", 3, 0, ADDR(ba)), 3);
    SAME(sendto(a, "", 0, 0, ADDR(ba)), 0);
    SAME(sendto(a, "three", 5, 0, ADDR(ba)), 5);
    SAME(recvfrom(b, buf, sizeof buf, 0, (struct sockaddr *)&from, &n), 3);
    CHECK(memcmp(buf, "one", 3) == 0 && n == sizeof from && from.sin_port == aa.sin_port);
    SAME(ntohl(from.sin_addr.s_addr), INADDR_LOOPBACK);
    SAME(recv(b, buf, sizeof buf, 0), 0);
    SAME(recv(b, buf, 2, 0), 2); /* the rest of a datagram is lost */
    FAILS(recv(b, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
    close(a), close(b);
}

static void peek_and_trunc(void) {
    struct sockaddr_in aa, ba;
    int a = bound(&aa), b = bound(&ba), n;
    char buf[4];
    SAME(sendto(a, "abcdefgh", 8, 0, ADDR(ba)), 8);
    SAME(recv(b, buf, 4, MSG_PEEK), 4);
    CHECK(ioctl(b, FIONREAD, &n) == 0);
    SAME(n, 8);
    SAME(recv(b, buf, 4, MSG_PEEK | MSG_TRUNC), 8);
    SAME(recv(b, buf, 4, MSG_TRUNC), 8);
    CHECK(memcmp(buf, "abcd", 4) == 0);
    close(a), close(b);
}

static void connected(void) {
    struct sockaddr_in aa, ba, ca, peer;
    int a = bound(&aa), b = bound(&ba), c = bound(&ca);
    socklen_t n = sizeof peer;
    char buf[16];
    FAILS(send(a, "x", 1, 0), EDESTADDRREQ);
    FAILS(getpeername(a, (struct sockaddr *)&peer, &n), ENOTCONN);
    CHECK(connect(a, ADDR(ba)) == 0 && getpeername(a, (struct sockaddr *)&peer, &n) == 0);
    SAME(peer.sin_port, ba.sin_port);
    SAME(write(a, "to b", 4), 4);
    SAME(read(b, buf, sizeof buf), 4);
    SAME(sendto(c, "stranger", 8, 0, ADDR(aa)), 8); /* filtered: not from the peer */
    SAME(sendto(b, "friend", 6, 0, ADDR(aa)), 6);
    SAME(recv(a, buf, sizeof buf, 0), 6);
    FAILS(recv(a, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    CHECK(connect(a, &none, sizeof none) == 0);
    FAILS(send(a, "x", 1, 0), EDESTADDRREQ);
    close(a), close(b), close(c);
}

static void nobody_there_is_refused(void) {
    struct sockaddr_in aa, ba;
    int a = bound(&aa), b = bound(&ba);
    close(b);
    char c;
    CHECK(connect(a, ADDR(ba)) == 0);
    SAME(send(a, "x", 1, 0), 1);
    struct pollfd f = {a, POLLIN, 0};
    SAME(poll(&f, 1, 1000), 1);
    CHECK(f.revents & POLLERR);
    FAILS(recv(a, &c, 1, 0), ECONNREFUSED);
    FAILS(recv(a, &c, 1, MSG_DONTWAIT), EAGAIN); /* reported once */
    SAME(send(a, "x", 1, 0), 1);
    sleep_ms(20);
    int e = 0;
    socklen_t n = sizeof e;
    CHECK(getsockopt(a, SOL_SOCKET, SO_ERROR, &e, &n) == 0);
    SAME(e, ECONNREFUSED);
    close(a);
}

static void ports(void) {
    struct sockaddr_in aa, any = {.sin_family = AF_INET};
    int a = bound(&aa), b = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    FAILS(bind(b, ADDR(aa)), EADDRINUSE);
    struct sockaddr_in foreign = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xcb007101)};
    FAILS(bind(b, ADDR(foreign)), EADDRNOTAVAIL);
    FAILS(bind(b, (struct sockaddr *)&aa, 4), EINVAL);
    any.sin_port = aa.sin_port;
    FAILS(bind(b, ADDR(any)), EADDRINUSE);
    close(a);
    CHECK(bind(b, ADDR(aa)) == 0);
    FAILS(bind(b, ADDR(aa)), EINVAL);
    a = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(setsockopt(a, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(setsockopt(b, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(a, ADDR(aa)) == 0);
    close(a), close(b);
    FAILS(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EPROTONOSUPPORT);
    FAILS(socket(12345, SOCK_DGRAM, 0), EAFNOSUPPORT);
    FAILS(socket(AF_INET, 77, 0), EINVAL);
}

static void unbound_sender_gets_a_port(void) {
    struct sockaddr_in ba, from, self;
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = bound(&ba);
    socklen_t n = sizeof from;
    char c;
    SAME(sendto(a, "x", 1, 0, ADDR(ba)), 1);
    SAME(recvfrom(b, &c, 1, 0, (struct sockaddr *)&from, &n), 1);
    n = sizeof self;
    CHECK(getsockname(a, (struct sockaddr *)&self, &n) == 0);
    CHECK(self.sin_port == from.sin_port && self.sin_port != 0);
    SAME(self.sin_addr.s_addr, 0); /* still any address */
    close(a), close(b);
}

static void too_big(void) {
    static char big[70000];
    struct sockaddr_in aa, ba;
    int a = bound(&aa), b = bound(&ba);
    FAILS(sendto(a, big, 65508, 0, ADDR(ba)), EMSGSIZE);
    SAME(sendto(a, big, 65507, 0, ADDR(ba)), 65507);
    SAME(recv(b, big, sizeof big, 0), 65507);
    /* Who asks for all errors finds what would go there; the next call goes on as ever. */
    int one = 1;
    CHECK(setsockopt(a, IPPROTO_IP, IP_RECVERR, &one, sizeof one) == 0);
    for (int connected = 0; connected < 2; connected++) {
        FAILS(connected ? send(a, big, 65508, 0) : sendto(a, big, 65508, 0, ADDR(ba)), EMSGSIZE);
        struct pollfd p = {.fd = a};
        SAME(poll(&p, 1, 0), 1);
        SAME(p.revents, POLLERR);
        FAILS(recv(a, big, sizeof big, MSG_DONTWAIT), EAGAIN);
        char control[200];
        struct sockaddr_in name;
        struct iovec io = {big, sizeof big};
        struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                           .msg_controllen = sizeof control};
        SAME(recvmsg(a, &m, MSG_ERRQUEUE), 0);
        SAME(m.msg_flags, MSG_ERRQUEUE);
        SAME(name.sin_addr.s_addr, ba.sin_addr.s_addr);
        SAME(name.sin_port, connected ? ba.sin_port : 0);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        CHECK(c && c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR);
        SAME(c->cmsg_len, CMSG_LEN(32));
        const struct { /* sock_extended_err, and the offender */
            uint32_t ee_errno;
            uint8_t origin, type, code, pad;
            uint32_t info, data;
            char offender[16];
        } *e = (void *)CMSG_DATA(c);
        SAME(e->ee_errno, EMSGSIZE);
        SAME(e->origin, 1); /* SO_EE_ORIGIN_LOCAL */
        SAME(e->type + e->code + e->data, 0);
        SAME(e->info, 65535);
        static const char none[16];
        CHECK(memcmp(e->offender, none, 16) == 0);
        FAILS(recvmsg(a, &m, MSG_ERRQUEUE), EAGAIN);
        CHECK(connect(a, ADDR(ba)) == 0);
    }
    SAME(send(a, "x", 1, 0), 1);
    close(a), close(b);
}

static void vectors_and_messages(void) {
    struct sockaddr_in aa, ba, from;
    int a = bound(&aa), b = bound(&ba);
    struct iovec out[2] = {{"head", 4}, {"body!", 5}};
    struct msghdr m = {.msg_name = &ba, .msg_namelen = sizeof ba, .msg_iov = out, .msg_iovlen = 2};
    SAME(sendmsg(a, &m, 0), 9);
    char x[3], y[3];
    struct iovec in[2] = {{x, 3}, {y, 3}};
    struct msghdr r = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = in, .msg_iovlen = 2};
    SAME(recvmsg(b, &r, 0), 6);
    CHECK(r.msg_flags & MSG_TRUNC);
    CHECK(memcmp(x, "hea", 3) == 0 && memcmp(y, "dbo", 3) == 0);
    SAME(from.sin_port, aa.sin_port);
    SAME(r.msg_namelen, sizeof from);
    struct mmsghdr mm[3] = {{.msg_hdr = m}, {.msg_hdr = m}, {.msg_hdr = m}};
    SAME(sendmmsg(a, mm, 3, 0), 3);
    SAME(mm[2].msg_len, 9);
    char big[3][16];
    struct iovec v[3] = {{big[0], 16}, {big[1], 16}, {big[2], 16}};
    for (int i = 0; i < 3; i++)
        mm[i].msg_hdr = (struct msghdr){.msg_iov = &v[i], .msg_iovlen = 1};
    SAME(recvmmsg(b, mm, 3, 0, NULL), 3);
    CHECK(memcmp(big[2], "headbody!", 9) == 0);
    close(a), close(b);
}

static void receive_timeout(void) {
    struct sockaddr_in aa;
    int a = bound(&aa);
    struct timeval tv = {0, 60000};
    CHECK(setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) == 0);
    char c;
    uint64_t start = now_ms();
    FAILS(recv(a, &c, 1, 0), EAGAIN);
    CHECK(lasted(now_ms() - start, 60));
    close(a);
}

static void *echo(void *fd) {
    char b[2048];
    struct sockaddr_in from;
    for (;;) {
        socklen_t n = sizeof from;
        ssize_t got = recvfrom(*(int *)fd, b, sizeof b, 0, (struct sockaddr *)&from, &n);
        TCHECK(got >= 0);
        if (got == 0)
            return NULL;
        TCHECK(sendto(*(int *)fd, b, (size_t)got, 0, (struct sockaddr *)&from, n) == got);
    }
}

static void echo_in_a_thread(void) {
    struct sockaddr_in aa, ba;
    int a = bound(&aa), b = bound(&ba);
    pthread_t t;
    char out[1000], in[1000];
    CHECK(pthread_create(&t, NULL, echo, &b) == 0);
    for (int i = 0; i < 500; i++) {
        memset(out, i, sizeof out);
        SAME(sendto(a, out, sizeof out, 0, ADDR(ba)), sizeof out);
        SAME(recv(a, in, sizeof in, 0), sizeof in);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    SAME(sendto(a, "", 0, 0, ADDR(ba)), 0);
    pthread_join(t, NULL);
    close(a), close(b);
}

static void socket_identity(void) {
    int a = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), v = 0;
    socklen_t n = sizeof v;
    CHECK(getsockopt(a, SOL_SOCKET, SO_TYPE, &v, &n) == 0);
    SAME(v, SOCK_DGRAM);
    CHECK(getsockopt(a, SOL_SOCKET, SO_DOMAIN, &v, &n) == 0);
    SAME(v, AF_INET);
    CHECK(getsockopt(a, SOL_SOCKET, SO_PROTOCOL, &v, &n) == 0);
    SAME(v, IPPROTO_UDP);
    CHECK(fcntl(a, F_GETFL) & O_NONBLOCK);
    FAILS(listen(a, 1), EOPNOTSUPP);
    FAILS(accept(a, NULL, NULL), EOPNOTSUPP);
    struct stat st;
    CHECK(fstat(a, &st) == 0 && S_ISSOCK(st.st_mode));
    close(a);
    FAILS(send(1000, "x", 1, 0), EBADF);
    int file = open("/dev/null", O_RDWR);
    FAILS(send(file, "x", 1, 0), ENOTSOCK);
    close(file);
}

static void the_destination_is_told(void) {
    struct sockaddr_in aa, ba, sent_to;
    int a = bound(&aa), b = bound(&ba), on = 1;
    socklen_t n = sizeof on;
    SAME(setsockopt(b, IPPROTO_IP, IP_RECVORIGDSTADDR, &on, sizeof on), 0);
    SAME(getsockopt(b, IPPROTO_IP, IP_RECVORIGDSTADDR, &on, &n), 0);
    SAME(on, 1);
    SAME(sendto(a, "x", 1, 0, ADDR(ba)), 1);
    char got[8], room[64];
    struct iovec v = {got, sizeof got};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    SAME(recvmsg(b, &m, 0), 1);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    CHECK(h != NULL);
    SAME(h->cmsg_level, IPPROTO_IP);
    SAME(h->cmsg_type, IP_ORIGDSTADDR);
    memcpy(&sent_to, CMSG_DATA(h), sizeof sent_to);
    CHECK(h->cmsg_len == CMSG_LEN(sizeof sent_to) && memcmp(&sent_to, &ba, sizeof ba) == 0);
    CHECK(CMSG_NXTHDR(&m, h) == NULL);
    close(a), close(b);
}

/* Sends a byte to a port of this host from a source and by an interface that a control message names. */
static long sent_from(int s, struct sockaddr *to, socklen_t len, const char *source, int interface) {
    int v6 = to->sa_family == AF_INET6;
    char room[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
    size_t size = v6 ? sizeof(struct in6_pktinfo) : sizeof(struct in_pktinfo);
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_name = to, .msg_namelen = len, .msg_iov = &v, .msg_iovlen = 1, .msg_control = room,
                       .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h == NULL)
        return 0;
    h->cmsg_len = CMSG_LEN(size);
    h->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    h->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
    if (v6) {
        struct in6_pktinfo info = {.ipi6_ifindex = interface};
        inet_pton(AF_INET6, source, &info.ipi6_addr);
        memcpy(CMSG_DATA(h), &info, size);
    } else {
        struct in_pktinfo info = {.ipi_ifindex = interface};
        inet_pton(AF_INET, source, &info.ipi_spec_dst);
        memcpy(CMSG_DATA(h), &info, size);
    }
    return sendmsg(s, &m, 0);
}

static void sources_that_are_not_there(void) {
    struct sockaddr_in to;
    int a = bound(&to), lo = if_nametoindex("lo"), on = 1;
    SAME(sent_from(a, ADDR(to), "0.0.0.0", 0), 1);
    SAME(sent_from(a, ADDR(to), "127.0.0.9", lo), 1);
    FAILS(sent_from(a, ADDR(to), "127.0.0.1", 7777), ENODEV);
    FAILS(sent_from(a, ADDR(to), "198.51.100.77", 0), ENETUNREACH);
    FAILS(sent_from(a, ADDR(to), "198.51.100.77", 7777), ENETUNREACH);
    FAILS(sent_from(a, ADDR(to), "224.0.0.1", 0), EINVAL);
    FAILS(sent_from(a, ADDR(to), "255.255.255.255", 7777), EINVAL);
    close(a);
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int b = socket(AF_INET6, SOCK_DGRAM, 0);
    if (b < 0 || connect(b, ADDR(to6)) < 0) /* a host without IPv6 */
        return;
    struct sockaddr_in6 none = {.sin6_family = AF_UNSPEC};
    SAME(connect(b, ADDR(none)), 0);
    SAME(sent_from(b, ADDR(to6), "::", lo), 1);
    SAME(sent_from(b, ADDR(to6), "::1", 0), 1);
    FAILS(sent_from(b, ADDR(to6), "::1", 7777), ENODEV);
    FAILS(sent_from(b, ADDR(to6), "2001:db8:77::1", 0), EINVAL);
    FAILS(sent_from(b, ADDR(to6), "2001:db8:77::1", 7777), ENODEV);
    FAILS(sent_from(b, ADDR(to6), "fe80::77", 0), EINVAL);
    FAILS(sent_from(b, ADDR(to6), "ff02::1", lo), EINVAL);
    SAME(setsockopt(b, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof on), 0);
    CHECK(sent_from(b, ADDR(to6), "2001:db8:77::1", 0) != -1 || errno != EINVAL);
    close(b);
}

GUEST(T(datagrams_keep_their_borders), T(peek_and_trunc), T(connected), T(nobody_there_is_refused), T(ports),
      T(unbound_sender_gets_a_port), T(too_big), T(vectors_and_messages), T(receive_timeout), T(echo_in_a_thread),
      T(socket_identity), T(the_destination_is_told), T(sources_that_are_not_there))
