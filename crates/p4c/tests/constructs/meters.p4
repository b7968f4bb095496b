// Meters: colours by packets, indirect and of entries.
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

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    meter(2, MeterType.packets) m;
    direct_meter<bit<8>>(MeterType.packets) d;
    action set() { d.read(hdr.h.b); }
    table t {
        key = { hdr.h.a: exact; }
        actions = { set; NoAction; }
        default_action = NoAction();
        meters = d;
    }
    apply {
        std.egress_spec = 1;
        m.execute_meter((bit<32>)hdr.h.a, hdr.h.r);
        t.apply();
    }
}

#include "rest.inc"
