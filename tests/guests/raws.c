/* Raw sockets, and multicast, on lo. */
#include "privileged.h"
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>

static int raw(int protocol) { return socket(AF_INET, SOCK_RAW, protocol); }

static void a_protocol_of_ones_own_passes(void) {
    int a = raw(89), b = raw(89), other = raw(112);
    CHECK(a >= 0 && b >= 0 && other >= 0);
    struct sockaddr_in to = at("127.0.0.1", 0);
    SAME(sendto(a, "hello", 5, 0, (struct sockaddr *)&to, sizeof to), 5);
    unsigned char p[100];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    CHECK(comes(b, 1000));
    SAME(recvfrom(b, p, sizeof p, 0, (struct sockaddr *)&from, &len), 25);
    SAME(p[0], 0x45);
    SAME(p[9], 89);
    SAME(p[8], 64);
    SAME(ntohs(((struct iphdr *)p)->tot_len), 25);
    SAME(from.sin_addr.s_addr, to.sin_addr.s_addr);
    SAME(from.sin_port, 0);
    CHECK(comes(a, 1000)); /* the sender hears itself, too */
    CHECK(!comes(other, 20));
    close(a);
    close(b);
    close(other);
}

static void options_shape_what_is_sent(void) {
    int a = raw(90), b = raw(90), ttl = 7, tos = 0xc0, one = 1;
    SAME(setsockopt(a, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl), 0);
    SAME(setsockopt(a, IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
    SAME(setsockopt(b, IPPROTO_IP, IP_PKTINFO, &one, sizeof one), 0);
    struct sockaddr_in to = at("127.0.0.2", 0);
    SAME(connect(a, (struct sockaddr *)&to, sizeof to), 0);
    SAME(send(a, "x", 1, 0), 1);
    unsigned char p[100], control[100];
    struct iovec v = {p, sizeof p};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(comes(b, 1000));
    SAME(recvmsg(b, &m, 0), 21);
    SAME(p[8], 7);
    SAME(p[1], 0xc0);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    CHECK(h && h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO);
    struct in_pktinfo *info = (void *)CMSG_DATA(h);
    SAME(info->ipi_ifindex, if_nametoindex("lo"));
    SAME(info->ipi_addr.s_addr, to.sin_addr.s_addr);
    close(a);
    close(b);
}

static void bound_and_connected_sockets_hear_less(void) {
    int a = raw(91), here = raw(91), there = raw(91);
    struct sockaddr_in one = at("127.0.0.1", 0), two = at("127.0.0.2", 0), three = at("127.0.0.3", 0);
    SAME(bind(here, (struct sockaddr *)&two, sizeof two), 0);
    SAME(connect(there, (struct sockaddr *)&three, sizeof three), 0);
    SAME(sendto(a, "x", 1, 0, (struct sockaddr *)&one, sizeof one), 1);
    CHECK(!comes(here, 20) && !comes(there, 20));
    SAME(sendto(a, "x", 1, 0, (struct sockaddr *)&two, sizeof two), 1);
    CHECK(comes(here, 1000));
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    SAME(getsockname(here, (struct sockaddr *)&own, &len), 0);
    SAME(own.sin_addr.s_addr, two.sin_addr.s_addr);
    SAME(ntohs(own.sin_port), 91);
    close(a);
    close(here);
    close(there);
}

static void whole_packets_are_completed(void) {
    int a = raw(IPPROTO_RAW), b = raw(93), on = 0;
    socklen_t len = sizeof on;
    SAME(getsockopt(a, IPPROTO_IP, IP_HDRINCL, &on, &len), 0);
    SAME(on, 1);
    unsigned char p[24] = {0x45, 0x10, 0, 0, 0, 0, 0, 0, 9, 93, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1, 'd', 'a', 't', 'a'};
    struct sockaddr_in to = at("127.0.0.1", 0);
    SAME(sendto(a, p, sizeof p, 0, (struct sockaddr *)&to, sizeof to), 24);
    unsigned char r[100];
    CHECK(comes(b, 1000));
    SAME(recv(b, r, sizeof r, 0), 24);
    SAME(r[3], 24);
    SAME(r[8], 9);
    SAME(r[1], 0x10);
    SAME(internet_sum(r, 20), 0);
    SAME(r[12], 127); /* the source was filled in */
    SAME(memcmp(r + 20, "data", 4), 0);
    FAILS(sendto(a, p, 10, 0, (struct sockaddr *)&to, sizeof to), EINVAL);
    close(a);
    close(b);
}

static void icmp_filters_keep_types_out(void) {
    int s = raw(IPPROTO_ICMP);
    struct icmp_filter { uint32_t data; } f = {~(1u << ICMP_ECHOREPLY)};
    SAME(setsockopt(s, SOL_RAW, 1, &f, sizeof f), 0);
    struct icmphdr echo = {.type = ICMP_ECHO, .un.echo = {.id = 5, .sequence = 1}};
    echo.checksum = internet_sum(&echo, sizeof echo);
    struct sockaddr_in to = at("127.0.0.1", 0);
    SAME(sendto(s, &echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to), 8);
    unsigned char r[100];
    CHECK(comes(s, 1000));
    SAME(recv(s, r, sizeof r, 0), 28);
    SAME(r[20], ICMP_ECHOREPLY);
    CHECK(!comes(s, 20));
    close(s);
}

static void what_nobody_speaks_is_refused(void) {
    int s = raw(94), heard = raw(IPPROTO_ICMP), one = 1;
    struct sockaddr_in to = at("127.0.0.1", 0);
    SAME(setsockopt(s, IPPROTO_IP, IP_RECVERR, &one, sizeof one), 0);
    /* this socket itself hears the protocol, so bind it elsewhere */
    struct sockaddr_in own = at("127.0.0.9", 0);
    SAME(bind(s, (struct sockaddr *)&own, sizeof own), 0);
    SAME(sendto(s, "12345678", 8, 0, (struct sockaddr *)&to, sizeof to), 8);
    unsigned char r[100];
    CHECK(comes(heard, 1000));
    SAME(recv(heard, r, sizeof r, 0), 20 + 8 + 28);
    SAME(r[20], ICMP_DEST_UNREACH);
    SAME(r[21], ICMP_PROT_UNREACH);
    struct pollfd p = {.fd = s};
    SAME(poll(&p, 1, 1000), 1);
    CHECK(p.revents & POLLERR);
    FAILS(recv(s, r, sizeof r, MSG_DONTWAIT), ENOPROTOOPT);
    FAILS(socket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
    FAILS(sendto(s, "x", 1, 0, NULL, 0), EDESTADDRREQ);
    close(s);
    close(heard);
}

/* Multicast. Everything on lo, which has to be named. */
static int group_socket(int port) {
    int s = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bind(s, (struct sockaddr *)&any, sizeof any);
    return s;
}

static struct ip_mreqn group(const char *ip) {
    struct ip_mreqn m = {.imr_ifindex = if_nametoindex("lo")};
    inet_pton(AF_INET, ip, &m.imr_multiaddr);
    return m;
}

static int tell(const char *ip, int port, const char *what) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct ip_mreqn by = {.imr_ifindex = if_nametoindex("lo")};
    struct sockaddr_in own = at("127.0.0.1", 0);
    by.imr_address = own.sin_addr;
    setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by);
    struct sockaddr_in to = at(ip, port);
    int sent = sendto(s, what, strlen(what), 0, (struct sockaddr *)&to, sizeof to);
    close(s);
    return sent == (int)strlen(what);
}

static void groups_are_joined_and_left(void) {
    int s = group_socket(5001);
    struct ip_mreqn m = group("239.1.2.3"), no = group("10.1.2.3"), nowhere = group("239.1.2.3");
    CHECK(tell("239.1.2.3", 5001, "early"));
    CHECK(!comes(s, 20));
    SAME(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m), 0);
    FAILS(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m), EADDRINUSE);
    FAILS(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &no, sizeof no), EINVAL);
    FAILS(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, 4), EINVAL);
    nowhere.imr_ifindex = 77;
    FAILS(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &nowhere, sizeof nowhere), ENODEV);
    CHECK(tell("239.1.2.3", 5001, "now"));
    char b[20];
    CHECK(comes(s, 1000));
    SAME(recv(s, b, sizeof b, 0), 3);
    CHECK(tell("239.1.2.4", 5001, "other"));
    CHECK(!comes(s, 20));
    SAME(setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m), 0);
    FAILS(setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m), EADDRNOTAVAIL);
    CHECK(tell("239.1.2.3", 5001, "late"));
    CHECK(!comes(s, 20));
    close(s);
}

