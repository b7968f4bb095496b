/* Delays the frames that pass between two channels, by a constant and by a part that is drawn from a seed.
 *
 *     delay LEFT RIGHT [--delay US] [--jitter US] [--seed N]
 *
 * LEFT and RIGHT are adapter URLs, such as connect:a.sock:sync=true:latency=500 (nanoseconds). Frames of a direction stay
 * in their order. Build it with: cc -O2 -o delay delay.c */
#include "belljar_channel.h"

static struct {
    uint64_t delay, jitter, random, passed;
} settings;

/* One direction: where its frames go, and when the last of them leaves. */
struct direction {
    struct bjc_channel *to;
    uint64_t last;
};

/* A frame that waits. The library's own copy ends with the callback, so this has the bytes. */
struct frame {
    struct direction *direction;
    size_t length;
    uint8_t bytes[];
};

static uint64_t draw(void) { /* xorshift64*, Vigna 2016 */
    settings.random ^= settings.random >> 12, settings.random ^= settings.random << 25, settings.random ^= settings.random >> 27;
    return settings.random * UINT64_C(0x2545f4914f6cdd1d);
}

/* A timer: the frame leaves. */
static void leave(struct bjc_sim *sim, void *argument) {
    struct frame *frame = argument;
    (void)sim;
    bjc_send(frame->direction->to, frame->bytes, frame->length);
    settings.passed++;
    free(frame);
}

/* A frame has arrived. */
static void arrive(struct bjc_channel *channel, const uint8_t *bytes, size_t length) {
    struct direction *direction = channel->user;
    struct frame *frame = malloc(sizeof *frame + length);
    if (!frame)
        abort();
    frame->direction = direction;
    frame->length = length;
    memcpy(frame->bytes, bytes, length);
    uint64_t when = bjc_now(channel->sim) + settings.delay + (settings.jitter ? draw() % settings.jitter : 0);
    direction->last = when > direction->last ? when : direction->last;
    bjc_at(channel->sim, direction->last, leave, frame);
}

int main(int argc, char **argv) {
    settings.random = 1;
    for (int n = 3; n + 1 < argc; n += 2) {
        if (!strcmp(argv[n], "--delay"))
            settings.delay = (uint64_t)(atof(argv[n + 1]) * 1e6);
        else if (!strcmp(argv[n], "--jitter"))
            settings.jitter = (uint64_t)(atof(argv[n + 1]) * 1e6);
        else if (!strcmp(argv[n], "--seed"))
            settings.random = strtoull(argv[n + 1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
        else
            argc = 0;
    }
    if (argc < 3 || argc % 2 == 0) {
        fprintf(stderr, "usage: delay LEFT RIGHT [--delay US] [--jitter US] [--seed N]\n");
        return 2;
    }
    struct bjc_sim *sim = bjc_new();
    struct direction to_left = {0}, to_right = {0};
    /* Slots for jumbo frames of 9,000 bytes, where this end listens. */
    struct bjc_channel *left = bjc_open_sized(sim, argv[1], arrive, 9216, 1024);
    struct bjc_channel *right = bjc_open_sized(sim, argv[2], arrive, 9216, 1024);
    if (left && right) {
        to_left.to = left, to_right.to = right;
        left->user = &to_right, right->user = &to_left;
    }
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "delay: %s\n", bjc_error(sim));
        return 1;
    }
    printf("%llu frames passed\n", (unsigned long long)settings.passed);
    return 0;
}
