// Ternary, range and optional keys; the priority decides.
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
    action set(bit<8> v) { hdr.h.r = v; }
    table t {
        key = { hdr.h.a: ternary; hdr.h.b: range; hdr.h.c: optional; }
        actions = { set; }
        default_action = set(0);
    }
    apply {
        std.egress_spec = 1;
        t.apply();
    }
}

#include "rest.inc"
