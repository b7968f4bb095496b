/* Timestamps of packets: SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING of sent and received packets over lo, and the requests about
 * hardware that lo has not. socket(7), Linux's Documentation/networking/timestamping.rst. */
#include "privileged.h"
/* Of Linux's headers, which not every C library brings. */
#define PACKET_FAMILY 17
#define ETHERTYPE_IPV4 0x0800
#ifndef SO_TIMESTAMPING
#define SO_TIMESTAMPING 37
#endif
#ifndef SO_SELECT_ERR_QUEUE
#define SO_SELECT_ERR_QUEUE 45
#endif
#define SIOCSHWTSTAMP 0x89b0
#define SIOCGHWTSTAMP 0x89b1
#define SOF_TIMESTAMPING_TX_SOFTWARE (1 << 1)
#define SOF_TIMESTAMPING_RX_HARDWARE (1 << 2)
#define SOF_TIMESTAMPING_RX_SOFTWARE (1 << 3)
#define SOF_TIMESTAMPING_SOFTWARE (1 << 4)
#define SOF_TIMESTAMPING_RAW_HARDWARE (1 << 6)
#define SOF_TIMESTAMPING_OPT_ID (1 << 7)
#define SOF_TIMESTAMPING_TX_SCHED (1 << 8)
#define SOF_TIMESTAMPING_TX_ACK (1 << 9)
#define SOF_TIMESTAMPING_OPT_CMSG (1 << 10)
#define SOF_TIMESTAMPING_OPT_TSONLY (1 << 11)
#define SOF_TIMESTAMPING_OPT_STATS (1 << 12)
#define SOF_TIMESTAMPING_BIND_PHC (1 << 15)
struct extended_error {
    uint32_t error;
    uint8_t origin, type, code, pad;
    uint32_t info, data;
    struct sockaddr_in6 offender;
};
struct link_address {
    unsigned short family, protocol;
    int interface;
    unsigned short hardware;
    unsigned char type, len, address[8];
};
struct stamp_config {
    int flags, tx_type, rx_filter;
};

#define OPT_ID_TCP (1 << 16)
#define OPT_RX_FILTER (1 << 17)
#define BOTH (SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_TX_SCHED)
#define RECEIVED (SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE)
#define V4 "0/11"
#define V6 "41/25"
#define LINK "263/16"

static int set(int s, unsigned flags) { return setsockopt(s, SOL_SOCKET, SO_TIMESTAMPING, &flags, 4) == 0 ? 0 : errno; }

/* The next message of a socket as text: its length, each control message, and of timestamps which are there. */
static const char *next(int s, int flags) {
    static char said[600];
    char data[70000], control[512];
    struct iovec iov = {data, sizeof data};
    struct sockaddr_storage name;
    struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd p = {s, flags & MSG_ERRQUEUE ? 0 : POLLIN, 0};
    poll(&p, 1, 500);
    ssize_t n = recvmsg(s, &m, flags | MSG_DONTWAIT);
    if (n < 0) {
        snprintf(said, sizeof said, "errno %d", errno);
        return said;
    }
    size_t at = snprintf(said, sizeof said, "%zd%s", n, m.msg_flags & MSG_ERRQUEUE ? " queued" : "");
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
        at += snprintf(said + at, sizeof said - at, " %d/%d:%zu", h->cmsg_level, h->cmsg_type, (size_t)h->cmsg_len - CMSG_LEN(0));
        if (h->cmsg_level == SOL_SOCKET && (h->cmsg_type == SO_TIMESTAMPING || h->cmsg_type == 65)) {
            struct timespec *t = (void *)CMSG_DATA(h);
            at += snprintf(said + at, sizeof said - at, "=%d%d%d", t[0].tv_sec > 0, t[1].tv_sec > 0, t[2].tv_sec > 0);
        }
        if ((h->cmsg_level == 0 && h->cmsg_type == 11) || (h->cmsg_level == 41 && h->cmsg_type == 25) || h->cmsg_level == 263) {
            struct extended_error *e = (void *)CMSG_DATA(h);
            at += snprintf(said + at, sizeof said - at, "=%u/%d/%d/%d info %u data %u", e->error, e->origin, e->type, e->code, e->info, e->data);
            if (h->cmsg_level != 263)
                at += snprintf(said + at, sizeof said - at, " by %d", e->offender.sin6_family);
        }
    }
    return said;
}

#define SAYS(got, ...) do { char wanted_[600]; snprintf(wanted_, sizeof wanted_, __VA_ARGS__); const char *got_ = (got); \
    if (strcmp(got_, wanted_) != 0) { \
        guest_failed = 1; printf("# %s:%d: \"%s\" instead of \"%s\"\n", __FILE__, __LINE__, got_, wanted_); fflush(stdout); return; } } while (0)

