/* PCIe on SimBricks' channel protocol, for devices and for hosts. See belljar_channel.h for the rest: channels, times, the loop.
 *
 * A device says what it is, answers reads and writes of its registers, and reads and writes the host's memory:
 *
 *     static const struct bjc_pcie_device events = {.info = {.vendor = 0x1234, .device = 1, .bar = {{4096, 0}}}, .on_read = ..., .on_write = ...};
 *     struct bjc_channel *host = bjc_pcie_device(sim, argv[1], &events);
 *
 * A host reads and writes registers, serves the device's DMA from its memory, and is interrupted:
 *
 *     static const struct bjc_pcie_host events = {.on_dma_read = ..., .on_dma_write = ..., .on_interrupt = ..., .on_done = ...};
 *     struct bjc_channel *device = bjc_pcie_host(sim, argv[1], &events);
 *
 * Accesses outside of the device's BARs, answers to requests that were not made and interrupt vectors that the device has not end the
 * channel with a message. */
#ifndef BELLJAR_PCIE_H
#define BELLJAR_PCIE_H

#include "belljar_requests.h"

/* A device as its configuration space shows it. BAR flags: 1 I/O, 2 64-bit, 4 prefetchable, 8 no accesses reach the device. */
struct bjc_pcie_info {
    struct {
        uint64_t length, flags;
    } bar[6];
    uint16_t vendor, device;
    uint8_t class_code[4], msi_vectors;
    uint16_t msix_vectors;
    uint8_t msix_bars[2];
    uint32_t msix_offsets[2];
    uint16_t msix_capability;
};

enum { BJC_LINE_UP = 0, BJC_LINE_DOWN = 1, BJC_MSI = 2, BJC_MSIX = 3 };
enum { BJC_ENABLE_INTX = 1, BJC_ENABLE_MSI = 2, BJC_ENABLE_MSIX = 4 };

struct bjc_pcie_device {
    struct bjc_pcie_info info;
    /* Reads registers into `data`, which is sent back at once. */
    void (*on_read)(struct bjc_channel *host, int bar, uint64_t offset, void *data, size_t length);
    void (*on_write)(struct bjc_channel *host, int bar, uint64_t offset, const void *data, size_t length);
    /* The host's memory has been read or written, by the id that the request was given. May be NULL. */
    void (*on_dma_done)(struct bjc_channel *host, uint64_t id, const void *data, size_t length);
    void (*on_control)(struct bjc_channel *host, uint64_t enabled);
};

struct bjc_pcie_host {
    void (*on_dma_read)(struct bjc_channel *device, uint64_t address, void *data, size_t length);
    void (*on_dma_write)(struct bjc_channel *device, uint64_t address, const void *data, size_t length);
    void (*on_interrupt)(struct bjc_channel *device, int kind, unsigned vector);
    /* A read of registers is done, or a write that was not posted, of which `length` is 0. May be NULL. */
    void (*on_done)(struct bjc_channel *device, uint64_t id, const void *data, size_t length);
};

struct bjc_pcie {
    struct bjc_reads reads;
    struct bjc_pcie_info info;
    const struct bjc_pcie_device *device;
    const struct bjc_pcie_host *host;
};

/* The device at a channel, as it has introduced itself. */
static inline const struct bjc_pcie_info *bjc_pcie_info(const struct bjc_channel *c) {
    return &((const struct bjc_pcie *)c->state)->info;
}

static inline void bjc_pcie_write_info(uint8_t *to, const struct bjc_pcie_info *info) {
    memcpy(to, info->bar, 96);
    memcpy(to + 96, &info->vendor, 2);
    memcpy(to + 98, &info->device, 2);
    memcpy(to + 100, info->class_code, 4);
    to[104] = info->msi_vectors;
    memcpy(to + 105, &info->msix_vectors, 2);
    memcpy(to + 107, info->msix_bars, 2);
    memcpy(to + 109, info->msix_offsets, 8);
    memcpy(to + 117, &info->msix_capability, 2);
}

