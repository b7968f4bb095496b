/* Short HTTP requests, one connection each, one after the other.
 *
 *     get HOST PORT COUNT
 *
 * Ends with 1 if an answer is not "200", or the server does not come within a minute. */
#define _GNU_SOURCE
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *to;
    if (getaddrinfo(argv[1], argv[2], &hints, &to) != 0)
        return 1;
    static const char request[] = "GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n";
    int patience = 6000;
    for (long left = atol(argv[3]); left > 0;) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s, to->ai_addr, to->ai_addrlen) != 0) {
            if (patience-- == 0)
                return 1;
            close(s);
            nanosleep(&(struct timespec){0, 10000000}, NULL);
            continue;
        }
        char answer[4096];
        size_t had = 0;
        ssize_t n;
        if (write(s, request, sizeof request - 1) != sizeof request - 1)
            return 1;
        while ((n = read(s, answer + had, sizeof answer - 1 - had)) > 0)
            had += (size_t)n;
        answer[had] = 0;
        if (n != 0 || strncmp(answer, "HTTP/1.", 7) != 0 || strstr(answer, " 200 ") == NULL)
            return 1;
        close(s);
        left--;
    }
    puts("done");
    return 0;
}
