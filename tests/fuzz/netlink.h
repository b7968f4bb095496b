/* Requests of rtnetlink, built line by line: nl_begin, the attributes, nl_send. An attribute is a line of its own, so that
 * shrinking leaves single attributes out. */
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

enum { NESTS = 6, LONGEST_VALUE = 512, NETLINK_FD = 910, SETTLE_TRIES = 3000 };

static const char *const name_of[] = {
    "eth0", "lo", "first", "second", "veth0", "veth1", "none0", "", "eth0:1", "a/b", "a b", ".", "fifteen-letters", "sixteen-letters!", "n%d",
    "a-name-that-is-far-too-long-for-an-interface", "veth", "bogus", "veth0:web", "first:2", "eth0:fifteen-letter",
};
static unsigned char request[8192];
static size_t request_length;
static size_t nest_at[NESTS];
static int nests;
static int requests;

/* Linux pads every attribute to four bytes. */
static void pad_request(void) {
    while (request_length % 4 != 0)
        request[request_length++] = 0;
}
static int has_room(size_t n) { return request_length + n + 16 < sizeof request; }
static void put_bytes(const void *bytes, size_t n) {
    memcpy(request + request_length, bytes, n);
    request_length += n;
}
static void put_words(const long *words, size_t count, size_t length) {
    for (size_t i = 0; i < length; i++)
        request[request_length++] = i / 4 < count ? (unsigned char)((uint32_t)words[i / 4] >> (i % 4 * 8)) : 0;
}
static size_t value_length(long n) { return n < 0 ? 0 : n > LONGEST_VALUE ? LONGEST_VALUE : (size_t)n; }

static void open_netlink(int strict, int extended, int capped) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return;
    dup3(fd, NETLINK_FD, O_CLOEXEC);
    close(fd);
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    bind(NETLINK_FD, (void *)&own, sizeof own);
    setsockopt(NETLINK_FD, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &strict, sizeof strict);
    setsockopt(NETLINK_FD, SOL_NETLINK, NETLINK_EXT_ACK, &extended, sizeof extended);
    setsockopt(NETLINK_FD, SOL_NETLINK, NETLINK_CAP_ACK, &capped, sizeof capped);
}
/* a: whether the host has IPv6; the harness gives the sequence such a host. */
OP(nl_host) { say(" %ld", a[0]); }

/* a: type, flags, length of the family header, its words. */
OP(nl_begin) {
    struct nlmsghdr header = {.nlmsg_type = (uint16_t)a[0], .nlmsg_flags = (uint16_t)a[1]};
    request_length = 0;
    nests = 0;
    put_bytes(&header, sizeof header);
    put_words(a + 3, 4, value_length(a[2]));
    pad_request();
}
/* a: type, length of the value, its words. */
OP(nl_put) {
    struct nlattr head = {(uint16_t)(sizeof head + value_length(a[1])), (uint16_t)a[0]};
    if (!has_room(value_length(a[1])))
        return;
    put_bytes(&head, sizeof head);
    put_words(a + 2, 6, value_length(a[1]));
    pad_request();
}
/* An attribute that claims a length. a: type, length claimed, length of the value, its words. */
OP(nl_claim) {
    struct nlattr head = {(uint16_t)a[1], (uint16_t)a[0]};
    if (!has_room(value_length(a[2])))
        return;
    put_bytes(&head, sizeof head);
    put_words(a + 3, 5, value_length(a[2]));
    pad_request();
}
/* a: type, number of the name, whether a NUL ends it. */
OP(nl_name) {
    const char *name = name_of[(unsigned long)a[1] % (sizeof name_of / sizeof *name_of)];
    struct nlattr head = {(uint16_t)(sizeof head + strlen(name) + (a[2] != 0)), (uint16_t)a[0]};
    if (!has_room(strlen(name) + 1))
        return;
    put_bytes(&head, sizeof head);
    put_bytes(name, strlen(name) + (a[2] != 0));
    pad_request();
}
/* Bytes that are no attribute. a: length, words. */
OP(nl_raw) {
    if (has_room(value_length(a[0])))
        put_words(a + 1, 7, value_length(a[0]));
    pad_request();
}
static void open_nest(const void *head, size_t length) {
    if (nests == NESTS || !has_room(length))
        return;
    nest_at[nests++] = request_length;
    put_bytes(head, length);
}
OP(nl_nest) {
    struct nlattr head = {0, (uint16_t)a[0]};
    open_nest(&head, sizeof head);
}
/* A struct rtnexthop. a: flags, hops, index. */
OP(nl_hop) {
    struct rtnexthop head = {0, (unsigned char)a[0], (unsigned char)a[1], (int)a[2]};
    open_nest(&head, sizeof head);
}
static void close_nest(long extra) {
    uint16_t length = nests > 0 ? (uint16_t)(request_length - nest_at[nests - 1] + (size_t)extra) : 0;
    if (nests > 0)
        memcpy(request + nest_at[--nests], &length, sizeof length);
}
/* Ends a nest or hop. a: bytes that its length has too many. */
OP(nl_close) { close_nest(a[0]); }

