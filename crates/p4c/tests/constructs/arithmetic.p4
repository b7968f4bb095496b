// Arithmetic of unsigned numbers: modulo the width, and saturating.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = hdr.x.a + hdr.x.b;
        hdr.y.r1 = hdr.x.a - hdr.x.b;
        hdr.y.r2 = hdr.x.a * hdr.x.b;
        hdr.y.r3 = hdr.x.a |+| hdr.x.b;
        hdr.y.r4 = hdr.x.b |-| hdr.x.a;
        hdr.y.r5 = -hdr.x.a;
        hdr.y.r6 = hdr.x.a / 4;
        hdr.y.r7 = hdr.x.a % 8;
    }
}

#include "rest.inc"