static int udp(int v6) {
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in a4 = at("127.0.0.1", 0);
    struct sockaddr *a = v6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
    socklen_t n = v6 ? sizeof a6 : sizeof a4;
    lo_up();
    int s = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
    return bind(s, a, n) == 0 && getsockname(s, a, &n) == 0 && connect(s, a, n) == 0 ? s : -1;
}

/* The kernel takes received timestamps a while after the first socket has asked for some. */
static int warm(void) {
    int s = udp(0);
    set(s, RECEIVED);
    for (int i = 0; i < 100; i++) {
        send(s, "x", 1, 0);
        if (strchr(next(s, 0), ':'))
            break;
        usleep(10000);
    }
    return s;
}

static void of_datagrams(void) {
    int keeps = warm();
    for (int v6 = 0; v6 < 2; v6++) {
        const char *how = v6 ? V6 ":44" : V4 ":32";
        int frame = v6 ? 14 + 40 + 8 + 3 : 14 + 20 + 8 + 3, s = udp(v6);
        SAME(set(s, BOTH | RECEIVED), 0);
        for (int id = 0; id < 2; id++) {
            SAME(send(s, "abc", 3, 0), 3);
            SAYS(next(s, MSG_ERRQUEUE), "%d queued 1/37:48=100 %s=42/4/0/0 info 1 data %d by %d", frame, how, id, v6 ? AF_INET6 : 0);
            SAYS(next(s, MSG_ERRQUEUE), "%d queued 1/37:48=100 %s=42/4/0/0 info 0 data %d by %d", frame, how, id, v6 ? AF_INET6 : 0);
            SAYS(next(s, 0), "3 1/37:48=100");
        }
        SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
        /* times alone */
        SAME(set(s, BOTH | SOF_TIMESTAMPING_OPT_TSONLY), 0);
        SAME(send(s, "abc", 3, 0), 3);
        SAYS(next(s, MSG_ERRQUEUE), "0 queued 1/37:48=100 %s=42/4/0/0 info 1 data 2 by 0", how);
        SAYS(next(s, MSG_ERRQUEUE), "0 queued 1/37:48=100 %s=42/4/0/0 info 0 data 2 by 0", how);
        /* with the address, and the interface */
        int on = 1;
        setsockopt(s, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, 4);
        SAME(set(s, (BOTH & ~SOF_TIMESTAMPING_TX_SCHED) | SOF_TIMESTAMPING_OPT_CMSG), 0);
        SAME(send(s, "abc", 3, 0), 3);
        SAYS(next(s, MSG_ERRQUEUE), "%d queued 1/37:48=100 %s %s=42/4/0/0 info 0 data 3 by %d", frame, v6 ? "41/50:20" : "0/8:12", how, v6 ? AF_INET6 : AF_INET);
        /* identifiers begin anew */
        SAME(set(s, SOF_TIMESTAMPING_SOFTWARE), 0);
        SAME(send(s, "abc", 3, 0), 3);
        SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
        SAME(set(s, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID), 0);
        SAME(send(s, "abc", 3, 0), 3);
        SAYS(next(s, MSG_ERRQUEUE), "%d queued %s%s=42/4/0/0 info 0 data 0 by %d", frame, v6 ? "41/50:20 " : "", how, v6 ? AF_INET6 : 0);
        close(s);
    }
    close(keeps);
}

static ssize_t send_with(int s, const void *name, int len, int type, unsigned value) {
    union { struct cmsghdr header; char bytes[64]; } control = {0};
    struct iovec iov = {"abc", 3};
    struct msghdr m = {.msg_name = (void *)name, .msg_namelen = len, .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(4)};
    control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = type, .cmsg_len = CMSG_LEN(4)};
    memcpy(CMSG_DATA(&control.header), &value, 4);
    return sendmsg(s, &m, 0);
}

