// A program with an object of each kind that P4Runtime knows.
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in") header packet_in_t { bit<9> port; bit<7> padding; }
@controller_header("packet_out") header packet_out_t { bit<9> port; bit<7> padding; }
header h_t { bit<8> a; bit<16> b; bit<32> c; bit<48> d; bit<8> hops; bit<16> sum; }
struct headers_t { packet_out_t packet_out; packet_in_t packet_in; h_t h; }
struct meta_t { @field_list(1) bit<8> kept; bit<8> colour; }
struct seen_t { bit<32> c; bit<9> port; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) known;
    state start {
        transition select(std.ingress_port) {
            510: from_controller;
            default: plain;
        }
    }
    state from_controller { packet.extract(hdr.packet_out); transition plain; }
    state plain {
        packet.extract(hdr.h);
        transition select(hdr.h.b) {
            known: accept;
            default: more;
        }
    }
    state more { meta.kept = 1; transition accept; }
}

control Verify(inout headers_t hdr, inout meta_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) seen;
    meter(8, MeterType.bytes) limit;
    register<bit<32>>(8) last;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<8>>(MeterType.packets) pace;
    action_selector(HashAlgorithm.crc16, 16, 8) paths;
    action_profile(4) plain;

    action send(bit<9> port) { std.egress_spec = port; }
    action spread(bit<16> group) { std.mcast_grp = group; }
    action note(bit<32> index) {
        seen.count(index);
        limit.execute_meter(index, meta.colour);
        last.write(index & 7, hdr.h.c);
        digest<seen_t>(1, { hdr.h.c, std.ingress_port });
        clone_preserving_field_list(CloneType.I2E, 5, 1);
    }
    action drop() { mark_to_drop(std); }
    action pass() { pace.read(meta.colour); }
    action paced(bit<32> index) { pace.read(meta.colour); seen.count(index); }

    table exactly {
        key = { hdr.h.a: exact; hdr.h.d: exact; }
        actions = { send; spread; note; drop; }
        default_action = drop();
        size = 64;
        support_timeout = true;
        counters = hits;
    }
    table longest {
        key = { hdr.h.c: lpm; }
        actions = { send; spread; drop; NoAction; }
        size = 64;
    }
    table rules {
        key = { hdr.h.a: ternary; hdr.h.b: range; hdr.h.c: optional; }
        actions = { @defaultonly pass; paced; }
        default_action = pass();
        size = 32;
        meters = pace;
    }
    table chosen {
        key = { hdr.h.b: exact; hdr.h.c: selector; hdr.h.d: selector; }
        actions = { send; spread; }
        implementation = paths;
        size = 16;
    }
    table given {
        key = { hdr.h.hops: exact; }
        actions = { send; drop; }
        implementation = plain;
    }
    table fixed {
        key = { hdr.h.hops: exact; }
        actions = { drop; NoAction; }
        const entries = { 0: drop(); }
    }
    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.port;
            hdr.packet_out.setInvalid();
        } else {
            exactly.apply();
            longest.apply();
            rules.apply();
            chosen.apply();
            given.apply();
            fixed.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.port = std.ingress_port;
        }
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(hdr.h.isValid(), { hdr.h.a, hdr.h.hops, hdr.h.b, hdr.h.c, hdr.h.d }, hdr.h.sum, HashAlgorithm.csum16);
    }
}
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), MyIngress(), MyEgress(), Compute(), Deparse()) main;
