// Conversions: explicit, of booleans, of new types, of constants without width.
#include "two.inc"

type bit<8> port_t;
typedef bit<8> alias_t;
const int HUGE = 0x12_0000_0000_0000_0034;
const bit<8> SMALL = 0b0000_0111;

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = (bit<8>)(bit<16>)hdr.x.a;
        hdr.y.r1 = (bit<8>)(hdr.x.a ++ hdr.x.b);
        bool odd = (bool)hdr.x.a[0:0];
        hdr.y.r2 = 7w0 ++ (bit<1>)odd;
        port_t port = (port_t)hdr.x.b;
        hdr.y.r3 = (bit<8>)port;
        hdr.y.r4 = (bit<8>)HUGE;
        hdr.y.r5 = (bit<8>)(HUGE >> 64);
        hdr.y.r6 = (bit<8>)(int<8>)hdr.x.a;
        alias_t same = hdr.x.a;
        hdr.y.r7 = same + SMALL;
    }
}

#include "rest.inc"
