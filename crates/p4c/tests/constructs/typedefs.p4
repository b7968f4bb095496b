// Types that a typedef declares in place, and types of their own, which take numbers.
#include <core.p4>
#include <v1model.p4>

typedef header pair { bit<8> a; bit<8> b; } h_t;
typedef enum bit<8> kind { FIRST = 1, SECOND = 2 } kind_t;
type bit<8> id_t;
const id_t NOBODY = 0;
typedef struct point { bit<8> x; bit<8> y; } point_t;
struct headers_t { h_t h; }
struct meta_t { point_t p; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        kind_t k = kind_t.SECOND;
        point q = { hdr.h.a, hdr.h.b };
        meta.p = q;
        id_t id = 7;
        if (id == NOBODY) {
            std.egress_spec = 2;
        }
        id = 0;
        if (id != NOBODY) {
            std.egress_spec = 3;
        }
        if (k == kind.SECOND) {
            hdr.h.a = meta.p.y;
            hdr.h.b = meta.p.x;
        }
    }
}

#include "rest.inc"
