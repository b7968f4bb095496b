// Generic structs, headers and functions with type arguments given and inferred.
#include "two.inc"

struct pair_t<S, T> { S first; T second; }
struct wrap_t<T> { T value; }

bit<8> first(in pair_t<bit<8>, bit<8>> p) {
    return p.first;
}

T choose<T>(in bool condition, in T yes, in T no) {
    if (condition) {
        return yes;
    }
    return no;
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        pair_t<bit<8>, bit<8>> p = { hdr.x.a, hdr.x.b };
        hdr.y.r0 = p.second;
        pair_t<bit<4>, bool> q = { hdr.x.a[3:0], hdr.x.b == 2 };
        hdr.y.r1 = q.second ? 4w0 ++ q.first : 8w0xFF;
        hdr.y.r2 = first(p);
        hdr.y.r3 = choose(hdr.x.a == 1, hdr.x.b, 8w7);
        wrap_t<pair_t<bit<8>, bit<8>>> w = { p };
        hdr.y.r4 = w.value.first;
    }
}

#include "rest.inc"
