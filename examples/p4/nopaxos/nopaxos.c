// Replicated state machine: NOPaxos (Li et al., OSDI 2016) over a multicast that is ordered and unreliable, and
// Multi-Paxos to compare it with.
//
//   nopaxos sequencer                     numbers requests on a host, in place of the switch
//   nopaxos replica nopaxos|paxos ID      replica 1, 2 or 3; 1 leads
//   nopaxos client nopaxos|paxos SECONDS  one request after the other; then prints throughput and latencies
//
// NOPaxos here is its normal operation and its agreement on gaps: a request that a replica misses is asked of the leader; one
// that the leader misses too becomes a no-op once a majority has agreed. The leader does not change, and neither does the
// session: a sequencer or a leader that fails stops the service. Multi-Paxos is the phase that a stable leader repeats, with a
// message of its own for commits, as the implementation has it that NOPaxos' authors compare with. Requests do nothing, and one
// that is sent again stands in the log twice: a real service would look at its number before it carries it out.
#include "replica.h"

static int sequence(void)
{
    int socket = multicast_socket(UNORDERED_PORT);
    struct sockaddr_in from, to = address(GROUP, ORDERED_PORT);
    struct message message;
    uint32_t number = 0;

    while (receive(socket, &message, &from)) {
        message.client = from.sin_addr.s_addr;
        message.port = from.sin_port;
        message.session = htonl(1);
        message.number = htonl(++number);
        send_to(socket, &message, &to);
    }
    printf("%u ordered\n", number);
    return 0;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

// A majority of equal answers for NOPaxos, the leader's among them; the leader's alone for Multi-Paxos.
static int is_answered(const struct message *answers, unsigned from, int ordered)
{
    unsigned equal = 0;

    if (!(from & 1u << LEADER))
        return 0;
    for (int replica = 1; replica <= REPLICAS; replica++)
        equal += from & 1u << replica && answers[replica].slot == answers[LEADER].slot && answers[replica].digest == answers[LEADER].digest;
    return !ordered || equal >= MAJORITY;
}

static int be_client(int ordered, double seconds)
{
    enum { MOST = 1 << 20 };
    static uint64_t took[MOST];
    int socket = ordinary_socket(0), events = watch(socket);
    struct sockaddr_in to = ordered ? address(GROUP, UNORDERED_PORT) : replica_address(LEADER);
    // What is measured begins when everybody has found everybody.
    uint64_t start = now_ns() + 10000000, end = start + seconds * 1e9, sum = 0;
    uint32_t done = 0, resent = 0, request = 0;

    while (now_ns() < end) {
        struct message message = { .type = htons(REQUEST), .request = htonl(++request) }, answers[REPLICAS + 1], answer;
        unsigned from = 0;
        uint64_t begun = now_ns();

        send_to(socket, &message, &to);
        while (!is_answered(answers, from, ordered) && !stopped) {
            if (ready(events, 5) < 0) {
                resent++;
                send_to(socket, &message, &to);
            } else if (receive(socket, &answer, NULL) && answer.request == message.request && ntohs(answer.replica) <= REPLICAS) {
                answers[ntohs(answer.replica)] = answer;
                from |= 1u << ntohs(answer.replica);
            }
        }
        if (begun >= start && done < MOST)
            sum += took[done++] = now_ns() - begun;
    }
    if (done == 0)
        return 1;
    qsort(took, done, sizeof *took, by_time);
    printf("%.0f requests/s, mean %.2f us, median %.2f us, 99 %% %.2f us, %u sent again\n", done / seconds, sum / 1e3 / done,
           took[done / 2] / 1e3, took[done * 99ull / 100] / 1e3, resent);
    return 0;
}

int main(int count, char **words)
{
    const char *role = count > 1 ? words[1] : "", *protocol = count > 3 ? words[2] : "";
    int ordered = strcmp(protocol, "nopaxos") == 0;

    stop_on_sigterm();
    if (count == 2 && strcmp(role, "sequencer") == 0)
        return sequence();
    if (ordered || strcmp(protocol, "paxos") == 0) {
        if (strcmp(role, "client") == 0)
            return be_client(ordered, atof(words[3]));
        if (strcmp(role, "replica") == 0)
            return ordered ? be_nopaxos_replica(atoi(words[3])) : be_paxos_replica(atoi(words[3]));
    }
    fprintf(stderr, "usage: nopaxos sequencer | nopaxos replica|client nopaxos|paxos ID|SECONDS\n");
    return 2;
}
