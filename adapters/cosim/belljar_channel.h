/* Simulators of one's own beside Belljar, or beside any other that speaks SimBricks' channel protocol (version 1).
 *
 * Headers without dependencies, for C and C++ (GCC and Clang) on Linux on x86-64: copy belljar_*.h next to your simulator. The least one that does
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

#include "belljar_channel_base.h"

typedef void (*bjc_frame_fn)(struct bjc_channel *channel, const uint8_t *frame, size_t length);

static inline int64_t bjc_net_body_length(struct bjc_channel *c, uint8_t kind, const uint8_t *header) {
    (void)c;
    return kind == 0x40 ? header[0] | header[1] << 8 : -1;
}

static inline void bjc_net_message(struct bjc_channel *c, struct bjc_message *message) {
    if (c->on_frame)
        c->on_frame(c, message->body, message->length);
}

/* Opens a channel by its adapter URL; a listener's slots take frames of up to slot_size - 64 bytes. */
static inline struct bjc_channel *bjc_open_sized(struct bjc_sim *sim, const char *url, bjc_frame_fn on_frame, uint64_t slot_size,
                                                 uint64_t slots) {
    static const struct bjc_layer net = {1, "Ethernet", 0, NULL, bjc_net_body_length, bjc_net_message, 1600};
    struct bjc_channel *c = bjc_open_layer(sim, url, &net, slot_size, slots);
    if (c)
        c->on_frame = on_frame;
    return c;
}

static inline struct bjc_channel *bjc_open(struct bjc_sim *sim, const char *url, bjc_frame_fn on_frame) {
    return bjc_open_sized(sim, url, on_frame, 1600, 8192);
}

/* Sends a frame now. What the queue has no room for waits until it has. */
static inline int bjc_send(struct bjc_channel *c, const void *frame, size_t length) {
    uint8_t header[48] = {(uint8_t)length, (uint8_t)(length >> 8)};
    return bjc_send_message(c, 0x40, header, frame, length);
}

#endif
