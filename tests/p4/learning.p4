// A switch that its controller teaches: it digests sources, counts and remembers packets, forwards what the controller has
// told it and sends the rest to the controller.
#include <core.p4>
#include <v1model.p4>

#define CPU_PORT 510

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t {}

struct source_t {
    bit<48> mac;
    bit<9> port;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) untrusted;

    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            untrusted: parse_untrusted;
            default: accept;
        }
    }
    state parse_untrusted {
        sm.priority = 1;
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter<bit<9>>(512, CounterType.packets_and_bytes) received;
    register<bit<48>>(512) last_source;
    meter<bit<9>>(512, MeterType.packets) police;
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action drop() { mark_to_drop(sm); }
    action forward(bit<9> port) { sm.egress_spec = port; }
    action flood(bit<16> group) { sm.mcast_grp = group; }
    action to_controller() {
        sm.egress_spec = CPU_PORT;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = sm.ingress_port;
    }

    table mac {
        key = { hdr.ethernet.dst: exact; }
        actions = { drop; forward; flood; to_controller; }
        default_action = to_controller();
        counters = forwarded;
        support_timeout = true;
        size = 1024;
    }
    table acl {
        key = { hdr.ethernet.src: ternary; hdr.ethernet.type: range; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            received.count(sm.ingress_port);
            last_source.write((bit<32>)sm.ingress_port, hdr.ethernet.src);
            digest<source_t>(1, { hdr.ethernet.src, sm.ingress_port });
            if (sm.priority == 1) {
                drop();
            } else {
                mac.apply();
                acl.apply();
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.packet_out);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
