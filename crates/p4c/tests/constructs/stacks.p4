// Header stacks: next, last, lastIndex, size, push_front, pop_front, indices from packets.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> v; }
header n_t { bit<8> count; bit<8> what; bit<8> at; bit<8> last; }
struct headers_t { n_t n; h_t[4] s; }
struct meta_t { bit<8> left; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.n);
        meta.left = hdr.n.count;
        transition select(hdr.n.count) {
            0: accept;
            default: more;
        }
    }
    state more {
        packet.extract(hdr.s.next);
        meta.left = meta.left - 1;
        hdr.n.last = hdr.s.last.v + (bit<8>)hdr.s.lastIndex;
        transition select(meta.left) {
            0: accept;
            default: more;
        }
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (std.parser_error == error.StackOutOfBounds) {
            hdr.n.what = 0xEE;
        } else if (hdr.n.what == 1) {
            hdr.s.push_front(1);
            hdr.s[0] = { 0x99 };
        } else if (hdr.n.what == 2) {
            hdr.s.pop_front(2);
        } else if (hdr.n.what == 3) {
            hdr.s[hdr.n.at].v = 0x77;
        } else if (hdr.n.what == 4) {
            hdr.n.at = hdr.s[hdr.n.at].v + (bit<8>)hdr.s.size;
        } else if (hdr.n.what == 5) {
            h_t[4] other = hdr.s;
            hdr.s[1].setInvalid();
            hdr.s[2] = other[0];
        } else if (hdr.n.what == 6) {
            for (h_t one in hdr.s) {
                hdr.n.at = hdr.n.at + one.v;
            }
        }
    }
}

#include "rest.inc"
