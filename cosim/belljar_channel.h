/* Simulators of one's own beside Belljar, or beside any other that speaks SimBricks' channel protocol (version 1).
 *
 * One header without dependencies, for C and C++ (GCC and Clang) on Linux on x86-64: copy it next to your simulator. The least one that does
 * something, a wire between two channels:
 *
 *     #include "belljar_channel.h"
 *
 *     static void pass(struct bjc_channel *from, const uint8_t *frame, size_t length) {
 *         bjc_send(from->user, frame, length);
 *     }
 *     int main(int argc, char **argv) {
 *         struct bjc_sim *sim = bjc_new();
 *         struct bjc_channel *left = bjc_open(sim, argv[1], pass);   // "listen:left.sock:left.shm:sync=true:latency=500" (ns)
 *         struct bjc_channel *right = bjc_open(sim, argv[2], pass);  // or "connect:..."
 *         if (left && right) { left->user = right; right->user = left; }
 *         if (bjc_run(sim, BJC_NEVER)) fprintf(stderr, "%s\n", bjc_error(sim));
 *     }
 *
 * All times are in picoseconds of simulated time. What a channel sends arrives at the other end after its latency. Frames
 * are Ethernet frames without their check sequence. Frames of the same time arrive in the order of the channels, then of
 * sending; timers (bjc_at) come after them, in the order in which they were set. So a simulator that draws what is
 * random from a seed does the same in every run.
 *
 * Functions that can fail give NULL or -1; bjc_error says why, and bjc_run fails with it too. */
#ifndef BELLJAR_CHANNEL_H
#define BELLJAR_CHANNEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Later than everything. */
#define BJC_NEVER UINT64_MAX
#define BJC_NS UINT64_C(1000)
#define BJC_US UINT64_C(1000000)
#define BJC_MS UINT64_C(1000000000)
#define BJC_S UINT64_C(1000000000000)

struct bjc_sim;
struct bjc_channel;
typedef void (*bjc_frame_fn)(struct bjc_channel *channel, const uint8_t *frame, size_t length);
typedef void (*bjc_timer_fn)(struct bjc_sim *sim, void *argument);

struct bjc_queue {
    uint8_t *slots;
    uint64_t offset, size, count, next;
};

struct bjc_waiting {
    struct bjc_waiting *next;
    uint64_t at;
    size_t length;
    uint8_t frame[1];
};

/* One end of a channel. `user` is the simulator's own; the counts are to be read. */
struct bjc_channel {
    void *user;
    uint64_t received, sent, late;
    int synchronised, ended;

    struct bjc_sim *sim;
    struct bjc_channel *next;
    unsigned number;
    bjc_frame_fn on_frame;
    int listens, wants_sync, ready, listener, socket, memory;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    uint64_t latency, interval, horizon, last_sent;
    int has_sent;
    struct bjc_queue in, out;
    struct bjc_waiting *waiting, **last_waiting;
};

struct bjc_event {
    uint64_t at, order;
    unsigned rank, number;
    struct bjc_channel *channel;
    bjc_timer_fn timer;
    void *argument;
    size_t length;
};

struct bjc_sim {
    uint64_t now;
    struct bjc_channel *channels;
    unsigned channel_count;
    struct bjc_event *events;
    size_t count, room;
    uint64_t order;
    int stopped;
    char error[300];
};

static inline int bjc_fail(struct bjc_sim *sim, const char *format, ...) {
    va_list arguments;
    if (!sim->error[0]) {
        va_start(arguments, format);
        vsnprintf(sim->error, sizeof sim->error, format, arguments);
        va_end(arguments);
    }
    return -1;
}

/* What went wrong first; empty if nothing has. */
static inline const char *bjc_error(const struct bjc_sim *sim) {
    return sim->error;
}

static inline void *bjc_memory(size_t size) {
    void *memory = calloc(1, size);
    if (!memory) {
        fputs("belljar_channel: out of memory\n", stderr);
        abort();
    }
    return memory;
}

static inline struct bjc_sim *bjc_new(void) {
    return (struct bjc_sim *)bjc_memory(sizeof(struct bjc_sim));
}

/* The time of what happens now. */
static inline uint64_t bjc_now(const struct bjc_sim *sim) {
    return sim->now;
}

