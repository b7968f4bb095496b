// A bridge with one of each thing that BMv2's Thrift interface is about.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}
struct metadata {}
struct headers {
    ethernet_t ethernet;
}

parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t s) {
    value_set<bit<16>>(4) types;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            types: accept;
            default: accept;
        }
    }
}
control V(inout headers hdr, inout metadata meta) { apply {} }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t s) {
    counter(512, CounterType.packets_and_bytes) arrived;
    register<bit<32>>(8) last;
    meter(4, MeterType.packets) pace;
    direct_counter(CounterType.packets_and_bytes) hits;
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    action replicate(bit<16> group) { s.mcast_grp = group; }
    table exact_ {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; replicate; drop; }
        default_action = drop();
        counters = hits;
        support_timeout = true;
        size = 16;
    }
    table lpm_ {
        key = { hdr.ethernet.dst: lpm; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    table ternary_ {
        key = { hdr.ethernet.type: ternary; hdr.ethernet.src: range; }
        actions = { forward; NoAction; }
        default_action = NoAction();
    }
    action_selector(HashAlgorithm.crc16, 32w16, 32w8) chosen;
    table selected {
        key = { hdr.ethernet.type: exact; hdr.ethernet.src: selector; }
        actions = { forward; drop; }
        implementation = chosen;
    }
    apply {
        bit<2> colour;
        pace.execute_meter(0, colour);
        arrived.count((bit<32>) s.ingress_port);
        last.write((bit<32>) s.ingress_port, (bit<32>) hdr.ethernet.src);
        lpm_.apply();
        ternary_.apply();
        selected.apply();
        exact_.apply();
    }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout metadata meta) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
