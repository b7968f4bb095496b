// Loops: for, for over ranges and lists, break, continue, nested.
#include "two.inc"

// The lowest bit that is set.
bit<8> first(in bit<8> value) {
    for (bit<8> i = 0; i < 8; i += 1) {
        if ((value >> i) & 1 == 1) {
            return i;
        }
    }
    return 0xFF;
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        for (bit<8> i = 0; i < hdr.x.a; i = i + 1) {
            hdr.y.r0 = hdr.y.r0 + i;
        }
        for (bit<8> i in 1 .. 5) {
            if (i == 2) {
                continue;
            }
            if (i == 5) {
                break;
            }
            hdr.y.r1 = hdr.y.r1 + i;
        }
        for (bit<8> i in 8w0 .. 2) {
            for (bit<8> j in i .. 2) {
                hdr.y.r2 = hdr.y.r2 + 1;
            }
        }
        bit<8> steps = 0;
        for (bit<8> n = hdr.x.b, bit<8> guard = 0; n != 1 && guard < 100; n = n >> 1, guard += 1) {
            steps += 1;
        }
        hdr.y.r3 = steps;
        hdr.y.r4 = first(hdr.x.b);
    }
}

#include "rest.inc"