/* Makes bjc_run return. */
static inline void bjc_stop(struct bjc_sim *sim) {
    sim->stopped = 1;
}

/* ---- events: frames before timers, then in the order of channels and of sending ---- */

static inline int bjc_before(const struct bjc_event *a, const struct bjc_event *b) {
    if (a->at != b->at)
        return a->at < b->at;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->number != b->number)
        return a->number < b->number;
    return a->order < b->order;
}

static inline void bjc_push(struct bjc_sim *sim, struct bjc_event event) {
    if (sim->count == sim->room) {
        sim->room = sim->room ? 2 * sim->room : 64;
        struct bjc_event *events = (struct bjc_event *)realloc(sim->events, sim->room * sizeof *events);
        if (!events) {
            fputs("belljar_channel: out of memory\n", stderr);
            abort();
        }
        sim->events = events;
    }
    event.order = sim->order++;
    size_t at = sim->count++;
    for (; at > 0 && bjc_before(&event, &sim->events[(at - 1) / 2]); at = (at - 1) / 2)
        sim->events[at] = sim->events[(at - 1) / 2];
    sim->events[at] = event;
}

static inline struct bjc_event bjc_pop(struct bjc_sim *sim) {
    struct bjc_event first = sim->events[0], last = sim->events[--sim->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < sim->count) {
        if (child + 1 < sim->count && bjc_before(&sim->events[child + 1], &sim->events[child]))
            child++;
        if (!bjc_before(&sim->events[child], &last))
            break;
        sim->events[at] = sim->events[child];
        at = child;
    }
    if (sim->count)
        sim->events[at] = last;
    return first;
}

/* Calls the function at a time, now at the earliest. */
static inline void bjc_at(struct bjc_sim *sim, uint64_t when, bjc_timer_fn timer, void *argument) {
    struct bjc_event event;
    memset(&event, 0, sizeof event);
    event.at = when > sim->now ? when : sim->now;
    event.rank = 1;
    event.timer = timer;
    event.argument = argument;
    bjc_push(sim, event);
}

/* ---- set-up ---- */

static inline int bjc_listen(struct bjc_channel *c, uint64_t slot_size, uint64_t slots) {
    uint64_t size = slot_size * slots;
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, c->path, sizeof c->path);
    c->memory = memfd_create("channel", MFD_CLOEXEC);
    if (c->memory < 0 || ftruncate(c->memory, (off_t)(2 * size)))
        return bjc_fail(c->sim, "shared memory: %s", strerror(errno));
    c->in.size = c->out.size = slot_size;
    c->in.count = c->out.count = slots;
    c->out.offset = size;
    c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->listener < 0 || bind(c->listener, (struct sockaddr *)&address, sizeof address) || listen(c->listener, 1)) {
        if (c->listener >= 0)
            close(c->listener);
        c->listener = -1;
        return bjc_fail(c->sim, "%s: %s", c->path, strerror(errno));
    }
    return 0;
}

