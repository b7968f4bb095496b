// As in simple_switch, a header that becomes invalid keeps its fields until it becomes valid again; keys match 0 for them.
#include <core.p4>
#include <v1model.p4>

#define HAS_DEPARSER

header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; }
header g_t { bit<8> x; bit<8> y; }
struct headers_t { h_t h; g_t g; g_t other; g_t[2] s; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.g);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action found(bit<8> v) { hdr.h.e = v; }
    table t {
        key = { hdr.g.x: exact; }
        actions = { found; NoAction; }
        const entries = {
            0: found(1);
            0x11: found(2);
            0x22: found(3);
        }
    }

    apply {
        std.egress_spec = 1;
        hdr.g.setInvalid();
        // The value stays.
        hdr.h.a = hdr.g.x;
        // A write stays too.
        hdr.g.y = 0x44;
        hdr.h.b = hdr.g.y;
        // The key of an invalid header is 0.
        t.apply();
        // A copy of an invalid header only makes the other invalid.
        hdr.other = { 5, 6 };
        hdr.other = hdr.g;
        hdr.h.c = hdr.other.x;
        // A header that becomes valid starts with 0.
        hdr.g.setValid();
        hdr.h.d = hdr.g.x + hdr.g.y;
        // Elements of stacks change places with their fields.
        hdr.s[0] = { 7, 8 };
        hdr.s.pop_front(1);
        hdr.h.f = hdr.s[1].x;
        hdr.g.x = 0x99;
        hdr.g.setValid();
    }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

#include "rest.inc"
