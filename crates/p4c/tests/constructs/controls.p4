// Controls inside controls: parameters of constructors, several instances, direct application.
#include "two.inc"

control Add(inout bit<8> x)(bit<8> amount) {
    action set(bit<8> v) { x = v; }
    table t { key = { x: exact @name("x"); } actions = { set; NoAction; } default_action = NoAction; }
    apply {
        t.apply();
        x = x + amount;
    }
}

control Plus(inout bit<8> x) {
    Add(3) three;
    apply { three.apply(x); }
}

control Nest(inout out_t y)(bit<8> first, bit<8> second) {
    Add(first) a;
    Add(first + second) b;
    apply {
        a.apply(y.r4);
        b.apply(y.r5);
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    Add(1) one;
    Add(5) two;
    Nest(1, 9) nest;
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        one.apply(hdr.y.r0);
        two.apply(hdr.y.r1);
        one.apply(hdr.y.r2);
        Plus.apply(hdr.y.r3);
        nest.apply(hdr.y);
    }
}

#include "rest.inc"
