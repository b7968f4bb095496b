/* UNIX sockets: streams, datagrams, packets; abstract and in the file system; passing descriptors. unix(7). */
#include "guest.h"
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static socklen_t named(struct sockaddr_un *a, const char *name) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    strcpy(a->sun_path, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1);
}
static socklen_t abstract(struct sockaddr_un *a, const char *name) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "%s-%d", name, (int)getpid());
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static void stream_pair(void) {
    int sv[2];
    char b[16];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
    SAME(fcntl(sv[1], F_GETFD), FD_CLOEXEC);
    SAME(write(sv[0], "ab", 2), 2);
    SAME(write(sv[0], "cd", 2), 2);
    SAME(read(sv[1], b, 16), 4);
    CHECK(shutdown(sv[0], SHUT_WR) == 0);
    SAME(read(sv[1], b, 16), 0);
    SAME(write(sv[1], "back", 4), 4);
    SAME(read(sv[0], b, 16), 4);
    close(sv[1]);
    SAME(read(sv[0], b, 16), 0);
    close(sv[0]);
}

static void gone_peer(void) {
    int sv[2];
    char c;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
    close(sv[1]);
    FAILS(send(sv[0], "x", 1, MSG_NOSIGNAL), EPIPE);
    SAME(recv(sv[0], &c, 1, 0), 0);
    struct pollfd f = {sv[0], POLLIN, 0};
    SAME(poll(&f, 1, 0), 1);
    CHECK(f.revents & POLLHUP);
    close(sv[0]);
}

static void datagram_pair(void) {
    int sv[2];
    char b[16];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sv) == 0);
    SAME(send(sv[0], "ab", 2, 0), 2);
    SAME(send(sv[0], "cde", 3, 0), 3);
    SAME(recv(sv[1], b, 16, 0), 2);
    SAME(recv(sv[1], b, 2, MSG_TRUNC), 3);
    FAILS(recv(sv[1], b, 16, MSG_DONTWAIT), EAGAIN);
    close(sv[0]), close(sv[1]);
}

static void packets_of_a_connection(void) {
    int sv[2];
    char b[16];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
    SAME(send(sv[0], "one", 3, 0), 3);
    SAME(send(sv[0], "three", 5, 0), 5);
    SAME(recv(sv[1], b, 2, 0), 2); /* borders are kept, the rest is lost */
    SAME(recv(sv[1], b, 16, 0), 5);
    close(sv[0]);
    SAME(recv(sv[1], b, 16, 0), 0);
    close(sv[1]);
}

static void listening(struct sockaddr_un *a, socklen_t n) {
    int l = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(l, (struct sockaddr *)a, n) == 0);
    FAILS(connect(c, (struct sockaddr *)a, n), ECONNREFUSED); /* bound, not listening */
    CHECK(listen(l, 5) == 0 && connect(c, (struct sockaddr *)a, n) == 0);
    SAME(send(c, "hello", 5, 0), 5);
    struct sockaddr_un peer;
    socklen_t m = sizeof peer;
    int s = accept(l, (struct sockaddr *)&peer, &m);
    CHECK(s >= 0);
    SAME(m, sizeof(sa_family_t)); /* an unnamed peer */
    char b[8];
    SAME(recv(s, b, 8, 0), 5);
    m = sizeof peer;
    CHECK(getpeername(c, (struct sockaddr *)&peer, &m) == 0);
    SAME(m, n);
    CHECK(memcmp(&peer, a, n) == 0);
    struct ucred cred;
    m = sizeof cred;
    CHECK(getsockopt(c, SOL_SOCKET, SO_PEERCRED, &cred, &m) == 0);
    SAME(cred.pid, getpid());
    SAME(cred.uid, geteuid());
    int other = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(bind(other, (struct sockaddr *)a, n), EADDRINUSE);
    int d = socket(AF_UNIX, SOCK_DGRAM, 0);
    /* an abstract name belongs to one type of socket, a name in the file system is seen by all */
    FAILS(connect(d, (struct sockaddr *)a, n), a->sun_path[0] != 0 ? EPROTOTYPE : ECONNREFUSED);
    close(l), close(c), close(s), close(other), close(d);
}

static void in_the_file_system(void) {
    struct sockaddr_un a;
    socklen_t n = named(&a, "sock");
    listening(&a, n);
    struct stat st;
    CHECK(stat("sock", &st) == 0 && S_ISSOCK(st.st_mode));
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(connect(c, (struct sockaddr *)&a, n), ECONNREFUSED); /* the name outlives the socket */
    FAILS(open("sock", O_RDWR), ENXIO);
    CHECK(unlink("sock") == 0);
    FAILS(connect(c, (struct sockaddr *)&a, n), ENOENT);
    close(c);
}