static void say_hex(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        say("%02x", bytes[i]);
}

/* Attributes of a link that are said. Left out: counters (STATS, STATS64, CARRIER_CHANGES...), what the driver is (QDISC, MAP, XDP,
 * queues, sizes of segments, MIN_MTU, MAX_MTU, PARENT_DEV_NAME, PERM_ADDRESS), settings of families (AF_SPEC, asked for by /proc), the
 * number of another namespace (LINK_NETNSID). */
static const uint16_t link_attributes[] = {IFLA_IFNAME, IFLA_TXQLEN, IFLA_OPERSTATE, IFLA_LINKMODE, IFLA_MTU, IFLA_GROUP,
    IFLA_PROMISCUITY, IFLA_ALLMULTI, IFLA_LINKINFO, IFLA_LINK, IFLA_IFALIAS, IFLA_ADDRESS, IFLA_BROADCAST, IFLA_PROTO_DOWN};
static int is_said(int kind, int type, int index) {
    switch (kind) {
    case RTM_NEWLINK:
        /* eth0 is natively one end of a veth pair, a link of the experiment under Belljar. */
        if (index == 2 && (type == IFLA_LINKINFO || type == IFLA_LINK))
            return 0;
        for (size_t i = 0; i < sizeof link_attributes / sizeof *link_attributes; i++)
            if (link_attributes[i] == type)
                return 1;
        return 0;
    case RTM_NEWROUTE:
        return type != RTA_CACHEINFO; /* ages and uses */
    case RTM_NEWNEIGH:
        return type != NDA_CACHEINFO && type != NDA_PROBES; /* ages; timers count probes */
    }
    return 1;
}
/* Hardware addresses that sequences give begin with 02:00:00; others are drawn by the kernel. */
static int is_random(int kind, int type, const unsigned char *value, size_t n) {
    static const unsigned char given[3] = {2, 0, 0}, zero[6];
    if (kind == RTM_NEWLINK && type == IFLA_ADDRESS)
        return n == 6 && memcmp(value, given, 3) != 0 && memcmp(value, zero, 6) != 0;
    /* Link-local addresses made of such hardware addresses: 0x02 is inverted. */
    if ((kind == RTM_NEWADDR && type == IFA_ADDRESS) || (kind == RTM_NEWROUTE && type == RTA_DST))
        return n == 16 && value[0] == 0xfe && value[1] == 0x80 && value[11] == 0xff && value[12] == 0xfe &&
               (value[8] != 0 || value[9] != 0 || value[10] != 0);
    return 0;
}
static void say_attribute(int kind, int index, const struct nlattr *attribute) {
    const unsigned char *value = (const void *)(attribute + 1);
    size_t n = attribute->nla_len - sizeof *attribute;
    int type = attribute->nla_type & NLA_TYPE_MASK;
    if (!is_said(kind, type, index))
        return;
    say(" %d=", type);
    if (is_random(kind, type, value, n)) {
        say("random");
    } else if (kind == RTM_NEWADDR && type == IFA_CACHEINFO && n == sizeof(struct ifa_cacheinfo)) {
        /* Lifetimes shrink while the sequence runs: they are said in tens of seconds. The rest is times of the clock. */
        struct ifa_cacheinfo cache;
        memcpy(&cache, value, sizeof cache);
        uint32_t ages[2] = {cache.ifa_prefered, cache.ifa_valid};
        for (int i = 0; i < 2; i++)
            ages[i] == UINT32_MAX ? say("forever ") : say("%us ", (ages[i] + 9) / 10 * 10);
    } else {
        say_hex(value, n);
    }
}
static size_t header_of(int kind) {
    switch (kind) {
    case RTM_NEWLINK:
        return sizeof(struct ifinfomsg);
    case RTM_NEWADDR:
        return sizeof(struct ifaddrmsg);
    case RTM_NEWROUTE:
        return sizeof(struct rtmsg);
    case RTM_NEWRULE:
        return sizeof(struct fib_rule_hdr);
    case RTM_NEWNEIGH:
        return sizeof(struct ndmsg);
    case RTM_NEWNEXTHOP:
        return sizeof(struct nhmsg);
    }
    return 4;
}
/* A link's mode is applied when the kernel notices a changed carrier, within a second or more, and not at all if it is back by then. */
static void hide_state_of_mode(const struct nlmsghdr *m, struct ifinfomsg *link) {
    enum { LOWER_UP = 0x10000 };
    unsigned char *state = NULL;
    int mode = 0;
    size_t rest = IFLA_PAYLOAD(m);
    for (struct rtattr *a = IFLA_RTA(link); RTA_OK(a, rest); a = RTA_NEXT(a, rest)) {
        if (a->rta_type == IFLA_LINKMODE)
            mode = *(unsigned char *)RTA_DATA(a);
        if (a->rta_type == IFLA_OPERSTATE)
            state = RTA_DATA(a);
    }
    if (mode != 0 && link->ifi_flags & LOWER_UP && state) {
        link->ifi_flags &= ~(unsigned)IFF_RUNNING;
        *state = 0;
    }
}
static void say_message(const struct nlmsghdr *m) {
    int kind = m->nlmsg_type;
    size_t header = header_of(kind), length = m->nlmsg_len - sizeof *m;
    unsigned char *body = (unsigned char *)(m + 1);
    if (length < header)
        return;
    int index = 0;
    if (kind == RTM_NEWLINK) {
        struct ifinfomsg *link = (void *)body;
        index = link->ifi_index;
        link->ifi_change = 0; /* the bits that changed, in notifications */
        hide_state_of_mode(m, link);
    }
    /* Multicast addresses have neighbours where the host has sent to them, which is not the request's affair. */
    if (kind == RTM_NEWNEIGH && body[8] == NUD_NOARP && body[header] == 20 && (body[header + 4] == 0xff || body[header + 4] >> 4 == 0xe))
        return;
    say(" {%d ", kind);
    say_hex(body, header);
    for (size_t at = NLMSG_ALIGN(header); at + sizeof(struct nlattr) <= length;) {
        struct nlattr *attribute = (void *)(body + at);
        if (attribute->nla_len < sizeof *attribute || at + attribute->nla_len > length)
            break;
        say_attribute(kind, index, attribute);
        at += NLA_ALIGN(attribute->nla_len);
    }
    say("}");
}
/* The extended ack, from an offset of the message: text, the offset of the attribute, what is missing, and the policy that the
 * attribute breaks. */
