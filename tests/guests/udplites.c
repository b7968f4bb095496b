/* UDP-Lite on lo: how much of a datagram its checksum covers. udplite(7), RFC 3828. */
#include "privileged.h"
#include <netinet/ip.h>

#define SEND_CSCOV 10
#define RECV_CSCOV 11
#define BODY 100

static int lite(int domain) { return socket(domain, SOCK_DGRAM, IPPROTO_UDPLITE); }

static int coverage(int s, int level, int name) {
    int value = -1;
    socklen_t n = sizeof value;
    return getsockopt(s, level, name, &value, &n) == 0 ? value : -errno;
}

static int cover(int s, int name, int bytes) { return setsockopt(s, IPPROTO_UDPLITE, name, &bytes, sizeof bytes); }

static int bound(struct sockaddr_in *a) {
    int s = lite(AF_INET);
    socklen_t n = sizeof *a;
    *a = at("127.0.0.1", 0);
    if (s < 0 || bind(s, (struct sockaddr *)a, n) != 0 || getsockname(s, (struct sockaddr *)a, &n) != 0)
        return -1;
    return s;
}

static void options(void) {
    int s = lite(AF_INET), u = socket(AF_INET, SOCK_DGRAM, 0), v = 0;
    socklen_t n = sizeof v;
    CHECK(getsockopt(s, SOL_SOCKET, SO_PROTOCOL, &v, &n) == 0);
    SAME(v, IPPROTO_UDPLITE);
    SAME(coverage(s, IPPROTO_UDPLITE, SEND_CSCOV), 0);
    int given[] = {0, 1, 7, 8, 20, 65535, 70000, -3}, kept[] = {0, 8, 8, 8, 20, 65535, 65535, 8};
    for (int i = 0; i < 8; i++) {
        SAME(cover(s, SEND_CSCOV, given[i]), 0);
        SAME(coverage(s, IPPROTO_UDPLITE, SEND_CSCOV), kept[i]);
        SAME(cover(s, RECV_CSCOV, given[i]), 0);
        SAME(coverage(s, IPPROTO_UDPLITE, RECV_CSCOV), kept[i]);
        SAME(coverage(s, IPPROTO_UDP, RECV_CSCOV), kept[i]); /* both levels are one */
    }
    FAILS(setsockopt(s, IPPROTO_UDPLITE, SEND_CSCOV, &v, 2), EINVAL);
    FAILS(setsockopt(s, IPPROTO_UDPLITE, 12, &v, sizeof v), ENOPROTOOPT);
    FAILS(cover(u, SEND_CSCOV, 20), ENOPROTOOPT); /* UDP covers everything, and says so */
    SAME(coverage(u, IPPROTO_UDP, SEND_CSCOV), 0);
    FAILS(socket(AF_INET, SOCK_STREAM, IPPROTO_UDPLITE), EPROTONOSUPPORT);
    close(s), close(u);
}

static void ports_are_its_own(void) {
    struct sockaddr_in a;
    int s = bound(&a), other = lite(AF_INET), u = socket(AF_INET, SOCK_DGRAM, 0);
    FAILS(bind(other, (struct sockaddr *)&a, sizeof a), EADDRINUSE);
    SAME(bind(u, (struct sockaddr *)&a, sizeof a), 0);
    SAME(sendto(other, "lite", 4, 0, (struct sockaddr *)&a, sizeof a), 4);
    CHECK(comes(s, 1000));
    CHECK(!comes(u, 20));
    close(s);
    /* nobody has the port any more, though UDP has */
    SAME(connect(other, (struct sockaddr *)&a, sizeof a), 0);
    SAME(send(other, "lite", 4, 0), 4);
    char c;
    FAILS(recv(other, &c, 1, 0), ECONNREFUSED);
    close(other), close(u);
}

/* What the header says, and whether its checksum covers so much, for each coverage asked for. */
static void headers(void) {
    struct sockaddr_in a;
    int s = bound(&a), sender = lite(AF_INET), tap = socket(AF_INET, SOCK_RAW, IPPROTO_UDPLITE);
    CHECK(tap >= 0);
    int asked[] = {-1, 0, 8, 20, 108, 500}, field[] = {108, 0, 8, 20, 108, 108}, covered[] = {108, 108, 8, 20, 108, 108};
    unsigned char body[BODY], p[256], sum[12 + 108];
    for (int i = 0; i < BODY; i++)
        body[i] = i * 7 + 1;
    for (int i = 0; i < 6; i++) {
        if (asked[i] >= 0)
            SAME(cover(sender, SEND_CSCOV, asked[i]), 0);
        SAME(sendto(sender, body, BODY, 0, (struct sockaddr *)&a, sizeof a), BODY);
        CHECK(comes(tap, 1000));
        SAME(recv(tap, p, sizeof p, 0), 20 + 8 + BODY);
        unsigned char *h = p + 20;
        SAME(p[9], IPPROTO_UDPLITE);
        SAME(h[4] << 8 | h[5], field[i]);
        memcpy(sum, p + 12, 8);
        memcpy(sum + 8, (unsigned char[]){0, IPPROTO_UDPLITE, 0, 108}, 4);
        memcpy(sum + 12, h, covered[i]);
        SAME(internet_sum(sum, 12 + covered[i]), 0);
        CHECK(comes(s, 1000));
        SAME(recv(s, p, sizeof p, 0), BODY);
        CHECK(memcmp(p, body, BODY) == 0);
    }
    close(s), close(sender), close(tap);
}

