/* A packet generator: sends frames at a constant rate and counts what comes.
 *
 *     pktgen URL [--rate MBIT] [--size BYTES] [--count N] [--to MAC] [--from MAC] [--start US]
 *
 * URL is an adapter URL, such as connect:a.sock:sync=true:latency=500 (nanoseconds). The payload starts with the frame's
 * number and the time at which it was sent, in picoseconds. Build it with: cc -O2 -o pktgen pktgen.c */
#include "belljar_channel.h"

static struct {
    struct bjc_channel *channel;
    uint64_t period, left, number, size, received, bytes, sum;
    uint8_t frame[65536];
} generator;

static void transmit(struct bjc_sim *sim, void *unused) {
    uint64_t stamp[2] = {generator.number++, bjc_now(sim)};
    (void)unused;
    memcpy(generator.frame + 14, stamp, sizeof stamp);
    bjc_send(generator.channel, generator.frame, generator.size);
    if (--generator.left)
        bjc_at(sim, bjc_now(sim) + generator.period, transmit, NULL);
}

static void count(struct bjc_channel *channel, const uint8_t *frame, size_t length) {
    uint64_t stamp[2] = {0};
    generator.received++;
    generator.bytes += length;
    if (length >= 14 + sizeof stamp && frame[12] == 0x88 && frame[13] == 0xb5) {
        memcpy(stamp, frame + 14, sizeof stamp);
        generator.sum += bjc_now(channel->sim) - stamp[1];
    }
}

static int mac(const char *text, uint8_t *to) {
    return sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", to, to + 1, to + 2, to + 3, to + 4, to + 5) == 6;
}

int main(int argc, char **argv) {
    double rate = 1000, start = 0;
    /* A locally administered source, any destination, and the EtherType for local experiments. */
    memcpy(generator.frame, "\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x88\xb5", 14);
    generator.size = 1000;
    generator.left = 1000;
    for (int n = 2; n + 1 < argc; n += 2) {
        const char *name = argv[n], *value = argv[n + 1];
        if (!strcmp(name, "--rate"))
            rate = atof(value);
        else if (!strcmp(name, "--size"))
            generator.size = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--count"))
            generator.left = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--start"))
            start = atof(value);
        else if ((strcmp(name, "--to") || !mac(value, generator.frame)) && (strcmp(name, "--from") || !mac(value, generator.frame + 6)))
            argc = 0;
    }
    if (argc < 2 || argc % 2 || rate <= 0 || generator.size < 60 || generator.size > sizeof generator.frame - 64) {
        fprintf(stderr, "usage: pktgen URL [--rate MBIT] [--size BYTES] [--count N] [--to MAC] [--from MAC] [--start US]\n");
        return 2;
    }
    struct bjc_sim *sim = bjc_new();
    generator.channel = bjc_open(sim, argv[1], count);
    generator.period = (uint64_t)(generator.size * 8 * 1e6 / rate);
    if (generator.left)
        bjc_at(sim, (uint64_t)(start * 1e6), transmit, NULL);
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "pktgen: %s\n", bjc_error(sim));
        return 1;
    }
    printf("%llu frames sent, %llu received, %llu bytes, mean delay %.3f us\n", (unsigned long long)generator.number,
           (unsigned long long)generator.received, (unsigned long long)generator.bytes,
           generator.received ? generator.sum / 1e6 / generator.received : 0.0);
    return 0;
}
