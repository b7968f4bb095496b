// Parsers that other parsers apply, with parameters, more than once; local variables.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> v; }
struct headers_t { h_t a; h_t b; h_t c; }
struct meta_t { bit<8> sum; }

parser One(packet_in packet, out h_t h, inout bit<8> sum)(bit<8> by) {
    bit<8> seen = 1;
    state start {
        packet.extract(h);
        seen = seen + h.v;
        transition select(h.kind) {
            0: none;
            default: add;
        }
    }
    state none { transition accept; }
    state add {
        sum = sum + seen * by;
        transition accept;
    }
}

parser Two(packet_in packet, out h_t first, out h_t second, inout bit<8> sum) {
    One(2) inner;
    state start {
        inner.apply(packet, first, sum);
        inner.apply(packet, second, sum);
        transition accept;
    }
}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    One(1) one;
    Two() two;
    state start {
        meta.sum = 0x10;
        one.apply(packet, hdr.a, meta.sum);
        two.apply(packet, hdr.b, hdr.c, meta.sum);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.a.v = meta.sum;
    }
}

#include "rest.inc"
