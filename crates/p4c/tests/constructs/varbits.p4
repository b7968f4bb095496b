// Fields of variable length: extraction, copies, comparison.
#include <core.p4>
#include <v1model.p4>

header n_t { bit<8> length; bit<8> same; }
header v_t { varbit<64> v; }
header_union unused_t { v_t a; n_t b; }
struct headers_t { n_t n; v_t one; v_t two; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.n);
        packet.extract(hdr.one, (bit<32>)hdr.n.length * 8);
        packet.extract(hdr.two, 16);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    varbit<64> saved;
    apply {
        std.egress_spec = 1;
        if (hdr.one == hdr.two) {
            hdr.n.same = 1;
        }
        saved = hdr.one.v;
        hdr.one.v = hdr.two.v;
        hdr.two.v = saved;
    }
}

#include "rest.inc"
