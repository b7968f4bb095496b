// Looking ahead and skipping.
#include <core.p4>
#include <v1model.p4>

header k_t { bit<8> kind; }
header w_t { bit<16> w; }
struct peek_t { bit<4> high; bit<4> low; bit<8> next; }
struct headers_t { k_t k; w_t w; }
struct meta_t { bit<8> seen; bit<4> low; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        meta.seen = packet.lookahead<bit<8>>();
        meta.low = packet.lookahead<peek_t>().low;
        transition select(packet.lookahead<bit<16>>()[3:0]) {
            0xF: skip;
            default: plain;
        }
    }
    state skip {
        packet.extract(hdr.k);
        packet.advance(8);
        packet.extract(hdr.w);
        transition accept;
    }
    state plain {
        packet.extract(hdr.k);
        w_t ahead = packet.lookahead<w_t>();
        hdr.w = ahead;
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.k.kind = meta.seen ^ (4w0 ++ meta.low);
    }
}

#include "rest.inc"
