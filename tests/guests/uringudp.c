/* io_uring(7) and UDP: several datagrams of one send, received together, and what the error queue tells of zero copy. */
#include "uring.h"
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define UDP 17
#define SEGMENT 103
#define GRO 104

static unsigned char body[4000], got[8000];

struct message {
    union { struct cmsghdr header; char bytes[128]; } control;
    struct iovec iov;
    struct msghdr m;
};

static int set(int s, int level, int name, int value) { return setsockopt(s, level, name, &value, sizeof value); }

static int pair(int e[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    for (int i = 0; i < 2; i++)
        e[i] = socket(AF_INET, SOCK_DGRAM, 0);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = i * 13 + i / 251;
    return bind(e[1], (struct sockaddr *)&a, n) == 0 && getsockname(e[1], (struct sockaddr *)&a, &n) == 0 && connect(e[0], (struct sockaddr *)&a, n) == 0;
}

/* A message of `len` bytes that is to be cut into pieces of `size`. */
static void to_send(struct message *x, size_t len, unsigned short size) {
    memset(x, 0, sizeof *x);
    x->iov = (struct iovec){body, len};
    x->m = (struct msghdr){.msg_iov = &x->iov, .msg_iovlen = 1, .msg_control = x->control.bytes, .msg_controllen = CMSG_SPACE(2)};
    x->control.header = (struct cmsghdr){.cmsg_level = UDP, .cmsg_type = SEGMENT, .cmsg_len = CMSG_LEN(2)};
    memcpy(CMSG_DATA(&x->control.header), &size, 2);
}

static void to_receive(struct message *x) {
    memset(x, 0, sizeof *x);
    x->iov = (struct iovec){got, sizeof got};
    x->m = (struct msghdr){.msg_iov = &x->iov, .msg_iovlen = 1, .msg_control = x->control.bytes, .msg_controllen = sizeof x->control};
}

static int joined_of(struct message *x) {
    int size = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&x->m); c; c = CMSG_NXTHDR(&x->m, c))
        if (c->cmsg_level == UDP && c->cmsg_type == GRO)
            memcpy(&size, CMSG_DATA(c), sizeof size);
    return size;
}

static void one_request_sends_several(void) {
    struct ring r;
    struct message out, in;
    int e[2];
    CHECK(ring_open(&r, 8) == 0 && pair(e));
    to_send(&out, 2500, 1000);
    entry(&r, IORING_OP_SENDMSG, e[0], &out.m, 1, 0, 1);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 1, 2500);
    for (int i = 0; i < 3; i++) {
        entry(&r, IORING_OP_RECV, e[1], got, sizeof got, 0, 2);
        SAME(enter(&r, 1), 1);
        COMPLETES(&r, 2, i < 2 ? 1000 : 500);
        SAME(memcmp(got, body + 1000 * i, i < 2 ? 1000 : 500), 0);
    }
    SAME(set(e[0], UDP, SEGMENT, 700), 0);
    entry(&r, IORING_OP_SEND, e[0], body, 1400, 0, 3);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 1400);
    for (int i = 0; i < 2; i++)
        SAME(recv(e[1], got, sizeof got, 0), 700);
    to_send(&out, 2500, 1);
    entry(&r, IORING_OP_SENDMSG, e[0], &out.m, 1, 0, 4);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 4, -EINVAL); /* too many */
    /* what waits gets them joined, too */
    SAME(set(e[1], UDP, GRO, 1), 0);
    to_receive(&in);
    entry(&r, IORING_OP_RECVMSG, e[1], &in.m, 1, 0, 5);
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    SAME(send(e[0], body, 1700, 0), 1700);
    SAME(enter(&r, 1), 0);
    COMPLETES(&r, 5, 1700);
    SAME(joined_of(&in), 700);
    SAME(memcmp(got, body, 1700), 0);
    to_receive(&in);
    entry(&r, IORING_OP_RECVMSG, e[1], &in.m, 1, 0, 6);
    SAME(send(e[0], body, 700, 0), 700);
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 6, 700);
    SAME(joined_of(&in), -1);
    close(e[0]), close(e[1]);
    ring_close(&r);
}

static void sends_without_copies_are_told_of(void) {
    struct ring r;
    struct message in;
    int e[2];
    CHECK(ring_open(&r, 8) == 0 && pair(e));
    SAME(set(e[0], SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    entry(&r, IORING_OP_POLL_ADD, e[0], NULL, 0, 0, 1)->poll32_events = POLLERR;
    SAME(enter(&r, 0), 1);
    SAME(next(&r).user_data, -1);
    /* by the socket: in its error queue, */
    for (int i = 0; i < 3; i++) {
        entry(&r, IORING_OP_SEND, e[0], body, 100, 0, 2)->msg_flags = MSG_ZEROCOPY;
        SAME(enter(&r, 1), 1);
    }
    int sent = 0, polled = 0;
    for (struct completion c; (c = next(&r)).user_data != (uint64_t)-1;) {
        sent += c.user_data == 2 && c.res == 100;
        polled += c.user_data == 1 && c.res == POLLERR;
    }
    SAME(sent, 3);
    SAME(polled, 1);
    to_receive(&in);
    entry(&r, IORING_OP_RECVMSG, e[0], &in.m, 1, 0, 3)->msg_flags = MSG_ERRQUEUE;
    SAME(enter(&r, 1), 1);
    COMPLETES(&r, 3, 0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&in.m);
    CHECK(c != NULL && c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR);
    struct sock_extended_err *told = (void *)CMSG_DATA(c);
    SAME(told->ee_origin, SO_EE_ORIGIN_ZEROCOPY);
    SAME(told->ee_info, 0);
    SAME(told->ee_data, 2);
    /* by the instance: a completion of its own, and nothing in the queue */
    entry(&r, IORING_OP_SEND_ZC, e[0], body, 100, 0, 4);
    SAME(enter(&r, 2), 1);
    struct completion first = next(&r), second = next(&r);
    SAME(first.res, 100);
    SAME(first.flags, IORING_CQE_F_MORE);
    SAME(second.user_data, 4);
    SAME(second.flags, IORING_CQE_F_NOTIF);
    FAILS(recvmsg(e[0], &in.m, MSG_ERRQUEUE), EAGAIN);
    close(e[0]), close(e[1]);
    ring_close(&r);
}

GUEST_WITH(not_to_be_had(), T(one_request_sends_several), T(sends_without_copies_are_told_of))
