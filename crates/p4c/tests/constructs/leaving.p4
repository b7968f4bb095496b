// exit and return: from functions, actions and controls, and what is copied back.
#include "two.inc"

control Inner(inout out_t y, in bit<8> a) {
    apply {
        y.r4 = a;
        if (a == 1) {
            exit;
        }
        if (a == 2) {
            return;
        }
        y.r5 = 0x77;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    Inner() inner;
    action stop_at(in bit<8> value) {
        if (hdr.x.a == value) {
            exit;
        }
    }
    action plain(inout bit<8> r) {
        r = 9;
        if (hdr.x.a < 0xF0) {
            return;
        }
        r = 0xEE;
    }
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        if (hdr.x.a == 0xFF) {
            return;
        }
        inner.apply(hdr.y, hdr.x.a);
        hdr.y.r0 = 1;
        stop_at(3);
        hdr.y.r1 = 1;
        plain(hdr.y.r2);
        hdr.y.r3 = 1;
    }
}

#include "rest.inc"
