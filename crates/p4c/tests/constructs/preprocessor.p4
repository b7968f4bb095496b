// The preprocessor: conditions, macros with parameters, pasting, undefining.
#include "two.inc"

#define LEVEL 2
#define DOUBLE(x) ((x) * 2)
#define FIELD(n) hdr.y.r ## n
// What makes no token is two: `r7=`.
#define SET(n, bits, value) hdr.y.r##n##bits##=value##;
#define INNER 9
#define NESTED INNER

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.y.setValid();
        hdr.y = { 0, 0, 0, 0, 0, 0, 0, 0 };
        hdr.y.r0 = DOUBLE(3 + 1);
        hdr.y.r1 = hdr.x.b;
        FIELD(1) = FIELD(1) + 1;
        #if LEVEL > 1 && defined(DOUBLE) || 0
        hdr.y.r2 = LEVEL;
        #elif LEVEL == 1
        hdr.y.r2 = 0xEE;
        #else
        this is not P4
        #endif
        #undef LEVEL
        #ifdef LEVEL
        hdr.y.r3 = 1;
        #else
        hdr.y.r3 = 2;   // a comment
        #endif
        hdr.y.r4 = /* an
           inner comment */ 4;
        hdr.y.r5 = \
            5;
        hdr.y.r6 = NESTED;
        hdr.y.r7 = __LINE__ > 10 ? 8w1 : 0;
        SET(7, [7:4], 3)
    }
}

#include "rest.inc"
