// select: several keys, masks, ranges, lists, enums, booleans, value sets.
#include <core.p4>
#include <v1model.p4>

enum bit<8> code_t { ONE = 1, TWO = 2 }
header h_t { code_t code; bit<8> a; bit<8> b; bit<8> result; }
struct headers_t { h_t h; }
struct meta_t {}
struct set_t { bit<8> a; bit<8> b; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<bit<8>>(4) known;
    value_set<set_t>(4) pairs;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.code) {
            code_t.ONE: one;
            code_t.TWO: two;
            default: accept;
        }
    }
    state one {
        hdr.h.result = 1;
        transition select(hdr.h.a, hdr.h.b[7:4]) {
            (0x10 &&& 0xF0, 0x3): masked;
            (0x20 .. 0x2F, _): ranged;
            ({0x40, 1}): listed;
            default: accept;
        }
    }
    state masked { hdr.h.result = 2; transition accept; }
    state ranged { hdr.h.result = 3; transition accept; }
    state listed { hdr.h.result = 4; transition accept; }
    state two {
        transition select(hdr.h.a == hdr.h.b) {
            true: equal;
            false: different;
        }
    }
    state equal { hdr.h.result = 5; transition accept; }
    state different {
        transition select(hdr.h.a) {
            known: in_set;
            default: not_in_set;
        }
    }
    state in_set { hdr.h.result = 6; transition accept; }
    state not_in_set {
        hdr.h.result = 7;
        transition select(hdr.h.a, hdr.h.b) {
            pairs: pair;
            default: accept;
        }
    }
    state pair { hdr.h.result = 8; transition accept; }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 1; }
}

#include "rest.inc"
