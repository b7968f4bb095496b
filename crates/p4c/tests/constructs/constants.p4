// Numbers known at compile time: arbitrary precision, sizes of types, assertions, folding.
#include "two.inc"

const int BIG = (1 << 80) + 3;
const bit<8> MASK = ((1 << 4) - 1) << 2;
struct range_t { bit<8> low; bit<8> high; }
const range_t TABLE = { 0x10, 0x20 };

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = (bit<8>)(BIG % 251);
        hdr.y.r1 = (bit<8>)in_t.minSizeInBits();
        hdr.y.r2 = (bit<8>)hdr.y.minSizeInBytes();
        hdr.y.r3 = MASK & hdr.x.a;
        hdr.y.r4 = (bit<8>)(-5 & 0xFF);
        hdr.y.r5 = TABLE.low + TABLE.high;
        hdr.y.r6 = 8w3 == 3 ? 8w1 : 0;
        hdr.y.r7 = 0o17 + 0b1_0000 + 0x2_0;
        static_assert(BIG > 1 << 64, "BIG is small");
    }
}

#include "rest.inc"
