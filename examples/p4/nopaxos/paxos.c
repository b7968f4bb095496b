// A replica of Multi-Paxos with a stable leader.
#include "replica.h"

static struct log log_;
static int id, direct;
// At the leader: the first slot that is not committed.
static uint32_t open_ = 1;

static void to_all(struct message *message)
{
    for (int replica = 1; replica <= REPLICAS; replica++) {
        struct sockaddr_in to = replica_address(replica);

        if (replica != id)
            send_to(direct, message, &to);
    }
}

static void prepare(uint32_t slot)
{
    struct entry *entry = &log_.entries[slot];
    struct message message = { .type = htons(PREPARE), .replica = htons(id), .slot = htonl(slot), .client = entry->client,
                               .port = entry->port, .request = htonl(entry->request) };

    to_all(&message);
}

static void append(uint32_t slot, uint32_t client, uint16_t port, uint32_t request)
{
    *log_slot(&log_, slot) = (struct entry){ .client = client, .port = port, .request = request, .is_there = 1 };
    log_.end = slot + 1;
    log_digest(&log_, slot);
}

// Executes what a majority has, answers it, and tells the others.
static void commit(void)
{
    for (; open_ < log_.end && __builtin_popcount(log_.entries[open_].acknowledged) + 1 >= MAJORITY; open_++) {
        struct entry *entry = &log_.entries[open_];
        struct message message = { .type = htons(REPLY), .replica = htons(id), .request = htonl(entry->request), .slot = htonl(open_),
                                   .digest = entry->digest };
        struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = entry->port, .sin_addr.s_addr = entry->client };

        send_to(direct, &message, &to);
        message.type = htons(COMMIT);
        to_all(&message);
    }
}

static void on_message(const struct message *message, const struct sockaddr_in *from)
{
    uint32_t slot = ntohl(message->slot);
    struct message reply = { .type = htons(PREPARE_OK), .replica = htons(id), .slot = message->slot };

    switch (ntohs(message->type)) {
    case REQUEST:
        if (id == LEADER) {
            append(log_.end, from->sin_addr.s_addr, from->sin_port, ntohl(message->request));
            prepare(log_.end - 1);
        }
        break;
    case PREPARE:
        // What comes too early is prepared again.
        if (slot > log_.end)
            return;
        if (slot == log_.end)
            append(slot, message->client, message->port, ntohl(message->request));
        send_to(direct, &reply, from);
        break;
    case PREPARE_OK:
        if (id == LEADER && slot < log_.end) {
            log_.entries[slot].acknowledged |= 1 << ntohs(message->replica);
            commit();
        }
        break;
    }
}

int be_paxos_replica(int own)
{
    int events;

    id = own;
    log_.end = 1;
    direct = ordinary_socket(REPLICA_PORT);
    events = watch(direct);
    while (!stopped) {
        struct message message;
        struct sockaddr_in from;

        if (ready(events, id == LEADER && open_ < log_.end ? 10 : -1) < 0) {
            if (!stopped)
                prepare(open_);
        } else if (receive(direct, &message, &from)) {
            on_message(&message, &from);
        }
    }
    log_report(&log_);
    return 0;
}
