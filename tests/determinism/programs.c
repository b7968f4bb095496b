/* The guests of the random experiments: what they print depends on times, orders, addresses and draws.
 *
 *     programs tcp-server PORT | tcp-client HOST PORT BYTES PAUSE_US | udp-echo PORT
 *     programs udp-client HOST PORT COUNT PAUSE_US | family CHILDREN | threads COUNT ROUNDS | spin CALLS */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what) {
    printf("%llu %s: %s\n", (unsigned long long)now(), what, strerror(errno));
    exit(0);
}

static int open_socket(const char *host, const char *port, int type) {
    struct addrinfo want = {.ai_family = AF_INET, .ai_socktype = type, .ai_flags = host ? 0 : AI_PASSIVE}, *found;
    int status = getaddrinfo(host, port, &want, &found);
    if (status != 0) {
        printf("%s: %s\n", host, gai_strerror(status));
        exit(0);
    }
    int s = socket(AF_INET, type, 0), on = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int bad = host ? connect(s, found->ai_addr, found->ai_addrlen) : bind(s, found->ai_addr, found->ai_addrlen);
    if (bad)
        fail(host ? "connect" : "bind");
    freeaddrinfo(found);
    return s;
}

static void *serve(void *argument) {
    int s = (int)(intptr_t)argument;
    char buffer[8192];
    unsigned long long sum = 0, total = 0;
    ssize_t n;
    while ((n = read(s, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            sum = sum * 31 + (unsigned char)buffer[i];
        total += (unsigned long long)n;
    }
    int length = snprintf(buffer, sizeof buffer, "%llu %llu", total, sum);
    if (write(s, buffer, (size_t)length) != length)
        printf("an answer was not sent\n");
    printf("%llu served %llu %llx on %p\n", (unsigned long long)now(), total, sum, (void *)buffer);
    close(s);
    return NULL;
}

static void tcp_server(const char *port) {
    int listener = open_socket(NULL, port, SOCK_STREAM), s;
    listen(listener, 50);
    while ((s = accept(listener, NULL, NULL)) >= 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, serve, (void *)(intptr_t)s);
        pthread_detach(thread);
    }
}

static void tcp_client(const char *host, const char *port, long bytes, long pause) {
    int s = open_socket(host, port, SOCK_STREAM);
    char buffer[3000];
    for (long sent = 0; sent < bytes;) {
        long part = bytes - sent < (long)sizeof buffer ? bytes - sent : (long)sizeof buffer;
        if (getrandom(buffer, (size_t)part, 0) != part || send(s, buffer, (size_t)part, MSG_NOSIGNAL) != part)
            fail("send");
        sent += part;
        usleep((unsigned)pause);
    }
    shutdown(s, SHUT_WR);
    ssize_t n = read(s, buffer, sizeof buffer - 1);
    buffer[n > 0 ? n : 0] = 0;
    printf("%llu %s\n", (unsigned long long)now(), buffer);
}

static void udp_echo(const char *port) {
    int s = open_socket(NULL, port, SOCK_DGRAM);
    char buffer[2048];
    struct sockaddr_storage from;
    for (;;) {
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(s, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &length);
        if (n > 0)
            sendto(s, buffer, (size_t)n, 0, (struct sockaddr *)&from, length);
    }
}

static void udp_client(const char *host, const char *port, int count, long pause) {
    int s = open_socket(host, port, SOCK_DGRAM), answers = 0;
    for (int i = 0; i < count; i++) {
        char buffer[900];
        uint64_t sent = now();
        memcpy(buffer, &sent, sizeof sent);
        send(s, buffer, 100 + (size_t)(i * 37 % 800), MSG_NOSIGNAL);
        struct pollfd f = {s, POLLIN, 0};
        while (poll(&f, 1, (int)(pause / 1000)) == 1 && recv(s, buffer, sizeof buffer, 0) > 0) {
            memcpy(&sent, buffer, sizeof sent);
            printf("%d after %llu\n", ++answers, (unsigned long long)(now() - sent));
        }
        usleep((unsigned)pause);
    }
}

static void family(int children) {
    printf("%d has children\n", getpid());
    fflush(stdout);
    for (int i = 0; i < children; i++)
        if (fork() == 0) {
            usleep((unsigned)(1000 * (children - i)));
            printf("child %d at %llu, its stack %p\n", getpid(), (unsigned long long)now(), (void *)&children);
            exit(i);
        }
    int status;
    pid_t pid;
    while ((pid = wait(&status)) > 0)
        printf("%d ended with %d at %llu\n", pid, WEXITSTATUS(status), (unsigned long long)now());
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int rounds;

static void *take_turns(void *number) {
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&mutex);
        printf("%d ", (int)(intptr_t)number);
        if (i % 3 == 0)
            usleep(50);
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    return NULL;
}

static void threads(int count) {
    pthread_t thread[64];
    for (int i = 0; i < count; i++)
        pthread_create(&thread[i], NULL, take_turns, (void *)(intptr_t)i);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    printf("\n%llu\n", (unsigned long long)now());
}

/* More calls within an instant than are free: the clock moves while others send. */
static void *spin_thread(void *calls) {
    long others = 0;
    for (long i = 0; i < (long)(intptr_t)calls; i++)
        others += getppid();
    printf("%llu %ld\n", (unsigned long long)now(), others);
    return NULL;
}

static void spin(long calls) {
    pthread_t other;
    pthread_create(&other, NULL, spin_thread, (void *)(intptr_t)calls);
    spin_thread((void *)(intptr_t)(calls / 2));
    pthread_join(other, NULL);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "tcp-server") == 0 && argc == 3)
        tcp_server(argv[2]);
    else if (strcmp(what, "tcp-client") == 0 && argc == 6)
        tcp_client(argv[2], argv[3], atol(argv[4]), atol(argv[5]));
    else if (strcmp(what, "udp-echo") == 0 && argc == 3)
        udp_echo(argv[2]);
    else if (strcmp(what, "udp-client") == 0 && argc == 6)
        udp_client(argv[2], argv[3], atoi(argv[4]), atol(argv[5]));
    else if (strcmp(what, "family") == 0 && argc == 3)
        family(atoi(argv[2]));
    else if (strcmp(what, "threads") == 0 && argc == 4) {
        rounds = atoi(argv[3]);
        threads(atoi(argv[2]));
    } else if (strcmp(what, "spin") == 0 && argc == 3)
        spin(atol(argv[2]));
    else
        return 2;
    return 0;
}
