/* Packet sockets on lo: what is seen of what passes, filters, rings, frames of one's own. */
#include "privileged.h"
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <sys/mman.h>

static int open_packet(int type, int protocol) {
    int s = socket(AF_PACKET, type, htons(protocol));
    struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = if_nametoindex("lo")};
    if (s >= 0 && bind(s, (struct sockaddr *)&ll, sizeof ll) != 0) {
        close(s);
        return -1;
    }
    return s;
}

/* A datagram from a socket of ours to port `port` of lo, which nobody need hear. */
static int say(int port, const char *what) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = at("127.0.0.1", port);
    int sent = sendto(s, what, strlen(what), 0, (struct sockaddr *)&to, sizeof to);
    close(s);
    return sent == (int)strlen(what);
}

static int listener(int port) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = at("0.0.0.0", port);
    bind(s, (struct sockaddr *)&own, sizeof own);
    return s;
}

static void frames_are_seen_going_out_and_coming_in(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_ALL);
    CHECK(s >= 0);
    CHECK(say(4001, "hello"));
    int seen[5] = {0};
    for (int i = 0; i < 2; i++) {
        unsigned char b[100];
        struct sockaddr_ll from;
        socklen_t len = sizeof from;
        CHECK(comes(s, 1000));
        SAME(recvfrom(s, b, sizeof b, 0, (struct sockaddr *)&from, &len), 14 + 20 + 8 + 5);
        /* as the kernel says it: without the unused bytes of the address */
        CHECK(len == 20 || len == 18);
        SAME(ntohs(from.sll_protocol), ETH_P_IP);
        SAME(from.sll_hatype, 772);
        SAME(from.sll_halen, 6);
        SAME(from.sll_ifindex, if_nametoindex("lo"));
        SAME(memcmp(b + 42, "hello", 5), 0);
        SAME(b[12] << 8 | b[13], 0x800);
        seen[from.sll_pkttype & 7]++;
    }
    SAME(seen[PACKET_OUTGOING], 1);
    SAME(seen[PACKET_HOST], 1);
    close(l);
    close(s);
}

static void a_cooked_socket_sees_no_link_header(void) {
    int l = listener(4001), s = open_packet(SOCK_DGRAM, ETH_P_IP);
    CHECK(say(4001, "hello"));
    unsigned char b[100];
    CHECK(comes(s, 1000));
    SAME(recv(s, b, sizeof b, 0), 20 + 8 + 5);
    SAME(b[0], 0x45);
    /* one protocol: what comes in only */
    CHECK(!comes(s, 20));
    CHECK(say(4001, "longer than there is room"));
    CHECK(comes(s, 1000));
    SAME(recv(s, b, 30, MSG_TRUNC), 28 + 25);
    close(l);
    close(s);
}

/* udp and dst port 4002, of a frame */
static struct sock_filter port_4002[] = {
    {0x28, 0, 0, 12}, {0x15, 0, 5, 0x800}, {0x30, 0, 0, 23}, {0x15, 0, 3, 17}, {0x28, 0, 0, 36}, {0x15, 0, 1, 4002}, {6, 0, 0, 45}, {6, 0, 0, 0}};
static struct sock_fprog only_4002 = {sizeof port_4002 / sizeof *port_4002, port_4002};

static void filters_choose_and_cut(void) {
    int s = open_packet(SOCK_RAW, ETH_P_ALL);
    SAME(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &only_4002, sizeof only_4002), 0);
    int l1 = listener(4001), l2 = listener(4002);
    CHECK(say(4001, "not this one") && say(4002, "this one"));
    unsigned char b[100];
    CHECK(comes(s, 1000));
    /* 45 bytes of it are wanted */
    SAME(recv(s, b, sizeof b, 0), 45);
    SAME(memcmp(b + 42, "thi", 3), 0);
    SAME(recv(s, b, sizeof b, 0), 45);
    CHECK(!comes(s, 20));
    int one = 1;
    SAME(setsockopt(s, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one), 0);
    FAILS(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &one, sizeof one), EPERM);
    FAILS(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &only_4002, sizeof only_4002), EPERM);
    close(s);
    s = open_packet(SOCK_RAW, ETH_P_ALL);
    FAILS(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &one, sizeof one), ENOENT);
    struct sock_filter endless[] = {{0, 0, 0, 1}};
    struct sock_fprog bad = {1, endless};
    FAILS(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &bad, sizeof bad), EINVAL);
    bad.len = 0;
    FAILS(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &bad, sizeof bad), EINVAL);
    close(s);
    close(l1);
    close(l2);
}

