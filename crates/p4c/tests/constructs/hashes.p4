// Hashes: results lie in [base, base + max).
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; bit<16> r1; bit<16> r2; bit<32> r3; bit<16> r4; }
struct headers_t { h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hash(hdr.h.r1, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.b }, 32w0x10000);
        hash(hdr.h.r2, HashAlgorithm.csum16, 16w0, { hdr.h.a, hdr.h.b, hdr.h.c }, 32w0x10000);
        hash(hdr.h.r3, HashAlgorithm.crc32, 32w0, { hdr.h.a, hdr.h.b, 16w0x3334 }, 64w0x1_0000_0000);
        hash(hdr.h.r4, HashAlgorithm.identity, 16w0x100, { hdr.h.c }, 16w0x10);
        hash(hdr.h.r, HashAlgorithm.xor16, 8w0, { hdr.h.a, hdr.h.b, hdr.h.c }, 16w0x100);
    }
}

#include "rest.inc"
