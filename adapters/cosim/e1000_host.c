/* A machine with an e1000: a polled driver that asks for an address by ARP, sends UDP datagrams and counts their echoes.
 *
 *     e1000_host URL OWN-IP PEER-IP PORT [COUNT]
 *
 * URL is the adapter URL of a PCI connection, such as connect:pci.sock:sync=true:latency=500 (nanoseconds). Build it with:
 * cc -O2 -o e1000_host e1000_host.c */
#include "belljar_pcie.h"
#include <arpa/inet.h>

enum { RING = 32, BUFFER = 2048, BASE = 0x100000, RX_RING = 0, TX_RING = 4096, RX_BUFFERS = 8192, TX_BUFFERS = RX_BUFFERS + RING * BUFFER };
enum { CTRL = 0, RCTL = 0x100, TCTL = 0x400, IMC = 0xd8, RDBAL = 0x2800, TDBAL = 0x3800, LEN = 8, HEAD = 16, TAIL = 24, RAL = 0x5400 };

static struct {
    struct bjc_channel *nic;
    uint8_t memory[TX_BUFFERS + RING * BUFFER];
    uint8_t mac[6], peer_mac[6];
    uint32_t ip, peer;
    uint16_t port;
    int known, sent, echoed, count;
    unsigned rx_next, tx_next;
    uint64_t sent_at, sum;
} host;

static void write_register(uint64_t offset, uint32_t value) {
    bjc_mmio_write(host.nic, 0, 0, offset, &value, 4, 1);
}

static uint8_t *at(uint64_t address, size_t length) {
    if (address < BASE || address - BASE > sizeof host.memory || length > sizeof host.memory - (address - BASE))
        return NULL;
    return host.memory + (address - BASE);
}

static void on_dma_read(struct bjc_channel *nic, uint64_t address, void *data, size_t length) {
    const uint8_t *from = at(address, length);
    if (from)
        memcpy(data, from, length);
    else
        bjc_fail(nic->sim, "the device reads %zu bytes at %#llx", length, (unsigned long long)address);
}

static void on_dma_write(struct bjc_channel *nic, uint64_t address, const void *data, size_t length) {
    uint8_t *to = at(address, length);
    if (to)
        memcpy(to, data, length);
    else
        bjc_fail(nic->sim, "the device writes %zu bytes at %#llx", length, (unsigned long long)address);
}

static void on_interrupt(struct bjc_channel *nic, int kind, unsigned vector) {
    bjc_fail(nic->sim, "interrupt %d %u, and none is enabled", kind, vector);
}

static void put_descriptor(unsigned ring, unsigned index, uint64_t buffer, uint16_t length, uint8_t command) {
    uint8_t *place = host.memory + ring + 16 * index;
    memset(place, 0, 16);
    memcpy(place, &buffer, 8);
    memcpy(place + 8, &length, 2);
    place[11] = command;
}

static void send_frame(const uint8_t *frame, size_t length) {
    unsigned index = host.tx_next++ % RING;
    memcpy(host.memory + TX_BUFFERS + index * BUFFER, frame, length);
    put_descriptor(TX_RING, index, BASE + TX_BUFFERS + index * BUFFER, (uint16_t)length, 1 | 2 | 8);
    write_register(TDBAL + TAIL, host.tx_next % RING);
}

static size_t ethernet(uint8_t *frame, const uint8_t *to, uint16_t type) {
    memcpy(frame, to, 6);
    memcpy(frame + 6, host.mac, 6);
    frame[12] = (uint8_t)(type >> 8);
    frame[13] = (uint8_t)type;
    return 14;
}

static void send_arp(int operation, const uint8_t *to) {
    uint8_t frame[60] = {0}, *arp = frame + ethernet(frame, to, 0x0806);
    memcpy(arp, "\0\1\10\0\6\4\0", 7);
    arp[7] = (uint8_t)operation;
    memcpy(arp + 8, host.mac, 6);
    memcpy(arp + 14, &host.ip, 4);
    memcpy(arp + 18, operation == 2 ? to : (const uint8_t *)"\0\0\0\0\0\0", 6);
    memcpy(arp + 24, &host.peer, 4);
    send_frame(frame, sizeof frame);
}

