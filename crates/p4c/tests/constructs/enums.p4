// Enums with and without numbers, errors, and switch on them.
#include "two.inc"

enum kind_t { NONE, ODD, EVEN }
enum bit<8> code_t { ONE = 1, TWO = 2 }
error { Own }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        kind_t kind = kind_t.ODD;
        if (hdr.x.a[0:0] == 0) {
            kind = kind_t.EVEN;
        }
        hdr.y.r0 = kind == kind_t.EVEN ? 8w1 : 2;
        hdr.y.r1 = code_t.TWO;
        code_t code = (code_t)hdr.x.b;
        switch (code) {
            code_t.ONE: { hdr.y.r2 = 0x11; }
            code_t.TWO: { hdr.y.r2 = 0x22; }
            default: { hdr.y.r2 = 0xFF; }
        }
        switch (kind) {
            kind_t.ODD:
            kind_t.NONE: { hdr.y.r3 = 1; }
            kind_t.EVEN: { hdr.y.r3 = 2; }
        }
        error seen = error.NoError;
        if (hdr.x.a == 0) {
            seen = error.Own;
        }
        hdr.y.r4 = seen == error.Own ? 8w1 : 0;
        hdr.y.r5 = code + 1;
    }
}

#include "rest.inc"
