// Entries with priorities: the largest wins unless the table says otherwise; @priority is BMv2's, of which the smallest wins.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> r; bit<8> s; bit<8> t; bit<8> u; }
struct headers_t { h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action set_r(bit<8> v) { hdr.h.r = v; }
    action set_s(bit<8> v) { hdr.h.s = v; }
    action set_t(bit<8> v) { hdr.h.t = v; }
    action set_u(bit<8> v) { hdr.h.u = v; }
    table largest {
        key = { hdr.h.a: ternary; }
        actions = { set_r; }
        entries = {
            priority = 10: 1 &&& 1: set_r(1);
            priority = 5000000: 3 &&& 3: set_r(2);
            priority = 2: _: set_r(3);
        }
        default_action = set_r(9);
    }
    table smallest {
        key = { hdr.h.a: ternary; }
        actions = { set_s; }
        largest_priority_wins = false;
        entries = {
            priority = 10: 1 &&& 1: set_s(1);
            priority = 5: 3 &&& 3: set_s(2);
            priority = 20: _: set_s(3);
        }
        default_action = set_s(9);
    }
    table in_order {
        key = { hdr.h.a: ternary; }
        actions = { set_t; }
        entries = {
            3 &&& 3: set_t(2);
            1 &&& 1: set_t(1);
            _: set_t(3);
        }
        default_action = set_t(9);
    }
    table annotated {
        key = { hdr.h.a: ternary; }
        actions = { set_u; }
        const entries = {
            _: set_u(3) @priority(7 * 3);
            1 &&& 1: set_u(1) @priority(20);
            3 &&& 3: set_u(2) @priority(19);
        }
        default_action = set_u(9);
    }

    apply {
        std.egress_spec = 1;
        largest.apply();
        smallest.apply();
        in_order.apply();
        annotated.apply();
    }
}

#include "rest.inc"
