// Assignments that compute.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = hdr.x.a;
        hdr.y.r0 += hdr.x.b;
        hdr.y.r1 = hdr.x.a;
        hdr.y.r1 -= 1;
        hdr.y.r2 = hdr.x.a;
        hdr.y.r2 *= 2;
        hdr.y.r3 = hdr.x.a;
        hdr.y.r3 <<= 4;
        hdr.y.r4 = hdr.x.a;
        hdr.y.r4 |= 0x80;
        hdr.y.r5 = hdr.x.a;
        hdr.y.r5 &= hdr.x.b;
        hdr.y.r6 = hdr.x.a;
        hdr.y.r6 ^= 0xFF;
        hdr.y.r7 = hdr.x.a;
        hdr.y.r7 |+|= 0xF0;
        hdr.y.r7[3:0] -= 1;
    }
}

#include "rest.inc"