static void by_control_messages(void) {
    int s = udp(0);
    SAME(send_with(s, NULL, 0, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE), 3);
    SAYS(next(s, MSG_ERRQUEUE), "45 queued " V4 ":32=42/4/0/0 info 0 data 0 by 0");
    SAME(set(s, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID), 0);
    SAME(send_with(s, NULL, 0, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE), 3);
    SAYS(next(s, MSG_ERRQUEUE), "45 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data 0 by 0");
    SAME(send_with(s, NULL, 0, SO_TIMESTAMPING, 0), 3);
    SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
    SAME(send_with(s, NULL, 0, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_ACK), 3);
    SAYS(next(s, MSG_ERRQUEUE), "45 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 1 data 1 by 0");
    SAME(set(s, BOTH & ~SOF_TIMESTAMPING_TX_SCHED), 0);
    SAME(send_with(s, NULL, 0, SO_TIMESTAMPING, 0), 3); /* which the socket's own do not add to */
    SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
    FAILS(send_with(s, NULL, 0, SO_TIMESTAMPING, SOF_TIMESTAMPING_SOFTWARE), EINVAL);
    FAILS(send_with(s, NULL, 0, SO_TIMESTAMPING, 1u << 20), EINVAL);
    close(s);
}

static void sends_that_fail_or_grow(void) {
    static char big[66000];
    int s = udp(0);
    SAME(set(s, BOTH & ~SOF_TIMESTAMPING_TX_SCHED), 0);
    SAME(send(s, "aa", 2, MSG_MORE), 2);
    SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
    SAME(send(s, "aa", 2, 0), 2);
    SAYS(next(s, MSG_ERRQUEUE), "46 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data 0 by 0");
    FAILS(send(s, big, 65508, 0), EMSGSIZE);
    SAME(send(s, "b", 1, 0), 1);
    SAYS(next(s, MSG_ERRQUEUE), "43 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data 1 by 0");
    close(s);
}

/* Readiness: EPOLLERR, and with SO_SELECT_ERR_QUEUE an exception. */
static void readiness(void) {
    int s = udp(0), on = 1;
    struct pollfd p = {s, POLLPRI, 0};
    SAME(set(s, BOTH & ~SOF_TIMESTAMPING_TX_SCHED), 0);
    SAME(send(s, "a", 1, 0), 1);
    SAME(poll(&p, 1, 1000), 1);
    SAME(p.revents, POLLERR);
    SAME(setsockopt(s, SOL_SOCKET, SO_SELECT_ERR_QUEUE, &on, 4), 0);
    SAME(poll(&p, 1, 1000), 1);
    SAME(p.revents, POLLERR | POLLPRI);
    next(s, MSG_ERRQUEUE);
    SAME(poll(&p, 1, 0), 0);
    int error = -1;
    socklen_t n = 4;
    SAME(getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n), 0);
    SAME(error, 0); /* a timestamp is no error */
    close(s);
}

static void options(void) {
    int s = udp(0), stream = socket(AF_INET, SOCK_STREAM, 0), on = 1, off = 0;
    SAME(set(s, 1u << 19), EINVAL);
    SAME(set(s, SOF_TIMESTAMPING_OPT_STATS), EINVAL);
    SAME(set(s, SOF_TIMESTAMPING_OPT_STATS | SOF_TIMESTAMPING_OPT_TSONLY), 0);
    SAME(set(s, SOF_TIMESTAMPING_BIND_PHC), EOPNOTSUPP);
    SAME(set(s, OPT_ID_TCP), EINVAL);
    SAME(set(s, OPT_ID_TCP | SOF_TIMESTAMPING_OPT_ID), 0);
    SAME(set(s, OPT_RX_FILTER), 0);
    SAME(set(stream, BOTH), EINVAL); /* identifiers count from a connection's bytes */
    SAME(set(stream, BOTH & ~SOF_TIMESTAMPING_OPT_ID), 0);
    SAME(setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), 0);
    SAME(set(s, SOF_TIMESTAMPING_BIND_PHC), EINVAL);
    FAILS(setsockopt(s, SOL_SOCKET, SO_TIMESTAMPING, &on, 2), EINVAL);
    int given[2] = {BOTH, 7}, got[4] = {-1, -1, -1, -1};
    socklen_t n = sizeof got;
    SAME(setsockopt(s, SOL_SOCKET, SO_TIMESTAMPING, given, 8), 0);
    SAME(getsockopt(s, SOL_SOCKET, SO_TIMESTAMPING, got, &n), 0);
    SAME(n, 8);
    SAME(got[0], BOTH);
    SAME(got[1], 0);
    SAME(getsockopt(s, SOL_SOCKET, 65, got, &n), 0); /* the other name has another value */
    SAME(got[0], 0);
    int kinds[] = {SO_TIMESTAMP, SO_TIMESTAMPNS, 63, 64};
    for (int set_as = 0; set_as < 4; set_as++) {
        SAME(setsockopt(s, SOL_SOCKET, kinds[set_as], &on, 4), 0);
        for (int k = 0; k < 4; k++) {
            int value = -1;
            n = 4;
            SAME(getsockopt(s, SOL_SOCKET, kinds[k], &value, &n), 0);
            SAME(value, k == set_as || (k == 2 && set_as == 3));
        }
        SAME(setsockopt(s, SOL_SOCKET, kinds[set_as], &off, 4), 0);
    }
    close(s), close(stream);
}