static void who_is_in_no_group_hears_the_hosts_unless_told_otherwise(void) {
    int member = group_socket(5002), guest = group_socket(5002), zero = 0;
    struct ip_mreqn m = group("239.1.2.3");
    SAME(setsockopt(member, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m), 0);
    char b[20];
    CHECK(tell("239.1.2.3", 5002, "all"));
    CHECK(comes(member, 1000) && comes(guest, 1000));
    recv(member, b, sizeof b, 0);
    recv(guest, b, sizeof b, 0);
    SAME(setsockopt(guest, IPPROTO_IP, IP_MULTICAST_ALL, &zero, sizeof zero), 0);
    CHECK(tell("239.1.2.3", 5002, "members"));
    CHECK(comes(member, 1000) && !comes(guest, 20));
    close(member);
    close(guest);
}

static void sources_are_chosen(void) {
    int s = group_socket(5003);
    struct ip_mreq_source m = {.imr_multiaddr = group("239.1.2.5").imr_multiaddr, .imr_interface = at("127.0.0.1", 0).sin_addr,
                               .imr_sourceaddr = at("127.0.0.7", 0).sin_addr};
    SAME(setsockopt(s, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &m, sizeof m), 0);
    CHECK(tell("239.1.2.5", 5003, "from 127.0.0.1"));
    CHECK(!comes(s, 20));
    struct ip_mreq_source too = m;
    too.imr_sourceaddr = at("127.0.0.1", 0).sin_addr;
    SAME(setsockopt(s, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &too, sizeof too), 0);
    CHECK(tell("239.1.2.5", 5003, "from 127.0.0.1"));
    CHECK(comes(s, 1000));
    FAILS(setsockopt(s, IPPROTO_IP, IP_BLOCK_SOURCE, &too, sizeof too), EINVAL);
    SAME(setsockopt(s, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &too, sizeof too), 0);
    FAILS(setsockopt(s, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &too, sizeof too), EADDRNOTAVAIL);
    close(s);
    /* a member of all that blocks one */
    s = group_socket(5003);
    struct ip_mreqn all = group("239.1.2.5");
    SAME(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &all, sizeof all), 0);
    SAME(setsockopt(s, IPPROTO_IP, IP_BLOCK_SOURCE, &too, sizeof too), 0);
    CHECK(tell("239.1.2.5", 5003, "blocked"));
    CHECK(!comes(s, 20));
    SAME(setsockopt(s, IPPROTO_IP, IP_UNBLOCK_SOURCE, &too, sizeof too), 0);
    CHECK(tell("239.1.2.5", 5003, "heard"));
    CHECK(comes(s, 1000));
    close(s);
}

