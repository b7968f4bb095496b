/* A machine that keeps its memory in another simulator: writes numbers to places drawn from a seed, reads them back and says how long
 * that took.
 *
 *     memory_host URL SIZE [COUNT [SEED]]
 *
 * URL is the adapter URL of the memory's channel, such as connect:mem.sock:sync=true:latency=100 (nanoseconds), SIZE the memory's bytes. Build it with:
 * cc -O2 -o memory_host memory_host.c */
#include "belljar_memory.h"

enum { CHUNK = 200 };

static struct {
    struct bjc_channel *memory;
    uint64_t size, state, address, asked, sum, done, count, wrong;
    uint8_t data[CHUNK];
} host;

static uint64_t draw(uint64_t below) {
    /* Numbers of xorshift. */
    host.state ^= host.state << 13;
    host.state ^= host.state >> 7;
    host.state ^= host.state << 17;
    return host.state % below;
}

/* Writes a piece, and asks for it: a read that comes later sees what was written before. */
static void next(void) {
    host.address = draw(host.size - CHUNK + 1);
    for (int n = 0; n < CHUNK; n++)
        host.data[n] = (uint8_t)draw(256);
    host.asked = bjc_now(host.memory->sim);
    bjc_memory_write(host.memory, 2 * host.done, 0, host.address, host.data, CHUNK, host.done % 2 == 0);
    bjc_memory_read(host.memory, 2 * host.done + 1, 0, host.address, CHUNK);
}

static void on_done(struct bjc_channel *memory, uint64_t id, const void *data, size_t length) {
    if (id % 2 == 0)
        return;
    host.wrong += length != CHUNK || memcmp(data, host.data, CHUNK) != 0;
    host.sum += bjc_now(memory->sim) - host.asked;
    if (++host.done < host.count)
        next();
    else
        bjc_stop(memory->sim);
}

static void begin(struct bjc_sim *sim, void *nothing) {
    (void)sim, (void)nothing;
    next();
}

int main(int argc, char **argv) {
    static const struct bjc_memory_host events = {on_done};
    struct bjc_sim *sim = bjc_new();
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: memory_host URL SIZE [COUNT [SEED]]\n");
        return 2;
    }
    host.size = strtoull(argv[2], NULL, 10);
    host.count = argc > 3 ? strtoull(argv[3], NULL, 10) : 100;
    host.state = argc > 4 ? strtoull(argv[4], NULL, 10) | 1 : 1;
    host.memory = host.size >= CHUNK && host.count ? bjc_memory_host(sim, argv[1], &events) : NULL;
    if (!host.memory) {
        fprintf(stderr, "memory_host: %s\n", *bjc_error(sim) ? bjc_error(sim) : "SIZE is at least 200, and COUNT at least 1");
        return 1;
    }
    bjc_at(sim, 0, begin, NULL);
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "memory_host: %s\n", bjc_error(sim));
        return 1;
    }
    printf("%llu pieces written and read, %llu wrong, mean %llu ns\n", (unsigned long long)host.done, (unsigned long long)host.wrong,
           (unsigned long long)(host.sum / host.done / 1000));
    return host.wrong != 0;
}
