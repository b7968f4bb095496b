// Counters, indirect and of entries.
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
    counter(4, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets) hits;
    action set() { hits.count(); hdr.h.r = 1; }
    action skip() { hits.count(); }
    table t {
        key = { hdr.h.a: exact; }
        actions = { set; skip; }
        default_action = skip();
        counters = hits;
    }
    apply {
        std.egress_spec = 1;
        seen.count((bit<32>)hdr.h.b);
        t.apply();
    }
}

#include "rest.inc"
