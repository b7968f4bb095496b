// Action profiles and selectors: members, groups, the hash of the selector keys.
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
    action_profile(8) profile;
    action_selector(HashAlgorithm.identity, 8, 4) choice;
    action set(bit<8> v) { hdr.h.r = v; }
    action put(bit<8> v) { hdr.h.b = v; }
    table t {
        key = { hdr.h.a: exact; }
        actions = { set; NoAction; }
        implementation = profile;
    }
    table u {
        key = { hdr.h.a: exact; hdr.h.c: selector; }
        actions = { put; NoAction; }
        implementation = choice;
    }
    apply {
        std.egress_spec = 1;
        t.apply();
        u.apply();
    }
}

#include "rest.inc"