static void a_filter_on_udp_sees_the_udp_header(void) {
    int l = listener(4003);
    /* the first byte of the payload is 'y' */
    struct sock_filter code[] = {{0x30, 0, 0, 8}, {0x15, 0, 1, 'y'}, {6, 0, 0, 10}, {6, 0, 0, 0}};
    struct sock_fprog program = {4, code};
    SAME(setsockopt(l, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    CHECK(say(4003, "no") && say(4003, "yes"));
    char b[10];
    CHECK(comes(l, 1000));
    SAME(recv(l, b, sizeof b, 0), 2); /* cut to ten bytes, the header's eight among them */
    CHECK(!comes(l, 20));
    SAME(setsockopt(l, SOL_SOCKET, SO_DETACH_FILTER, NULL, 0), -1);
    int zero = 0;
    SAME(setsockopt(l, SOL_SOCKET, SO_DETACH_FILTER, &zero, sizeof zero), 0);
    CHECK(say(4003, "no"));
    CHECK(comes(l, 1000));
    close(l);
}

static void statistics_count_and_start_anew(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_ALL);
    CHECK(say(4001, "a") && say(4001, "b"));
    CHECK(comes(s, 1000));
    struct tpacket_stats st;
    socklen_t len = sizeof st;
    SAME(getsockopt(s, SOL_PACKET, PACKET_STATISTICS, &st, &len), 0);
    SAME(len, sizeof st);
    SAME(st.tp_packets, 4);
    SAME(st.tp_drops, 0);
    SAME(getsockopt(s, SOL_PACKET, PACKET_STATISTICS, &st, &len), 0);
    SAME(st.tp_packets, 0);
    close(l);
    close(s);
}

static void auxdata_says_how_long_it_was(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_IP), one = 1;
    SAME(setsockopt(s, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one), 0);
    CHECK(say(4001, "hello"));
    unsigned char b[20], control[100];
    struct iovec v = {b, sizeof b};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(comes(s, 1000));
    SAME(recvmsg(s, &m, 0), 20);
    CHECK(m.msg_flags & MSG_TRUNC);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    CHECK(h && h->cmsg_level == SOL_PACKET && h->cmsg_type == PACKET_AUXDATA);
    struct tpacket_auxdata *aux = (void *)CMSG_DATA(h);
    SAME(aux->tp_len, 47);
    SAME(aux->tp_snaplen, 47);
    SAME(aux->tp_net, 14);
    CHECK(aux->tp_status & TP_STATUS_USER);
    close(l);
    close(s);
}

static void a_ring_of_version_2_is_filled(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_IP), version = TPACKET_V2, length = TPACKET_V2;
    socklen_t len = sizeof length;
    SAME(getsockopt(s, SOL_PACKET, PACKET_HDRLEN, &length, &len), 0);
    SAME(length, 32);
    SAME(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
    struct tpacket_req req = {4096, 1, 512, 8}, odd = {4000, 1, 512, 8};
    FAILS(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &odd, sizeof odd), EINVAL);
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &req, sizeof req), 0);
    FAILS(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), EBUSY);
    FAILS((long)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0), EINVAL);
    unsigned char *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0);
    CHECK(ring != MAP_FAILED);
    CHECK(!comes(s, 0));
    for (int i = 0; i < 10; i++) {
        struct tpacket2_hdr *h = (void *)(ring + i % 8 * 512);
        CHECK(say(4001, i % 2 ? "odd" : "even"));
        CHECK(comes(s, 1000));
        CHECK(h->tp_status & TP_STATUS_USER);
        SAME(h->tp_len, 42 + (i % 2 ? 3 : 4));
        SAME(h->tp_snaplen, h->tp_len);
        SAME(h->tp_net - h->tp_mac, 14);
        SAME(memcmp((char *)h + h->tp_mac + 42, i % 2 ? "odd" : "even", 3), 0);
        struct sockaddr_ll *from = (void *)((char *)h + TPACKET_ALIGN(sizeof *h));
        SAME(from->sll_family, AF_PACKET);
        SAME(from->sll_pkttype, PACKET_HOST);
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_SEQ_CST);
        CHECK(!comes(s, 0));
    }
    /* nobody gives frames back: the ninth is dropped */
    for (int i = 0; i < 9; i++)
        CHECK(say(4001, "x"));
    struct tpacket_stats st;
    len = sizeof st;
    SAME(getsockopt(s, SOL_PACKET, PACKET_STATISTICS, &st, &len), 0);
    SAME(st.tp_packets, 19);
    SAME(st.tp_drops, 1);
    munmap(ring, 4096);
    close(l);
    close(s);
}

