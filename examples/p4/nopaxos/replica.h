// What sequencer, replicas and clients share: messages, sockets, the replicated log.
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GROUP "239.1.1.1"

enum { REPLICAS = 3, MAJORITY = 2, LEADER = 1 };
enum { UNORDERED_PORT = 9000, ORDERED_PORT = 9001, REPLICA_PORT = 9002 };
enum { REQUEST, REPLY, LOOK_UP, FOUND, GAP, GAP_OK, PREPARE, PREPARE_OK, COMMIT };

// In network order. The first two fields are what the sequencer writes.
struct message {
    uint32_t session, number;
    uint16_t type, replica;
    uint32_t request, slot;
    // Who has asked, where that is not the sender.
    uint32_t client;
    uint16_t port, unused;
    uint64_t digest;
} __attribute__((packed));

// A request of the log, or a no-op: client 0. `digest` is that of the log up to here.
struct entry {
    uint32_t client, request;
    uint16_t port;
    uint8_t is_there, acknowledged;
    uint64_t digest;
};

extern volatile sig_atomic_t stopped;

void stop_on_sigterm(void);
uint64_t now_ns(void);
struct sockaddr_in address(const char *ip, int port);
struct sockaddr_in replica_address(int replica);
int ordinary_socket(int port);
int multicast_socket(int port);
// An epoll instance for a socket.
int watch(int socket);
// A socket with a message; -1 after so many milliseconds, or when the program is to stop.
int ready(int events, int milliseconds);
// False when the program is to stop.
int receive(int socket, struct message *message, struct sockaddr_in *from);
void send_to(int socket, const struct message *message, const struct sockaddr_in *to);

int be_nopaxos_replica(int id);
int be_paxos_replica(int id);

// The log of a replica, from 1; `end` is the first slot that is not in it.
struct log {
    struct entry *entries;
    uint32_t room, end;
};

struct entry *log_slot(struct log *log, uint32_t slot);
// Works out the digests from a slot on.
void log_digest(struct log *log, uint32_t from);
void log_report(const struct log *log);
