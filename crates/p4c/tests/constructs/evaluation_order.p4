// Operands, arguments and targets are evaluated from left to right; results are copied out in the same order.
#include <core.p4>
#include <v1model.p4>

#define HAS_DEPARSER

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; bit<8> s; bit<16> t; bit<16> u; }
header g_t { bit<8> x; }
struct headers_t { h_t h; g_t[3] g; }
struct meta_t {}

// Gives the value and adds one to the variable.
bit<8> next(inout bit<8> x) {
    bit<8> old = x;
    x = x + 1;
    return old;
}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action swap(inout bit<8> x, inout bit<8> y) {
        bit<8> old = x;
        x = y;
        y = old;
    }
    action both(inout bit<16> x, inout bit<16> y) {
        x = x + 1;
        y = y + 5;
    }
    action leave(out bit<8> result, in bit<8> x) {
        result = 7;
        if (x == 1) {
            exit;
        }
        result = 8;
    }

    apply {
        std.egress_spec = 1;
        bit<8> one = 1;
        hdr.h.r = next(one) + one;
        bit<8> zero = 0;
        if (zero == 1 && next(zero) == 0) {}
        if (zero == 0 || next(zero) == 0) {}
        bit<8> five = 5;
        bit<8> chosen = hdr.h.a == 1 ? next(five) : five;
        hdr.h.t = chosen ++ (five + zero);
        hdr.g[0] = { 0 };
        hdr.g[1] = { 0 };
        hdr.g[2] = { 0 };
        bit<8> index = 0;
        hdr.g[next(index)].x = next(index) + 10;
        hdr.g[index].x = 0x77;
        hdr.h.u = hdr.g[0].x ++ hdr.g[2].x;
        swap(hdr.h.a, hdr.h.b);
        both(hdr.h.c, hdr.h.c);
        leave(hdr.h.s, hdr.h.b);
        hdr.h.r = 0;
    }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

#include "rest.inc"
