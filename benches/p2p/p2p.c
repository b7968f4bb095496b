/* The peer-to-peer program of the Phantom paper (USENIX ATC 2022), section 5.2.1.
 *
 *     p2p INDEX PEERS MESSAGES SECONDS uniform|exp|ring|pareto SEED [PORT START] [AES]
 *
 * Each peer sends MESSAGES messages at the start, waits with poll, and for each message that it receives with
 * recvfrom sends a new one with sendto: 1 KiB over UDP, to a peer chosen by weight. With AES it encrypts and
 * decrypts each message so many times before. After SECONDS it prints how many it has sent and received.
 *
 * The weights `pareto` are those of the PHOLD variant of Shadow's authors (CSET 2018, section 5).
 *
 * A peer needs constant memory: nothing is kept per peer, targets and their addresses are computed. Peer i has
 * the address that Shadow and Belljar give to the i-th host, 11.0.0.1 and up without those that end in .0 or
 * .255. With PORT, all peers are on 127.0.0.1 and peer i at PORT + i; they begin at START, in seconds since
 * 1970, when all of them are there. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../instructions/unit.h"
#include "aes.h"

enum { PAYLOAD = 1024, SIMULATED_PORT = 7000 };

static volatile sig_atomic_t over;
static void on_alarm(int signal) { over = signal; }

static uint64_t state;
static uint64_t draw(void) { /* xorshift64*, Vigna 2016 */
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

static uint32_t self, peers, base_port;
static char weights;

/* Peer i of n has weight 1, or exp(-3x) with x = i/n, or the x-quantile of the Pareto distribution of shape 1.5:
 * the inverse of the summed weights in closed form. Of the last, the 1 % of peers with the most weight get 22 % of
 * all messages. */
static uint32_t target(void) {
    if (weights == 'r')
        return (self + 1) % peers;
    double u = (double)(draw() >> 11) / 9007199254740992.0;
    double x = weights == 'u' ? u : weights == 'p' ? 1 - (1 - u) * (1 - u) * (1 - u) : -log1p(-u * (1 - exp(-3.0))) / 3;
    uint32_t i = (uint32_t)(x * peers);
    i = i < peers ? i : peers - 1;
    return i == self ? (i + 1) % peers : i; /* what one sends to oneself would not cross the network */
}

static struct sockaddr_in address(uint32_t i) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    if (base_port != 0) {
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        a.sin_port = htons((uint16_t)(base_port + i));
    } else {
        a.sin_addr.s_addr = htonl((11u << 24) + (i / 254) * 256 + i % 254 + 1);
        a.sin_port = htons(SIMULATED_PORT);
    }
    return a;
}

static int send_one(int s) {
    static char payload[PAYLOAD];
    struct sockaddr_in to = address(target());
    return sendto(s, payload, sizeof payload, 0, (struct sockaddr *)&to, sizeof to) == PAYLOAD;
}

/* Encrypts and decrypts a message `times` times; exits if it is not the same afterwards. */
static void work(const struct aes *a, uint8_t message[PAYLOAD], int times) {
    uint8_t before[PAYLOAD];
    memcpy(before, message, PAYLOAD);
    for (int i = 0; i < times; i++) {
        for (int at = 0; at < PAYLOAD; at += AES_BLOCK)
            aes_encrypt(a, message + at);
        for (int at = 0; at < PAYLOAD; at += AES_BLOCK)
            aes_decrypt(a, message + at);
    }
    if (memcmp(before, message, PAYLOAD) != 0)
        exit(1);
}

int main(int argc, char **argv) {
    if (argc < 7 || argc > 10) {
        fprintf(stderr, "usage: %s INDEX PEERS MESSAGES SECONDS uniform|exp|ring|pareto SEED [PORT START] [AES]\n", argv[0]);
        return 2;
    }
    self = (uint32_t)atoi(argv[1]), peers = (uint32_t)atoi(argv[2]);
    int messages = atoi(argv[3]), seconds = atoi(argv[4]);
    weights = argv[5][0];
    state = (strtoull(argv[6], NULL, 10) + 1) * 0x9e3779b97f4a7c15u + (uint64_t)self * 0xbf58476d1ce4e5b9u + 1;
    base_port = argc >= 9 ? (uint32_t)atoi(argv[7]) : 0;
    int encryptions = argc % 2 == 0 ? atoi(argv[argc - 1]) : 0;
    struct aes aes;
    if (encryptions > 0) {
        if (!aes_check()) {
            fprintf(stderr, "AES differs from FIPS 197\n");
            return 1;
        }
        uint8_t key[AES_BLOCK] = {(uint8_t)self, (uint8_t)(self >> 8)};
        aes_expand(&aes, key);
    }
    for (int i = 0; i < 8; i++)
        draw();

    int s = socket(AF_INET, SOCK_DGRAM, 0), room = 4 << 20;
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof room); /* as much as the system allows */
    struct sockaddr_in here = address(self);
    if (base_port == 0)
        here.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(s, (struct sockaddr *)&here, sizeof here) != 0) {
        perror("bind");
        return 1;
    }
    struct sigaction sa = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &sa, NULL);
    if (argc >= 9) {
        struct timespec start = {atol(argv[8]), 0};
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &start, NULL);
    }
    /* Once more each second: one that has looked at `over` may still begin to wait when its first alarm rings. */
    struct itimerval end = {.it_value.tv_sec = seconds, .it_interval.tv_sec = 1};
    setitimer(ITIMER_REAL, &end, NULL);

    unsigned long long sent = 0, received = 0;
    for (int i = 0; i < messages; i++)
        sent += send_one(s);
    while (!over) {
        struct pollfd f = {s, POLLIN, 0};
        if (poll(&f, 1, -1) != 1)
            continue;
        char buffer[PAYLOAD];
        struct sockaddr_in from;
        socklen_t n = sizeof from;
        if (recvfrom(s, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &n) != PAYLOAD)
            continue;
        received++;
        if (encryptions > 0)
            work(&aes, (uint8_t *)buffer, encryptions);
        unit(1);
        sent += send_one(s);
    }
    printf("sent %llu received %llu\n", sent, received);
    return 0;
}
