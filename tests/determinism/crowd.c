/* One of many hosts that are run for a moment each: passes datagrams on to the next one, reads clocks, asks who it is, uses
 * floating point and several pages of memory.
 *
 *     crowd NUMBER OF ROUNDS */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static unsigned char memory[32 * PAGE];

static struct sockaddr_in host(uint32_t number) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(4000)};
    a.sin_addr.s_addr = htonl((11u << 24) + number / 254 * 256 + number % 254 + 1);
    return a;
}

static uint64_t flags(void) {
    uint64_t value;
    __asm__ volatile("pushfq; popq %0" : "=r"(value)::"memory");
    return value;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    uint32_t number = (uint32_t)atoi(argv[1]), all = (uint32_t)atoi(argv[2]);
    int rounds = atoi(argv[3]), s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in here = host(number), next = host((number * 7 + 1) % all);
    here.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(s, (struct sockaddr *)&here, sizeof here) != 0)
        return 1;
    double sum = number;
    for (int round = 0; round < rounds; round++) {
        struct timespec real, mono;
        clock_gettime(CLOCK_REALTIME, &real);
        clock_gettime(CLOCK_MONOTONIC, &mono);
        sum = sqrt(sum + (double)(mono.tv_nsec + real.tv_nsec) + getpid() + getppid());
        memory[round * 5 % 32 * PAGE + number % PAGE] += (unsigned char)sum;
        char message[64];
        int len = snprintf(message, sizeof message, "%u %d %a", number, round, sum);
        sendto(s, message, (size_t)len, 0, (struct sockaddr *)&next, sizeof next);
        struct pollfd f = {s, POLLIN, 0};
        while (poll(&f, 1, 20) == 1) {
            sum += (double)(flags() & 0x100); /* the trap flag */
            ssize_t got = recv(s, message, sizeof message - 1, 0);
            for (ssize_t i = 0; i < got; i++)
                sum += memory[(message[i] % 32) * PAGE + number % PAGE] + message[i];
        }
    }
    struct timespec mono;
    clock_gettime(CLOCK_MONOTONIC, &mono);
    printf("%a %lld.%09ld\n", sum, (long long)mono.tv_sec, mono.tv_nsec);
    return 0;
}
