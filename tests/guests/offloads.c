/* UDP_SEGMENT and UDP_GRO: one call sends, and one receives, several datagrams of one size. udp(7). */
#include "privileged.h"
#include <linux/if_tun.h>
#include <netinet/ip.h>

#define SEGMENT 103
#define GRO 104
#define NO_CHECK6_TX 101
#define UDP IPPROTO_UDP

static unsigned char body[65536], got[70000];

static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }

static int get(int s, int level, int name) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(s, level, name, &value, &n) == 0 ? value : -errno;
}

/* Two sockets on lo of which the first is connected to the second. */
static int pair(int domain, int ends[2]) {
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in a4 = at("127.0.0.1", 0);
    struct sockaddr *a = domain == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
    socklen_t n = domain == AF_INET ? sizeof a4 : sizeof a6;
    for (int i = 0; i < 2; i++)
        ends[i] = socket(domain, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = i * 13 + i / 251;
    return ends[1] >= 0 && bind(ends[1], a, n) == 0 && getsockname(ends[1], a, &n) == 0 && connect(ends[0], a, n) == 0;
}

static void both_close(int ends[2]) { close(ends[0]), close(ends[1]); }

/* Sends with a control message of `room` bytes of data. */
static ssize_t send_sized(int s, size_t len, int level, int type, int size, int room, int flags) {
    union { struct cmsghdr header; char bytes[64]; } control = {0};
    struct iovec iov = {body, len};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(room)};
    control.header = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(room)};
    memcpy(CMSG_DATA(&control.header), &size, room);
    return sendmsg(s, &m, flags);
}

/* Receives; `size` is what UDP_GRO says, -1 if nothing. */
static ssize_t receive(int s, int *size, int *flags) {
    union { struct cmsghdr header; char bytes[128]; } control;
    struct iovec iov = {got, sizeof got};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(s, &m, *flags);
    *size = -1, *flags = m.msg_flags;
    if (n >= 0)
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            if (c->cmsg_level == UDP && c->cmsg_type == GRO && c->cmsg_len == CMSG_LEN(sizeof(int)))
                memcpy(size, CMSG_DATA(c), sizeof *size);
    return n;
}

/* What is received is `total` bytes in datagrams of `size`, the last of the rest. */
static int comes_in_pieces(int s, size_t total, size_t size) {
    for (size_t done = 0; done < total;) {
        size_t want = total - done < size ? total - done : size;
        ssize_t n = comes(s, 1000) ? recv(s, got, sizeof got, 0) : -2;
        if (n != (ssize_t)want || memcmp(got, body + done, want) != 0)
            return printf("# %zd bytes and not %zu after %zu\n", n, want, done), 0;
        done += want;
    }
    return recv(s, got, sizeof got, MSG_DONTWAIT) == -1 && errno == EAGAIN;
}

static void options_are_kept(void) {
    int s = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), v = 1;
    lo_up();
    SAME(get(s, UDP, SEGMENT), 0);
    SAME(get(s, UDP, GRO), 0);
    SAME(set(s, UDP, SEGMENT, 65535), 0);
    SAME(get(s, UDP, SEGMENT), 65535);
    FAILS(set(s, UDP, SEGMENT, 65536), EINVAL);
    FAILS(set(s, UDP, SEGMENT, -1), EINVAL);
    SAME(get(s, UDP, SEGMENT), 65535);
    SAME(set(s, UDP, SEGMENT, 0), 0);
    SAME(set(s, UDP, GRO, 7), 0);
    SAME(get(s, UDP, GRO), 1);
    SAME(set(s, UDP, GRO, 0), 0);
    SAME(get(s, UDP, GRO), 0);
    FAILS(setsockopt(s, UDP, SEGMENT, &v, 2), EINVAL);
    FAILS(set(tcp, UDP, SEGMENT, 100), ENOPROTOOPT);
    close(s), close(tcp);
}