static void a_ring_of_version_3_hands_blocks_over(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_IP), version = TPACKET_V3;
    SAME(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
    struct tpacket_req3 req = {.tp_block_size = 4096, .tp_block_nr = 4, .tp_frame_size = 2048, .tp_frame_nr = 8, .tp_retire_blk_tov = 30};
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &req, sizeof req), 0);
    unsigned char *ring = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0);
    CHECK(ring != MAP_FAILED);
    CHECK(say(4001, "one") && say(4001, "three"));
    CHECK(comes(s, 1000));
    struct tpacket_block_desc *block = (void *)ring;
    SAME(block->version, TPACKET_V3);
    CHECK(block->hdr.bh1.block_status & TP_STATUS_USER);
    CHECK(block->hdr.bh1.block_status & TP_STATUS_BLK_TMO);
    SAME(block->hdr.bh1.num_pkts, 2);
    SAME(block->hdr.bh1.seq_num, 1);
    struct tpacket3_hdr *h = (void *)(ring + block->hdr.bh1.offset_to_first_pkt);
    SAME(h->tp_len, 45);
    SAME(memcmp((char *)h + h->tp_mac + 42, "one", 3), 0);
    h = (void *)((char *)h + h->tp_next_offset);
    SAME(h->tp_len, 47);
    SAME(h->tp_next_offset, 0);
    __atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_SEQ_CST);
    CHECK(!comes(s, 0));
    CHECK(say(4001, "next"));
    CHECK(comes(s, 1000));
    block = (void *)(ring + 4096);
    SAME(block->hdr.bh1.num_pkts, 1);
    SAME(block->hdr.bh1.seq_num, 2);
    munmap(ring, 4 * 4096);
    close(l);
    close(s);
}

/* A datagram as a frame of lo, from port 9 to `port`. It is from another host and to all: Linux takes what comes
 * in from or to an address of its own for a martian. */
static int frame(unsigned char *b, int port, const char *what) {
    int n = strlen(what), total = 28 + n;
    memset(b, 0, 42);
    b[12] = 8;
    unsigned char ip[20] = {0x45, 0, total >> 8, total, 0, 7, 0, 0, 64, 17, 0, 0, 10, 8, 8, 8, 255, 255, 255, 255};
    unsigned short sum = internet_sum(ip, 20);
    memcpy(ip + 10, &sum, 2);
    memcpy(b + 14, ip, 20);
    unsigned char udp[8] = {0, 9, port >> 8, port, 0, 8 + n, 0, 0};
    memcpy(b + 34, udp, 8);
    memcpy(b + 42, what, n);
    return 42 + n;
}

static void frames_of_ones_own_are_sent(void) {
    int l = listener(4004), s = open_packet(SOCK_RAW, ETH_P_IP);
    unsigned char b[2000];
    int n = frame(b, 4004, "made by hand");
    SAME(send(s, b, n, 0), n);
    CHECK(comes(l, 1000));
    SAME(recv(l, b, sizeof b, 0), 12);
    SAME(memcmp(b, "made by hand", 12), 0);
    FAILS(send(s, b, 10, 0), EINVAL);
    int other = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
    FAILS(send(other, b, n, 0), ENXIO);
    /* cooked: the kernel makes the header */
    int cooked = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = if_nametoindex("lo"), .sll_halen = 6};
    n = frame(b, 4004, "cooked");
    SAME(sendto(cooked, b + 14, n - 14, 0, (struct sockaddr *)&to, sizeof to), n - 14);
    CHECK(comes(l, 1000));
    SAME(recv(l, b, sizeof b, 0), 6);
    close(cooked);
    close(other);
    close(l);
    close(s);
}

static void a_ring_is_sent(void) {
    int l = listener(4004), s = open_packet(SOCK_RAW, ETH_P_IP), version = TPACKET_V2;
    SAME(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
    struct tpacket_req req = {4096, 1, 1024, 4};
    SAME(setsockopt(s, SOL_PACKET, PACKET_TX_RING, &req, sizeof req), 0);
    unsigned char *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0);
    CHECK(ring != MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        struct tpacket2_hdr *h = (void *)(ring + i * 1024);
        h->tp_len = frame((unsigned char *)h + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll), 4004, "ring");
        h->tp_status = TP_STATUS_SEND_REQUEST;
    }
    SAME(send(s, NULL, 0, 0), 3 * 46);
    char b[10];
    for (int i = 0; i < 3; i++) {
        CHECK(comes(l, 1000));
        SAME(recv(l, b, sizeof b, 0), 4);
        SAME(((struct tpacket2_hdr *)(ring + i * 1024))->tp_status, TP_STATUS_AVAILABLE);
    }
    munmap(ring, 4096);
    close(l);
    close(s);
}

