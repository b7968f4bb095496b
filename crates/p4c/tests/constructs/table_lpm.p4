// The longest prefix wins; with an exact key beside it.
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
        key = { hdr.h.c: lpm; hdr.h.a: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    apply {
        std.egress_spec = 1;
        t.apply();
    }
}

#include "rest.inc"
