/* UNIX sockets: what fills them, what wakes who waits, credentials. unix(7). */
#include "guest.h"
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static socklen_t abstract(struct sockaddr_un *a, const char *name) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%d", name, (int)getpid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* How many sends of `len` bytes a socket takes before EAGAIN. */
static int sends(int type, size_t len) {
    static char b[300000];
    int sv[2], n = 0;
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, sv) != 0)
        return -1;
    int size = 212992 / 2; /* Linux doubles it: its default, whatever this machine's is */
    setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    while (send(sv[0], b, len, 0) > 0)
        n++;
    if (errno != EAGAIN)
        n = -errno;
    close(sv[0]), close(sv[1]);
    return n;
}

static void the_send_buffer_counts_what_is_unread(void) {
    SAME(sends(SOCK_STREAM, 1), 278);
    SAME(sends(SOCK_STREAM, 193), 167);
    SAME(sends(SOCK_STREAM, 4096), 44);
    SAME(sends(SOCK_STREAM, 36544), 6);
    SAME(sends(SOCK_STREAM, 212960), 1);
    SAME(sends(SOCK_DGRAM, 1), 278);
    SAME(sends(SOCK_DGRAM, 4096), 26);
    SAME(sends(SOCK_SEQPACKET, 30000), 7);
    SAME(sends(SOCK_DGRAM, 212961), -EMSGSIZE);
}

static void room_is_told_when_there_is_plenty(void) {
    int sv[2], ep = epoll_create1(0), n = 0;
    char b[4096];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sv) == 0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, sv[0], &e) == 0);
    SAME(epoll_wait(ep, &e, 1, 0), 1);
    SAME(e.events, EPOLLOUT);
    while (write(sv[0], b, sizeof b) == sizeof b)
        n++;
    CHECK(n > 30);
    SAME(epoll_wait(ep, &e, 1, 0), 0);
    CHECK(read(sv[1], b, sizeof b) == sizeof b);
    SAME(epoll_wait(ep, &e, 1, 0), 0); /* not before three quarters are free */
    while (read(sv[1], b, sizeof b) == sizeof b)
        n--;
    SAME(epoll_wait(ep, &e, 1, 0), 1);
    SAME(e.events, EPOLLOUT);
    SAME(write(sv[1], "x", 1), 1);
    SAME(epoll_wait(ep, &e, 1, 0), 1);
    SAME(e.events, EPOLLIN | EPOLLOUT);
    close(sv[0]), close(sv[1]), close(ep);
}

static void half_closed_is_seen(void) {
    int sv[2], ep = epoll_create1(0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP};
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, sv[0], &e) == 0);
    CHECK(shutdown(sv[1], SHUT_WR) == 0);
    SAME(epoll_wait(ep, &e, 1, 0), 1);
    SAME(e.events, EPOLLIN | EPOLLRDHUP);
    CHECK(write(sv[0], "unread", 6) == 6);
    close(sv[1]);
    SAME(epoll_wait(ep, &e, 1, 0), 1);
    SAME(e.events, EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    char c;
    FAILS(read(sv[0], &c, 1), ECONNRESET);
    SAME(read(sv[0], &c, 1), 0);
    close(sv[0]), close(ep);
}

static struct sockaddr_un service;
static socklen_t service_len;
static void *late_client(void *unused) {
    (void)unused;
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    TCHECK(connect(c, (struct sockaddr *)&service, service_len) == 0);
    return (void *)(intptr_t)c;
}