static void formats(void) {
    int keeps = warm(), s = udp(0), on = 1;
    const struct { int option; const char *says; } all[] = {{SO_TIMESTAMP, "1 1/29:16 1/37:48=100"}, {SO_TIMESTAMPNS, "1 1/35:16 1/37:48=100"}};
    SAME(set(s, RECEIVED), 0);
    for (int k = 0; k < 2; k++) {
        SAME(setsockopt(s, SOL_SOCKET, all[k].option, &on, 4), 0);
        SAME(send(s, "x", 1, 0), 1);
        SAYS(next(s, 0), "%s", all[k].says);
    }
    SAME(setsockopt(s, SOL_SOCKET, 64, &on, 4), 0);
    SAME(send(s, "x", 1, 0), 1);
    SAYS(next(s, 0), "1 1/64:16 1/65:48=100");
    SAME(set(s, SOF_TIMESTAMPING_RX_SOFTWARE), 0); /* not reported */
    SAME(setsockopt(s, SOL_SOCKET, SO_TIMESTAMP, &(int){0}, 4), 0);
    SAME(send(s, "x", 1, 0), 1);
    SAYS(next(s, 0), "1");
    SAME(set(s, SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE), 0);
    SAME(send(s, "x", 1, 0), 1);
    SAYS(next(s, 0), "1");
    close(s), close(keeps);
}

static void of_raw_sockets(void) {
    int keeps = warm(), on = 1, s = socket(AF_INET, SOCK_RAW, 253);
    struct sockaddr_in a = at("127.0.0.1", 0);
    unsigned char whole[23] = {0x45, 0, 0, 23, 0, 0, 0, 0, 64, 253, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1};
    SAME(set(s, (BOTH & ~SOF_TIMESTAMPING_TX_SCHED) | RECEIVED), 0);
    SAME(sendto(s, "xyz", 3, 0, (struct sockaddr *)&a, sizeof a), 3);
    SAYS(next(s, MSG_ERRQUEUE), "37 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data 0 by 0");
    SAYS(next(s, 0), "23 1/37:48=100");
    SAME(setsockopt(s, IPPROTO_IP, IP_HDRINCL, &on, 4), 0);
    SAME(sendto(s, whole, 23, 0, (struct sockaddr *)&a, sizeof a), 23);
    SAYS(next(s, MSG_ERRQUEUE), "37 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data 1 by 0");
    close(s);
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    s = socket(AF_INET6, SOCK_RAW, 253);
    SAME(set(s, BOTH & ~SOF_TIMESTAMPING_TX_SCHED), 0);
    SAME(sendto(s, "xyz", 3, 0, (struct sockaddr *)&a6, sizeof a6), 3);
    SAYS(next(s, MSG_ERRQUEUE), "57 queued 1/37:48=100 " V6 ":44=42/4/0/0 info 0 data 0 by 10");
    close(s), close(keeps);
}

static void of_packet_sockets(void) {
    int keeps = warm();
    for (int cooked = 0; cooked < 2; cooked++) {
        int on = 1, s = socket(PACKET_FAMILY, cooked ? SOCK_DGRAM : SOCK_RAW, htons(ETHERTYPE_IPV4)), frame = cooked ? 74 : 60;
        struct link_address a = {.family = PACKET_FAMILY, .protocol = htons(ETHERTYPE_IPV4), .interface = if_nametoindex("lo"), .len = 6};
        char data[60] = {0};
        /* an IP packet that nothing takes: over lo none is lost */
        unsigned char *ip = (unsigned char *)data + (cooked ? 0 : 14);
        memcpy(data + 12, cooked ? data + 12 : "\x08\x00", 2);
        memcpy(ip, "\x45\x00\x00\x1c\x00\x00\x00\x00\x40\xfd\x00\x00\x7f\x00\x00\x01\x7f\x00\x00\x01", 20);
        SAME(bind(s, (struct sockaddr *)&a, sizeof a), 0);
        SAME(set(s, BOTH | RECEIVED), 0);
        SAME(sendto(s, data, 60, 0, (struct sockaddr *)&a, sizeof a), 60);
        SAYS(next(s, MSG_ERRQUEUE), "%d queued 1/37:48=100 " LINK ":16=42/4/0/0 info 1 data 0", frame);
        SAYS(next(s, MSG_ERRQUEUE), "%d queued 1/37:48=100 " LINK ":16=42/4/0/0 info 0 data 0", frame);
        SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
        SAYS(next(s, 0), "60 1/37:48=100");
        SAME(set(s, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY), 0);
        struct pollfd p = {s, POLLPRI, 0};
        SAME(setsockopt(s, SOL_SOCKET, SO_SELECT_ERR_QUEUE, &on, 4), 0);
        SAME(set(s, BOTH | SOF_TIMESTAMPING_OPT_TSONLY), 0);
        SAME(sendto(s, data, 60, 0, (struct sockaddr *)&a, sizeof a), 60);
        SAME(poll(&p, 1, 1000), 1);
        SAME(p.revents, POLLERR | POLLPRI);
        SAYS(next(s, MSG_ERRQUEUE), "0 queued 1/37:48=100 " LINK ":16=42/4/0/0 info 1 data 1");
        close(s);
    }
    close(keeps);
}

