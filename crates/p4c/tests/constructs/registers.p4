// Registers: state from packet to packet, numbers, truth values, structs.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {}
struct pair_t { bit<8> low; bool odd; bit<16> sum; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<bit<16>>(2) sums;
    register<bit<1>>(1) flag;
    register<pair_t>(4) pairs;
    apply {
        std.egress_spec = 1;
        bit<16> sum;
        sums.read(sum, (bit<32>)hdr.h.a);
        sum = sum + hdr.h.c;
        sums.write((bit<32>)hdr.h.a, sum);
        hdr.h.c = sum;
        bit<1> before;
        flag.read(before, 0);
        flag.write(0, ~before);
        pair_t pair;
        pairs.read(pair, 3);
        hdr.h.r = pair.low + (pair.odd ? 8w0x80 : 0);
        pair = { pair.low + 1, hdr.h.b[0:0] == 1, pair.sum + sum };
        pairs.write(3, pair);
        hdr.h.b = (before == 1 ? 8w0xF0 : 0) | pair.sum[7:0] & 0x0F;
    }
}

#include "rest.inc"