/* Opens a channel by its adapter URL; a listener's slots take frames of up to slot_size - 64 bytes. */
static inline struct bjc_channel *bjc_open_sized(struct bjc_sim *sim, const char *url, bjc_frame_fn on_frame, uint64_t slot_size,
                                                 uint64_t slots) {
    struct bjc_channel *c = (struct bjc_channel *)bjc_memory(sizeof *c), **end = &sim->channels;
    uint64_t latency = 500, interval = BJC_NEVER;
    const char *at = url ? url : "";
    size_t length;
    c->sim = sim;
    c->on_frame = on_frame;
    c->listener = c->socket = c->memory = -1;
    c->last_waiting = &c->waiting;
    c->listens = !strncmp(at, "listen:", 7);
    if (!c->listens && strncmp(at, "connect:", 8)) {
        bjc_fail(sim, "adapter URL `%s`: begin with connect: or listen:", at);
        goto failed;
    }
    at += c->listens ? 7 : 8;
    length = strcspn(at, ":");
    if (!length || length >= sizeof c->path) {
        bjc_fail(sim, "adapter URL `%s`: the path of the socket has 1 to %zu characters", url, sizeof c->path - 1);
        goto failed;
    }
    memcpy(c->path, at, length);
    at += length;
    if (c->listens) {
        length = *at ? strcspn(at + 1, ":") : 0;
        at += length ? 1 + length : 0;
    }
    if ((c->listens && !length) || (strncmp(at, ":sync=true", 10) && strncmp(at, ":sync=false", 11))) {
        bjc_fail(sim, "adapter URL `%s`: sync=true or sync=false comes after the path%s", url, c->listens ? "s of socket and memory" : "");
        goto failed;
    }
    c->wants_sync = at[6] == 't';
    at += c->wants_sync ? 10 : 11;
    while (*at) {
        char *rest = NULL;
        uint64_t *value = !strncmp(at, ":latency=", 9) ? &latency : !strncmp(at, ":sync_interval=", 15) ? &interval : NULL;
        if (value)
            *value = strtoull(strchr(at, '=') + 1, &rest, 10);
        if (!value || rest == strchr(at, '=') + 1 || (*rest && *rest != ':')) {
            bjc_fail(sim, "adapter URL `%s`: `%s` is neither latency=NS nor sync_interval=NS", url, at + 1);
            goto failed;
        }
        at = rest;
    }
    if (interval == BJC_NEVER)
        interval = latency;
    if (!latency || interval > latency) {
        bjc_fail(sim, "adapter URL `%s`: the latency is not 0, and the sync interval at most the latency", url);
        goto failed;
    }
    c->latency = latency * BJC_NS;
    c->interval = interval * BJC_NS;
    if (c->listens && bjc_listen(c, slot_size, slots))
        goto failed;
    while (*end)
        end = &(*end)->next;
    *end = c;
    c->number = sim->channel_count++;
    return c;
failed:
    free(c);
    return NULL;
}

static inline struct bjc_channel *bjc_open(struct bjc_sim *sim, const char *url, bjc_frame_fn on_frame) {
    return bjc_open_sized(sim, url, on_frame, 1600, 8192);
}

static inline int bjc_send_intro(struct bjc_channel *c) {
    uint64_t words[10] = {1, (uint64_t)c->wants_sync};
    uint32_t upper = 0;
    size_t count = 2;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    if (c->listens) {
        uint64_t queues[6] = {c->out.offset, c->out.size, c->out.count, c->in.offset, c->in.size, c->in.count};
        memcpy(words + 2, queues, sizeof queues);
        count = 8;
    }
    words[count] = 1;
    words[count + 1] = 8 * (count + 2);
    struct iovec parts[2] = {{words, 8 * (count + 2)}, {&upper, sizeof upper}};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    if (c->listens) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &c->memory, sizeof(int));
    }
    if (sendmsg(c->socket, &message, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        return bjc_fail(c->sim, "%s: sending the intro: %s", c->path, strerror(errno));
    return 0;
}

static inline int bjc_map(struct bjc_channel *c) {
    struct stat file;
    struct bjc_queue *queues[2] = {&c->in, &c->out};
    if (c->memory < 0)
        return bjc_fail(c->sim, "%s: the peer's intro came without its shared memory", c->path);
    if (fstat(c->memory, &file))
        return bjc_fail(c->sim, "%s: its shared memory: %s", c->path, strerror(errno));
    uint64_t length = (uint64_t)file.st_size;
    for (int n = 0; n < 2; n++) {
        struct bjc_queue *queue = queues[n];
        if (queue->size < 64 || queue->size > 1 << 17 || !queue->count || queue->offset > length ||
            queue->count > (length - queue->offset) / queue->size)
            return bjc_fail(c->sim, "%s: the peer's queues do not lie within its shared memory", c->path);
    }
    uint8_t *memory = (uint8_t *)mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory, 0);
    if ((void *)memory == MAP_FAILED)
        return bjc_fail(c->sim, "%s: its shared memory: %s", c->path, strerror(errno));
    close(c->memory);
    c->memory = -1;
    c->in.slots = memory + c->in.offset;
    c->out.slots = memory + c->out.offset;
    c->horizon = c->synchronised ? 0 : BJC_NEVER;
    c->ready = 1;
    return 1;
}

