/* A server that answers each line with a long line. Without --careful it takes a short write for a whole one, and an interrupted read for the
   end of the connection: both are mistakes that a quiet machine never shows.

   echo [--careful] */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 7010, ANSWER = 3000 };
static volatile sig_atomic_t ended;

static void end(int signal) { ended = signal; }

static int answer(int connection, const char *text, size_t length, int careful) {
    while (length > 0) {
        ssize_t sent = send(connection, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (!careful)
            return 0;
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd writable = {.fd = connection, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else if (sent < 0 && errno != EINTR) {
            return -1;
        } else if (sent > 0) {
            text += sent;
            length -= sent;
        }
    }
    return 0;
}

static void serve(int connection, int careful) {
    static char text[ANSWER + 1];
    char line[64];
    size_t length = 0;
    for (;;) {
        ssize_t got = read(connection, line + length, sizeof line - length);
        if (got < 0 && errno == EINTR && careful && !ended)
            continue;
        if (got <= 0)
            return;
        length += got;
        char *newline;
        while ((newline = memchr(line, '\n', length))) {
            int number = atoi(line);
            memset(text, 'a' + number % 26, ANSWER - 1);
            text[ANSWER - 1] = '\n';
            if (answer(connection, text, ANSWER, careful) < 0)
                return;
            length -= newline + 1 - line;
            memmove(line, newline + 1, length);
        }
    }
}

int main(int count, char **words) {
    int careful = count > 1 && !strcmp(words[1], "--careful");
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGHUP, &action, NULL);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, 9))
        return 1;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            continue;
        serve(connection, careful);
        close(connection);
    }
}
