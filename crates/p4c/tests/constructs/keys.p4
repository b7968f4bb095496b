// Keys of tables: expressions, validity, slices, masks, enums, booleans, truth values of several tables.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
enum kind_t { A, B }
struct meta_t { kind_t kind; bool flag; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action set(bit<8> v) { hdr.h.r = hdr.h.r | v; }
    table sums {
        key = { hdr.h.a + hdr.h.b: exact @name("sum"); }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    table parts {
        key = { hdr.h.c[11:4]: exact @name("middle"); hdr.h.a & 0x0F: ternary @name("masked"); }
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    table kinds {
        key = { meta.kind: exact; meta.flag: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = {
            (kind_t.A, true): set(0x40);
            (kind_t.B, false): set(0x80);
        }
    }
    apply {
        std.egress_spec = 1;
        meta.kind = hdr.h.a == 0 ? kind_t.A : kind_t.B;
        meta.flag = hdr.h.b == 3;
        sums.apply();
        parts.apply();
        kinds.apply();
    }
}

#include "rest.inc"
