// Dropping, truncation, random numbers in a range, messages, assertions, digests.
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
        }
    }
}

#include "rest.inc"
