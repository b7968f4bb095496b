// Bitwise operators and shifts, also by more than the width.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = hdr.x.a & hdr.x.b;
        hdr.y.r1 = hdr.x.a | hdr.x.b;
        hdr.y.r2 = hdr.x.a ^ hdr.x.b;
        hdr.y.r3 = ~hdr.x.a;
        hdr.y.r4 = hdr.x.a << hdr.x.b;
        hdr.y.r5 = hdr.x.a >> hdr.x.b;
        hdr.y.r6 = hdr.x.a << 1 >> 1;
        hdr.y.r7 = (8w0xF0 | 8w0x0A) ^ 0xFF & hdr.x.a;
    }
}

#include "rest.inc"
