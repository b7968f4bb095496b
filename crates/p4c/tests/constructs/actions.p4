// Actions called by the program: directions, nested calls, parameters of tables bound to variables.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action add_to(inout bit<8> r, in bit<8> v) {
        r = r + v;
    }
    action split(in bit<8> v, out bit<8> high, out bit<8> low) {
        high = v >> 4;
        low = v & 0xF;
    }
    action outer(out bit<8> r) {
        bit<8> t = 1;
        add_to(t, t);
        r = t;
    }
    action mark(in bit<8> seen, bit<8> v) {
        hdr.y.r4 = v;
        hdr.y.r5 = seen;
    }
    action other(bit<4> low, bit<4> high) {
        hdr.y.r6 = high ++ low;
    }
    table t {
        key = { hdr.x.a: exact; }
        actions = { mark(hdr.x.b); other; }
        default_action = other(0xE, 0xE);
    }
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        add_to(hdr.y.r0, hdr.x.a);
        split(hdr.x.b, hdr.y.r1, hdr.y.r2);
        outer(hdr.y.r3);
        t.apply();
        hdr.y.r7 = 5;
    }
}

#include "rest.inc"
