/* A host that writes and reads a register of its device, gives it 1,024 bytes of memory, and says what interrupts it. */
#include "belljar_pcie.h"

static uint8_t memory[1024];
static struct bjc_channel *device;

static int lies_within(uint64_t address, size_t length) {
    return length <= sizeof memory && address <= sizeof memory - length;
}
static void on_dma_read(struct bjc_channel *c, uint64_t address, void *data, size_t length) {
    if (lies_within(address, length))
        memcpy(data, memory + address, length);
    else
        bjc_fail(c->sim, "the device reads what it may not");
}
static void on_dma_write(struct bjc_channel *c, uint64_t address, const void *data, size_t length) {
    if (lies_within(address, length))
        memcpy(memory + address, data, length);
    else
        bjc_fail(c->sim, "the device writes what it may not");
}
static void on_interrupt(struct bjc_channel *c, int kind, unsigned vector) {
    static const char *const names[] = {"up", "down", "msi", "msix"};
    (void)c;
    printf("%s %u\n", names[kind], vector);
}
static void on_done(struct bjc_channel *c, uint64_t id, const void *data, size_t length) {
    (void)c;
    if (id == 2 && length == 4)
        printf("register %d %d %d %d\n", ((uint8_t *)data)[0], ((uint8_t *)data)[1], ((uint8_t *)data)[2], ((uint8_t *)data)[3]);
}
static void begin(struct bjc_sim *sim, void *unused) {
    (void)sim, (void)unused;
    bjc_pcie_control(device, BJC_ENABLE_MSI | BJC_ENABLE_INTX);
    bjc_mmio_write(device, 1, 0, 16, "\1\2\3\4", 4, 1);
    bjc_mmio_read(device, 2, 0, 16, 4);
}

int main(int argc, char **argv) {
    static const struct bjc_pcie_host events = {on_dma_read, on_dma_write, on_interrupt, on_done};
    struct bjc_sim *sim = bjc_new();
    device = bjc_pcie_host(sim, argc > 1 ? argv[1] : "", &events);
    bjc_at(sim, 1000, begin, NULL);
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "echo: %s\n", bjc_error(sim));
        return 1;
    }
    return 0;
}
