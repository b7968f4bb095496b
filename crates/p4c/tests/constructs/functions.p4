// Functions: early return, generic, nested calls, order of evaluation.
#include "two.inc"

bit<8> clamp(in bit<8> value) {
    if (value > 0x40) {
        return 0x40;
    } else if (value < 0x10) {
        return 0x10;
    }
    return value;
}

bit<8> larger(in bit<8> a, in bit<8> b) {
    bit<8> result = a;
    if (a < b) {
        result = b;
    }
    return result;
}

T last<T>(in T a, in T b) {
    return b;
}

bit<8> next(inout bit<8> n) {
    n = n + 1;
    return n;
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = clamp(hdr.x.a);
        hdr.y.r1 = larger(hdr.x.a, hdr.x.b);
        hdr.y.r2 = last<bit<8>>(clamp(hdr.x.a), larger(clamp(hdr.x.a), clamp(hdr.x.b)));
        bit<8> n = 0;
        hdr.y.r3 = next(n) + next(n) * 16;
        hdr.y.r4 = n;
        if (next(n) == 9 && next(n) == 4) {
            hdr.y.r5 = 1;
        }
        hdr.y.r6 = n;
        bool any = next(n) == 4 || next(n) == 5;
        hdr.y.r7 = n;
    }
}

#include "rest.inc"
