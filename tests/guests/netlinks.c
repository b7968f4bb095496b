/* rtnetlink(7), where programs that configure a network rely on it: addresses that are renewed, weights of next hops, port ids and
 * credentials of netlink sockets. */
#include "privileged.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

static int request_socket(void) {
    int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    struct sockaddr_nl a = {.nl_family = AF_NETLINK};
    return bind(s, (struct sockaddr *)&a, sizeof a) == 0 ? s : -1;
}

struct message {
    struct nlmsghdr header;
    char body[512];
};
static void put(struct message *m, int kind, const void *value, int len) {
    struct rtattr *a = (struct rtattr *)((char *)m + NLMSG_ALIGN(m->header.nlmsg_len));
    a->rta_type = kind, a->rta_len = RTA_LENGTH(len);
    memcpy(RTA_DATA(a), value, len);
    m->header.nlmsg_len = NLMSG_ALIGN(m->header.nlmsg_len) + RTA_SPACE(len);
}
/* 0, or the error that the kernel answers. */
static int ask(int s, struct message *m) {
    m->header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    m->header.nlmsg_seq = 7;
    char answer[1024];
    if (send(s, m, m->header.nlmsg_len, 0) < 0)
        return errno;
    if (recv(s, answer, sizeof answer, 0) < (ssize_t)(NLMSG_HDRLEN + sizeof(struct nlmsgerr)))
        return -1;
    return -((struct nlmsgerr *)NLMSG_DATA(answer))->error;
}

static struct message address(int flags, unsigned valid, unsigned preferred) {
    struct message m = {{NLMSG_LENGTH(sizeof(struct ifaddrmsg)), RTM_NEWADDR, flags, 0, 0}, {0}};
    *(struct ifaddrmsg *)m.body = (struct ifaddrmsg){AF_INET, 24, 0, 0, if_nametoindex("lo")};
    struct in_addr ip;
    inet_pton(AF_INET, "10.99.1.2", &ip);
    put(&m, IFA_LOCAL, &ip, 4);
    put(&m, IFA_ADDRESS, &ip, 4);
    struct ifa_cacheinfo cache = {preferred, valid, 0, 0};
    if (valid != 1)
        put(&m, IFA_CACHEINFO, &cache, sizeof cache);
    return m;
}

static void an_address_is_renewed(void) {
    int s = request_socket();
    struct message m = address(NLM_F_CREATE | NLM_F_EXCL, 1, 0);
    SAME(ask(s, &m), 0);
    SAME(ask(s, &m), EEXIST);
    m = address(NLM_F_CREATE, 1, 0);
    SAME(ask(s, &m), EEXIST);
    m = address(NLM_F_CREATE | NLM_F_REPLACE, 600, 300); /* ip addr replace */
    SAME(ask(s, &m), 0);
    m = address(NLM_F_REPLACE, 600, 300); /* ip addr change */
    SAME(ask(s, &m), 0);
    m = address(NLM_F_REPLACE, 0, 0);
    SAME(ask(s, &m), EINVAL);
    m = address(NLM_F_REPLACE, 300, 600);
    SAME(ask(s, &m), EINVAL);
    m = address(0, 1, 0);
    m.header.nlmsg_type = RTM_DELADDR;
    SAME(ask(s, &m), 0);
    close(s);
}

static void a_port_id_is_for_good(void) {
    int s = request_socket();
    struct sockaddr_nl a = {.nl_family = AF_NETLINK}, own;
    socklen_t len = sizeof own;
    CHECK(getsockname(s, (struct sockaddr *)&own, &len) == 0 && own.nl_pid != 0);
    FAILS(bind(s, (struct sockaddr *)&a, sizeof a), EINVAL);
    a.nl_pid = own.nl_pid + 1;
    FAILS(bind(s, (struct sockaddr *)&a, sizeof a), EINVAL);
    SAME(bind(s, (struct sockaddr *)&own, sizeof own), 0);
    close(s);
}

