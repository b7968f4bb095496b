/* Memory on SimBricks' channel protocol: a host that keeps its memory in another simulator, and that memory. See belljar_channel.h
 * for the rest: channels, times, the loop. */
#ifndef BELLJAR_MEMORY_H
#define BELLJAR_MEMORY_H

#include "belljar_requests.h"

/* The memory's events. */
struct bjc_memory_device {
    /* Reads into `data`, which is sent back at once. */
    void (*on_read)(struct bjc_channel *host, uint64_t space, uint64_t address, void *data, size_t length);
    void (*on_write)(struct bjc_channel *host, uint64_t space, uint64_t address, const void *data, size_t length);
};

/* The host's: a read is done, or a write that was not posted, of which `length` is 0. */
struct bjc_memory_host {
    void (*on_done)(struct bjc_channel *memory, uint64_t id, const void *data, size_t length);
};

struct bjc_memory_state {
    struct bjc_reads reads;
    const struct bjc_memory_device *device;
    const struct bjc_memory_host *host;
};

static inline int64_t bjc_memory_device_length(struct bjc_channel *c, uint8_t kind, const uint8_t *header) {
    (void)c;
    return kind == 0x60 ? 0 : kind == 0x61 || kind == 0x62 ? (int64_t)bjc_field(header, 24, 2) : -1;
}

static inline void bjc_memory_device_message(struct bjc_channel *c, struct bjc_message *message) {
    const struct bjc_memory_device *device = ((struct bjc_memory_state *)c->state)->device;
    uint64_t id = bjc_field(message->header, 0, 8), space = bjc_field(message->header, 8, 8);
    uint64_t address = bjc_field(message->header, 16, 8);
    if (message->kind == 0x60) {
        size_t length = (size_t)bjc_field(message->header, 24, 2);
        uint8_t *data = (uint8_t *)bjc_memory(length + 1);
        device->on_read(c, space, address, data, length);
        bjc_answer(c, 0x40, id, data, length);
        free(data);
        return;
    }
    device->on_write(c, space, address, message->body, message->length);
    if (message->kind == 0x61)
        bjc_answer(c, 0x41, id, NULL, 0);
}

static inline int64_t bjc_memory_host_length(struct bjc_channel *c, uint8_t kind, const uint8_t *header) {
    if (kind == 0x41)
        return 0;
    return kind == 0x40 ? bjc_reads_length(c, &((struct bjc_memory_state *)c->state)->reads, bjc_field(header, 0, 8)) : -1;
}

static inline void bjc_memory_host_message(struct bjc_channel *c, struct bjc_message *message) {
    const struct bjc_memory_host *host = ((struct bjc_memory_state *)c->state)->host;
    if (host->on_done)
        host->on_done(c, bjc_field(message->header, 0, 8), message->body, message->length);
}

static inline struct bjc_channel *bjc_memory_open(struct bjc_sim *sim, const char *url, const struct bjc_layer *layer,
                                                  const struct bjc_memory_device *device, const struct bjc_memory_host *host) {
    struct bjc_channel *c = bjc_open_layer(sim, url, layer, layer->slot_size, 1024);
    if (!c)
        return NULL;
    struct bjc_memory_state *state = (struct bjc_memory_state *)bjc_memory(sizeof *state);
    state->device = device;
    state->host = host;
    c->state = state;
    return c;
}

/* The memory's end of a channel. */
static inline struct bjc_channel *bjc_memory_device(struct bjc_sim *sim, const char *url, const struct bjc_memory_device *device) {
    static const struct bjc_layer layer = {3, "memory", 0, NULL, bjc_memory_device_length, bjc_memory_device_message, 8256};
    return bjc_memory_open(sim, url, &layer, device, NULL);
}

/* The host's end of a channel. */
static inline struct bjc_channel *bjc_memory_host(struct bjc_sim *sim, const char *url, const struct bjc_memory_host *host) {
    static const struct bjc_layer layer = {3, "memory", 0, NULL, bjc_memory_host_length, bjc_memory_host_message, 8256};
    return bjc_memory_open(sim, url, &layer, NULL, host);
}

/* Reads or writes memory; on_done has the id. A write that is posted is not answered. */
static inline int bjc_memory_read(struct bjc_channel *c, uint64_t id, uint64_t space, uint64_t address, size_t length) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 8, 8, space);
    bjc_put_field(header, 16, 8, address);
    return bjc_request(c, &((struct bjc_memory_state *)c->state)->reads, 0x60, header, id, 24, NULL, length);
}

static inline int bjc_memory_write(struct bjc_channel *c, uint64_t id, uint64_t space, uint64_t address, const void *data, size_t length,
                                   int posted) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 8, 8, space);
    bjc_put_field(header, 16, 8, address);
    return bjc_request(c, NULL, posted ? 0x62 : 0x61, header, id, 24, data, length);
}

#endif
