// if and else, conditions with short circuits, conditional expressions, switch on numbers.
#include "two.inc"

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        if (hdr.x.a == 1) {
            hdr.y.r0 = 1;
        } else if (hdr.x.a == 2) {
            hdr.y.r0 = 2;
        } else {
            hdr.y.r0 = 3;
        }
        hdr.y.r1 = hdr.x.a > hdr.x.b ? hdr.x.a : hdr.x.b;
        hdr.y.r2 = !(hdr.x.a == 1) && hdr.x.b != 4 || hdr.x.a == 7 ? 8w1 : 0;
        switch (hdr.x.b) {
            4: { hdr.y.r3 = 0x40; }
            5:
            6: { hdr.y.r3 = 0x56; }
            default: {}
        }
        switch (hdr.x.a + hdr.x.b) {
            8w5: { hdr.y.r4 = 5; }
        }
        if (hdr.y.isValid() && (tuple<bit<8>, bit<8>>){ hdr.x.a, hdr.x.b } == { 1, 4 }) hdr.y.r5 = 1; else hdr.y.r5 = 2;
        ;
    }
}

#include "rest.inc"
