/* Requests and answers, which belljar_pcie.h and belljar_memory.h have in common. */
#ifndef BELLJAR_REQUESTS_H
#define BELLJAR_REQUESTS_H

#include "belljar_channel_base.h"

static inline uint64_t bjc_field(const uint8_t *header, int at, int size) {
    uint64_t value = 0;
    memcpy(&value, header + at, (size_t)size);
    return value;
}

static inline void bjc_put_field(uint8_t *header, int at, int size, uint64_t value) {
    memcpy(header + at, &value, (size_t)size);
}

/* Reads that have no answer yet: an answer does not say how long it is. */
struct bjc_reads {
    struct {
        uint64_t id;
        size_t length;
    } *read;
    size_t count, room;
};

static inline void bjc_reads_add(struct bjc_reads *reads, uint64_t id, size_t length) {
    if (reads->count == reads->room) {
        reads->room = reads->room ? 2 * reads->room : 16;
        void *more = realloc((void *)reads->read, reads->room * sizeof *reads->read);
        if (!more)
            abort();
        memcpy(&reads->read, &more, sizeof more);
    }
    reads->read[reads->count].id = id;
    reads->read[reads->count++].length = length;
}

/* The length of the answer to a read, which is forgotten; -1 after bjc_fail if there is no such read. */
static inline int64_t bjc_reads_length(struct bjc_channel *c, struct bjc_reads *reads, uint64_t id) {
    for (size_t n = 0; n < reads->count; n++)
        if (reads->read[n].id == id) {
            size_t length = reads->read[n].length;
            reads->read[n] = reads->read[--reads->count];
            return (int64_t)length;
        }
    bjc_fail(c->sim, "%s: the peer answers request %llu, which has not been made", c->path, (unsigned long long)id);
    return -1;
}

/* Sends a request whose other fields are in the header. A read has `reads` to be found in when it is answered, and no data. */
static inline int bjc_request(struct bjc_channel *c, struct bjc_reads *reads, uint8_t kind, uint8_t *header, uint64_t id, int length_at,
                              const void *data, size_t length) {
    bjc_put_field(header, 0, 8, id);
    bjc_put_field(header, length_at, 2, length);
    if (!reads)
        return bjc_send_message(c, kind, header, data, length);
    bjc_reads_add(reads, id, length);
    return bjc_send_message(c, kind, header, NULL, 0);
}

static inline int bjc_answer(struct bjc_channel *c, uint8_t kind, uint64_t id, const void *data, size_t length) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 0, 8, id);
    return bjc_send_message(c, kind, header, data, length);
}

#endif