static void say_extended(const struct nlmsghdr *m, size_t at) {
    if (!(m->nlmsg_flags & NLM_F_ACK_TLVS))
        return;
    while (at + sizeof(struct nlattr) <= m->nlmsg_len) {
        const struct nlattr *attribute = (const void *)((const char *)m + at);
        const unsigned char *value = (const void *)(attribute + 1);
        size_t n = attribute->nla_len - sizeof *attribute;
        if (attribute->nla_len < sizeof *attribute || at + attribute->nla_len > m->nlmsg_len)
            break;
        uint32_t number = 0;
        memcpy(&number, value, n < 4 ? n : 4);
        switch (attribute->nla_type & NLA_TYPE_MASK) {
        case NLMSGERR_ATTR_MSG:
            say(" \"%.*s\"", (int)n, value);
            break;
        case NLMSGERR_ATTR_OFFS:
            say(" @%u", number);
            break;
        case NLMSGERR_ATTR_MISS_TYPE:
            say(" missing %u", number);
            break;
        case NLMSGERR_ATTR_MISS_NEST:
            say(" in @%u", number);
            break;
        case NLMSGERR_ATTR_POLICY:
            say(" policy ");
            say_hex(value, n);
            break;
        default:
            say(" %d:", attribute->nla_type & NLA_TYPE_MASK);
            say_hex(value, n);
        }
        at += NLA_ALIGN(attribute->nla_len);
    }
}
/* An error or acknowledgement. */
static void say_error(const struct nlmsghdr *m) {
    const struct nlmsgerr *error = (const void *)(m + 1);
    say(" %s", error->error == 0 ? "ok" : strerrorname_np(-error->error));
    size_t quoted = m->nlmsg_flags & NLM_F_CAPPED ? 0 : error->msg.nlmsg_len - sizeof error->msg;
    say_extended(m, sizeof *m + sizeof *error + NLMSG_ALIGN(quoted));
}

