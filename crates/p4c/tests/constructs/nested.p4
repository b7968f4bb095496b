// Structs in headers and structs, type and typedef, stacks in structs, unused headers.
#include <core.p4>
#include <v1model.p4>

typedef bit<8> byte_t;
type bit<16> port_t;
struct half_t { byte_t high; byte_t low; }
header h_t { half_t first; half_t second; port_t port; bool flag; bit<7> rest; int<8> signed_; }
header s_t { bit<8> v; }
struct inner_t { s_t[2] s; s_t one; }
struct headers_t { h_t h; inner_t inner; }
struct deep_t { half_t half; bit<4> nibble; bool truth; }
struct meta_t { deep_t deep; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.inner.s.next);
        packet.extract(hdr.inner.s.next);
        packet.extract(hdr.inner.one);
        meta.deep.half = hdr.h.second;
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        half_t kept = hdr.h.first;
        hdr.h.first = meta.deep.half;
        hdr.h.second = { kept.low, kept.high };
        if (hdr.h.port == (port_t)0x1234) {
            hdr.h.port = (port_t)(bit<16>)0x4321;
        }
        hdr.h.flag = !hdr.h.flag;
        meta.deep.truth = hdr.h.signed_ < 0;
        meta.deep.nibble = hdr.h.rest[3:0];
        if (meta.deep.truth) {
            hdr.inner.s[0].v = 4w0 ++ meta.deep.nibble;
        }
        inner_t all = hdr.inner;
        hdr.inner.one = all.s[1];
    }
}

#include "rest.inc"
