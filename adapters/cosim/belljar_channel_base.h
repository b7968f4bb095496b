/* The base of SimBricks' channel protocol (version 1): set-up, messages with their times, and the loop of a simulator. What messages mean
 * is for the layers to say: belljar_channel.h (Ethernet), belljar_pcie.h, belljar_memory.h. Include one of these, not this file. */
#ifndef BELLJAR_CHANNEL_BASE_H
#define BELLJAR_CHANNEL_BASE_H

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
struct bjc_message;
typedef void (*bjc_message_fn)(struct bjc_channel *channel, struct bjc_message *message);
typedef void (*bjc_timer_fn)(struct bjc_sim *sim, void *argument);

/* One end of a layer. */
struct bjc_layer {
    uint64_t id;
    const char *name;
    /* Its part of the peer's intro has at least so many bytes. */
    size_t peer_intro_length;
    /* Checks that part; 0, or -1 after bjc_fail. May be NULL. */
    int (*take_intro)(struct bjc_channel *channel, const uint8_t *intro);
    /* The length of a message's body, or -1 if the layer has no such message. */
    int64_t (*body_length)(struct bjc_channel *channel, uint8_t kind, const uint8_t *header);
    bjc_message_fn on_message;
    uint64_t slot_size;
};

struct bjc_queue {
    uint8_t *slots;
    uint64_t offset, size, count, next;
};

/* A message: its type, the layer's part of its header, its body. */
struct bjc_message {
    struct bjc_message *next;
    uint64_t at;
    uint8_t kind, header[48];
    size_t length;
    uint8_t body[1];
};

/* One end of a channel. `user` is the simulator's own; the counts are to be read. */
struct bjc_channel {
    void *user;
    uint64_t received, sent, late;
    int synchronised, ended;

    struct bjc_sim *sim;
    struct bjc_channel *next;
    unsigned number;
    const struct bjc_layer *layer;
    /* What the layer keeps for this channel, and its part of our intro. */
    void *state;
    void (*on_frame)(struct bjc_channel *channel, const uint8_t *frame, size_t length);
    uint8_t intro[128];
    size_t intro_length;
    int listens, wants_sync, ready, listener, socket, memory;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    uint64_t latency, interval, horizon, last_sent;
    int has_sent;
    struct bjc_queue in, out;
    struct bjc_message *waiting, **last_waiting;
};

struct bjc_event {
    uint64_t at, order;
    unsigned rank, number;
    struct bjc_channel *channel;
    bjc_timer_fn timer;
    void *argument;
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

/* ---- events: messages before timers, then in the order of channels and of sending ---- */

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

#include "belljar_channel_setup.h"

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
        struct bjc_message *first = c->waiting;
        c->waiting = first->next;
        free(first);
    }
    c->last_waiting = &c->waiting;
}

static inline struct bjc_message *bjc_message(uint8_t kind, const uint8_t *header, const void *body, size_t length) {
    struct bjc_message *message = (struct bjc_message *)bjc_memory(sizeof *message + length);
    message->kind = kind;
    memcpy(message->header, header, sizeof message->header);
    message->length = length;
    if (length)
        memcpy(message->body, body, length);
    return message;
}

/* The next message that arrives at `now` or before: 1 with a copy to be freed, 0 if there is none yet, -1 if the
 * peer has broken the protocol. Without synchronisation it arrives now. */
static inline int bjc_poll(struct bjc_channel *c, uint64_t now, struct bjc_message **message) {
    for (uint64_t n = 0; n < c->in.count && !c->ended; n++) {
        uint8_t owner = bjc_owner(&c->in), kind = owner & 0x7f, *slot = bjc_slot(&c->in);
        uint64_t stamp;
        int64_t size;
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
        size = kind < 0x40 ? -1 : c->layer->body_length(c, kind, slot);
        if (size < 0)
            return bjc_fail(c->sim, "%s: the peer sent a message of type %#x, which is not of the %s layer", c->path, kind, c->layer->name);
        if ((uint64_t)size > c->in.size - 64)
            return bjc_fail(c->sim, "%s: the peer sent a message of %lld bytes in a slot of %llu", c->path, (long long)size,
                            (unsigned long long)c->in.size);
        *message = bjc_message(kind, slot, slot + 64, (size_t)size);
        (*message)->at = c->synchronised ? c->horizon : now;
        c->late += late;
        c->received++;
        bjc_give(&c->in, kind);
        return 1;
    }
    return 0;
}

