/* TCP over loopback: connecting, data, closing in every order, resets. tcp(7), connect(2), shutdown(2). */
#include "guest.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

static int listener(struct sockaddr_in *a, int backlog) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t n = sizeof *a;
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (s < 0 || bind(s, (struct sockaddr *)a, n) != 0 || listen(s, backlog) != 0 ||
        getsockname(s, (struct sockaddr *)a, &n) != 0)
        return -1;
    return s;
}

/* A connected pair: [0] called connect, [1] came from accept. */
static int pair(int sv[2]) {
    struct sockaddr_in a;
    int l = listener(&a, 5);
    sv[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (l < 0 || connect(sv[0], (struct sockaddr *)&a, sizeof a) != 0)
        return -1;
    sv[1] = accept(l, NULL, NULL);
    close(l);
    return sv[1] < 0 ? -1 : 0;
}

static void groups_stay_the_listeners(void) {
    struct sockaddr_in a;
    int l = listener(&a, 5), c = socket(AF_INET, SOCK_STREAM, 0);
    struct group_req group = {.gr_interface = 1};
    struct sockaddr_in *address = (struct sockaddr_in *)&group.gr_group;
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(0xe0000701);
    CHECK(l >= 0 && setsockopt(l, IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group) == 0);
    CHECK(connect(c, (struct sockaddr *)&a, sizeof a) == 0);
    int s = accept(l, NULL, NULL);
    CHECK(s >= 0);
    FAILS(setsockopt(s, IPPROTO_IP, MCAST_LEAVE_GROUP, &group, sizeof group), EADDRNOTAVAIL);
    CHECK(setsockopt(l, IPPROTO_IP, MCAST_LEAVE_GROUP, &group, sizeof group) == 0);
    close(l), close(c), close(s);
}

static void addresses(void) {
    struct sockaddr_in a, peer, self;
    int l = listener(&a, 5), c = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t n = sizeof peer;
    CHECK(l >= 0 && connect(c, (struct sockaddr *)&a, sizeof a) == 0);
    int s = accept4(l, (struct sockaddr *)&peer, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(s >= 0 && n == sizeof peer);
    CHECK(fcntl(s, F_GETFL) & O_NONBLOCK);
    SAME(fcntl(s, F_GETFD), FD_CLOEXEC);
    CHECK(getsockname(c, (struct sockaddr *)&self, &n) == 0);
    SAME(self.sin_port, peer.sin_port);
    CHECK(getpeername(c, (struct sockaddr *)&peer, &n) == 0);
    SAME(peer.sin_port, a.sin_port);
    CHECK(getsockname(s, (struct sockaddr *)&self, &n) == 0);
    SAME(self.sin_port, a.sin_port);
    FAILS(connect(c, (struct sockaddr *)&a, sizeof a), EISCONN);
    FAILS(getpeername(l, (struct sockaddr *)&peer, &n), ENOTCONN);
    close(l), close(c), close(s);
}

static void refused(void) {
    struct sockaddr_in a;
    int l = listener(&a, 1), c = socket(AF_INET, SOCK_STREAM, 0);
    close(l);
    FAILS(connect(c, (struct sockaddr *)&a, sizeof a), ECONNREFUSED);
    close(c);
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    errno = 0;
    CHECK(connect(c, (struct sockaddr *)&a, sizeof a) == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED));
    if (errno == EINPROGRESS) {
        struct pollfd f = {c, POLLOUT, 0};
        SAME(poll(&f, 1, 1000), 1);
        CHECK(f.revents & POLLERR);
        int e;
        socklen_t n = sizeof e;
        CHECK(getsockopt(c, SOL_SOCKET, SO_ERROR, &e, &n) == 0);
        SAME(e, ECONNREFUSED);
    }
    close(c);
    c = socket(AF_INET, SOCK_STREAM, 0);
    char b;
    FAILS(recv(c, &b, 1, 0), ENOTCONN);
    FAILS(shutdown(c, SHUT_WR), ENOTCONN);
    FAILS(send(c, &b, 1, MSG_NOSIGNAL), EPIPE);
    FAILS(accept(c, NULL, NULL), EINVAL);
    close(c);
}

static void nonblocking_connect(void) {
    struct sockaddr_in a;
    int l = listener(&a, 5), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int r = connect(c, (struct sockaddr *)&a, sizeof a);
    CHECK(r == 0 || errno == EINPROGRESS);
    struct pollfd f = {c, POLLOUT, 0}, g = {l, POLLIN, 0};
    SAME(poll(&f, 1, 1000), 1);
    SAME(f.revents, POLLOUT);
    int e = 77;
    socklen_t n = sizeof e;
    CHECK(getsockopt(c, SOL_SOCKET, SO_ERROR, &e, &n) == 0);
    SAME(e, 0);
    SAME(poll(&g, 1, 1000), 1);
    int s = accept(l, NULL, NULL);
    CHECK(s >= 0);
    SAME(poll(&g, 1, 0), 0);
    CHECK(fcntl(l, F_SETFL, O_NONBLOCK) == 0);
    FAILS(accept(l, NULL, NULL), EAGAIN);
    close(l), close(c), close(s);
}

static void data_before_accept(void) {
    struct sockaddr_in a;
    int l = listener(&a, 5), c = socket(AF_INET, SOCK_STREAM, 0);
    char b[8];
    CHECK(connect(c, (struct sockaddr *)&a, sizeof a) == 0);
    SAME(send(c, "early", 5, 0), 5);
    close(c);
    int s = accept(l, NULL, NULL);
    SAME(recv(s, b, 8, MSG_WAITALL), 5);
    SAME(recv(s, b, 8, 0), 0);
    close(l), close(s);
}

static void flags_of_recv(void) {
    int sv[2], n;
    char b[16];
    CHECK(pair(sv) == 0);
    FAILS(recv(sv[0], b, 1, MSG_DONTWAIT), EAGAIN);
    SAME(send(sv[1], "abcdef", 6, 0), 6);
    struct pollfd f = {sv[0], POLLIN, 0};
    SAME(poll(&f, 1, 1000), 1);
    SAME(recv(sv[0], b, 3, MSG_PEEK), 3);
    SAME(recv(sv[0], b, 16, MSG_PEEK), 6);
    CHECK(ioctl(sv[0], FIONREAD, &n) == 0);
    SAME(n, 6);
    SAME(recv(sv[0], b, 2, 0), 2);
    SAME(recv(sv[0], b, 16, 0), 4);
    CHECK(memcmp(b, "cdef", 4) == 0);
    close(sv[0]), close(sv[1]);
}

static void *piecemeal(void *fd) {
    for (int i = 0; i < 5; i++) {
        sleep_ms(20);
        TCHECK(send(*(int *)fd, "0123456789", 10, 0) == 10);
    }
    return NULL;
}

static void waitall(void) {
    int sv[2];
    pthread_t t;
    char b[50];
    CHECK(pair(sv) == 0 && pthread_create(&t, NULL, piecemeal, &sv[1]) == 0);
    SAME(recv(sv[0], b, sizeof b, MSG_WAITALL), sizeof b);
    CHECK(memcmp(b + 40, "0123456789", 10) == 0);
    pthread_join(t, NULL);
    close(sv[0]), close(sv[1]);
}

enum { BULK = 3000000 };
static void *pump(void *fd) {
    static char b[BULK];
    for (size_t i = 0; i < BULK; i++)
        b[i] = (char)(i % 253);
    size_t done = 0;
    while (done < BULK) {
        ssize_t n = send(*(int *)fd, b + done, BULK - done, 0);
        TCHECK(n > 0);
        done += (size_t)n;
    }
    shutdown(*(int *)fd, SHUT_WR);
    return NULL;
}

static void bulk(void) {
    int sv[2];
    pthread_t t;
    static char b[30000];
    CHECK(pair(sv) == 0 && pthread_create(&t, NULL, pump, &sv[0]) == 0);
    size_t total = 0;
    ssize_t n;
    while ((n = recv(sv[1], b, sizeof b, 0)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            CHECK(b[i] == (char)((total + (size_t)i) % 253));
        total += (size_t)n;
    }
    SAME(n, 0);
    SAME(total, BULK);
    pthread_join(t, NULL);
    close(sv[0]), close(sv[1]);
}

static void half_closed(void) {
    int sv[2];
    char b[8];
    CHECK(pair(sv) == 0 && shutdown(sv[0], SHUT_WR) == 0);
    SAME(recv(sv[1], b, 8, 0), 0);
    FAILS(send(sv[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    SAME(send(sv[1], "answer", 6, 0), 6);
    SAME(recv(sv[0], b, 8, 0), 6);
    struct pollfd f = {sv[1], POLLIN | POLLRDHUP, 0};
    SAME(poll(&f, 1, 0), 1);
    SAME(f.revents, POLLIN | POLLRDHUP);
    close(sv[1]);
    SAME(recv(sv[0], b, 8, 0), 0);
    close(sv[0]);
}

static void closed_both_ways(void) {
    int sv[2];
    char c;
    CHECK(pair(sv) == 0 && shutdown(sv[0], SHUT_RDWR) == 0);
    SAME(recv(sv[0], &c, 1, 0), 0);
    SAME(recv(sv[1], &c, 1, 0), 0);
    CHECK(shutdown(sv[1], SHUT_WR) == 0);
    struct pollfd f = {sv[1], POLLIN, 0};
    SAME(poll(&f, 1, 1000), 1);
    CHECK(f.revents & POLLHUP);
    close(sv[0]), close(sv[1]);
}

static void unread_data_resets(void) {
    int sv[2];
    char c;
    CHECK(pair(sv) == 0);
    SAME(send(sv[0], "unread", 6, 0), 6);
    sleep_ms(20);
    close(sv[1]); /* with data unread: a reset, not a FIN (RFC 2525 section 2.17) */
    sleep_ms(20);
    FAILS(recv(sv[0], &c, 1, 0), ECONNRESET);
    SAME(recv(sv[0], &c, 1, 0), 0);
    FAILS(send(sv[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    close(sv[0]);
}

static void linger_zero_resets(void) {
    int sv[2];
    char c;
    CHECK(pair(sv) == 0);
    struct linger l = {1, 0};
    CHECK(setsockopt(sv[0], SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
    close(sv[0]);
    sleep_ms(20);
    struct pollfd f = {sv[1], POLLIN, 0};
    SAME(poll(&f, 1, 0), 1);
    CHECK((f.revents & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
    FAILS(recv(sv[1], &c, 1, 0), ECONNRESET);
    close(sv[1]);
}

/* A close that lingers waits until the peer has acknowledged what was sent, here until it has read it, and no longer
 * than it was told to. */
static void linger_waits(void) {
    int sv[2];
    static char big[65536];
    struct timespec before, after;
    for (int reads = 0; reads < 2; reads++) {
        CHECK(pair(sv) == 0 && fcntl(sv[0], F_SETFL, O_NONBLOCK) == 0);
        while (send(sv[0], big, sizeof big, 0) > 0)
            ;
        struct linger l = {1, reads ? 30 : 1};
        CHECK(setsockopt(sv[0], SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
        pid_t child = fork();
        if (child == 0) {
            close(sv[0]);
            sleep_ms(300);
            while (reads && recv(sv[1], big, sizeof big, 0) > 0)
                ;
            sleep_ms(reads ? 0 : 1500);
            _exit(0);
        }
        close(sv[1]);
        sleep_ms(100); /* the child has closed its copy: this one is the last */
        clock_gettime(CLOCK_MONOTONIC, &before);
        SAME(close(sv[0]), 0);
        clock_gettime(CLOCK_MONOTONIC, &after);
        double took = (after.tv_sec - before.tv_sec) + (after.tv_nsec - before.tv_nsec) / 1e9;
        CHECK(reads ? took > 0.1 && took < 25 : took > 0.9);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    /* What is acknowledged already waits for nothing. */
    CHECK(pair(sv) == 0);
    struct linger l = {1, 30};
    CHECK(setsockopt(sv[0], SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0);
    clock_gettime(CLOCK_MONOTONIC, &before);
    close(sv[0]);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(after.tv_sec - before.tv_sec < 10);
    close(sv[1]);
}

static volatile sig_atomic_t urgents;
static void on_urgent(int s) { urgents += s == SIGURG; }

/* Urgent data: the owner's signal, the mark, the byte in and out of line. */
static void urgent_data(void) {
    int sv[2], at = -1, n = -1;
    char buf[16];
    struct sigaction sa = {.sa_handler = on_urgent, .sa_flags = SA_RESTART}, old;
    CHECK(pair(sv) == 0 && sigaction(SIGURG, &sa, &old) == 0);
    SAME(fcntl(sv[1], F_GETOWN), 0);
    FAILS(fcntl(sv[1], F_SETOWN, 0x3fffffff), ESRCH);
    CHECK(fcntl(sv[1], F_SETOWN, getpid()) == 0);
    SAME(fcntl(sv[1], F_GETOWN), getpid());
    FAILS(recv(sv[1], buf, 1, MSG_OOB), EINVAL);
    SAME(send(sv[0], "abc", 3, 0), 3);
    SAME(send(sv[0], "defg", 4, MSG_OOB), 4);
    SAME(send(sv[0], "hi", 2, 0), 2);
    sleep_ms(50);
    SAME(urgents, 1);
    struct pollfd f = {sv[1], POLLIN | POLLPRI, 0};
    CHECK(poll(&f, 1, 0) == 1 && f.revents == (POLLIN | POLLPRI));
    CHECK(ioctl(sv[1], FIONREAD, &n) == 0 && n == 6);
    SAME(read(sv[1], buf, sizeof buf), 6);
    CHECK(memcmp(buf, "abcdef", 6) == 0);
    CHECK(ioctl(sv[1], 0x8905 /* SIOCATMARK */, &at) == 0 && at == 1);
    struct iovec v = {buf, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    SAME(recvmsg(sv[1], &m, MSG_OOB), 1);
    CHECK(buf[0] == 'g' && m.msg_flags & MSG_OOB);
    FAILS(recv(sv[1], buf, 1, MSG_OOB), EINVAL);
    SAME(read(sv[1], buf, sizeof buf), 2);
    CHECK(memcmp(buf, "hi", 2) == 0);
    CHECK(ioctl(sv[1], 0x8905, &at) == 0 && at == 0);
    int on = 1;
    CHECK(setsockopt(sv[1], SOL_SOCKET, SO_OOBINLINE, &on, sizeof on) == 0);
    SAME(send(sv[0], "xy", 2, MSG_OOB), 2);
    sleep_ms(50);
    SAME(urgents, 2);
    FAILS(recv(sv[1], buf, 1, MSG_OOB), EINVAL);
    SAME(read(sv[1], buf, sizeof buf), 1);
    SAME(read(sv[1], buf, sizeof buf), 1);
    CHECK(buf[0] == 'y');
    CHECK(sigaction(SIGURG, &old, NULL) == 0);
    close(sv[0]), close(sv[1]);
}

static volatile sig_atomic_t pipes;
static void on_pipe(int s) { pipes += s == SIGPIPE; }

static void sending_to_the_gone(void) {
    int sv[2];
    CHECK(pair(sv) == 0);
    struct sigaction sa = {.sa_handler = on_pipe}, old;
    CHECK(sigaction(SIGPIPE, &sa, &old) == 0);
    close(sv[1]);
    SAME(send(sv[0], "x", 1, 0), 1); /* answered by a reset */
    sleep_ms(20);
    pipes = 0;
    FAILS(send(sv[0], "x", 1, 0), EPIPE);
    SAME(pipes, 1);
    FAILS(send(sv[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    SAME(pipes, 1);
    sigaction(SIGPIPE, &old, NULL);
    close(sv[0]);
}

/* Who has read to the end goes on to read the end; the reset that came after it is for those who write. */
static void the_end_comes_before_the_error(void) {
    int sv[2], error = 0;
    socklen_t n = sizeof error;
    char got[4];
    CHECK(pair(sv) == 0);
    close(sv[1]);
    sleep_ms(20);
    SAME(send(sv[0], "x", 1, MSG_NOSIGNAL), 1);
    sleep_ms(20);
    struct pollfd p = {sv[0], POLLIN, 0};
    SAME(poll(&p, 1, 0), 1);
    CHECK(p.revents & POLLERR);
    SAME(recv(sv[0], got, 4, 0), 0);
    SAME(recv(sv[0], got, 4, 0), 0);
    FAILS(send(sv[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    CHECK(getsockopt(sv[0], SOL_SOCKET, SO_ERROR, &error, &n) == 0);
    SAME(error, 0);
    close(sv[0]);
}
static void full_window(void) {
    int sv[2];
    static char b[65536];
    CHECK(pair(sv) == 0 && fcntl(sv[0], F_SETFL, O_NONBLOCK) == 0);
    size_t total = 0;
    ssize_t n;
    for (int idle = 0; idle < 3;) {
        while ((n = send(sv[0], b, sizeof b, 0)) > 0)
            total += (size_t)n, idle = 0;
        SAME(errno, EAGAIN);
        sleep_ms(30), idle++;
    }
    struct pollfd f = {sv[0], POLLOUT, 0};
    SAME(poll(&f, 1, 0), 0);
    CHECK(total >= 100000 && total < 64u << 20);
    size_t got = 0;
    while (got < total && (n = recv(sv[1], b, sizeof b, 0)) > 0)
        got += (size_t)n;
    SAME(got, total);
    SAME(poll(&f, 1, 1000), 1);
    SAME(f.revents, POLLOUT);
    close(sv[0]), close(sv[1]);
}

static void vectors(void) {
    int sv[2];
    CHECK(pair(sv) == 0);
    struct iovec w[3] = {{"GET ", 4}, {"", 0}, {"/index", 6}};
    SAME(writev(sv[0], w, 3), 10);
    struct msghdr m = {.msg_iov = w, .msg_iovlen = 3};
    SAME(sendmsg(sv[0], &m, 0), 10);
    char x[15], y[15];
    struct iovec r[2] = {{x, 15}, {y, 15}};
    struct msghdr in = {.msg_iov = r, .msg_iovlen = 2};
    struct pollfd f = {sv[1], POLLIN, 0};
    sleep_ms(20);
    SAME(poll(&f, 1, 1000), 1);
    SAME(recvmsg(sv[1], &in, 0), 20);
    CHECK(memcmp(x, "GET /indexGET /", 15) == 0 && memcmp(y, "index", 5) == 0);
    close(sv[0]), close(sv[1]);
}

static void backlog_holds_connections(void) {
    enum { N = 8 };
    struct sockaddr_in a;
    int l = listener(&a, N), c[N];
    for (int i = 0; i < N; i++) {
        c[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(c[i], (struct sockaddr *)&a, sizeof a) == 0);
        char tag = (char)i;
        SAME(send(c[i], &tag, 1, 0), 1);
    }
    for (int i = 0; i < N; i++) { /* first come, first accepted */
        int s = accept(l, NULL, NULL);
        char tag;
        SAME(recv(s, &tag, 1, 0), 1);
        SAME(tag, i);
        close(s), close(c[i]);
    }
    close(l);
}

static void listener_closes_with_connections_waiting(void) {
    struct sockaddr_in a;
    int l = listener(&a, 5), c = socket(AF_INET, SOCK_STREAM, 0);
    char b;
    CHECK(connect(c, (struct sockaddr *)&a, sizeof a) == 0);
    close(l);
    sleep_ms(20);
    FAILS(recv(c, &b, 1, 0), ECONNRESET);
    close(c);
}

static void bad_addresses(void) {
    struct sockaddr_in a;
    int l = listener(&a, 1), s = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(bind(s, (struct sockaddr *)&a, sizeof a), EADDRINUSE);
    FAILS(connect(s, (struct sockaddr *)&a, 3), EINVAL);
    struct sockaddr_in other = a;
    other.sin_family = AF_APPLETALK;
    FAILS(connect(s, (struct sockaddr *)&other, sizeof other), EAFNOSUPPORT);
    FAILS(connect(s, (struct sockaddr *)8, sizeof a), EFAULT);
    close(l), close(s);
}

#ifndef SIOCOUTQ
#define SIOCOUTQ 0x5411
#endif
#ifndef SIOCOUTQNSD
#define SIOCOUTQNSD 0x894b
#endif

/* How much the peer has not acknowledged yet, and how much of that has not even been sent. */
static void bytes_under_way(void) {
    int sv[2], n = -1, nsd = -1, l = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static char big[65536];
    CHECK(pair(sv) == 0 && fcntl(sv[0], F_SETFL, O_NONBLOCK) == 0);
    CHECK(ioctl(sv[0], SIOCOUTQNSD, &nsd) == 0 && nsd == 0);
    long sent = 0, r;
    while ((r = send(sv[0], big, sizeof big, 0)) > 0)
        sent += r;
    CHECK(ioctl(sv[0], SIOCOUTQ, &n) == 0 && ioctl(sv[0], SIOCOUTQNSD, &nsd) == 0);
    CHECK(nsd > 0 && nsd <= n && n <= sent);
    CHECK(bind(l, (struct sockaddr *)&a, sizeof a) == 0 && listen(l, 1) == 0);
    FAILS(ioctl(l, SIOCOUTQNSD, &nsd), EINVAL);
    CHECK(ioctl(u, SIOCOUTQNSD, &nsd) == -1);
    close(sv[0]), close(sv[1]), close(l), close(u);
}

GUEST(T(bytes_under_way), T(groups_stay_the_listeners), T(addresses), T(refused), T(nonblocking_connect), T(data_before_accept), T(flags_of_recv), T(waitall), T(bulk),
      T(half_closed), T(closed_both_ways), T(unread_data_resets), T(linger_zero_resets), T(linger_waits), T(urgent_data), T(sending_to_the_gone), T(the_end_comes_before_the_error),
      T(full_window), T(vectors), T(backlog_holds_connections), T(listener_closes_with_connections_waiting),
      T(bad_addresses))
