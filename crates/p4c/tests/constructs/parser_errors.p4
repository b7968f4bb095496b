// verify, short packets, selects without a case: the packet goes on with the error.
#include <core.p4>
#include <v1model.p4>

error { Odd }
header h_t { bit<8> a; bit<8> b; }
header e_t { bit<8> which; }
struct headers_t { e_t e; h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.a[0:0] == 0, error.Odd);
        transition select(hdr.h.a, hdr.h.b) {
            (2, _): long;
            (4 .. 8, 0): accept;
            (0x10 &&& 0xF0, 1): reject;
        }
    }
    state long {
        packet.advance(80);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.e.setValid();
        hdr.e.which = 0;
        if (std.parser_error == error.Odd) {
            hdr.e.which = 1;
        } else if (std.parser_error == error.PacketTooShort) {
            hdr.e.which = 2;
        } else if (std.parser_error == error.NoMatch) {
            hdr.e.which = 3;
        } else if (std.parser_error != error.NoError) {
            hdr.e.which = 4;
        }
    }
}

#include "rest.inc"
