/* One transfer over TCP.
 *
 *     transfer receive BYTES          takes one connection, and says its Mbit/s once a quarter of the bytes is there
 *     transfer send BYTES HOST
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 20];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (argc < 3)
        return 2;
    int sends = !strcmp(argv[1], "send");
    long bytes = atol(argv[2]);
    hints.ai_flags = sends ? 0 : AI_PASSIVE;
    if (getaddrinfo(sends ? argv[3] : NULL, "80", &hints, &found))
        fail("getaddrinfo");
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (sends) {
        if (connect(s, found->ai_addr, found->ai_addrlen))
            fail("connect");
        while (bytes > 0) {
            ssize_t sent = write(s, buffer, bytes < (long)sizeof buffer ? (size_t)bytes : sizeof buffer);
            if (sent < 0)
                fail("write");
            bytes -= sent;
        }
        return 0;
    }
    if (bind(s, found->ai_addr, found->ai_addrlen) || listen(s, 1))
        fail("bind");
    int taken = accept(s, NULL, NULL);
    double begin = 0;
    long total = 0, before = 0;
    ssize_t got;
    while ((got = read(taken, buffer, sizeof buffer)) > 0) {
        total += got;
        /* Slow start is not measured. */
        if (!before && total > bytes / 4) {
            begin = now();
            before = total;
        }
    }
    printf("%.1f\n", (total - before) * 8000 / (now() - begin));
    return total != bytes;
}