static void promiscuity_is_counted(void) {
    int s = open_packet(SOCK_RAW, ETH_P_ALL);
    struct packet_mreq m = {.mr_ifindex = if_nametoindex("lo"), .mr_type = PACKET_MR_PROMISC};
    SAME(setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &m, sizeof m), 0);
    SAME(setsockopt(s, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &m, sizeof m), 0);
    m.mr_ifindex = 99;
    FAILS(setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &m, sizeof m), ENODEV);
    struct sockaddr_ll own;
    socklen_t len = sizeof own;
    SAME(getsockname(s, (struct sockaddr *)&own, &len), 0);
    SAME(own.sll_ifindex, if_nametoindex("lo"));
    SAME(own.sll_hatype, 772);
    FAILS(connect(s, (struct sockaddr *)&own, sizeof own), EOPNOTSUPP);
    FAILS(listen(s, 1), EOPNOTSUPP);
    FAILS(getpeername(s, (struct sockaddr *)&own, &len), EOPNOTSUPP);
    FAILS(socket(AF_PACKET, SOCK_STREAM, 0), ESOCKTNOSUPPORT);
    struct sockaddr_ll none = {.sll_family = AF_PACKET, .sll_ifindex = 99};
    FAILS(bind(s, (struct sockaddr *)&none, sizeof none), ENODEV);
    close(s);
}

static void a_ring_stays_while_it_is_mapped(void) {
    int s = open_packet(SOCK_RAW, ETH_P_IP), version = TPACKET_V2;
    SAME(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
    struct tpacket_req req = {4096, 1, 512, 8}, none = {0};
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &req, sizeof req), 0);
    unsigned char *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0);
    CHECK(ring != MAP_FAILED);
    FAILS(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &none, sizeof none), EBUSY);
    FAILS(setsockopt(s, SOL_PACKET, PACKET_TX_RING, &req, sizeof req), EBUSY);
    SAME(munmap(ring, 4096), 0);
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &none, sizeof none), 0);
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &req, sizeof req), 0);
    close(s);
}

static void the_least_frames_of_a_ring_do_not_overlap(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_IP), version = TPACKET_V2;
    SAME(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
    /* room for a header and an address, and for nothing of the packet */
    struct tpacket_req req = {4096, 1, 64, 64};
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &req, sizeof req), 0);
    unsigned char *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0);
    CHECK(ring != MAP_FAILED);
    memset(ring + 128, 0, 64);
    CHECK(say(4001, "one") && say(4001, "two"));
    CHECK(comes(s, 1000));
    for (int i = 0; i < 2; i++) {
        struct tpacket2_hdr *h = (void *)(ring + 64 * i);
        SAME(h->tp_len, 45);
        SAME(h->tp_snaplen, 0);
    }
    for (int i = 128; i < 192; i++)
        SAME(ring[i], 0);
    munmap(ring, 4096);
    close(l);
    close(s);
}

static int queued(int s) {
    char b[200];
    int n = 0;
    while (recv(s, b, sizeof b, MSG_DONTWAIT) > 0)
        n++;
    return n;
}