static void the_backlog_makes_clients_wait(void) {
    service_len = abstract(&service, "backlog");
    int l = socket(AF_UNIX, SOCK_STREAM, 0), c[3];
    CHECK(bind(l, (struct sockaddr *)&service, service_len) == 0 && listen(l, 0) == 0);
    for (int i = 0; i < 2; i++)
        c[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(connect(c[0], (struct sockaddr *)&service, service_len) == 0);
    FAILS(connect(c[1], (struct sockaddr *)&service, service_len), EAGAIN);
    FAILS(connect(c[0], (struct sockaddr *)&service, service_len), EAGAIN); /* looks at itself last */
    pthread_t t;
    CHECK(pthread_create(&t, NULL, late_client, NULL) == 0);
    sleep_ms(30);
    int a = accept(l, NULL, NULL), b = accept(l, NULL, NULL);
    CHECK(a >= 0 && b >= 0);
    void *late;
    pthread_join(t, &late);
    c[2] = (int)(intptr_t)late;
    SAME(write(c[2], "x", 1), 1);
    char d;
    SAME(read(b, &d, 1), 1);
    FAILS(connect(c[0], (struct sockaddr *)&service, service_len), EISCONN);
    /* one that is never accepted is reset */
    CHECK(connect(c[1], (struct sockaddr *)&service, service_len) == 0);
    close(l);
    FAILS(read(c[1], &d, 1), ECONNRESET);
    close(a), close(b), close(c[0]), close(c[1]), close(c[2]);
}

static void peeking_and_waiting_for_all(void) {
    int sv[2];
    char b[16];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
    SAME(send(sv[0], "abc", 3, 0), 3);
    SAME(send(sv[0], "def", 3, 0), 3);
    SAME(recv(sv[1], b, 5, MSG_PEEK), 5);
    SAME(recv(sv[1], b, 5, MSG_WAITALL), 5);
    CHECK(memcmp(b, "abcde", 5) == 0);
    int n;
    CHECK(ioctl(sv[1], FIONREAD, &n) == 0);
    SAME(n, 1);
    close(sv[0]);
    SAME(recv(sv[1], b, 16, MSG_WAITALL), 1);
    close(sv[1]);
}

static void credentials_come_along(void) {
    int sv[2], on = 1;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sv) == 0);
    CHECK(setsockopt(sv[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    SAME(send(sv[0], "who", 3, 0), 3);
    char b[8], control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec v = {b, sizeof b};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    SAME(recvmsg(sv[1], &m, 0), 3);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    CHECK(h != NULL && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_CREDENTIALS);
    struct ucred cred;
    memcpy(&cred, CMSG_DATA(h), sizeof cred);
    SAME(cred.pid, getpid());
    SAME(cred.uid, geteuid());
    SAME(cred.gid, getegid());
    SAME(m.msg_flags, 0);
    close(sv[0]), close(sv[1]);
}

static void names_made_up(void) {
    int s = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof a;
    CHECK(getsockname(s, (struct sockaddr *)&a, &n) == 0);
    SAME(n, sizeof(sa_family_t));
    CHECK(bind(s, (struct sockaddr *)&a, sizeof(sa_family_t)) == 0);
    n = sizeof a;
    CHECK(getsockname(s, (struct sockaddr *)&a, &n) == 0);
    SAME(n, sizeof(sa_family_t) + 6); /* a zero byte and five digits */
    SAME(a.sun_path[0], 0);
    SAME(strspn(a.sun_path + 1, "0123456789abcdef"), 5);
    FAILS(bind(s, (struct sockaddr *)&a, n), EINVAL);
    close(s);
}

static void refused_and_mismatched(void) {
    struct sockaddr_un a;
    socklen_t n = abstract(&a, "refused");
    int d = socket(AF_UNIX, SOCK_DGRAM, 0), s = socket(AF_UNIX, SOCK_STREAM, 0), q = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char c;
    FAILS(send(d, "x", 1, 0), ENOTCONN);
    FAILS(send(s, "x", 1, MSG_NOSIGNAL), ENOTCONN);
    FAILS(recv(s, &c, 1, 0), EINVAL);
    FAILS(recv(q, &c, 1, 0), ENOTCONN);
    FAILS(listen(d, 1), EOPNOTSUPP);
    FAILS(listen(s, 1), EINVAL); /* it has no name */
    FAILS(accept(s, NULL, NULL), EINVAL);
    FAILS(accept(d, NULL, NULL), EOPNOTSUPP);
    FAILS(connect(s, (struct sockaddr *)&a, n), ECONNREFUSED);
    FAILS(sendto(d, "x", 1, 0, (struct sockaddr *)&a, n), ECONNREFUSED);
    FAILS(socket(AF_UNIX, SOCK_RDM, 0), ESOCKTNOSUPPORT);
    FAILS(socket(AF_UNIX, SOCK_STREAM, 7), EPROTONOSUPPORT);
    struct pollfd f = {s, POLLIN | POLLOUT, 0};
    SAME(poll(&f, 1, 0), 1);
    SAME(f.revents, POLLOUT | POLLHUP);
    close(d), close(s), close(q);
}

GUEST(T(the_send_buffer_counts_what_is_unread), T(room_is_told_when_there_is_plenty), T(half_closed_is_seen),
      T(the_backlog_makes_clients_wait), T(peeking_and_waiting_for_all), T(credentials_come_along), T(names_made_up),
      T(refused_and_mismatched))
