// Stacks of header unions: extraction to the next one, indices known at run time, push and pop.
#include <core.p4>
#include <v1model.p4>

header k_t { bit<8> index; bit<8> what; }
header t_t { bit<8> kind; }
header a_t { bit<8> kind; bit<8> a; }
header b_t { bit<8> kind; bit<16> b; }
header_union u_t { a_t a; b_t b; }
struct headers_t { k_t k; u_t[3] u; t_t end; }
struct meta_t { bit<32> at; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.k);
        transition options;
    }
    state options {
        transition select(packet.lookahead<t_t>().kind) {
            1: parse_a;
            2: parse_b;
            _: parse_end;
        }
    }
    state parse_a {
        packet.extract(hdr.u.next.a);
        transition options;
    }
    state parse_b {
        packet.extract(hdr.u.next.b);
        transition options;
    }
    state parse_end {
        packet.extract(hdr.end);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        meta.at = (bit<32>)hdr.k.index;
        if (hdr.k.what == 1) {
            // Fields of a member at a variable index are read and written.
            hdr.end.kind = hdr.u[meta.at].a.a;
            hdr.u[meta.at].a.a = 0xEE;
        } else if (hdr.k.what == 2) {
            // Another member becomes the valid one.
            hdr.u[meta.at].b.setValid();
            hdr.u[meta.at].b.kind = 2;
            hdr.u[meta.at].b.b = 0x1234;
        } else if (hdr.k.what == 3) {
            hdr.u[meta.at].a.setInvalid();
            hdr.u[meta.at].b.setInvalid();
        } else if (hdr.k.what == 4) {
            hdr.end.kind = 0xF0;
            if (hdr.u[meta.at].isValid()) { hdr.end.kind = 0xF1; }
            if (hdr.u[meta.at].a.isValid()) { hdr.end.kind = 0xF2; }
        } else if (hdr.k.what == 5) {
            hdr.u.pop_front(1);
        } else if (hdr.k.what == 6) {
            hdr.u.push_front(1);
            hdr.u[0].a.setValid();
            hdr.u[0].a = { 1, 0x77 };
        } else if (hdr.k.what == 7) {
            hdr.u[meta.at].a = { 1, 0x99 };
        } else if (hdr.k.what == 8) {
            hdr.u[0] = hdr.u[meta.at];
        } else if (hdr.k.what == 9) {
            hdr.end.kind = 0;
            for (u_t one in hdr.u) {
                if (one.a.isValid()) { hdr.end.kind = hdr.end.kind + one.a.a; }
            }
        }
    }
}

#include "rest.inc"