static inline int bjc_put(struct bjc_channel *c, uint64_t at, uint8_t kind, const uint8_t *header, const uint8_t *body, size_t length) {
    uint8_t *slot = bjc_slot(&c->out);
    if (bjc_owner(&c->out) & 0x80)
        return 0;
    if (c->has_sent && at < c->last_sent)
        at = c->last_sent;
    uint64_t stamp = at > BJC_NEVER - c->latency ? BJC_NEVER : at + c->latency;
    if (length)
        memcpy(slot + 64, body, length);
    if (header)
        memcpy(slot, header, 48);
    memcpy(slot + 48, &stamp, sizeof stamp);
    bjc_give(&c->out, kind | 0x80);
    c->last_sent = at;
    c->has_sent = 1;
    return 1;
}

/* Sends what has been waiting for room. 1 if nothing is waiting any more. */
static inline int bjc_flush(struct bjc_channel *c) {
    while (c->waiting && bjc_put(c, c->waiting->at, c->waiting->kind, c->waiting->header, c->waiting->body, c->waiting->length)) {
        struct bjc_message *first = c->waiting;
        c->waiting = first->next;
        if (!c->waiting)
            c->last_waiting = &c->waiting;
        free(first);
    }
    return !c->waiting;
}

/* Sends a message of the channel's layer now. What the queue has no room for waits until it has. */
static inline int bjc_send_message(struct bjc_channel *c, uint8_t kind, const uint8_t header[48], const void *body, size_t length) {
    if (!c->ready)
        return bjc_fail(c->sim, "%s: messages can be sent once the simulator runs: use bjc_at", c->path);
    if (length > c->out.size - 64 || length > UINT16_MAX)
        return bjc_fail(c->sim, "%s: a message of %zu bytes does not fit into the peer's slots, which hold %llu", c->path, length,
                        (unsigned long long)(c->out.size - 64));
    if (c->ended)
        return 0;
    c->sent++;
    if (bjc_flush(c) && bjc_put(c, c->sim->now, kind, header, (const uint8_t *)body, length))
        return 0;
    struct bjc_message *waiting = bjc_message(kind, header, body, length);
    waiting->at = c->sim->now;
    *c->last_waiting = waiting;
    c->last_waiting = &waiting->next;
    return 0;
}

/* Promises that nothing is sent before `now` any more, if the peer has to be told. */
static inline void bjc_sync(struct bjc_channel *c, uint64_t now) {
    if (bjc_flush(c) && c->synchronised && (!c->has_sent || now - c->last_sent >= c->interval))
        bjc_put(c, now, 0x00, NULL, NULL, 0);
}

/* The last promise, due or not: a peer then knows exactly when this end has ended. */
static inline void bjc_finish(struct bjc_channel *c, uint64_t now) {
    if (c->synchronised && bjc_flush(c) && (!c->has_sent || c->last_sent < now))
        bjc_put(c, now, 0x00, NULL, NULL, 0);
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
        struct bjc_message *message = NULL;
        memset(&event, 0, sizeof event);
        event.channel = c;
        event.number = c->number;
        for (uint64_t n = 0; n < c->in.count; n++) {
            int got = bjc_poll(c, c->synchronised ? BJC_NEVER : real, &message);
            if (got < 0)
                return -1;
            if (!got)
                break;
            event.argument = message;
            event.at = message->at;
            bjc_push(sim, event);
            progress = 1;
        }
        if (sim->count > 1000000)
            return bjc_fail(sim, "%s: a million messages wait for the clocks of the other peers", c->path);
    }
    return progress;
}

static inline void bjc_happen(struct bjc_sim *sim) {
    struct bjc_event event = bjc_pop(sim);
    sim->now = event.at;
    if (event.timer)
        return event.timer(sim, event.argument);
    event.channel->layer->on_message(event.channel, (struct bjc_message *)event.argument);
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
        if (!result)
            bjc_finish(c, sim->now);
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
