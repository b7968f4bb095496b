// Field lists whose indices are constants, members of an enum and expressions, and one with a header of variable width.
#include <core.p4>
#include <v1model.p4>

#define HAS_EGRESS

const bit<8> FIRST = 1;
const int SECOND = FIRST + 1;
enum bit<8> List { third = 3, fourth = 4 }

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
header options_t { bit<8> kind; varbit<32> data; }
struct headers_t { h_t h; options_t options; }
struct inner_t {
    bit<8> one;
    @field_list(SECOND) bit<8> two;
}
struct meta_t {
    @field_list(FIRST, List.third) bit<8> a;
    @field_list((bit<8>)(1 << 1), List.fourth) bit<8> b;
    @field_list(List.third + 1 == 4 ? 8w4 : 8w9) bit<8> c;
    @field_list(FIRST) inner_t inner;
    @field_list(List.third) tuple<bit<8>, bit<8>> pair;
    bit<8> lost;
    options_t options;
}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            5: options;
            default: accept;
        }
    }
    state options {
        packet.extract(meta.options, (bit<32>)hdr.h.b * 8);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        meta.a = 0x01;
        meta.b = 0x02;
        meta.c = 0x04;
        meta.inner.one = 0x10;
        meta.inner.two = 0x20;
        meta.pair = { 0x40, 0x08 };
        meta.lost = 0x80;
        if (hdr.h.a == 1) {
            clone_preserving_field_list(CloneType.I2E, 5, FIRST);
        } else if (hdr.h.a == 2) {
            clone_preserving_field_list(CloneType.I2E, 5, SECOND);
        } else if (hdr.h.a == 3) {
            clone_preserving_field_list(CloneType.I2E, 5, List.third);
        } else if (hdr.h.a == 4) {
            clone_preserving_field_list(CloneType.I2E, 5, List.fourth);
        } else if (hdr.h.a == 5) {
            meta.options.kind = 0x77;
            clone3(CloneType.I2E, 5, { meta.options });
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) {
            hdr.h.r = meta.a + meta.b + meta.c + meta.inner.one + meta.inner.two + meta.pair[0]
                + meta.pair[1] + meta.lost;
            if (hdr.h.a == 5) {
                hdr.options.setValid();
                hdr.options.kind = meta.options.kind;
                hdr.options.data = meta.options.data;
            }
        }
    }
}

#include "rest.inc"
