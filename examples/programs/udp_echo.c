/* A UDP echo: `udp_echo` answers on port 7, `udp_echo HOST SIZE COUNT` asks and prints each round trip in
 * nanoseconds. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int serve(void) {
    static char b[65536];
    struct sockaddr_storage from;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_PASSIVE}, *a;
    if (getaddrinfo(NULL, "7", &hints, &a) != 0)
        return 1;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(s, a->ai_addr, a->ai_addrlen) != 0) {
        perror("bind");
        return 1;
    }
    for (;;) {
        socklen_t n = sizeof from;
        ssize_t got = recvfrom(s, b, sizeof b, 0, (struct sockaddr *)&from, &n);
        if (got < 0 || sendto(s, b, (size_t)got, 0, (struct sockaddr *)&from, n) != got)
            return 1;
    }
}

int main(int argc, char **argv) {
    if (argc == 1)
        return serve();
    if (argc != 4) {
        fprintf(stderr, "usage: %s [HOST SIZE COUNT]\n", argv[0]);
        return 2;
    }
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *a;
    int e = getaddrinfo(argv[1], "7", &hints, &a);
    if (e != 0) {
        fprintf(stderr, "%s: %s\n", argv[1], gai_strerror(e));
        return 1;
    }
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (connect(s, a->ai_addr, a->ai_addrlen) != 0)
        return 1;
    size_t size = strtoul(argv[2], NULL, 10);
    char *out = calloc(1, size + 1), *in = calloc(1, size + 1);
    for (int i = 0; i < atoi(argv[3]); i++) {
        memset(out, 'a' + i % 26, size);
        long long start = now();
        if (send(s, out, size, 0) != (ssize_t)size || recv(s, in, size, 0) != (ssize_t)size)
            return 1;
        long long end = now();
        if (memcmp(in, out, size) != 0)
            return 1;
        printf("%zu bytes: %lld ns\n", size, end - start);
        fflush(stdout);
        usleep(10000);
    }
    return 0;
}
