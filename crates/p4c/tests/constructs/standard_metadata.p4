// Fields of standard metadata that a program reads.
#include <core.p4>
#include <v1model.p4>

#define HAS_EGRESS
header h_t { bit<16> in_port; bit<16> out_port; bit<32> length; bit<32> type; bit<8> r; }
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
        std.egress_spec = 4;
        std.priority = 2;
        hdr.h.in_port = 7w0 ++ std.ingress_port;
        hdr.h.length = std.packet_length;
        hdr.h.type = std.instance_type;
        if (std.parser_error == error.NoError && std.checksum_error == 0) {
            hdr.h.r = 1;
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        hdr.h.out_port = 7w0 ++ std.egress_port;
        if (std.egress_global_timestamp >= std.ingress_global_timestamp && std.deq_qdepth <= std.enq_qdepth) {
            hdr.h.r = hdr.h.r + 1;
        }
    }
}

#include "rest.inc"
