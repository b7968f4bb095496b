// Tuples, structs, their lists with and without names, defaults, and comparison.
#include "two.inc"

struct point_t { bit<8> x; bit<8> y; }
struct box_t { point_t low; point_t high; }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        tuple<bit<8>, bit<8>> pair = { hdr.x.a, hdr.x.b };
        hdr.y.r0 = pair[1];
        point_t p = { y = hdr.x.a, x = hdr.x.b };
        hdr.y.r1 = p.x;
        point_t q = { 1, ... };
        hdr.y.r2 = q.x + q.y;
        box_t box = { { 1, 2 }, p };
        hdr.y.r3 = box.high.y;
        hdr.y.r4 = p == { 5, 9 } ? 8w1 : 0;
        hdr.y.r5 = box.low == (point_t){ x = 1, y = 2 } ? 8w1 : 0;
        box.low = box.high;
        hdr.y.r6 = box.low != p ? 8w1 : 2;
        box = ...;
        hdr.y.r7 = box.high.x;
    }
}

#include "rest.inc"