static void the_kernel_is_process_0(void) {
    int s = request_socket(), on = 1;
    CHECK(setsockopt(s, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    struct message m = {{NLMSG_LENGTH(sizeof(struct ifinfomsg)), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {0}};
    CHECK(send(s, &m, m.header.nlmsg_len, 0) > 0);
    char data[8192], control[128];
    struct iovec io = {data, sizeof data};
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(recvmsg(s, &h, 0) > 0);
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    CHECK(c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS);
    SAME(((struct ucred *)CMSG_DATA(c))->pid, 0);
    close(s);
}

/* Two next hops by lo, of weights 3 and 1, as they are shown afterwards. */
static void weights_of_next_hops(void) {
    int s = request_socket();
    struct message a = address(NLM_F_CREATE, 1, 0);
    SAME(ask(s, &a), 0);
    struct message m = {{NLMSG_LENGTH(sizeof(struct rtmsg)), RTM_NEWROUTE, NLM_F_CREATE, 0, 0}, {0}};
    struct rtmsg header = {.rtm_family = AF_INET, .rtm_dst_len = 24, .rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_STATIC,
                           .rtm_scope = RT_SCOPE_UNIVERSE, .rtm_type = RTN_UNICAST};
    memcpy(m.body, &header, sizeof header);
    struct in_addr to;
    inet_pton(AF_INET, "10.98.0.0", &to);
    put(&m, RTA_DST, &to, 4);
    char several[64] = {0};
    const char *gateways[] = {"10.97.0.7", "10.97.0.8"};
    for (int i = 0; i < 2; i++) {
        struct rtnexthop *hop = (struct rtnexthop *)(several + 16 * i);
        *hop = (struct rtnexthop){16, RTNH_F_ONLINK, i == 0 ? 2 : 0, if_nametoindex("lo")};
        struct rtattr *attribute = (struct rtattr *)(hop + 1);
        attribute->rta_type = RTA_GATEWAY, attribute->rta_len = 8;
        inet_pton(AF_INET, gateways[i], RTA_DATA(attribute));
    }
    put(&m, RTA_MULTIPATH, several, 32);
    SAME(ask(s, &m), 0); /* gateways beyond lo's own network, taken to be on the link */
    struct message list = {{NLMSG_LENGTH(sizeof(struct rtmsg)), RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, 9, 0}, {0}};
    *(struct rtmsg *)list.body = (struct rtmsg){.rtm_family = AF_INET};
    CHECK(send(s, &list, list.header.nlmsg_len, 0) > 0);
    int found = 0, weights[2] = {-1, -1};
    for (int done = 0; !done;) {
        char data[8192];
        int len = recv(s, data, sizeof data, 0);
        CHECK(len > 0);
        for (struct nlmsghdr *n = (struct nlmsghdr *)data; NLMSG_OK(n, (unsigned)len); n = NLMSG_NEXT(n, len)) {
            done |= n->nlmsg_type == NLMSG_DONE;
            if (n->nlmsg_type != RTM_NEWROUTE)
                continue;
            int rest = RTM_PAYLOAD(n), ours = 0;
            for (struct rtattr *r = RTM_RTA(NLMSG_DATA(n)); RTA_OK(r, rest); r = RTA_NEXT(r, rest)) {
                ours |= r->rta_type == RTA_DST && memcmp(RTA_DATA(r), &to, 4) == 0;
                if (ours && r->rta_type == RTA_MULTIPATH) {
                    struct rtnexthop *hop = RTA_DATA(r);
                    for (int left = RTA_PAYLOAD(r); left >= (int)sizeof *hop && found < 2; left -= RTNH_ALIGN(hop->rtnh_len), hop = RTNH_NEXT(hop))
                        weights[found++] = hop->rtnh_hops;
                }
            }
        }
    }
    SAME(found, 2);
    SAME(weights[0], 2);
    SAME(weights[1], 0);
    m.header.nlmsg_type = RTM_DELROUTE, m.header.nlmsg_flags = 0;
    SAME(ask(s, &m), 0);
    a = address(0, 1, 0);
    a.header.nlmsg_type = RTM_DELADDR;
    SAME(ask(s, &a), 0);
    close(s);
}

GUEST_WITH(lo_up(), T(an_address_is_renewed), T(a_port_id_is_for_good), T(the_kernel_is_process_0), T(weights_of_next_hops))
