// Multicast: groups, nodes with an identifier, unicast beside it, dropping at egress.
#include <core.p4>
#include <v1model.p4>

#define HAS_EGRESS

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.a == 1) {
            std.mcast_grp = 3;
        } else {
            std.egress_spec = (bit<9>)hdr.h.b;
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.r = (bit<8>)std.egress_rid;
        hdr.h.b = (bit<8>)std.instance_type;
        if (std.egress_port == std.ingress_port) {
            mark_to_drop(std);
        }
    }
}

#include "rest.inc"
