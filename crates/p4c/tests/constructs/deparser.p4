// The deparser: order, stacks and unions, conditions of validity, branches and loops, calls.
#include <core.p4>
#include <v1model.p4>

#define HAS_DEPARSER
header h_t { bit<8> v; }
header_union u_t { h_t a; h_t b; }
struct headers_t { h_t x; h_t y; h_t[2] s; u_t u; h_t z; h_t w; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.x);
        packet.extract(hdr.s[1]);
        packet.extract(hdr.u.b);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (hdr.x.v == 1) {
            hdr.y = { 0x77 };
        }
        hdr.z = { 0x88 };
        hdr.w = { 0x99 };
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.u);
        packet.emit(hdr.y);
        packet.emit(hdr.s);
        packet.emit(hdr.x);
        bit<8> sum = 0;
        for (bit<8> i = 0; i < hdr.x.v; i = i + 1) {
            sum = sum + hdr.s[1].v;
        }
        if (sum == 6) {
            packet.emit(hdr.z);
        } else if (hdr.y.isValid()) {
            log_msg("sum {}", { sum });
        } else {
            packet.emit(hdr.w);
        }
        assert(sum != 0xFF);
    }
}

#include "rest.inc"