static void one_send_makes_several(int domain) {
    int e[2];
    lo_up();
    CHECK(pair(domain, e));
    SAME(set(e[0], UDP, SEGMENT, 1000), 0);
    SAME(send(e[0], body, 3500, 0), 3500);
    CHECK(comes_in_pieces(e[1], 3500, 1000));
    SAME(send(e[0], body, 3000, 0), 3000);
    CHECK(comes_in_pieces(e[1], 3000, 1000));
    SAME(send(e[0], body, 1000, 0), 1000);
    CHECK(comes_in_pieces(e[1], 1000, 1000));
    SAME(send(e[0], body, 17, 0), 17);
    CHECK(comes_in_pieces(e[1], 17, 1000));
    SAME(send(e[0], body, 0, 0), 0);
    SAME(recv(e[1], got, sizeof got, 0), 0);
    /* what a message says goes before the option; 0 is no size */
    SAME(send_sized(e[0], 900, UDP, SEGMENT, 300, 2, 0), 900);
    CHECK(comes_in_pieces(e[1], 900, 300));
    SAME(send_sized(e[0], 2500, UDP, SEGMENT, 0, 2, 0), 2500);
    CHECK(comes_in_pieces(e[1], 2500, 2500));
    FAILS(send_sized(e[0], 900, UDP, SEGMENT, 300, 4, 0), EINVAL);
    FAILS(send_sized(e[0], 900, UDP, GRO, 300, 2, 0), EINVAL);
    struct iovec iov[] = {{body, 1500}, {body + 1500, 1500}};
    struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = iov, .msg_iovlen = 2}}, {.msg_hdr = {.msg_iov = iov, .msg_iovlen = 1}}};
    SAME(sendmmsg(e[0], m, 2, 0), 2);
    SAME(m[0].msg_len, 3000);
    SAME(m[1].msg_len, 1500);
    for (int i = 0; i < 5; i++)
        SAME(recv(e[1], got, sizeof got, 0), i == 4 ? 500 : 1000);
    both_close(e);
}
static void one_send_makes_several_over_ipv4(void) { one_send_makes_several(AF_INET); }
static void one_send_makes_several_over_ipv6(void) { one_send_makes_several(AF_INET6); }

static void so_many_and_no_more(int domain) {
    int e[2], most = 65507, small = 128;
    lo_up();
    CHECK(pair(domain, e));
    SAME(set(e[1], SOL_SOCKET, SO_RCVBUF, 1 << 20), 0);
    SAME(set(e[0], UDP, SEGMENT, 10), 0);
    SAME(send(e[0], body, small * 10, 0), small * 10);
    CHECK(comes_in_pieces(e[1], small * 10, 10));
    FAILS(send(e[0], body, small * 10 + 1, 0), EINVAL);
    SAME(set(e[0], UDP, SEGMENT, 1400), 0);
    SAME(send(e[0], body, most, 0), most);
    CHECK(comes_in_pieces(e[1], most, 1400));
    if (domain == AF_INET)
        FAILS(send(e[0], body, most + 1, 0), EMSGSIZE);
    FAILS(recv(e[1], got, sizeof got, 0), EAGAIN);
    both_close(e);
}
static void so_many_and_no_more_over_ipv4(void) { so_many_and_no_more(AF_INET); }
static void so_many_and_no_more_over_ipv6(void) { so_many_and_no_more(AF_INET6); }

static void without_checksums_it_cannot_be(void) {
    int e[2];
    lo_up();
    CHECK(pair(AF_INET, e));
    SAME(set(e[0], SOL_SOCKET, SO_NO_CHECK, 1), 0);
    FAILS(send_sized(e[0], 900, UDP, SEGMENT, 300, 2, 0), EINVAL);
    FAILS(send_sized(e[0], 300, UDP, SEGMENT, 300, 2, 0), EINVAL); /* even a single one */
    SAME(send(e[0], body, 900, 0), 900);
    both_close(e);
    int s = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
    struct sockaddr_in a = at("127.0.0.1", 5000);
    SAME(connect(s, (struct sockaddr *)&a, sizeof a), 0);
    SAME(set(s, UDP, SEGMENT, 100), 0);
    FAILS(send(s, body, 300, 0), EIO);
    close(s);
}

static void what_is_collected_is_cut(void) {
    int e[2];
    lo_up();
    CHECK(pair(AF_INET, e));
    /* the first part's size counts */
    SAME(send_sized(e[0], 700, UDP, SEGMENT, 400, 2, MSG_MORE), 700);
    struct iovec iov = {body + 700, 600};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    SAME(sendmsg(e[0], &m, 0), 600);
    CHECK(comes_in_pieces(e[1], 1300, 400));
    SAME(set(e[0], UDP, 1, 1), 0);
    SAME(set(e[0], UDP, SEGMENT, 200), 0);
    SAME(send(e[0], body, 300, 0), 300);
    SAME(set(e[0], UDP, SEGMENT, 0), 0);
    SAME(send(e[0], body + 300, 300, 0), 300);
    FAILS(recv(e[1], got, sizeof got, 0), EAGAIN);
    SAME(set(e[0], UDP, 1, 0), 0);
    CHECK(comes_in_pieces(e[1], 600, 200));
    both_close(e);
}

