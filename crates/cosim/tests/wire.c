/* A wire between two channels, with bjc_open_sized. */
#include "belljar_channel.h"

static void pass(struct bjc_channel *from, const uint8_t *frame, size_t length) {
    bjc_send(from->user, frame, length);
}

int main(int argc, char **argv) {
    struct bjc_sim *sim = bjc_new();
    struct bjc_channel *left = bjc_open_sized(sim, argc > 1 ? argv[1] : "", pass, 4096, 64);
    struct bjc_channel *right = bjc_open_sized(sim, argc > 2 ? argv[2] : "", pass, 4096, 64);
    if (left && right) {
        left->user = right;
        right->user = left;
    }
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "wire: %s\n", bjc_error(sim));
        return 1;
    }
    return 0;
}