static inline int bjc_receive_intro(struct bjc_channel *c) {
    uint64_t words[256] = {0};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {words, sizeof words};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    ssize_t length = recvmsg(c->socket, &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (length <= 0)
        return bjc_fail(c->sim, "%s: the peer closed the connection instead of sending its intro", c->path);
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h && !c->listens; h = CMSG_NXTHDR(&message, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len >= CMSG_LEN(sizeof(int)))
            memcpy(&c->memory, CMSG_DATA(h), sizeof(int));
    uint64_t layer = words[c->listens ? 2 : 8];
    if ((size_t)length < (c->listens ? 32 : 80))
        return bjc_fail(c->sim, "%s: the peer's intro has %zd bytes only", c->path, length);
    if (words[0] != 1)
        return bjc_fail(c->sim, "%s: the peer speaks version %llu of the channel protocol, not 1", c->path, (unsigned long long)words[0]);
    if (layer != 1)
        return bjc_fail(c->sim, "%s: the peer speaks protocol %llu where Ethernet (1) is expected", c->path, (unsigned long long)layer);
    if ((words[1] & 2) && !c->wants_sync)
        return bjc_fail(c->sim, "%s: the peer requires synchronisation: set sync=true", c->path);
    c->synchronised = c->wants_sync && (words[1] & 3);
    if (!c->listens) {
        memcpy(&c->in.offset, words + 2, 3 * sizeof(uint64_t));
        memcpy(&c->out.offset, words + 5, 3 * sizeof(uint64_t));
    }
    return bjc_map(c);
}

/* Goes as far with the set-up as the peer allows: 1 once the channel is there, 0 if not yet, -1 if it will never be. */
static inline int bjc_establish(struct bjc_channel *c) {
    if (c->ready)
        return 1;
    if (c->socket < 0 && c->listens) {
        c->socket = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (c->socket < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : bjc_fail(c->sim, "%s: %s", c->path, strerror(errno));
        close(c->listener);
        c->listener = -1;
        unlink(c->path);
        if (bjc_send_intro(c))
            return -1;
    } else if (c->socket < 0) {
        struct sockaddr_un address;
        memset(&address, 0, sizeof address);
        address.sun_family = AF_UNIX;
        memcpy(address.sun_path, c->path, sizeof c->path);
        c->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->socket < 0)
            return bjc_fail(c->sim, "socket: %s", strerror(errno));
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address)) {
            int reason = errno;
            close(c->socket);
            c->socket = -1;
            return reason == ENOENT || reason == ECONNREFUSED || reason == EAGAIN ? 0
                                                                                  : bjc_fail(c->sim, "%s: %s", c->path, strerror(reason));
        }
        if (bjc_send_intro(c))
            return -1;
    }
    return bjc_receive_intro(c);
}

/* ---- messages ---- */

static inline uint8_t *bjc_slot(struct bjc_queue *queue) {
    return queue->slots + queue->next * queue->size;
}

static inline uint8_t bjc_owner(struct bjc_queue *queue) {
    return __atomic_load_n(bjc_slot(queue) + 63, __ATOMIC_ACQUIRE);
}

static inline void bjc_give(struct bjc_queue *queue, uint8_t owner) {
    __atomic_store_n(bjc_slot(queue) + 63, owner, __ATOMIC_RELEASE);
    queue->next = (queue->next + 1) % queue->count;
}

static inline void bjc_end(struct bjc_channel *c) {
    c->ended = 1;
    c->synchronised = 0;
    c->horizon = BJC_NEVER;
    while (c->waiting) {
        struct bjc_waiting *first = c->waiting;
        c->waiting = first->next;
        free(first);
    }
    c->last_waiting = &c->waiting;
}

/* The next frame that arrives at `now` or before: 1 with its time and a copy to be freed, 0 if there is none yet, -1 if the
 * peer has broken the protocol. Without synchronisation it arrives now. */
