/* MSG_ZEROCOPY: the error queue says when the memory of a send is free again. Linux's Documentation/networking/msg_zerocopy.rst. */
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <linux/errqueue.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif
#define SELECT_ERR_QUEUE 45
#define UDP_CORK 1

static char body[70000];

static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }

static int get(int s, int name) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(s, SOL_SOCKET, name, &value, &n) == 0 ? value : -errno;
}

/* A socket bound to a port of lo that `a` then names, and one that is connected to it. */
static int pair(int domain, int type, int ends[2]) {
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *a = domain == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
    socklen_t n = domain == AF_INET ? sizeof a4 : sizeof a6;
    ends[0] = socket(domain, type, 0), ends[1] = socket(domain, type, 0);
    if (ends[1] < 0 || bind(ends[1], a, n) != 0 || getsockname(ends[1], a, &n) != 0)
        return 0;
    if (type == SOCK_DGRAM)
        return connect(ends[0], a, n) == 0;
    int listener = ends[1];
    int ok = set(listener, SOL_SOCKET, SO_ZEROCOPY, 1) == 0 && listen(listener, 1) == 0 && connect(ends[0], a, n) == 0;
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    return ok && ends[1] >= 0;
}

static void both_close(int e[2]) { close(e[0]), close(e[1]); }

/* One report: `first`..`last` were copied. 0 if there is none, -1 if it is something else. */
static int told(int s, unsigned *first, unsigned *last) {
    union { struct cmsghdr header; char bytes[256]; } control;
    char name[64];
    struct iovec iov = {name, sizeof name};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control,
                       .msg_name = name, .msg_namelen = sizeof name};
    ssize_t n = recvmsg(s, &m, MSG_ERRQUEUE);
    if (n == -1 && errno == EAGAIN)
        return 0;
    if (n != 0 || m.msg_flags != MSG_ERRQUEUE || m.msg_namelen != 0)
        return -1;
    int domain = get(s, SO_DOMAIN), ok = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level == SOL_SOCKET)
            continue;
        struct sock_extended_err *e = (void *)CMSG_DATA(c);
        size_t name_len = domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        ok = c->cmsg_level == (domain == AF_INET ? SOL_IP : SOL_IPV6) && c->cmsg_type == (domain == AF_INET ? IP_RECVERR : IPV6_RECVERR);
        ok = ok && c->cmsg_len == CMSG_LEN(sizeof *e + name_len) && ((struct sockaddr *)(e + 1))->sa_family == 0;
        ok = ok && e->ee_errno == 0 && e->ee_origin == SO_EE_ORIGIN_ZEROCOPY && e->ee_type == 0 && e->ee_code == SO_EE_CODE_ZEROCOPY_COPIED;
        *first = e->ee_info, *last = e->ee_data;
    }
    return ok ? 1 : -1;
}

static int events(int s, int wait) {
    struct pollfd p = {s, POLLPRI, 0};
    poll(&p, 1, wait);
    return p.revents;
}

/* All of `first`..`last` are told of, in whatever pieces, within a time. */
static int all_told(int s, unsigned first, unsigned last) {
    for (unsigned next = first; next != last + 1;) {
        unsigned from = 0, to = 0;
        if (!(events(s, 3000) & POLLERR) || told(s, &from, &to) != 1 || from != next || to > last)
            return printf("# %u..%u after %u\n", from, to, next), 0;
        next = to + 1;
    }
    return 1;
}

static void option_of_tcp_and_udp_alone(void) {
    int with[][3] = {{AF_INET, SOCK_STREAM, 0}, {AF_INET6, SOCK_STREAM, 0}, {AF_INET, SOCK_DGRAM, 0}, {AF_INET6, SOCK_DGRAM, 0}};
    for (int i = 0; i < 4; i++) {
        int s = socket(with[i][0], with[i][1], with[i][2]);
        SAME(get(s, SO_ZEROCOPY), 0);
        SAME(set(s, SOL_SOCKET, SO_ZEROCOPY, 1), 0);
        SAME(get(s, SO_ZEROCOPY), 1);
        FAILS(set(s, SOL_SOCKET, SO_ZEROCOPY, 2), EINVAL);
        FAILS(set(s, SOL_SOCKET, SO_ZEROCOPY, -1), EINVAL);
        SAME(get(s, SO_ZEROCOPY), 1);
        SAME(set(s, SOL_SOCKET, SO_ZEROCOPY, 0), 0);
        SAME(get(s, SO_ZEROCOPY), 0);
        close(s);
    }
    int without[][3] = {{AF_UNIX, SOCK_STREAM, 0}, {AF_UNIX, SOCK_DGRAM, 0}, {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE}, {AF_NETLINK, SOCK_RAW, 0}};
    for (int i = 0; i < 4; i++) {
        int s = socket(without[i][0], without[i][1], without[i][2]);
        FAILS(set(s, SOL_SOCKET, SO_ZEROCOPY, 1), EOPNOTSUPP);
        FAILS(set(s, SOL_SOCKET, SO_ZEROCOPY, 7), EOPNOTSUPP);
        SAME(get(s, SO_ZEROCOPY), 0);
        close(s);
    }
}

