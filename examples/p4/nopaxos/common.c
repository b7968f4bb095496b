// Sockets and the replicated log.
#include "replica.h"

volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

void stop_on_sigterm(void)
{
    struct sigaction action = { .sa_handler = stop };

    sigaction(SIGTERM, &action, NULL);
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

struct sockaddr_in address(const char *ip, int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr(ip) };
}

struct sockaddr_in replica_address(int replica)
{
    char ip[32];

    snprintf(ip, sizeof ip, "10.0.0.%d", replica);
    return address(ip, REPLICA_PORT);
}

static int bound(const char *ip, int port)
{
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = address(ip, port);
    struct ip_mreqn eth0 = { .imr_ifindex = 2 };

    if (made < 0 || bind(made, (struct sockaddr *)&own, sizeof own) != 0 ||
        setsockopt(made, IPPROTO_IP, IP_MULTICAST_IF, &eth0, sizeof eth0) != 0) {
        perror("socket");
        exit(1);
    }
    return made;
}

int ordinary_socket(int port)
{
    return bound("0.0.0.0", port);
}

int multicast_socket(int port)
{
    int made = bound(GROUP, port), no = 0;
    struct ip_mreqn group = { .imr_multiaddr.s_addr = inet_addr(GROUP), .imr_ifindex = 2 };

    if (setsockopt(made, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0 ||
        setsockopt(made, IPPROTO_IP, IP_MULTICAST_LOOP, &no, sizeof no) != 0) {
        perror(GROUP);
        exit(1);
    }
    return made;
}

int watch(int socket)
{
    int events = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = socket };

    epoll_ctl(events, EPOLL_CTL_ADD, socket, &event);
    return events;
}

int ready(int events, int milliseconds)
{
    struct epoll_event event;

    return epoll_wait(events, &event, 1, milliseconds) == 1 ? event.data.fd : -1;
}

int receive(int socket, struct message *message, struct sockaddr_in *from)
{
    socklen_t size = sizeof *from;

    return recvfrom(socket, message, sizeof *message, 0, (struct sockaddr *)from, from ? &size : NULL) == sizeof *message;
}

void send_to(int socket, const struct message *message, const struct sockaddr_in *to)
{
    if (sendto(socket, message, sizeof *message, 0, (const struct sockaddr *)to, sizeof *to) < 0)
        perror("sendto");
}

struct entry *log_slot(struct log *log, uint32_t slot)
{
    if (slot >= log->room) {
        uint32_t room = 2 * slot + 1024;

        log->entries = realloc(log->entries, room * sizeof *log->entries);
        if (!log->entries)
            exit(1);
        memset(log->entries + log->room, 0, (room - log->room) * sizeof *log->entries);
        log->room = room;
    }
    return &log->entries[slot];
}

void log_digest(struct log *log, uint32_t from)
{
    for (uint32_t slot = from; slot < log->end; slot++) {
        struct entry *entry = &log->entries[slot];

        // FNV-1a, over words.
        entry->digest = slot == 1 ? 0xcbf29ce484222325 : log->entries[slot - 1].digest;
        entry->digest = (entry->digest ^ entry->client) * 0x100000001b3;
        entry->digest = (entry->digest ^ entry->request) * 0x100000001b3;
    }
}

void log_report(const struct log *log)
{
    uint32_t holes = 0;

    for (uint32_t slot = 1; slot < log->end; slot++)
        holes += log->entries[slot].client == 0;
    printf("%u in the log, %u of them no-ops\n", log->end - 1, holes);
    // By these logs can be compared, one of which may be shorter.
    for (uint32_t slot = 250; slot < log->end; slot += 250)
        printf("digest at %u: %016llx\n", slot, (unsigned long long)log->entries[slot].digest);
}
