/* A datagram of 1,000 bytes every 100 us and an answer to each: `talk server`, or `talk client SERVER`. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

int main(int argc, char **argv) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_PASSIVE}, *found;
    char data[2000] = {0};
    if (argc < 2 || getaddrinfo(argc > 2 ? argv[2] : NULL, "7", &hints, &found))
        return 2;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (argc == 2 && bind(s, found->ai_addr, found->ai_addrlen))
        return 1;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        struct sockaddr_storage who;
        socklen_t length = sizeof who;
        if (argc > 2 && sendto(s, data, 1000, 0, found->ai_addr, found->ai_addrlen) != 1000)
            return 1;
        ssize_t got = recvfrom(s, data, sizeof data, 0, (struct sockaddr *)&who, &length);
        if (argc == 2 && (got < 0 || sendto(s, data, got, 0, (struct sockaddr *)&who, length) != got))
            return 1;
        if (argc > 2) {
            next.tv_nsec += 100000;
            next.tv_sec += next.tv_nsec / 1000000000;
            next.tv_nsec %= 1000000000;
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        }
    }
}