static inline int bjc_poll(struct bjc_channel *c, uint64_t now, uint64_t *at, uint8_t **frame, size_t *length) {
    for (uint64_t n = 0; n < c->in.count && !c->ended; n++) {
        uint8_t owner = bjc_owner(&c->in), kind = owner & 0x7f, *slot = bjc_slot(&c->in);
        uint64_t stamp;
        uint16_t size;
        int late = 0;
        if (!(owner & 0x80))
            return 0;
        if (kind == 0x01) {
            bjc_give(&c->in, kind);
            bjc_end(c);
            return 0;
        }
        if (c->synchronised) {
            memcpy(&stamp, slot + 48, sizeof stamp);
            late = stamp < c->horizon;
            if (!late)
                c->horizon = stamp;
            if (c->horizon > now)
                return 0;
        }
        if (kind == 0x00) {
            bjc_give(&c->in, kind);
            continue;
        }
        if (kind != 0x40)
            return bjc_fail(c->sim, "%s: the peer sent a message of type %#x, which is not of the network layer", c->path, kind);
        memcpy(&size, slot, sizeof size);
        if (size > c->in.size - 64)
            return bjc_fail(c->sim, "%s: the peer sent a frame of %u bytes in a slot of %llu", c->path, size, (unsigned long long)c->in.size);
        *frame = (uint8_t *)bjc_memory(size ? size : 1);
        memcpy(*frame, slot + 64, size);
        *length = size;
        *at = c->synchronised ? c->horizon : now;
        c->late += late;
        c->received++;
        bjc_give(&c->in, kind);
        return 1;
    }
    return 0;
}

static inline int bjc_put(struct bjc_channel *c, uint64_t at, uint8_t kind, const uint8_t *frame, size_t length) {
    uint8_t *slot = bjc_slot(&c->out);
    uint16_t size = (uint16_t)length;
    if (bjc_owner(&c->out) & 0x80)
        return 0;
    if (c->has_sent && at < c->last_sent)
        at = c->last_sent;
    uint64_t stamp = at > BJC_NEVER - c->latency ? BJC_NEVER : at + c->latency;
    if (length)
        memcpy(slot + 64, frame, length);
    memcpy(slot, &size, sizeof size);
    slot[2] = 0;
    memcpy(slot + 48, &stamp, sizeof stamp);
    bjc_give(&c->out, kind | 0x80);
    c->last_sent = at;
    c->has_sent = 1;
    return 1;
}

/* Sends what has been waiting for room. 1 if nothing is waiting any more. */
static inline int bjc_flush(struct bjc_channel *c) {
    while (c->waiting && bjc_put(c, c->waiting->at, 0x40, c->waiting->frame, c->waiting->length)) {
        struct bjc_waiting *first = c->waiting;
        c->waiting = first->next;
        if (!c->waiting)
            c->last_waiting = &c->waiting;
        free(first);
    }
    return !c->waiting;
}

/* Sends a frame now. What the queue has no room for waits until it has. */
static inline int bjc_send(struct bjc_channel *c, const void *frame, size_t length) {
    if (!c->ready)
        return bjc_fail(c->sim, "%s: frames can be sent once the simulator runs: use bjc_at", c->path);
    if (length > c->out.size - 64 || length > UINT16_MAX)
        return bjc_fail(c->sim, "%s: a frame of %zu bytes does not fit into the peer's slots, which hold %llu", c->path, length,
                        (unsigned long long)(c->out.size - 64));
    if (c->ended)
        return 0;
    c->sent++;
    if (bjc_flush(c) && bjc_put(c, c->sim->now, 0x40, (const uint8_t *)frame, length))
        return 0;
    struct bjc_waiting *waiting = (struct bjc_waiting *)bjc_memory(sizeof *waiting + length);
    waiting->at = c->sim->now;
    waiting->length = length;
    memcpy(waiting->frame, frame, length);
    *c->last_waiting = waiting;
    c->last_waiting = &waiting->next;
    return 0;
}

/* Promises that nothing is sent before `now` any more, if the peer has to be told. */
static inline void bjc_sync(struct bjc_channel *c, uint64_t now) {
    if (bjc_flush(c) && c->synchronised && (!c->has_sent || now - c->last_sent >= c->interval))
        bjc_put(c, now, 0x00, NULL, 0);
}

/* Looks whether the peer is still there. One that has gone ends the channel, once all is read. */
static inline int bjc_alive(struct bjc_channel *c) {
    struct pollfd watch = {c->socket, POLLRDHUP, 0};
    if (!c->ended && poll(&watch, 1, 0) > 0 && !(bjc_owner(&c->in) & 0x80))
        bjc_end(c);
    return !c->ended;
}

