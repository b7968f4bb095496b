// Action data of every type that the control plane can give: enums, truth values and signed numbers.
#include <core.p4>
#include <v1model.p4>

enum bit<8> Size { small = 5, large = 0x41 }
enum Kind { first, second, third }

header h_t { bit<8> a; bit<8> b; bit<8> r; bit<8> s; bit<16> t; }
struct headers_t { h_t h; }
struct meta_t { Kind kind; Size size; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action set(Size size, bool flag, int<8> number) {
        hdr.h.r = (bit<8>)size;
        hdr.h.s = (bit<8>)(bit<1>)flag;
        // The sign of the number extends.
        hdr.h.t = (bit<16>)(int<16>)number;
        if (number < 0) {
            hdr.h.s = hdr.h.s + 0x10;
        }
        if (number >> 1 == -1) {
            hdr.h.s = hdr.h.s + 0x20;
        }
    }
    table t {
        key = { meta.kind: exact; meta.size: exact; }
        actions = { set; }
        const entries = {
            (Kind.second, Size.large): set(Size.large, true, -2);
            (Kind.third, Size.small): set(Size.small, false, 5);
        }
        const default_action = set(Size.small, true, -128);
    }
    action signed() { hdr.h.r = hdr.h.r | 0x80; }
    table u {
        key = { (int<8>)hdr.h.b: exact @name("signed"); }
        actions = { signed; NoAction; }
        const entries = { -1: signed(); }
    }

    apply {
        std.egress_spec = 1;
        meta.kind = Kind.second;
        meta.size = Size.large;
        if (hdr.h.a == 1) {
            meta.kind = Kind.third;
            meta.size = Size.small;
        } else if (hdr.h.a == 2) {
            meta.kind = Kind.first;
        }
        t.apply();
        u.apply();
    }
}

#include "rest.inc"
