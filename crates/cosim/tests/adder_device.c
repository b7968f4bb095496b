/* A device that adds one to the numbers in the host's memory whose address is written to its register, and interrupts. */
#include "belljar_pcie.h"

static uint64_t address, done;

static void on_read(struct bjc_channel *host, int bar, uint64_t offset, void *data, size_t length) {
    (void)host, (void)bar, (void)offset;
    memcpy(data, &done, length < 8 ? length : 8);
}
static void on_write(struct bjc_channel *host, int bar, uint64_t offset, const void *data, size_t length) {
    (void)bar, (void)offset;
    memcpy(&address, data, length < 8 ? length : 8);
    bjc_dma_read(host, 7, address, 8);
}
static void on_dma_done(struct bjc_channel *host, uint64_t id, const void *data, size_t length) {
    uint64_t value;
    if (id == 7 && length == 8) {
        memcpy(&value, data, 8);
        value++;
        bjc_dma_write(host, 8, address, &value, 8);
    } else if (id == 8) {
        done++;
        bjc_interrupt(host, BJC_MSI, 1);
    }
}

int main(int argc, char **argv) {
    static const struct bjc_pcie_device events = {
        .info = {.bar = {{4096, 0}}, .vendor = 0x1234, .device = 1, .msi_vectors = 2},
        .on_read = on_read, .on_write = on_write, .on_dma_done = on_dma_done};
    struct bjc_sim *sim = bjc_new();
    bjc_pcie_device(sim, argc > 1 ? argv[1] : "", &events);
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "echo: %s\n", bjc_error(sim));
        return 1;
    }
    return 0;
}