static void datagrams(int domain) {
    int e[2];
    unsigned a, b;
    CHECK(pair(domain, SOCK_DGRAM, e));
    SAME(send(e[0], body, 100, MSG_ZEROCOPY), 100); /* without the option it is not heeded */
    SAME(told(e[0], &a, &b), 0);
    SAME(set(e[0], SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    SAME(send(e[0], body, 100, 0), 100);
    SAME(events(e[0], 0), 0);
    for (int i = 0; i < 3; i++)
        SAME(send(e[0], body, 100 * i, MSG_ZEROCOPY), 100 * i); /* one of nothing, too */
    SAME(events(e[0], 3000), POLLERR);
    SAME(get(e[0], SO_ERROR), 0);
    SAME(told(e[0], &a, &b), 1);
    SAME(a, 0);
    SAME(b, 2);
    SAME(told(e[0], &a, &b), 0);
    SAME(events(e[0], 0), 0);
    /* what does not go has no number */
    FAILS(send(e[0], body, 65528, MSG_ZEROCOPY), EMSGSIZE);
    /* a datagram is told of when all of it is sent */
    SAME(send(e[0], body, 10, MSG_ZEROCOPY | MSG_MORE), 10);
    SAME(send(e[0], body, 10, MSG_MORE), 10);
    SAME(send(e[0], body, 10, MSG_ZEROCOPY | MSG_MORE), 10);
    SAME(told(e[0], &a, &b), 0);
    SAME(send(e[0], body, 10, 0), 10);
    CHECK(all_told(e[0], 3, 4));
    SAME(set(e[0], IPPROTO_UDP, UDP_CORK, 1), 0);
    SAME(send(e[0], body, 10, MSG_ZEROCOPY), 10);
    SAME(told(e[0], &a, &b), 0);
    SAME(set(e[0], IPPROTO_UDP, UDP_CORK, 0), 0);
    CHECK(all_told(e[0], 5, 5));
    SAME(set(e[0], SOL_SOCKET, SELECT_ERR_QUEUE, 1), 0);
    SAME(send(e[0], body, 10, MSG_ZEROCOPY), 10);
    SAME(events(e[0], 3000), POLLERR | POLLPRI);
    CHECK(all_told(e[0], 6, 6));
    shutdown(e[0], SHUT_WR);
    FAILS(send(e[0], body, 10, MSG_ZEROCOPY | MSG_NOSIGNAL), EPIPE);
    SAME(told(e[0], &a, &b), 0);
    both_close(e);
}
static void datagrams_over_ipv4(void) { datagrams(AF_INET); }
static void datagrams_over_ipv6(void) { datagrams(AF_INET6); }

static void streams(int domain) {
    int e[2];
    unsigned a, b;
    CHECK(pair(domain, SOCK_STREAM, e));
    SAME(get(e[1], SO_ZEROCOPY), 1); /* from the listener */
    SAME(send(e[0], body, 100, MSG_ZEROCOPY), 100);
    SAME(set(e[0], SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    SAME(send(e[0], body, 100, 0), 100);
    SAME(send(e[0], body, 0, MSG_ZEROCOPY), 0);
    for (int i = 0; i < 3; i++)
        SAME(send(e[0], body, 1000, MSG_ZEROCOPY), 1000);
    CHECK(all_told(e[0], 0, 2));
    SAME(told(e[0], &a, &b), 0);
    SAME(events(e[0], 0), 0);
    FAILS(recv(e[0], body, 10, MSG_DONTWAIT), EAGAIN);
    /* each end has numbers of its own */
    SAME(send(e[1], body, 1000, MSG_ZEROCOPY), 1000);
    CHECK(all_told(e[1], 0, 0));
    both_close(e);
}
static void streams_over_ipv4(void) { streams(AF_INET); }
static void streams_over_ipv6(void) { streams(AF_INET6); }

static void what_nobody_reads_is_told_of_in_the_end(void) {
    int e[2], count = 0;
    CHECK(pair(AF_INET, SOCK_STREAM, e));
    SAME(set(e[0], SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    unsigned a, b, next = 0;
    for (;;) {
        ssize_t n = send(e[0], body, sizeof body, MSG_ZEROCOPY | MSG_DONTWAIT);
        if (n == -1)
            break;
        count++;
    }
    SAME(errno, EAGAIN); /* which has no number */
    CHECK(count > 5);
    sleep_ms(300);
    while (told(e[0], &a, &b) == 1) {
        SAME(a, next);
        next = b + 1;
    }
    CHECK(next < (unsigned)count); /* some wait for the reader */
    struct linger now = {1, 0};
    SAME(setsockopt(e[1], SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(e[1]);
    CHECK(all_told(e[0], next, count - 1));
    CHECK(events(e[0], 0) & POLLERR); /* the reset is still to be heard of */
    SAME(get(e[0], SO_ERROR), ECONNRESET);
    close(e[0]);
}

static void one_number_for_a_call_that_waits(void) {
    int e[2];
    CHECK(pair(AF_INET, SOCK_STREAM, e));
    SAME(set(e[0], SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    struct timeval soon = {0, 100000};
    SAME(setsockopt(e[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon), 0);
    /* Of an ordinary user's memory little may be locked: small buffers let it wait soon. */
    static char much[4 << 20];
    SAME(set(e[0], SOL_SOCKET, SO_SNDBUF, 1 << 18), 0);
    SAME(set(e[1], SOL_SOCKET, SO_RCVBUF, 1 << 18), 0);
    ssize_t sent = send(e[0], much, sizeof much, MSG_ZEROCOPY);
    CHECK(sent > 0 && sent < (ssize_t)sizeof much);
    for (ssize_t got = 0; got < sent;) {
        ssize_t n = recv(e[1], much, sizeof much, 0);
        CHECK(n > 0);
        got += n;
    }
    CHECK(all_told(e[0], 0, 0));
    SAME(send(e[0], much, 10, MSG_ZEROCOPY), 10);
    CHECK(all_told(e[0], 1, 1));
    both_close(e);
}

static void whoever_watches_is_woken(void) {
    int e[2], watch = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLET | EPOLLPRI};
    CHECK(pair(AF_INET, SOCK_DGRAM, e));
    SAME(set(e[0], SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    SAME(epoll_ctl(watch, EPOLL_CTL_ADD, e[0], &event), 0);
    SAME(epoll_wait(watch, &event, 1, 0), 0);
    SAME(send(e[0], body, 10, MSG_ZEROCOPY), 10);
    SAME(epoll_wait(watch, &event, 1, 3000), 1);
    SAME(event.events, EPOLLERR);
    SAME(epoll_wait(watch, &event, 1, 0), 0);
    SAME(send(e[0], body, 10, MSG_ZEROCOPY), 10);
    SAME(epoll_wait(watch, &event, 1, 3000), 1);
    both_close(e), close(watch);
}

/* Reports that cannot be joined, because errors stand between them, take memory until they are read. */
static void too_much_to_tell(void) {
    int e[2], none[2], sent = 0;
    unsigned a, b;
    CHECK(pair(AF_INET, SOCK_DGRAM, e));
    CHECK(pair(AF_INET, SOCK_DGRAM, none));
    struct sockaddr_in open, closed;
    socklen_t n = sizeof open;
    SAME(getsockname(e[1], (struct sockaddr *)&open, &n), 0);
    SAME(getsockname(none[1], (struct sockaddr *)&closed, &n), 0);
    both_close(none);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    SAME(set(s, SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    SAME(set(s, IPPROTO_IP, IP_RECVERR, 1), 0);
    SAME(set(s, SOL_SOCKET, SO_RCVBUF, 200000), 0);
    for (; sent < 1000; sent++) {
        if (sendto(s, body, 1, MSG_ZEROCOPY, (struct sockaddr *)&open, n) != 1)
            break;
        SAME(sendto(s, body, 1, 0, (struct sockaddr *)&closed, n), 1);
        CHECK(events(s, 3000) & POLLERR);
        for (int i = 0; i < 100 && get(s, SO_ERROR) != ECONNREFUSED; i++)
            sleep_ms(1);
    }
    SAME(errno, ENOBUFS);
    SAME(sent, 157);
    SAME(sendto(s, body, 1, 0, (struct sockaddr *)&open, n), 1); /* it is only the telling */
    SAME(told(s, &a, &b), 1);
    SAME(a, 0);
    SAME(get(s, SO_ERROR), ECONNREFUSED); /* the error is next */
    SAME(sendto(s, body, 1, MSG_ZEROCOPY, (struct sockaddr *)&open, n), 1);
    FAILS(sendto(s, body, 1, MSG_ZEROCOPY, (struct sockaddr *)&open, n), ENOBUFS);
    both_close(e), close(s);
}

GUEST(T(option_of_tcp_and_udp_alone), T(datagrams_over_ipv4), T(datagrams_over_ipv6), T(streams_over_ipv4), T(streams_over_ipv6),
      T(what_nobody_reads_is_told_of_in_the_end), T(one_number_for_a_call_that_waits), T(whoever_watches_is_woken), T(too_much_to_tell))
