// Header unions: one member at most is valid.
#include <core.p4>
#include <v1model.p4>

header k_t { bit<8> kind; bit<8> what; }
header a_t { bit<8> a; }
header b_t { bit<16> b; }
header_union u_t { a_t a; b_t b; }
struct headers_t { k_t k; u_t u; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.k);
        transition select(hdr.k.kind) {
            1: parse_a;
            2: parse_b;
            _: accept;
        }
    }
    state parse_a {
        packet.extract(hdr.u.a);
        transition accept;
    }
    state parse_b {
        packet.extract(hdr.u.b);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (hdr.u.a.isValid()) {
            hdr.k.kind = 0xA0;
        } else if (hdr.u.b.isValid()) {
            hdr.k.kind = 0xB0;
        }
        if (!hdr.u.isValid()) {
            hdr.k.kind = 0xC0;
        }
        if (hdr.k.what == 1) {
            hdr.u.b.setValid();
            hdr.u.b.b = 0x1234;
        } else if (hdr.k.what == 2) {
            hdr.u.a = { 9 };
        } else if (hdr.k.what == 3) {
            hdr.u.a.setInvalid();
            hdr.u.b.setInvalid();
        }
    }
}

#include "rest.inc"