static void of_connections(void) {
    int keeps = warm(), listener = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = at("127.0.0.1", 0);
    socklen_t n = sizeof a;
    SAME(set(listener, RECEIVED), 0);
    CHECK(bind(listener, (struct sockaddr *)&a, n) == 0 && listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&a, &n) == 0);
    CHECK(connect(s, (struct sockaddr *)&a, n) == 0);
    int peer = accept(listener, NULL, NULL), flags = 0;
    n = 4;
    SAME(getsockopt(peer, SOL_SOCKET, SO_TIMESTAMPING, &flags, &n), 0);
    SAME(flags, RECEIVED); /* inherited */
    SAME(set(s, BOTH | SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_OPT_TSONLY), 0);
    int end = -1;
    for (int k = 0; k < 2; k++) {
        SAME(send(s, "hello", k ? 2 : 5, 0), k ? 2 : 5);
        end += k ? 2 : 5;
        SAYS(next(s, MSG_ERRQUEUE), "0 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 1 data %d by 0", end);
        SAYS(next(s, MSG_ERRQUEUE), "0 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data %d by 0", end);
        struct pollfd p = {s, 0, 0};
        poll(&p, 1, 1000);
        SAYS(next(s, MSG_ERRQUEUE), "0 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 2 data %d by 0", end);
        SAYS(next(peer, 0), "%d 1/37:48=100", k ? 2 : 5);
    }
    /* the frame, where it is wanted */
    SAME(set(s, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_SOFTWARE), 0);
    SAME(send(s, "hello", 5, 0), 5);
    SAYS(next(s, MSG_ERRQUEUE), "71 queued 1/37:48=100 " V4 ":32=42/4/0/0 info 0 data %d by 0", end + 5);
    SAME(send_with(s, NULL, 0, SO_TIMESTAMPING, 0), 3);
    SAYS(next(s, MSG_ERRQUEUE), "errno %d", EAGAIN);
    close(s), close(peer), close(listener), close(keeps);
}

static int configure(const char *name, unsigned long request, struct stamp_config *config) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {0};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    r.ifr_data = (void *)config;
    int error = ioctl(s, request, &r) == 0 ? 0 : errno;
    close(s);
    return error;
}

static void lo_has_no_hardware(void) {
    struct stamp_config config = {0, 1, 1};
    SAME(configure("lo", SIOCSHWTSTAMP, &config), EOPNOTSUPP);
    SAME(configure("lo", SIOCGHWTSTAMP, &config), EOPNOTSUPP);
    SAME(configure("none0", SIOCSHWTSTAMP, &config), ENODEV);
    config.flags = 2;
    SAME(configure("lo", SIOCSHWTSTAMP, &config), EINVAL);
    config.flags = 0;
    config.tx_type = 9;
    SAME(configure("lo", SIOCSHWTSTAMP, &config), ERANGE);
}

/* Ids of clocks are made of descriptors, which must be those of clocks. */
static void clocks_by_descriptors(void) {
    struct timespec t;
    int file = open("/dev/null", O_RDWR);
    FAILS(clock_gettime((clockid_t)(~(unsigned)file << 3 | 3), &t), EINVAL);
    FAILS(clock_gettime((clockid_t)(~999u << 3 | 3), &t), EINVAL);
    FAILS(clock_settime((clockid_t)(~(unsigned)file << 3 | 3), &t), EINVAL);
    close(file);
}

GUEST(T(of_datagrams), T(by_control_messages), T(sends_that_fail_or_grow), T(readiness), T(options), T(formats), T(of_raw_sockets), T(of_packet_sockets),
      T(of_connections), T(lo_has_no_hardware), T(clocks_by_descriptors))