static void in_the_abstract(void) {
    struct sockaddr_un a;
    socklen_t n = abstract(&a, "guest");
    listening(&a, n);
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(connect(c, (struct sockaddr *)&a, n), ECONNREFUSED);
    CHECK(bind(c, (struct sockaddr *)&a, n) == 0); /* the name went with the socket */
    close(c);
}

static void datagrams_with_names(void) {
    struct sockaddr_un a, b, from;
    socklen_t an = named(&a, "da"), bn = named(&b, "db"), n = sizeof from;
    int x = socket(AF_UNIX, SOCK_DGRAM, 0), y = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(bind(x, (struct sockaddr *)&a, an) == 0 && bind(y, (struct sockaddr *)&b, bn) == 0);
    SAME(sendto(x, "hi", 2, 0, (struct sockaddr *)&b, bn), 2);
    char buf[8];
    SAME(recvfrom(y, buf, 8, 0, (struct sockaddr *)&from, &n), 2);
    CHECK(strcmp(from.sun_path, "da") == 0);
    close(y);
    FAILS(sendto(x, "hi", 2, 0, (struct sockaddr *)&b, bn), ECONNREFUSED);
    close(x);
    CHECK(unlink("da") == 0 && unlink("db") == 0);
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(4 * sizeof(int))];
};

static int send_fds(int s, const int *fds, int count) {
    union control u;
    memset(&u, 0, sizeof u);
    char c = 'F';
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.bytes,
                       .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    memcpy(CMSG_DATA(h), fds, (size_t)count * sizeof(int));
    return (int)sendmsg(s, &m, 0);
}
static int receive_fds(int s, int *fds, int room, int flags) {
    union control u;
    char c;
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.bytes,
                       .msg_controllen = CMSG_SPACE((size_t)room * sizeof(int))};
    if (recvmsg(s, &m, flags) != 1)
        return -1;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h == NULL || h->cmsg_type != SCM_RIGHTS)
        return 0;
    int n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(h), (size_t)n * sizeof(int));
    return n;
}

static void descriptors_travel(void) {
    int sv[2], p[2], got[4];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0 && pipe(p) == 0);
    SAME(send_fds(sv[0], p, 2), 1);
    close(p[0]), close(p[1]); /* the message holds them */
    SAME(receive_fds(sv[1], got, 4, MSG_CMSG_CLOEXEC), 2);
    SAME(fcntl(got[0], F_GETFD), FD_CLOEXEC);
    char b[8];
    SAME(write(got[1], "through", 7), 7);
    SAME(read(got[0], b, 8), 7);
    close(got[0]);
    FAILS(send_fds(sv[0], &got[0], 1), EBADF);
    /* a message with descriptors ends a read, though data follows */
    SAME(send_fds(sv[0], &got[1], 1), 1);
    SAME(send(sv[0], "x", 1, 0), 1);
    close(got[1]);
    SAME(receive_fds(sv[1], got, 4, 0), 1);
    SAME(recv(sv[1], b, 8, 0), 1);
    SAME(b[0], 'x');
    close(got[0]), close(sv[0]), close(sv[1]);
}

static void unreceived_descriptors_are_closed(void) {
    int sv[2], p[2];
    char c;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0 && pipe(p) == 0);
    SAME(send_fds(sv[0], &p[1], 1), 1);
    close(p[1]);
    CHECK(fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
    FAILS(read(p[0], &c, 1), EAGAIN);
    close(sv[0]), close(sv[1]);
    SAME(read(p[0], &c, 1), 0);
    close(p[0]);
}

static void *writer(void *fd) {
    static char b[500000];
    TCHECK(write(*(int *)fd, b, sizeof b) == sizeof b);
    close(*(int *)fd);
    return NULL;
}

static void flow_control(void) {
    int sv[2];
    pthread_t t;
    static char b[7000];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0 && pthread_create(&t, NULL, writer, &sv[0]) == 0);
    size_t total = 0;
    ssize_t n;
    while ((n = read(sv[1], b, sizeof b)) > 0)
        total += (size_t)n;
    SAME(total, 500000);
    pthread_join(t, NULL);
    close(sv[1]);
}

GUEST_WITH(scratch_enter(), T(stream_pair), T(gone_peer), T(datagram_pair), T(packets_of_a_connection),
           T(in_the_file_system), T(in_the_abstract), T(datagrams_with_names), T(descriptors_travel),
           T(unreceived_descriptors_are_closed), T(flow_control))
