/* A host that writes three bytes to its memory and reads them again. */
#include "belljar_memory.h"

static void on_done(struct bjc_channel *c, uint64_t id, const void *data, size_t length) {
    if (id == 1) {
        puts("written");
        bjc_memory_read(c, 2, 0, 4094, 3);
    } else if (id == 2) {
        printf("read %.*s\n", (int)length, (const char *)data);
    }
}
static void begin(struct bjc_sim *sim, void *memory) {
    (void)sim;
    bjc_memory_write((struct bjc_channel *)memory, 0, 0, 4094, "xyz", 3, 1);
    bjc_memory_write((struct bjc_channel *)memory, 1, 0, 4094, "abc", 3, 0);
}

int main(int argc, char **argv) {
    static const struct bjc_memory_host events = {on_done};
    struct bjc_sim *sim = bjc_new();
    bjc_at(sim, 1000, begin, bjc_memory_host(sim, argc > 1 ? argv[1] : "", &events));
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "echo: %s\n", bjc_error(sim));
        return 1;
    }
    return 0;
}
