// Exact matching: several keys, arguments, defaults with and without const, size, properties.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action set(bit<8> v, bit<9> port) {
        hdr.h.r = v;
        std.egress_spec = port;
    }
    action miss(bit<8> v) {
        hdr.h.r = v;
        std.egress_spec = 9;
    }
    table t {
        key = {
            hdr.h.a: exact;
            hdr.h.c[7:0]: exact @name("low");
            hdr.h.isValid(): exact @name("there");
        }
        actions = { set; @defaultonly miss; }
        const default_action = miss(0x55);
        size = 8;
    }
    table empty {
        actions = { miss; NoAction; }
        default_action = NoAction();
    }
    apply {
        t.apply();
        if (hdr.h.b == 1) {
            empty.apply();
        }
    }
}

#include "rest.inc"
