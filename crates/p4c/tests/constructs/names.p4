// Names in the control plane: @name, absolute names, @hidden, annotations of many forms.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; bit<8> r; }
struct headers_t { h_t h; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

@name("Shared") action shared() {}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    @name("put") @id(0x01000010) action set(@name("value") bit<8> v) { hdr.h.r = v; }
    @name(".global") action other() { hdr.h.r = 0x77; }
    @hidden action hidden_one() { hdr.h.b = 1; }
    @name("lookup") @brief("finds") @custom[a = 1, b = "x", c = true] @list[1, 2, 3]
    table t {
        key = { hdr.h.a: exact @name("first"); }
        actions = { @tableonly set; other; @defaultonly NoAction; }
        default_action = NoAction();
    }
    @hidden table h {
        actions = { hidden_one; }
        const default_action = hidden_one();
    }
    apply {
        std.egress_spec = 1;
        t.apply();
        h.apply();
    }
}

#include "rest.inc"
