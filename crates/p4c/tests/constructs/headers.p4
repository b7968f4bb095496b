// Headers: validity, copies, comparison, lists, the invalid header.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t x; h_t y; h_t z; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.x);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        h_t copy = hdr.x;
        if (hdr.y.isValid()) {
            std.egress_spec = 2;
        }
        hdr.y = copy;
        if (hdr.y == hdr.x && hdr.z != hdr.x) {
            hdr.y.b = 0x11;
        }
        hdr.z = { 7, 8 };
        if (hdr.x.a == 1) {
            hdr.z.setInvalid();
        } else if (hdr.x.a == 2) {
            hdr.z = (h_t){#};
            hdr.x.setInvalid();
        } else if (hdr.x.a == 3) {
            hdr.y = hdr.z;
            hdr.z = { b = 1, a = hdr.x.a };
            // An invalid header that is copied makes the other invalid.
            h_t none;
            none.setInvalid();
            hdr.x = none;
        }
        if (hdr.z == (h_t){#}) {
            hdr.y.a = 0x55;
        }
    }
}

#include "rest.inc"
