// A replica of NOPaxos.
#include "replica.h"

static struct log log_;
static int id, ordered, direct;
// When the replica last asked for the request that it misses, 0: it misses none.
static uint64_t asked;

static void to_all(struct message *message)
{
    for (int replica = 1; replica <= REPLICAS; replica++) {
        struct sockaddr_in to = replica_address(replica);

        if (replica != id)
            send_to(direct, message, &to);
    }
}

static void answer(uint32_t slot)
{
    struct entry *entry = &log_.entries[slot];
    struct message reply = { .type = htons(REPLY), .replica = htons(id), .request = htonl(entry->request), .slot = htonl(slot), .digest = entry->digest };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = entry->port, .sin_addr.s_addr = entry->client };

    send_to(direct, &reply, &to);
}

// Appends what there is without a gap, and answers it. The leader executes requests here; what they do is no matter of ours.
static void append(void)
{
    while (log_slot(&log_, log_.end)->is_there) {
        uint32_t slot = log_.end++;

        log_digest(&log_, slot);
        if (log_.entries[slot].client)
            answer(slot);
        asked = 0;
    }
}

static void ask(uint32_t last)
{
    struct message message = { .type = htons(id == LEADER ? GAP : LOOK_UP), .replica = htons(id), .slot = htonl(log_.end) };
    struct sockaddr_in leader = replica_address(LEADER);

    if (log_.end > last || (asked && now_ns() - asked < 1000000))
        return;
    asked = now_ns();
    id == LEADER ? to_all(&message) : send_to(direct, &message, &leader);
}

static void put(uint32_t slot, uint32_t client, uint16_t port, uint32_t request)
{
    struct entry *entry = log_slot(&log_, slot);

    if (!entry->is_there)
        *entry = (struct entry){ .client = client, .port = port, .request = request, .is_there = 1 };
}

static void on_message(const struct message *message, const struct sockaddr_in *from)
{
    uint32_t slot = ntohl(message->slot);
    struct message reply = { .replica = htons(id), .slot = message->slot };
    struct entry *entry;

    if (slot == 0 || slot > log_.end + 1000000)
        return;
    entry = log_slot(&log_, slot);
    switch (ntohs(message->type)) {
    case LOOK_UP:
        if (id != LEADER || slot >= log_.end)
            return;
        reply.type = htons(FOUND);
        reply.client = entry->client;
        reply.port = entry->port;
        reply.request = htonl(entry->request);
        break;
    case FOUND:
        put(slot, message->client, message->port, ntohl(message->request));
        append();
        return;
    case GAP:
        // Whatever was there: the leader has not executed it.
        *entry = (struct entry){ .is_there = 1 };
        log_digest(&log_, slot);
        append();
        reply.type = htons(GAP_OK);
        break;
    case GAP_OK:
        entry->acknowledged |= 1 << ntohs(message->replica);
        if (id == LEADER && !entry->is_there && __builtin_popcount(entry->acknowledged) + 1 >= MAJORITY) {
            entry->is_there = 1;
            append();
        }
        return;
    default:
        return;
    }
    send_to(direct, &reply, from);
}

int be_nopaxos_replica(int own)
{
    // The highest number that has come.
    uint32_t last = 0;
    int events;

    id = own;
    log_.end = 1;
    ordered = multicast_socket(ORDERED_PORT);
    direct = ordinary_socket(REPLICA_PORT);
    events = watch(ordered);
    epoll_ctl(events, EPOLL_CTL_ADD, direct, &(struct epoll_event){ .events = EPOLLIN, .data.fd = direct });
    while (!stopped) {
        struct message message;
        struct sockaddr_in from;
        int socket = ready(events, log_.end <= last ? 1 : -1);

        if (socket >= 0 && receive(socket, &message, &from)) {
            if (socket == ordered) {
                uint32_t number = ntohl(message.number);

                last = number > last ? number : last;
                if (message.client == 0) {
                    message.client = from.sin_addr.s_addr;
                    message.port = from.sin_port;
                }
                put(number, message.client, message.port, ntohl(message.request));
                append();
            } else {
                on_message(&message, &from);
            }
        }
        ask(last);
    }
    log_report(&log_);
    return 0;
}
