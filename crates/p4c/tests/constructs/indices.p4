// Run-time indices of stacks: outside a stack writes have no effect and reads give 0, also below it.
#include <core.p4>
#include <v1model.p4>
header h_t { int<8> i; bit<8> a; }
header e_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; e_t[2] s; }
struct meta_t {}
parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition accept; }
}
control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.s[hdr.h.i].b = 0xEE;
        hdr.h.a = hdr.s[hdr.h.i].a;
    }
}
#include "rest.inc"
