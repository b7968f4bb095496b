// Clones from ingress and from egress, with the fields that a list keeps.
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
        meta.kept = 0x11;
        meta.both = 0x22;
        meta.lost = 0x44;
        if (hdr.h.a == 1) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        } else if (hdr.h.a == 2) {
            clone_preserving_field_list(CloneType.I2E, 5, 2);
        } else if (hdr.h.a == 3) {
            clone(CloneType.I2E, 5);
        } else if (hdr.h.a == 4) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            mark_to_drop(std);
        }
        // The clone has the packet as it came in.
        hdr.h.b = 0x99;
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) {
            hdr.h.r = meta.kept + meta.both + meta.lost;
        } else if (std.instance_type == 2) {
            hdr.h.r = 0xE2;
        } else if (hdr.h.a == 5) {
            // The clone from egress has the packet as it is deparsed.
            hdr.h.c = 0xABCD;
            clone(CloneType.E2E, 6);
            hdr.h.r = 1;
        }
    }
}

#include "rest.inc"