static void receivers_ask_for_coverage(void) {
    struct sockaddr_in a;
    int s = bound(&a), sender = lite(AF_INET);
    char body[BODY] = "";
    /* sender's, receiver's (-1: not set), whether it is received */
    int tries[][3] = {{20, -1, 1}, {20, 0, 0}, {20, 21, 0}, {20, 20, 1}, {8, 9, 0}, {0, 20, 1}, {0, 0, 1}, {108, 500, 1}};
    for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
        SAME(cover(sender, SEND_CSCOV, tries[i][0]), 0);
        if (tries[i][1] >= 0)
            SAME(cover(s, RECV_CSCOV, tries[i][1]), 0);
        SAME(sendto(sender, body, BODY, 0, (struct sockaddr *)&a, sizeof a), BODY);
        SAME(comes(s, tries[i][2] ? 1000 : 20), tries[i][2]);
        if (tries[i][2])
            SAME(recv(s, body, BODY, 0), BODY);
    }
    close(s), close(sender);
}

static unsigned long counter(const char *name) {
    char names[512], values[512];
    unsigned long found = ~0ul;
    FILE *f = fopen("/proc/net/snmp", "r");
    while (f && fgets(names, sizeof names, f) && fgets(values, sizeof values, f)) {
        if (strncmp(names, "UdpLite:", 8) != 0)
            continue;
        char *n, *v, *word = strtok_r(names, " \n", &n), *value = strtok_r(values, " \n", &v);
        for (; word && value; word = strtok_r(NULL, " \n", &n), value = strtok_r(NULL, " \n", &v))
            if (strcmp(word, name) == 0)
                found = strtoul(value, NULL, 10);
    }
    fclose(f);
    return found;
}

/* By hand: coverage that cannot be, no checksum, and one that is wrong outside of what it covers. */
static void what_is_malformed_is_not_received(void) {
    struct sockaddr_in a, to = at("127.0.0.1", 0);
    int s = bound(&a), maker = socket(AF_INET, SOCK_RAW, IPPROTO_UDPLITE);
    CHECK(maker >= 0);
    struct { int field, covered, checksum, received; } tries[] = {
        {16, 16, 1, 1}, {0, 16, 1, 1}, {8, 8, 1, 1}, {7, 7, 1, 0}, {1, 1, 1, 0}, {17, 16, 1, 0}, {16, 16, 0, 0}, {8, 8, 0, 0},
    };
    unsigned long before = counter("InErrors");
    for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
        unsigned char sum[12 + 16] = {127, 0, 0, 1, 127, 0, 0, 1, 0, IPPROTO_UDPLITE, 0, 16}, *h = sum + 12, got[64];
        memcpy(h, (unsigned char[]){4, 0, 0, 0, 0, tries[i].field, 0, 0, 'e', 'i', 'g', 'h', 't', ' ', 'o', 'f'}, 16);
        memcpy(h + 2, &a.sin_port, 2);
        unsigned short value = internet_sum(sum, 12 + tries[i].covered);
        if (tries[i].checksum)
            memcpy(h + 6, &value, 2);
        SAME(sendto(maker, h, 16, 0, (struct sockaddr *)&to, sizeof to), 16);
        SAME(comes(s, tries[i].received ? 1000 : 20), tries[i].received);
        if (tries[i].received)
            SAME(recv(s, got, sizeof got, 0), 8);
    }
    SAME(counter("InErrors") - before, 5);
    close(s), close(maker);
}

static void over_ipv6(void) {
    int s = lite(AF_INET6), sender = lite(AF_INET6), small = 20, large = 30;
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}, from;
    socklen_t n = sizeof a;
    CHECK(s >= 0 && sender >= 0);
    SAME(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    SAME(getsockname(s, (struct sockaddr *)&a, &n), 0);
    char body[BODY] = "";
    SAME(cover(sender, SEND_CSCOV, small), 0);
    SAME(sendto(sender, body, BODY, 0, (struct sockaddr *)&a, sizeof a), BODY);
    CHECK(comes(s, 1000));
    n = sizeof from;
    SAME(recvfrom(s, body, BODY, 0, (struct sockaddr *)&from, &n), BODY);
    SAME(from.sin6_family, AF_INET6);
    SAME(cover(s, RECV_CSCOV, large), 0);
    SAME(sendto(sender, body, BODY, 0, (struct sockaddr *)&a, sizeof a), BODY);
    CHECK(!comes(s, 20));
    close(s), close(sender);
}

static void shown_below_proc(void) {
    struct sockaddr_in a;
    int s = bound(&a), u = socket(AF_INET, SOCK_DGRAM, 0), lines = 0;
    SAME(bind(u, (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET}, sizeof a), 0);
    char wanted[64], line[256];
    snprintf(wanted, sizeof wanted, " 0100007F:%04X 00000000:0000 07 ", ntohs(a.sin_port));
    FILE *f = fopen("/proc/net/udplite", "r");
    CHECK(f);
    while (f && fgets(line, sizeof line, f))
        lines += strstr(line, wanted) != NULL;
    SAME(lines, 1);
    fclose(f);
    close(s), close(u);
}

GUEST_WITH(lo_up(), T(options), T(ports_are_its_own), T(headers), T(receivers_ask_for_coverage),
           T(what_is_malformed_is_not_received), T(over_ipv6), T(shown_below_proc))