static uint16_t send_request(size_t extra) {
    struct nlmsghdr *header = (void *)request;
    header->nlmsg_len = (uint32_t)(request_length + extra);
    header->nlmsg_seq = (uint32_t)++requests;
    header->nlmsg_pid = 0;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    sendto(NETLINK_FD, request, request_length, 0, (void *)&kernel, sizeof kernel);
    return header->nlmsg_type;
}
/* Calls `each` for every message of the answers to the request. */
static void receive_answers(void (*each)(const struct nlmsghdr *, void *), void *with) {
    static unsigned char answer[1 << 16];
    for (long n; (n = recv(NETLINK_FD, answer, sizeof answer, MSG_DONTWAIT)) > 0;)
        for (const struct nlmsghdr *m = (const void *)answer; n > 0 && NLMSG_OK(m, (unsigned)n); m = NLMSG_NEXT(m, n))
            each(m, with);
}
static void ask_for(int type, const void *header, size_t length) {
    struct nlmsghdr head = {.nlmsg_type = (uint16_t)type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
    request_length = 0;
    put_bytes(&head, sizeof head);
    put_bytes(header, length);
    send_request(0);
}

/* Addresses become usable, and links running, a moment after the request that causes it. */
static void find_unsettled(const struct nlmsghdr *m, void *found) {
    if (m->nlmsg_type == RTM_NEWADDR) {
        const struct ifaddrmsg *address = (const void *)(m + 1);
        if (address->ifa_flags & IFA_F_TENTATIVE && !(address->ifa_flags & IFA_F_DADFAILED))
            *(int *)found = 1;
    } else if (m->nlmsg_type == RTM_NEWLINK) {
        const struct ifinfomsg *link = (const void *)(m + 1);
        if (link->ifi_flags & IFF_UP && !(link->ifi_flags & 0x10000) != !(link->ifi_flags & IFF_RUNNING))
            *(int *)found = 1;
    }
}
static void settle(void) {
    for (int tries = 0; tries < SETTLE_TRIES; tries++) {
        struct ifaddrmsg addresses = {.ifa_family = AF_INET6};
        struct ifinfomsg links = {0};
        int found = 0;
        open_netlink(0, 0, 0);
        ask_for(RTM_GETADDR, &addresses, sizeof addresses);
        receive_answers(find_unsettled, &found);
        ask_for(RTM_GETLINK, &links, sizeof links);
        receive_answers(find_unsettled, &found);
        if (!found)
            return;
        usleep(1000);
    }
}

/* Messages that are said together, possibly sorted. */
enum { ENTRIES = 512 };
static char *entries[ENTRIES];
static int entry_count;
static void collect(const struct nlmsghdr *m, void *with) {
    (void)with;
    if (m->nlmsg_type == NLMSG_DONE || entry_count == ENTRIES)
        return;
    line_length = 0;
    line[0] = 0;
    if (m->nlmsg_type == NLMSG_ERROR)
        say_error(m);
    else
        say_message(m);
    if (line_length > 0)
        entries[entry_count++] = strdup(line);
}
/* The hash table of neighbours has a random seed. */
static void sort_entries(void) { qsort(entries, (size_t)entry_count, sizeof *entries, by_text); }
/* Routes to link-local addresses of random hardware addresses: they stand together, in an order that is random. */
static void sort_random_routes(void) {
    for (int first = 0; first < entry_count; first++) {
        int end = first;
        while (end < entry_count && strstr(entries[end], " 1=random"))
            end++;
        qsort(entries + first, (size_t)(end - first), sizeof *entries, by_text);
        if (end > first)
            first = end;
    }
}

/* Next hops of the routes with several of a family: the hash that chooses one has a random seed. */
struct next_hop {
    uint32_t device;
    unsigned char gateway[18];
    size_t length;
};
enum { NEXT_HOPS = 128 };
static struct next_hop next_hops[NEXT_HOPS];
static int next_hop_count;
/* Notes a gateway in RTA_GATEWAY or RTA_VIA. */
static void note_gateway(struct next_hop *hop, const struct rtattr *attribute) {
    size_t n = RTA_PAYLOAD(attribute);
    if ((attribute->rta_type == RTA_GATEWAY || attribute->rta_type == RTA_VIA) && n <= sizeof hop->gateway) {
        memcpy(hop->gateway, RTA_DATA(attribute), n);
        hop->length = n;
    }
}
static void find_next_hops(const struct nlmsghdr *m, void *with) {
    (void)with;
    if (m->nlmsg_type != RTM_NEWROUTE)
        return;
    const struct rtmsg *route = (const void *)(m + 1);
    size_t rest = RTM_PAYLOAD(m);
    for (const struct rtattr *a = RTM_RTA(route); RTA_OK(a, rest); a = RTA_NEXT(a, rest)) {
        if (a->rta_type != RTA_MULTIPATH)
            continue;
        size_t left = RTA_PAYLOAD(a);
        for (const struct rtnexthop *one = RTA_DATA(a); left >= sizeof *one && RTNH_OK(one, left) && next_hop_count < NEXT_HOPS;) {
            struct next_hop *hop = &next_hops[next_hop_count++];
            *hop = (struct next_hop){.device = (uint32_t)one->rtnh_ifindex};
            size_t of_hop = one->rtnh_len - sizeof *one;
            for (const struct rtattr *b = RTNH_DATA(one); RTA_OK(b, of_hop); b = RTA_NEXT(b, of_hop))
                note_gateway(hop, b);
            left -= RTNH_ALIGN(one->rtnh_len);
            one = RTNH_NEXT(one);
        }
    }
}
/* Whether a route that was looked up leads by one of the next hops. */
static int is_of_several(const struct nlmsghdr *m) {
    struct next_hop own = {0};
    const struct rtmsg *route = (const void *)(m + 1);
    if (m->nlmsg_type != RTM_NEWROUTE)
        return 0;
    size_t rest = RTM_PAYLOAD(m);
    for (const struct rtattr *a = RTM_RTA(route); RTA_OK(a, rest); a = RTA_NEXT(a, rest)) {
        note_gateway(&own, a);
        if (a->rta_type == RTA_OIF)
            memcpy(&own.device, RTA_DATA(a), sizeof own.device);
    }
    for (int i = 0; i < next_hop_count; i++)
        if (memcmp(&own, &next_hops[i], sizeof own) == 0)
            return 1;
    return 0;
}
struct answered {
    int ended;
    int said;
    int dump;
};
static void say_answer(const struct nlmsghdr *m, void *with) {
    struct answered *answered = with;
    if (m->nlmsg_type == NLMSG_ERROR) {
        say_error(m);
        answered->ended = 1;
    } else if (m->nlmsg_type == NLMSG_DONE) {
        int error = 0;
        memcpy(&error, m + 1, sizeof error);
        say(" done%s%s", error == 0 ? "" : " ", error == 0 ? "" : strerrorname_np(-error));
        say_extended(m, sizeof *m + sizeof error);
    } else if (m->nlmsg_type == RTM_NEWNEIGH) {
        /* All of them, as their order is random; those of multicast addresses do not count. */
        size_t before = line_length;
        say_message(m);
        if (line_length > before && entry_count < ENTRIES) {
            entries[entry_count++] = strdup(line + before);
            line_length = before;
        }
    } else if (answered->said++ < 12) {
        if (!answered->dump && is_of_several(m))
            say(" by one of several next hops");
        else
            say_message(m);
    }
}
static int strict, extended = 1, capped;
/* a: bytes that the message's length has too many (or too few). */
OP(nl_send) {
    struct answered answered = {0};
    while (nests > 0)
        close_nest(0);
    if (request_length < sizeof(struct nlmsghdr))
        return;
    static unsigned char sent[sizeof request];
    size_t length = request_length;
    memcpy(sent, request, length);
    const struct nlmsghdr *head = (const void *)sent;
    answered.dump = (head->nlmsg_flags & NLM_F_DUMP) != 0;
    next_hop_count = 0;
    if (head->nlmsg_type == RTM_GETROUTE && !answered.dump) {
        struct rtmsg routes = {.rtm_family = sent[sizeof *head]};
        open_netlink(0, 0, 0);
        ask_for(RTM_GETROUTE, &routes, sizeof routes);
        receive_answers(find_next_hops, NULL);
        memcpy(request, sent, length);
        request_length = length;
    }
    open_netlink(strict, extended, capped);
    send_request((size_t)a[0]);
    say(" = ");
    entry_count = 0;
    receive_answers(say_answer, &answered);
    sort_entries();
    for (int i = 0; i < entry_count; i++) {
        say("%s", entries[i]);
        free(entries[i]);
    }
    if (answered.said >= 12)
        say(" and others: %d", answered.said);
    settle();
    memcpy(request, sent, length);
    request_length = length;
}
/* a: NETLINK_GET_STRICT_CHK, NETLINK_EXT_ACK, NETLINK_CAP_ACK. */
OP(nl_options) {
    strict = (int)a[0];
    extended = (int)a[1];
    capped = (int)a[2];
}

static void say_table(const char *name, int type, const void *header, size_t length, int sorted) {
    entry_count = 0;
    open_netlink(1, 1, 1);
    ask_for(type, header, length);
    receive_answers(collect, NULL);
    if (sorted)
        sort_entries();
    else if (type == RTM_GETROUTE)
        sort_random_routes();
    for (int i = 0; i < entry_count; i++) {
        line_length = 0;
        say("%d %s%s\n", line_number, name, entries[i]);
        write(1, line, line_length);
        free(entries[i]);
    }
    line_length = 0;
}
OP(nl_tables) {
    (void)a;
    size_t length = line_length;
    static char before[sizeof line];
    memcpy(before, line, length);
    struct ifinfomsg link = {0};
    struct nhmsg hop = {0};
    say_table("link", RTM_GETLINK, &link, sizeof link, 0);
    for (int v6 = 0; v6 < 2; v6++) {
        unsigned char family = v6 ? AF_INET6 : AF_INET;
        struct ifaddrmsg address = {.ifa_family = family};
        struct rtmsg route = {.rtm_family = family};
        struct fib_rule_hdr rule = {.family = family};
        struct ndmsg neighbour = {.ndm_family = family};
        say_table(v6 ? "address6" : "address", RTM_GETADDR, &address, sizeof address, 0);
        say_table(v6 ? "route6" : "route", RTM_GETROUTE, &route, sizeof route, 0);
        say_table(v6 ? "rule6" : "rule", RTM_GETRULE, &rule, sizeof rule, 0);
        say_table(v6 ? "neighbour6" : "neighbour", RTM_GETNEIGH, &neighbour, sizeof neighbour, 1);
    }
    say_table("nexthop", RTM_GETNEXTHOP, &hop, sizeof hop, 0);
    memcpy(line, before, length);
    line_length = length;
    request_length = 0;
}
