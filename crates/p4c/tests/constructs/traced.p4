// Branches that apply no tables.
#include <core.p4>
#include <v1model.p4>

#define HAS_DEPARSER

header h_t { bit<8> a; bit<8> b; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        if (hdr.h.a > 3) {
            hdr.h.b = 3;
        } else if (hdr.h.r == 0) {
            hdr.h.r = 0;
        }
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action branch() {
        if (hdr.h.b > 9) {
            hdr.h.r = 1;
        } else if (hdr.h.b == 7) {
            hdr.h.r = 2;
        }
        switch (hdr.h.b) {
            6: { hdr.h.b = 5; }
            default: { hdr.h.r = hdr.h.r + 1; }
        }
    }
    table t {
        actions = { branch; }
        const default_action = branch();
    }

    apply {
        std.egress_spec = 1;
        if (hdr.h.a == 1) {
            hdr.h.a = 2;
        }
        t.apply();
        switch (hdr.h.b) {
            3: { hdr.h.b = 4; }
            7: { hdr.h.b = 8; }
        }
        switch (hdr.h.a) {
            8:
            9: { hdr.h.a = 0; }
            default: { hdr.h.b = 6; }
        }
        for (bit<8> round = 0; round < 2; round = round + 1) {
            hdr.h.r = hdr.h.r + 0x10;
        }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        if (hdr.h.b == 6) {
            if (hdr.h.r != 0) {
                packet.emit(hdr.h);
            }
        }
    }
}

#include "rest.inc"
