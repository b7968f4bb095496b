// Slices as values and as targets, concatenation, slices of slices.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = hdr.x.a[7:4] ++ hdr.x.b[3:0];
        hdr.y.r1[7:4] = hdr.x.b[3:0];
        hdr.y.r1[3:0] = hdr.x.a[7:4];
        hdr.y.r2 = hdr.x.a;
        hdr.y.r2[4:1] = 4w0xF;
        hdr.y.r3 = 5w0 ++ hdr.x.a[6:1][4:2];
        bit<16> both = hdr.x.a ++ hdr.x.b;
        hdr.y.r4 = both[11:4];
        both[15:8] = both[7:0];
        hdr.y.r5 = both[12:5];
        hdr.y.r6 = hdr.x.a[4+:4] ++ hdr.x.a[0+:4];
        hdr.y.r7[6:6] = 1;
    }
}

#include "rest.inc"