static void send_datagram(void) {
    uint8_t frame[14 + 28 + 64] = {0}, *ip = frame + ethernet(frame, host.peer_mac, 0x0800), *udp = ip + 20;
    uint32_t sum = 0;
    memcpy(ip, "\x45\0\0\x5c\0\0\x40\0\x40\x11", 10);
    memcpy(ip + 12, &host.ip, 4);
    memcpy(ip + 16, &host.peer, 4);
    for (int n = 0; n < 20; n += 2)
        sum += (uint32_t)(ip[n] << 8 | ip[n + 1]);
    sum = ~((sum & 0xffff) + (sum >> 16));
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
    udp[0] = 0x20;
    udp[2] = (uint8_t)(host.port >> 8);
    udp[3] = (uint8_t)host.port;
    udp[5] = 8 + 64;
    memset(udp + 8, 'a' + host.sent % 26, 64);
    host.sent++;
    host.sent_at = bjc_now(host.nic->sim);
    send_frame(frame, sizeof frame);
}

static void received(const uint8_t *frame, size_t length) {
    if (length >= 42 && frame[12] == 8 && frame[13] == 6) {
        if (frame[21] == 1 && !memcmp(frame + 38, &host.ip, 4))
            send_arp(2, frame + 22);
        if (frame[21] == 2 && !host.known) {
            memcpy(host.peer_mac, frame + 22, 6);
            host.known = 1;
            send_datagram();
        }
    } else if (length >= 42 + 64 && frame[12] == 8 && frame[13] == 0 && frame[23] == 17) {
        host.echoed += frame[42] == 'a' + (host.sent - 1) % 26;
        host.sum += bjc_now(host.nic->sim) - host.sent_at;
        if (host.sent < host.count)
            send_datagram();
        else
            printf("%d datagrams sent, %d echoed, mean round trip %.3f us\n", host.sent, host.echoed, host.sum / 1e6 / host.sent);
        fflush(stdout);
    }
}

/* Looks at the ring of received frames, every microsecond. */
static void look(struct bjc_sim *sim, void *unused) {
    for (;;) {
        unsigned index = host.rx_next % RING;
        uint8_t *descriptor = host.memory + RX_RING + 16 * index;
        if (!(descriptor[12] & 1))
            break;
        received(host.memory + RX_BUFFERS + index * BUFFER, (size_t)(descriptor[8] | descriptor[9] << 8));
        put_descriptor(RX_RING, index, BASE + RX_BUFFERS + index * BUFFER, 0, 0);
        write_register(RDBAL + TAIL, index);
        host.rx_next++;
    }
    /* One that is not echoed within 2 ms is sent again. */
    if (host.known && host.echoed < host.sent && bjc_now(sim) > host.sent_at + 2 * BJC_MS) {
        host.sent--;
        send_datagram();
    }
    bjc_at(sim, bjc_now(sim) + BJC_US, look, unused);
}

static void begin(struct bjc_sim *sim, void *unused) {
    const struct bjc_pcie_info *info = bjc_pcie_info(host.nic);
    printf("device %04x:%04x\n", info->vendor, info->device);
    write_register(IMC, UINT32_MAX);
    memcpy(host.mac, "\2\0\0\0\0\x42", 6);
    write_register(RAL, 2);
    write_register(RAL + 4, 1u << 31 | 0x4200);
    for (unsigned ring = 0; ring < 2; ring++) {
        uint64_t registers = ring ? TDBAL : RDBAL;
        write_register(registers, BASE + (ring ? TX_RING : RX_RING));
        write_register(registers + 4, 0);
        write_register(registers + LEN, RING * 16);
        write_register(registers + HEAD, 0);
        write_register(registers + TAIL, 0);
    }
    for (unsigned index = 0; index < RING; index++)
        put_descriptor(RX_RING, index, BASE + RX_BUFFERS + index * BUFFER, 0, 0);
    write_register(RCTL, 1 << 1 | 1 << 15 | 1 << 26);
    write_register(TCTL, 1 << 1 | 1 << 3);
    write_register(RDBAL + TAIL, RING - 1);
    send_arp(1, (const uint8_t *)"\xff\xff\xff\xff\xff\xff");
    look(sim, unused);
}

int main(int argc, char **argv) {
    static const struct bjc_pcie_host events = {on_dma_read, on_dma_write, on_interrupt, NULL};
    struct bjc_sim *sim = bjc_new();
    if (argc < 5 || inet_pton(AF_INET, argv[2], &host.ip) != 1 || inet_pton(AF_INET, argv[3], &host.peer) != 1) {
        fprintf(stderr, "usage: e1000_host URL OWN-IP PEER-IP PORT [COUNT]\n");
        return 2;
    }
    host.port = (uint16_t)atoi(argv[4]);
    host.count = argc > 5 ? atoi(argv[5]) : 10;
    host.nic = bjc_pcie_host(sim, argv[1], &events);
    bjc_at(sim, BJC_MS, begin, NULL);
    if (bjc_run(sim, BJC_NEVER)) {
        fprintf(stderr, "e1000_host: %s\n", bjc_error(sim));
        return 1;
    }
    return 0;
}
