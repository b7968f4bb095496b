/* Socket options that programs set and read back. socket(7), tcp(7). */
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

static int get(int s, int level, int name) {
    int v = -12345;
    socklen_t n = sizeof v;
    return getsockopt(s, level, name, &v, &n) == 0 && n == sizeof v ? v : -12345;
}
static int set(int s, int level, int name, int v) { return setsockopt(s, level, name, &v, sizeof v); }

static void defaults(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    SAME(get(s, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    SAME(get(s, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
    SAME(get(s, SOL_SOCKET, SO_ACCEPTCONN), 0);
    SAME(get(s, SOL_SOCKET, SO_REUSEADDR), 0);
    SAME(get(s, SOL_SOCKET, SO_KEEPALIVE), 0);
    SAME(get(s, SOL_SOCKET, SO_BROADCAST), 0);
    SAME(get(s, SOL_SOCKET, SO_ERROR), 0);
    SAME(get(s, IPPROTO_TCP, TCP_NODELAY), 0);
    CHECK(get(s, SOL_SOCKET, SO_RCVBUF) > 4096 && get(s, SOL_SOCKET, SO_SNDBUF) > 4096);
    CHECK(get(s, IPPROTO_TCP, TCP_MAXSEG) >= 500);
    SAME(get(s, IPPROTO_IP, IP_TTL), 64);
    close(s);
}

static void flags(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct { int level, name; } on[] = {{SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_KEEPALIVE},
        {SOL_SOCKET, SO_REUSEPORT}, {SOL_SOCKET, SO_OOBINLINE}, {IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, TCP_CORK}};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        CHECK(set(s, on[i].level, on[i].name, 1) == 0);
        SAME(get(s, on[i].level, on[i].name), 1);
        CHECK(set(s, on[i].level, on[i].name, 0) == 0);
        SAME(get(s, on[i].level, on[i].name), 0);
    }
    CHECK(set(s, IPPROTO_TCP, TCP_KEEPIDLE, 33) == 0);
    SAME(get(s, IPPROTO_TCP, TCP_KEEPIDLE), 33);
    CHECK(set(s, IPPROTO_TCP, TCP_KEEPINTVL, 7) == 0 && set(s, IPPROTO_TCP, TCP_KEEPCNT, 4) == 0);
    SAME(get(s, IPPROTO_TCP, TCP_KEEPINTVL), 7);
    SAME(get(s, IPPROTO_TCP, TCP_KEEPCNT), 4);
    close(s);
}

static void buffers_are_doubled(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(set(s, SOL_SOCKET, SO_RCVBUF, 20000) == 0 && set(s, SOL_SOCKET, SO_SNDBUF, 30000) == 0);
    SAME(get(s, SOL_SOCKET, SO_RCVBUF), 40000);
    SAME(get(s, SOL_SOCKET, SO_SNDBUF), 60000);
    CHECK(set(s, SOL_SOCKET, SO_RCVBUF, 1) == 0); /* raised to a floor */
    CHECK(get(s, SOL_SOCKET, SO_RCVBUF) >= 2048);
    close(s);
}

static void structures(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct linger l = {1, 9}, got = {0, 0};
    socklen_t n = sizeof got;
    CHECK(setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
    CHECK(getsockopt(s, SOL_SOCKET, SO_LINGER, &got, &n) == 0 && got.l_onoff == 1 && got.l_linger == 9);
    struct timeval tv = {3, 500000}, back = {0, 0};
    n = sizeof back;
    CHECK(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) == 0);
    CHECK(setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) == 0);
    CHECK(getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &back, &n) == 0);
    CHECK(back.tv_sec == 3 && back.tv_usec >= 496000 && back.tv_usec <= 504000);
    struct timeval bad = {0, 2000000};
    FAILS(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &bad, sizeof bad), EDOM);
    char name[16] = "";
    n = sizeof name;
    CHECK(getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, name, &n) == 0 && name[0] != 0);
    CHECK(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    n = sizeof name;
    CHECK(getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, name, &n) == 0 && strcmp(name, "reno") == 0);
    FAILS(setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8), ENOENT);
    close(s);
}

static void tcp_info_of_a_connection(void) {
    int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    CHECK(bind(l, (struct sockaddr *)&a, n) == 0 && listen(l, 1) == 0 && getsockname(l, (struct sockaddr *)&a, &n) == 0);
    SAME(get(l, SOL_SOCKET, SO_ACCEPTCONN), 1);
    CHECK(connect(c, (struct sockaddr *)&a, sizeof a) == 0);
    struct tcp_info info;
    memset(&info, 0, sizeof info);
    n = sizeof info;
    CHECK(getsockopt(c, IPPROTO_TCP, TCP_INFO, &info, &n) == 0);
    SAME(info.tcpi_state, 1 /* TCP_ESTABLISHED */);
    CHECK(info.tcpi_snd_mss >= 500 && info.tcpi_snd_cwnd >= 2 && info.tcpi_rto >= 200000);
    close(l), close(c);
}