static void who_asks_gets_them_joined(int domain) {
    int e[2], size, flags;
    lo_up();
    CHECK(pair(domain, e));
    SAME(set(e[0], UDP, SEGMENT, 500), 0);
    SAME(set(e[1], UDP, GRO, 1), 0);
    SAME(send(e[0], body, 1700, 0), 1700);
    CHECK(comes(e[1], 1000));
    SAME(get(e[1], SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
    flags = MSG_PEEK;
    SAME(receive(e[1], &size, &flags), 1700);
    SAME(size, 500);
    flags = 0;
    SAME(receive(e[1], &size, &flags), 1700);
    SAME(size, 500);
    SAME(flags, 0);
    SAME(memcmp(got, body, 1700), 0);
    flags = 0;
    FAILS(receive(e[1], &size, &flags), EAGAIN);
    /* what is one datagram says nothing */
    SAME(send(e[0], body, 500, 0), 500);
    SAME(send(e[0], body, 500, 0), 500);
    for (int i = 0; i < 2; i++) {
        flags = 0;
        SAME(receive(e[1], &size, &flags), 500);
        SAME(size, -1);
    }
    /* who does not ask any more gets them apart */
    SAME(send(e[0], body, 1000, 0), 1000);
    SAME(set(e[1], UDP, GRO, 0), 0);
    SAME(send(e[0], body, 1000, 0), 1000);
    SAME(recv(e[1], got, sizeof got, 0), 1000);
    CHECK(comes_in_pieces(e[1], 1000, 500));
    both_close(e);
}
static void who_asks_gets_them_joined_over_ipv4(void) { who_asks_gets_them_joined(AF_INET); }
static void who_asks_gets_them_joined_over_ipv6(void) { who_asks_gets_them_joined(AF_INET6); }

/* A TUN interface with 10.78.0.1/24. */
static int tun(int mtu) {
    int fd = open("/dev/net/tun", O_RDWR), s = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    struct sockaddr_in own = at("10.78.0.1", 0), mask = at("255.255.255.0", 0);
    int ok = fd >= 0 && ioctl(fd, TUNSETIFF, &r) == 0;
    memcpy(&r.ifr_addr, &own, sizeof own);
    ok = ok && ioctl(s, SIOCSIFADDR, &r) == 0;
    memcpy(&r.ifr_netmask, &mask, sizeof mask);
    ok = ok && ioctl(s, SIOCSIFNETMASK, &r) == 0;
    r.ifr_mtu = mtu;
    ok = ok && ioctl(s, SIOCSIFMTU, &r) == 0;
    ok = ok && ioctl(s, SIOCGIFFLAGS, &r) == 0;
    r.ifr_flags |= IFF_UP;
    ok = ok && ioctl(s, SIOCSIFFLAGS, &r) == 0;
    close(s);
    return ok ? fd : -1;
}

static void they_leave_one_by_one(void) {
    int fd = tun(1200), s = socket(AF_INET, SOCK_DGRAM, 0), id = 0;
    CHECK(fd >= 0);
    struct sockaddr_in to = at("10.78.0.9", 4000);
    unsigned char p[2000], sum[12 + 1200] = {0};
    SAME(connect(s, (struct sockaddr *)&to, sizeof to), 0);
    SAME(set(s, UDP, SEGMENT, 1172), 0);
    SAME(send(s, body, 3000, 0), 3000);
    for (int i = 0; i < 3; i++) {
        int n = 0, want = i < 2 ? 1200 : 28 + 3000 - 2 * 1172;
        do {
            CHECK(comes(fd, 1000));
            n = read(fd, p, sizeof p);
        } while (n < 28 || p[0] != 0x45 || p[9] != UDP);
        SAME(n, want);
        SAME(p[2] << 8 | p[3], want);
        SAME(internet_sum(p, 20), 0);
        SAME(p[24] << 8 | p[25], want - 20);
        memcpy(sum, p + 12, 8);
        sum[9] = UDP, sum[10] = (want - 20) >> 8, sum[11] = want - 20;
        memcpy(sum + 12, p + 20, want - 20);
        SAME(internet_sum(sum, 12 + want - 20), 0);
        SAME(memcmp(p + 28, body + i * 1172, want - 28), 0);
        if (i > 0)
            SAME((p[4] << 8 | p[5]), ((id + i) & 0xffff));
        else
            id = p[4] << 8 | p[5];
    }
    /* none may be longer than the MTU */
    SAME(set(s, UDP, SEGMENT, 1173), 0);
    FAILS(send(s, body, 3000, 0), EMSGSIZE);
    FAILS(send(s, body, 1173, 0), EMSGSIZE);
    SAME(send(s, body, 1172, 0), 1172);
    SAME(set(s, UDP, SEGMENT, 0), 0);
    SAME(set(s, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT), 0);
    SAME(send(s, body, 3000, 0), 3000); /* in fragments */
    close(s), close(fd);
}

GUEST(T(options_are_kept), T(one_send_makes_several_over_ipv4), T(one_send_makes_several_over_ipv6), T(so_many_and_no_more_over_ipv4),
      T(so_many_and_no_more_over_ipv6), T(without_checksums_it_cannot_be), T(what_is_collected_is_cut),
      T(who_asks_gets_them_joined_over_ipv4), T(who_asks_gets_them_joined_over_ipv6), T(they_leave_one_by_one))