static void a_group_shares_what_passes(void) {
    int l = listener(4001), s[3], way = 7 | PACKET_FANOUT_LB << 16, other = 7 | PACKET_FANOUT_HASH << 16;
    for (int i = 0; i < 3; i++) {
        s[i] = open_packet(SOCK_RAW, ETH_P_IP);
        SAME(setsockopt(s[i], SOL_PACKET, PACKET_FANOUT, &way, sizeof way), 0);
    }
    FAILS(setsockopt(s[0], SOL_PACKET, PACKET_FANOUT, &way, sizeof way), EALREADY);
    int got = 0;
    socklen_t len = sizeof got;
    SAME(getsockopt(s[0], SOL_PACKET, PACKET_FANOUT, &got, &len), 0);
    SAME(got, way);
    int t = open_packet(SOCK_RAW, ETH_P_IP);
    FAILS(setsockopt(t, SOL_PACKET, PACKET_FANOUT, &other, sizeof other), EINVAL);
    for (int i = 0; i < 9; i++)
        CHECK(say(4001, "x"));
    CHECK(comes(s[2], 1000));
    int n[3];
    for (int i = 0; i < 3; i++)
        n[i] = queued(s[i]);
    SAME(n[0], 3);
    SAME(n[1], 3);
    SAME(n[2], 3);
    SAME(queued(t), 9);
    for (int i = 0; i < 3; i++)
        close(s[i]);
    /* one flow goes to one socket */
    for (int i = 0; i < 3; i++) {
        s[i] = open_packet(SOCK_RAW, ETH_P_IP);
        SAME(setsockopt(s[i], SOL_PACKET, PACKET_FANOUT, &other, sizeof other), 0);
    }
    int c = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = at("127.0.0.1", 4001);
    for (int i = 0; i < 6; i++)
        SAME(sendto(c, "y", 1, 0, (struct sockaddr *)&to, sizeof to), 1);
    CHECK(comes(t, 1000));
    for (int i = 0; i < 3; i++)
        n[i] = queued(s[i]);
    SAME(n[0] + n[1] + n[2], 6);
    CHECK(n[0] == 6 || n[1] == 6 || n[2] == 6);
    int bad = 8 | 99 << 16;
    FAILS(setsockopt(t, SOL_PACKET, PACKET_FANOUT, &bad, sizeof bad), EINVAL);
    for (int i = 0; i < 3; i++)
        close(s[i]);
    close(t);
    close(c);
    close(l);
}

static void a_header_says_what_is_left_to_be_done(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_IP), on = 1;
    SAME(setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), 0);
    int d = open_packet(SOCK_DGRAM, ETH_P_IP);
    FAILS(setsockopt(d, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), EINVAL);
    unsigned char b[200];
    CHECK(say(4001, "hello"));
    CHECK(comes(s, 1000));
    SAME(recv(s, b, sizeof b, 0), 10 + 47);
    SAME(b[1], 0); /* VIRTIO_NET_HDR_GSO_NONE */
    SAME(memcmp(b + 10 + 42, "hello", 5), 0);
    FAILS(send(s, b, 5, 0), EINVAL);
    close(d);
    close(s);
    close(l);
}

/* The header lies before the frame, in frames of rings too. */
static void a_ring_has_the_header_of_what_is_left_to_be_done(void) {
    int l = listener(4001), s = open_packet(SOCK_RAW, ETH_P_IP), on = 1, version = TPACKET_V2;
    SAME(setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), 0);
    SAME(setsockopt(s, SOL_PACKET, PACKET_VERSION, &version, sizeof version), 0);
    struct tpacket_req req = {4096, 1, 512, 8};
    SAME(setsockopt(s, SOL_PACKET, PACKET_RX_RING, &req, sizeof req), 0);
    FAILS(setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), EBUSY);
    unsigned char *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s, 0);
    CHECK(ring != MAP_FAILED);
    for (int i = 0; i < 10; i++) {
        struct tpacket2_hdr *h = (void *)(ring + i % 8 * 512);
        CHECK(say(4001, "hello"));
        CHECK(comes(s, 1000));
        SAME(h->tp_len, 47);
        SAME(h->tp_snaplen, 47);
        SAME(h->tp_mac, TPACKET_ALIGN(sizeof *h + sizeof(struct sockaddr_ll) + 16) + 10 - 14);
        SAME(h->tp_net, h->tp_mac + 14);
        SAME(((unsigned char *)h)[h->tp_mac - 10 + 1], 0); /* VIRTIO_NET_HDR_GSO_NONE */
        SAME(memcmp((char *)h + h->tp_mac + 42, "hello", 5), 0);
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_SEQ_CST);
    }
    munmap(ring, 4096);
    close(s);
    close(l);
}

GUEST_WITH(lo_up(), T(frames_are_seen_going_out_and_coming_in), T(a_cooked_socket_sees_no_link_header), T(filters_choose_and_cut),
           T(a_filter_on_udp_sees_the_udp_header), T(statistics_count_and_start_anew), T(auxdata_says_how_long_it_was),
           T(a_ring_of_version_2_is_filled), T(a_ring_of_version_3_hands_blocks_over), T(frames_of_ones_own_are_sent),
           T(a_ring_is_sent), T(promiscuity_is_counted), T(a_ring_stays_while_it_is_mapped), T(the_least_frames_of_a_ring_do_not_overlap),
           T(a_group_shares_what_passes), T(a_header_says_what_is_left_to_be_done), T(a_ring_has_the_header_of_what_is_left_to_be_done))
