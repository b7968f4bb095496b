// Dropping, also by copies of the metadata, truncation, random numbers in a range, messages, assertions, digests.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {}
struct seen_t { bit<8> a; bit<16> c; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

action discard(inout standard_metadata_t std) {
    mark_to_drop(std);
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        bit<8> chance;
        random(chance, 8w5, 8w7);
        if (chance < 5 || chance > 7) {
            hdr.h.r = 0xEE;
        }
        random(hdr.h.b, 8w9, 8w9);
        log_msg("a is {}, c is {}", { hdr.h.a, hdr.h.c });
        assert(hdr.h.isValid());
        assume(true);
        digest<seen_t>(1, { hdr.h.a, hdr.h.c });
        if (hdr.h.a == 1) {
            mark_to_drop(std);
        } else if (hdr.h.a == 2) {
            mark_to_drop(std);
            std.egress_spec = 3;
        } else if (hdr.h.a == 3) {
            truncate(6);
        } else if (hdr.h.a == 4) {
            std.egress_spec = 511;
        } else if (hdr.h.a == 5) {
            standard_metadata_t copy = std;
            copy.mcast_grp = 9;
            mark_to_drop(copy);
            hdr.h.c = (bit<16>)copy.egress_spec;
            hdr.h.r = (bit<8>)copy.mcast_grp;
        } else if (hdr.h.a == 6) {
            standard_metadata_t copy = std;
            mark_to_drop(copy);
            std = copy;
        } else if (hdr.h.a == 7) {
            discard(std);
        }
    }
}

#include "rest.inc"