static void refusals(void) {
    int s = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0), v = 0;
    socklen_t n = sizeof v;
    FAILS(getsockopt(s, SOL_SOCKET, 9999, &v, &n), ENOPROTOOPT);
    FAILS(setsockopt(s, IPPROTO_TCP, 9999, &v, sizeof v), ENOPROTOOPT);
    FAILS(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &v, 1), EINVAL);
    FAILS(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, (void *)8, 4), EFAULT);
    FAILS(setsockopt(s, SOL_SOCKET, SO_TYPE, &v, sizeof v), ENOPROTOOPT);
    FAILS(set(u, IPPROTO_TCP, TCP_NODELAY, 1), ENOPROTOOPT);
    n = 2; /* a short buffer takes what fits */
    CHECK(getsockopt(s, SOL_SOCKET, SO_TYPE, &v, &n) == 0);
    SAME(n, 2);
    close(s), close(u);
}

/* Options by their numbers, which not every libc knows. */
static void newer_options(void) {
    enum { BSDCOMPAT = 14, WIFI_STATUS = 41, NOFCS = 43, BPF_EXTENSIONS = 48, INCOMING_NAPI_ID = 56, BINDTOIFINDEX = 62,
           RCVTIMEO_NEW = 66, BUF_LOCK = 72, TXREHASH = 74 };
    int s = socket(AF_INET, SOCK_DGRAM, 0), kept[] = {WIFI_STATUS, NOFCS};
    for (unsigned n = 0; n < 2; n++) {
        SAME(get(s, SOL_SOCKET, kept[n]), 0);
        CHECK(set(s, SOL_SOCKET, kept[n], 7) == 0);
        SAME(get(s, SOL_SOCKET, kept[n]), 1);
    }
    CHECK(set(s, SOL_SOCKET, BSDCOMPAT, 1) == 0);
    SAME(get(s, SOL_SOCKET, BSDCOMPAT), 0);
    SAME(get(s, SOL_SOCKET, INCOMING_NAPI_ID), 0);
    FAILS(set(s, SOL_SOCKET, BPF_EXTENSIONS, 1), ENOPROTOOPT);
    SAME(get(s, SOL_SOCKET, BPF_EXTENSIONS), 64);
    FAILS(set(s, SOL_SOCKET, BINDTOIFINDEX, -1), EINVAL);
    CHECK(set(s, SOL_SOCKET, BINDTOIFINDEX, 1) == 0);
    SAME(get(s, SOL_SOCKET, BINDTOIFINDEX), 1);
    char name[16] = "";
    socklen_t n = sizeof name;
    CHECK(getsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, name, &n) == 0 && strcmp(name, "lo") == 0);
    FAILS(set(s, SOL_SOCKET, BUF_LOCK, 4), EINVAL);
    CHECK(set(s, SOL_SOCKET, BUF_LOCK, 3) == 0);
    SAME(get(s, SOL_SOCKET, BUF_LOCK), 3);
    FAILS(set(s, SOL_SOCKET, TXREHASH, 1), EOPNOTSUPP);
    int t = socket(AF_INET, SOCK_STREAM, 0);
    SAME(get(t, SOL_SOCKET, TXREHASH), 1);
    FAILS(set(t, SOL_SOCKET, TXREHASH, 2), EINVAL);
    CHECK(set(t, SOL_SOCKET, TXREHASH, 0) == 0);
    SAME(get(t, SOL_SOCKET, TXREHASH), 0);
    close(t);
    struct timeval tv = {2, 0}, back;
    CHECK(setsockopt(s, SOL_SOCKET, RCVTIMEO_NEW, &tv, sizeof tv) == 0);
    n = sizeof back;
    CHECK(getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &back, &n) == 0 && back.tv_sec == 2);
    close(s);
}

static void receive_timeout_on_tcp(void) {
    int l = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(l, (struct sockaddr *)&a, sizeof a) == 0 && listen(l, 1) == 0);
    struct timeval tv = {0, 50000};
    CHECK(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) == 0);
    uint64_t start = now_ms();
    FAILS(accept(l, NULL, NULL), EAGAIN);
    CHECK(lasted(now_ms() - start, 50));
    close(l);
}

GUEST(T(defaults), T(flags), T(buffers_are_doubled), T(structures), T(tcp_info_of_a_connection), T(refusals), T(newer_options),
      T(receive_timeout_on_tcp))