static inline int bjc_pcie_take_info(struct bjc_channel *c, const uint8_t *from) {
    struct bjc_pcie_info *info = &((struct bjc_pcie *)c->state)->info;
    memcpy(info->bar, from, 96);
    memcpy(&info->vendor, from + 96, 2);
    memcpy(&info->device, from + 98, 2);
    memcpy(info->class_code, from + 100, 4);
    info->msi_vectors = from[104];
    memcpy(&info->msix_vectors, from + 105, 2);
    memcpy(info->msix_bars, from + 107, 2);
    memcpy(info->msix_offsets, from + 109, 8);
    memcpy(&info->msix_capability, from + 117, 2);
    for (int n = 0; n < 6; n++)
        if (info->bar[n].length & (info->bar[n].length - 1))
            return bjc_fail(c->sim, "%s: BAR %d of the device has a length that is no power of two", c->path, n);
    if (info->msi_vectors > 32 || info->msix_vectors > 2048)
        return bjc_fail(c->sim, "%s: the device has more interrupt vectors than PCI allows", c->path);
    return 0;
}

/* ---- the device's end ---- */

static inline int64_t bjc_pcie_device_length(struct bjc_channel *c, uint8_t kind, const uint8_t *header) {
    switch (kind) {
    case 0x60: case 0x63: case 0x64:
        return 0;
    case 0x61: case 0x65:
        return (int64_t)bjc_field(header, 16, 2);
    case 0x62:
        return bjc_reads_length(c, &((struct bjc_pcie *)c->state)->reads, bjc_field(header, 0, 8));
    }
    return -1;
}

static inline void bjc_pcie_device_message(struct bjc_channel *c, struct bjc_message *message) {
    struct bjc_pcie *pcie = (struct bjc_pcie *)c->state;
    const struct bjc_pcie_device *device = pcie->device;
    uint64_t id = bjc_field(message->header, 0, 8), offset = bjc_field(message->header, 8, 8);
    size_t length = message->kind == 0x60 ? (size_t)bjc_field(message->header, 16, 2) : message->length;
    int bar = message->header[18];
    if (message->kind == 0x60 || message->kind == 0x61 || message->kind == 0x65) {
        uint64_t room = bar < 6 ? device->info.bar[bar].length : 0;
        if (length > room || offset > room - length) {
            bjc_fail(c->sim, "%s: the host accesses %zu bytes at %#llx, which do not lie within BAR %d", c->path, length,
                     (unsigned long long)offset, bar);
            return;
        }
    }
    switch (message->kind) {
    case 0x60: {
        uint8_t *data = (uint8_t *)bjc_memory(length + 1);
        device->on_read(c, bar, offset, data, length);
        bjc_answer(c, 0x43, id, data, length);
        free(data);
        break;
    }
    case 0x61: case 0x65:
        device->on_write(c, bar, offset, message->body, length);
        if (message->kind == 0x61)
            bjc_answer(c, 0x44, id, NULL, 0);
        break;
    case 0x62: case 0x63:
        if (device->on_dma_done)
            device->on_dma_done(c, id, message->body, message->length);
        break;
    case 0x64:
        if (device->on_control)
            device->on_control(c, id);
    }
}

static inline struct bjc_channel *bjc_pcie_device(struct bjc_sim *sim, const char *url, const struct bjc_pcie_device *device) {
    static const struct bjc_layer layer = {2, "PCIe", 0, NULL, bjc_pcie_device_length, bjc_pcie_device_message, 9088};
    struct bjc_channel *c = bjc_open_layer(sim, url, &layer, layer.slot_size, 1024);
    if (!c)
        return NULL;
    struct bjc_pcie *pcie = (struct bjc_pcie *)bjc_memory(sizeof *pcie);
    pcie->device = device;
    pcie->info = device->info;
    c->state = pcie;
    bjc_pcie_write_info(c->intro, &device->info);
    c->intro_length = 119;
    return c;
}

/* Reads or writes the host's memory; on_dma_done has the id. */
static inline int bjc_dma_read(struct bjc_channel *c, uint64_t id, uint64_t address, size_t length) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 8, 8, address);
    return bjc_request(c, &((struct bjc_pcie *)c->state)->reads, 0x40, header, id, 16, NULL, length);
}

static inline int bjc_dma_write(struct bjc_channel *c, uint64_t id, uint64_t address, const void *data, size_t length) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 8, 8, address);
    return bjc_request(c, NULL, 0x41, header, id, 16, data, length);
}

