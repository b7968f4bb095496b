// Resubmission and recirculation, with fields that are kept.
#include <core.p4>
#include <v1model.p4>

#define HAS_EGRESS

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {
    @field_list(1) bit<8> kept;
    @field_list(1, 2) bit<8> both;
    bit<8> lost;
}


parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (hdr.h.a == 1) {
            if (std.instance_type == 0) {
                meta.kept = hdr.h.b;
                meta.lost = 0x7F;
                hdr.h.c = 0xFFFF;
                resubmit_preserving_field_list(1);
            } else {
                // The packet is as it came in; the metadata is what the list kept.
                hdr.h.r = meta.kept + meta.lost;
                hdr.h.b = (bit<8>)std.instance_type;
            }
        } else if (std.instance_type == 4) {
            hdr.h.r = hdr.h.r + meta.kept;
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.a == 2 && hdr.h.b > 0) {
            hdr.h.b = hdr.h.b - 1;
            hdr.h.r = hdr.h.r + 1;
            meta.kept = 0x10;
            recirculate_preserving_field_list(1);
        }
    }
}

#include "rest.inc"
