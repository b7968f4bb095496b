// A swap by lists, and one by parameters: values are read before they are written.
#include "two.inc"

struct pair_t { bit<8> first; bit<8> second; }

void swap(inout bit<8> x, inout bit<8> y) {
    bit<8> t = x;
    x = y;
    y = t;
}

// Both parameters begin as copies; they go back from left to right.
bit<8> twice(inout bit<8> x, inout bit<8> y) {
    x = x + 4;
    y = y + 1;
    return x - y + 0;
}

void give(out bit<8> result, in bit<8> value) {
    result = value + 1;
}

bit<8> add(in bit<8> b, in bit<8> a = 5) {
    return a + b;
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        {
            bit<8> t = hdr.x.a;
            hdr.y.r0 = t;
        }
        pair_t p = { hdr.x.a, hdr.x.b };
        p = { p.second, p.first };
        hdr.y.r1 = p.first;
        hdr.y.r2 = p.second;
        swap(p.first, p.second);
        hdr.y.r3 = p.first;
        bit<8> v = hdr.x.a;
        hdr.y.r4 = twice(v, v);
        hdr.y.r5 = v;
        bit<8> set_;
        give(set_, hdr.x.b);
        hdr.y.r6 = set_;
        hdr.y.r7 = add(b = hdr.x.b);
    }
}

#include "rest.inc"
