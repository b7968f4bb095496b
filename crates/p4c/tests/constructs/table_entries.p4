// Entries in the program: in order when const, by priority otherwise; masks, ranges, prefixes, defaults.
#include <core.p4>
#include <v1model.p4>

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
    action set(bit<8> v) { hdr.h.r = v; }
    action add(bit<8> v) { hdr.h.r = hdr.h.r + v; }
    table first {
        key = { hdr.h.a: ternary; hdr.h.b: range; }
        actions = { set; }
        default_action = set(9);
        const entries = {
            (0x10 &&& 0xF0, 1 .. 3): set(1);
            (0x10, _): set(2);
            (_, 0xFF): set(3);
        }
    }
    table second {
        key = { hdr.h.a: ternary; }
        actions = { add; NoAction; }
        default_action = NoAction();
        largest_priority_wins = false;
        priority_delta = 10;
        entries = {
            priority = 20: 0x10 &&& 0xF0: add(0x10);
            0x11: add(0x20);
            priority = 5: 0x12: add(0x40);
        }
    }
    table third {
        key = { hdr.h.c: lpm; }
        actions = { add; NoAction; }
        default_action = NoAction();
        const entries = {
            0x1200 &&& 0xFF00: add(0x80);
        }
    }
    apply {
        std.egress_spec = 1;
        first.apply();
        second.apply();
        third.apply();
    }
}

#include "rest.inc"
