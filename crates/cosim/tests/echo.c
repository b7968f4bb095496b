/* Sends back what comes, at once. */
#include "belljar_channel.h"

static void echo(struct bjc_channel *from, const uint8_t *frame, size_t length) {
    bjc_send(from, frame, length);
}

int main(int argc, char **argv) {
    struct bjc_sim *sim = bjc_new();
    bjc_open(sim, argc > 1 ? argv[1] : "", echo);
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "echo: %s\n", bjc_error(sim));
        return 1;
    }
    return 0;
}