/* ---- the loop ---- */

static inline uint64_t bjc_real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * BJC_S + (uint64_t)now.tv_nsec * BJC_NS;
}

static inline int bjc_establish_all(struct bjc_sim *sim, double patience) {
    uint64_t until = bjc_real_time() + (uint64_t)(patience * 1e12);
    for (;;) {
        struct bjc_channel *missing = NULL;
        for (struct bjc_channel *c = sim->channels; c; c = c->next) {
            int there = bjc_establish(c);
            if (there < 0)
                return -1;
            if (!there && !missing)
                missing = c;
        }
        if (!missing)
            return 0;
        if (bjc_real_time() > until)
            return bjc_fail(sim, "%s: no peer came within %g s", missing->path, patience);
        usleep(1000);
    }
}

/* Takes what has come: -1 if it cannot be, 1 if there was something. */
static inline int bjc_receive(struct bjc_sim *sim, uint64_t real) {
    int progress = 0;
    for (struct bjc_channel *c = sim->channels; c; c = c->next) {
        struct bjc_event event;
        uint8_t *frame = NULL;
        memset(&event, 0, sizeof event);
        event.channel = c;
        event.number = c->number;
        for (uint64_t n = 0; n < c->in.count; n++) {
            int got = bjc_poll(c, c->synchronised ? BJC_NEVER : real, &event.at, &frame, &event.length);
            if (got < 0)
                return -1;
            if (!got)
                break;
            event.argument = frame;
            bjc_push(sim, event);
            progress = 1;
        }
        if (sim->count > 1000000)
            return bjc_fail(sim, "%s: a million frames wait for the clocks of the other peers", c->path);
    }
    return progress;
}

static inline void bjc_happen(struct bjc_sim *sim) {
    struct bjc_event event = bjc_pop(sim);
    sim->now = event.at;
    if (event.timer)
        return event.timer(sim, event.argument);
    if (event.channel->on_frame)
        event.channel->on_frame(event.channel, (uint8_t *)event.argument, event.length);
    free(event.argument);
}

/* Runs everything before `until`, or until all peers have gone, and closes the channels. */
static inline int bjc_run(struct bjc_sim *sim, uint64_t until) {
    uint64_t start, idle = 0;
    int result = sim->error[0] || bjc_establish_all(sim, 30) ? -1 : 0;
    for (start = bjc_real_time(); !result && !sim->stopped;) {
        int synchronised = 0, open = 0, progress;
        for (struct bjc_channel *c = sim->channels; c; c = c->next) {
            synchronised |= c->synchronised;
            open |= !c->ended;
        }
        if (sim->channels ? !open : !sim->count)
            break;
        /* Without synchronisation, a picosecond is a picosecond. */
        uint64_t real = synchronised ? sim->now : bjc_real_time() - start, limit = until;
        progress = bjc_receive(sim, real);
        if (progress < 0)
            result = -1;
        for (struct bjc_channel *c = sim->channels; c; c = c->next)
            if (c->synchronised && c->horizon < limit)
                limit = c->horizon;
        if (!synchronised && sim->channels && real < limit)
            limit = real;
        while (!result && !sim->stopped && sim->count && sim->events[0].at < limit) {
            bjc_happen(sim);
            progress = 1;
            if (sim->error[0])
                result = -1;
        }
        if (sim->stopped || result)
            break;
        if (limit > sim->now) {
            sim->now = limit;
            progress |= synchronised;
        }
        for (struct bjc_channel *c = sim->channels; c; c = c->next)
            bjc_sync(c, sim->now);
        if (sim->now >= until)
            break;
        idle = progress ? 0 : idle + 1;
        if (idle > 200)
            sched_yield();
        if (idle > 2000)
            usleep(100);
        if (idle > 200 && idle % 200 == 1)
            for (struct bjc_channel *c = sim->channels; c; c = c->next)
                bjc_alive(c);
    }
    for (struct bjc_channel *c = sim->channels; c; c = c->next) {
        if (c->listener >= 0) {
            close(c->listener);
            unlink(c->path);
        }
        if (c->socket >= 0)
            close(c->socket);
        c->listener = c->socket = -1;
    }
    return result;
}

#endif