/* kind: BJC_LINE_UP, BJC_LINE_DOWN, BJC_MSI, BJC_MSIX. */
static inline int bjc_interrupt(struct bjc_channel *c, int kind, unsigned vector) {
    uint8_t header[48] = {(uint8_t)vector, (uint8_t)(vector >> 8), (uint8_t)kind};
    return bjc_send_message(c, 0x42, header, NULL, 0);
}

/* ---- the host's end ---- */

static inline int64_t bjc_pcie_host_length(struct bjc_channel *c, uint8_t kind, const uint8_t *header) {
    switch (kind) {
    case 0x40: case 0x42: case 0x44:
        return 0;
    case 0x41:
        return (int64_t)bjc_field(header, 16, 2);
    case 0x43:
        return bjc_reads_length(c, &((struct bjc_pcie *)c->state)->reads, bjc_field(header, 0, 8));
    }
    return -1;
}

static inline void bjc_pcie_host_message(struct bjc_channel *c, struct bjc_message *message) {
    const struct bjc_pcie *pcie = (const struct bjc_pcie *)c->state;
    const struct bjc_pcie_host *host = pcie->host;
    uint64_t id = bjc_field(message->header, 0, 8), address = bjc_field(message->header, 8, 8);
    switch (message->kind) {
    case 0x40: {
        size_t length = (size_t)bjc_field(message->header, 16, 2);
        uint8_t *data = (uint8_t *)bjc_memory(length + 1);
        host->on_dma_read(c, address, data, length);
        bjc_answer(c, 0x62, id, data, length);
        free(data);
        break;
    }
    case 0x41:
        host->on_dma_write(c, address, message->body, message->length);
        bjc_answer(c, 0x63, id, NULL, 0);
        break;
    case 0x42: {
        unsigned vector = message->header[0] | message->header[1] << 8, kind = message->header[2];
        unsigned vectors = kind == BJC_MSI ? pcie->info.msi_vectors : kind == BJC_MSIX ? pcie->info.msix_vectors : vector + 1;
        if (kind > BJC_MSIX || vector >= vectors)
            bjc_fail(c->sim, "%s: the device sends interrupt %u of kind %u, which it does not have", c->path, vector, kind);
        else
            host->on_interrupt(c, (int)kind, vector);
        break;
    }
    case 0x43: case 0x44:
        if (host->on_done)
            host->on_done(c, id, message->body, message->length);
    }
}

static inline struct bjc_channel *bjc_pcie_host(struct bjc_sim *sim, const char *url, const struct bjc_pcie_host *host) {
    static const struct bjc_layer layer = {2, "PCIe", 119, bjc_pcie_take_info, bjc_pcie_host_length, bjc_pcie_host_message, 9088};
    struct bjc_channel *c = bjc_open_layer(sim, url, &layer, layer.slot_size, 1024);
    if (!c)
        return NULL;
    struct bjc_pcie *pcie = (struct bjc_pcie *)bjc_memory(sizeof *pcie);
    pcie->host = host;
    c->state = pcie;
    return c;
}

/* Reads registers; on_done has the id and the data. */
static inline int bjc_mmio_read(struct bjc_channel *c, uint64_t id, int bar, uint64_t offset, size_t length) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 8, 8, offset);
    header[18] = (uint8_t)bar;
    return bjc_request(c, &((struct bjc_pcie *)c->state)->reads, 0x60, header, id, 16, NULL, length);
}

/* Writes registers; one that is not posted is answered. */
static inline int bjc_mmio_write(struct bjc_channel *c, uint64_t id, int bar, uint64_t offset, const void *data, size_t length, int posted) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 8, 8, offset);
    header[18] = (uint8_t)bar;
    return bjc_request(c, NULL, posted ? 0x65 : 0x61, header, id, 16, data, length);
}

/* Which interrupts the device may use: BJC_ENABLE_INTX and so on. */
static inline int bjc_pcie_control(struct bjc_channel *c, uint64_t enabled) {
    uint8_t header[48] = {0};
    bjc_put_field(header, 0, 8, enabled);
    return bjc_send_message(c, 0x64, header, NULL, 0);
}

#endif
