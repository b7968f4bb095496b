// Sets of select: values, masks, ranges, several keys; look ahead, advance, verify, next and last.
#include <core.p4>
#include <v1model.p4>

#define HAS_DEPARSER

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; bit<8> s; bit<16> t; }
header g_t { bit<8> x; int<8> y; }
struct headers_t { h_t h; g_t[3] g; }
struct meta_t { bit<8> m; bit<8> n; int<8> i; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            (1, _): joined;
            (2..4, 8w0x10 &&& 8w0xf0): two;
            (9, default): truth;
            (10, 0): look;
            (11, _): skip;
            (12, _): check;
            (13, _): elements;
            (14, _): unmatched;
            default: accept;
        }
    }
    state joined {
        meta.m = 1;
        transition select(hdr.h.b[7:4] ++ hdr.h.c[3:0]) {
            0x1f: two;
            0x20..0x2f: truth;
            _: accept;
        }
    }
    state two {
        meta.m = meta.m + 2;
        transition accept;
    }
    state truth {
        meta.m = meta.m + 4;
        transition select(hdr.h.b == 3) {
            true: two;
            false: accept;
        }
    }
    state look {
        meta.m = packet.lookahead<bit<8>>();
        meta.i = packet.lookahead<int<8>>();
        g_t g = packet.lookahead<g_t>();
        meta.n = (bit<8>)g.y;
        transition accept;
    }
    state skip {
        packet.advance(8);
        meta.m = packet.lookahead<bit<8>>();
        transition accept;
    }
    state check {
        verify(hdr.h.b == 0, error.NoMatch);
        meta.m = 5;
        verify(hdr.h.b == 0 || hdr.h.c == 0, error.StackOutOfBounds);
        meta.m = 6;
        transition accept;
    }
    state elements {
        packet.extract(hdr.g.next);
        meta.m = hdr.g.last.x;
        meta.n = (bit<8>)hdr.g.lastIndex;
        transition select(hdr.g.last.x) {
            0xff: accept;
            default: elements;
        }
    }
    state unmatched {
        transition select(hdr.h.b) {
            1: accept;
        }
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.h.r = meta.m;
        hdr.h.s = meta.n;
        if (std.parser_error == error.NoMatch) {
            hdr.h.t = 1;
        } else if (std.parser_error == error.StackOutOfBounds) {
            hdr.h.t = 2;
        } else if (std.parser_error == error.PacketTooShort) {
            hdr.h.t = 3;
        } else if (hdr.h.a == 10) {
            hdr.h.t = (bit<16>)(int<16>)meta.i;
        }
    }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

#include "rest.inc"
