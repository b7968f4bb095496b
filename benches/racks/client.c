/* A client of memcached: gets and sets at a fixed mean rate over one connection to each of some servers.
 *
 *     client NUMBER RATE SECONDS VALUE_BYTES SERVER...
 *
 * A server is named as often as it is to have connections. First each connection sets its keys; then requests are
 * sent at exponentially distributed times to connections drawn at random, one in ten a set, whether or not earlier
 * ones have been answered. Each answer is compared with what was set. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 8, KEY_BYTES = 64, IN_FLIGHT = 64, MOST_BYTES = 8192, BUCKETS = 4096 };

struct request {
    int64_t sent;
    int key;
    int set;
};

struct connection {
    int socket;
    int number;
    struct request waiting[IN_FLIGHT];
    unsigned first, last;
    size_t have;
    char input[2 * MOST_BYTES];
};

static uint64_t state;
static int value_bytes;
static int client;
static long sent, answered, wrong, skipped;
/* Latencies by microsecond, the last for all that are longer. */
static long latencies[BUCKETS];
static double latency_sum;

static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static double exponential(double mean) {
    return -mean * log(((draw() >> 11) + 1) / 9007199254740993.0);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void name_key(char *to, const struct connection *c, int key) {
    snprintf(to, KEY_BYTES + 1, "%0*d.%08d.%08d", KEY_BYTES - 18, client, c->number, key);
}

/* The value that a key has: its name, over and over. */
static void fill(char *to, const char *key) {
    for (int at = 0; at < value_bytes; at++)
        to[at] = key[at % KEY_BYTES];
}

static void ask(struct connection *c, int key, int set) {
    char name[KEY_BYTES + 1], out[MOST_BYTES];
    int length;
    if (c->last - c->first == IN_FLIGHT) {
        skipped++;
        return;
    }
    name_key(name, c, key);
    if (set) {
        length = snprintf(out, sizeof out, "set %s 0 0 %d\r\n", name, value_bytes);
        fill(out + length, name);
        length += value_bytes;
        memcpy(out + length, "\r\n", 2);
        length += 2;
    } else
        length = snprintf(out, sizeof out, "get %s\r\n", name);
    c->waiting[c->last++ % IN_FLIGHT] = (struct request){now(), key, set};
    sent++;
    if (send(c->socket, out, length, MSG_NOSIGNAL) != length)
        fail("send");
}

/* Takes the first answer off the input; 0 if there is no whole one yet. */
static int take(struct connection *c) {
    struct request *r = &c->waiting[c->first % IN_FLIGHT];
    char name[KEY_BYTES + 1], expected[MOST_BYTES];
    int length;
    name_key(name, c, r->key);
    if (r->set)
        length = snprintf(expected, sizeof expected, "STORED\r\n");
    else {
        length = snprintf(expected, sizeof expected, "VALUE %s 0 %d\r\n", name, value_bytes);
        fill(expected + length, name);
        length += value_bytes;
        length += snprintf(expected + length, sizeof expected - length, "\r\nEND\r\n");
    }
    if (c->have < (size_t)length)
        return 0;
    wrong += memcmp(c->input, expected, length) != 0;
    memmove(c->input, c->input + length, c->have - length);
    c->have -= length;
    int64_t took = (now() - r->sent) / 1000;
    latencies[took < BUCKETS ? took : BUCKETS - 1]++;
    latency_sum += took;
    c->first++;
    answered++;
    return 1;
}

static void receive(struct connection *c) {
    ssize_t got = recv(c->socket, c->input + c->have, sizeof c->input - c->have, 0);
    if (got <= 0)
        fail("recv");
    c->have += got;
    while (c->first != c->last && take(c))
        ;
}

static void wait_for(int epoll, int64_t until) {
    struct epoll_event events[16];
    int64_t left = until - now();
    struct timespec timeout = {left > 0 ? left / 1000000000 : 0, left > 0 ? left % 1000000000 : 0};
    int n = epoll_pwait2(epoll, events, 16, &timeout, NULL);
    if (n < 0 && errno != EINTR)
        fail("epoll_pwait2");
    for (int i = 0; i < n; i++)
        receive(events[i].data.ptr);
}

static long percentile(double share) {
    long below = 0;
    for (int at = 0; at < BUCKETS; at++)
        if ((below += latencies[at]) >= share * answered)
            return at;
    return BUCKETS;
}

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    client = atoi(argv[1]);
    double mean = 1e9 / atof(argv[2]);
    int64_t end = now() + (int64_t)(atof(argv[3]) * 1e9);
    value_bytes = atoi(argv[4]);
    if (value_bytes < 1 || value_bytes > MOST_BYTES - 256)
        return 2;
    state = client * 0x9e3779b97f4a7c15;
    int count = argc - 5, epoll = epoll_create1(0);
    struct connection *connections = calloc(count, sizeof *connections);
    for (int n = 0; n < count; n++) {
        struct connection *c = &connections[n];
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(11211)};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        int one = 1;
        c->number = n;
        c->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (inet_pton(AF_INET, argv[5 + n], &to.sin_addr) != 1 || connect(c->socket, (struct sockaddr *)&to, sizeof to))
            fail(argv[5 + n]);
        setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event);
        for (int key = 0; key < KEYS; key++)
            ask(c, key, 1);
        while (c->first != c->last)
            wait_for(epoll, end);
    }
    sent = answered = 0;
    memset(latencies, 0, sizeof latencies);
    latency_sum = 0;
    int64_t next = now() + (int64_t)exponential(mean);
    while (next < end) {
        wait_for(epoll, next);
        if (now() < next)
            continue;
        struct connection *c = &connections[draw() % count];
        int key = draw() % KEYS;
        ask(c, key, draw() % 10 == 0);
        next += (int64_t)exponential(mean);
    }
    /* What is on its way yet. */
    for (int64_t last = now() + 10000000; answered < sent && now() < last;)
        wait_for(epoll, last);
    printf("sent %ld answered %ld wrong %ld skipped %ld mean %.1f us median %ld us p99 %ld us\n", sent, answered, wrong, skipped,
           latency_sum / (answered ? answered : 1), percentile(0.5), percentile(0.99));
    return wrong != 0;
}