static void a_filter_names_all_sources_at_once(void) {
    int s = group_socket(5003);
    struct {
        struct ip_msfilter f;
        struct in_addr more[1];
    } two = {.f = {.imsf_multiaddr = group("239.1.2.5").imr_multiaddr, .imsf_interface = at("127.0.0.1", 0).sin_addr, .imsf_fmode = MCAST_INCLUDE, .imsf_numsrc = 2}}, got = two;
    two.f.imsf_slist[0] = at("127.0.0.1", 0).sin_addr;
    two.more[0] = at("127.0.0.7", 0).sin_addr;
    /* for members only */
    FAILS(setsockopt(s, IPPROTO_IP, IP_MSFILTER, &two, sizeof two), EINVAL);
    socklen_t len = sizeof got;
    FAILS(getsockopt(s, IPPROTO_IP, IP_MSFILTER, &got, &len), EADDRNOTAVAIL);
    struct ip_mreqn all = group("239.1.2.5");
    SAME(setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, &all, sizeof all), 0);
    SAME(setsockopt(s, IPPROTO_IP, IP_MSFILTER, &two, sizeof two), 0);
    CHECK(tell("239.1.2.5", 5003, "named"));
    CHECK(comes(s, 1000));
    char b[20];
    recv(s, b, sizeof b, 0);
    SAME(getsockopt(s, IPPROTO_IP, IP_MSFILTER, &got, &len), 0);
    SAME(got.f.imsf_fmode, MCAST_INCLUDE);
    SAME(got.f.imsf_numsrc, 2);
    two.f.imsf_fmode = MCAST_EXCLUDE;
    SAME(setsockopt(s, IPPROTO_IP, IP_MSFILTER, &two, sizeof two), 0);
    CHECK(tell("239.1.2.5", 5003, "excluded"));
    CHECK(!comes(s, 20));
    FAILS(setsockopt(s, IPPROTO_IP, IP_MSFILTER, &two, 18), EINVAL);
    two.f.imsf_fmode = 7;
    FAILS(setsockopt(s, IPPROTO_IP, IP_MSFILTER, &two, sizeof two), EINVAL);
    /* to hear nobody is to leave */
    two.f.imsf_fmode = MCAST_INCLUDE;
    two.f.imsf_numsrc = 0;
    SAME(setsockopt(s, IPPROTO_IP, IP_MSFILTER, &two, sizeof two), 0);
    FAILS(setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, &all, sizeof all), EADDRNOTAVAIL);
    close(s);
}

static void the_interface_of_multicast_is_kept(void) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct in_addr own = at("127.0.0.1", 0).sin_addr, got;
    socklen_t len = sizeof got;
    SAME(setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own), 0);
    SAME(getsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &got, &len), 0);
    SAME(got.s_addr, own.s_addr);
    own = at("10.77.0.1", 0).sin_addr;
    FAILS(setsockopt(s, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own), EADDRNOTAVAIL);
    int t = socket(AF_INET, SOCK_STREAM, 0);
    FAILS(setsockopt(t, IPPROTO_IP, IP_MULTICAST_IF, &own, sizeof own), EINVAL);
    struct ip_mreqn m = group("239.1.2.3");
    FAILS(setsockopt(t, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m), EPROTO);
    close(s);
    close(t);
}

GUEST_WITH(lo_up(), T(a_protocol_of_ones_own_passes), T(options_shape_what_is_sent), T(bound_and_connected_sockets_hear_less),
           T(whole_packets_are_completed), T(icmp_filters_keep_types_out), T(what_nobody_speaks_is_refused),
           T(groups_are_joined_and_left), T(who_is_in_no_group_hears_the_hosts_unless_told_otherwise), T(sources_are_chosen), T(a_filter_names_all_sources_at_once),
           T(the_interface_of_multicast_is_kept))
