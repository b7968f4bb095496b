// Signed numbers: shifts, comparison, saturation, widening.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        int<8> a = (int<8>)hdr.x.a;
        int<8> b = (int<8>)hdr.x.b;
        hdr.y.r0 = (bit<8>)(a >> 1);
        hdr.y.r1 = a < b ? 8w1 : 0;
        hdr.y.r2 = (bit<8>)(a |+| b);
        hdr.y.r3 = (bit<8>)(a |-| b);
        int<16> wide = (int<16>)a;
        hdr.y.r4 = ((bit<16>)wide)[15:8];
        hdr.y.r5 = (bit<8>)(-a);
        hdr.y.r6 = (bit<8>)(a * b);
        if (a >= -16 && a <= 8s5) {
            hdr.y.r7 = 1;
        }
    }
}

#include "rest.inc"
