// A cache of flows: the first packet of a flow goes to the controller, which sends it on and adds an entry for those that
// follow. Entries that are not used for a while are reported to it.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define CPU_PORT 510
#define HOSTS 256

@controller_header("packet_in")
header packet_in_t {
    bit<16> input_port;
    bit<8> punt_reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<16> egress_port;
}

const bit<8> FLOW_UNKNOWN = 1;

struct metadata {}

struct headers {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    ipv4_t ipv4;
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
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
        transition select(hdr.ethernet.etherType) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    counter(HOSTS, CounterType.packets_and_bytes) packet_outs;
    counter(HOSTS, CounterType.packets_and_bytes) packet_ins;

    action drop_packet() {
        mark_to_drop(standard_metadata);
    }

    action cached_action(bit<9> port, mac_t dst_eth_addr) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = dst_eth_addr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action flow_unknown() {
        hdr.packet_in.setValid();
        hdr.packet_in.input_port = (bit<16>)standard_metadata.ingress_port;
        hdr.packet_in.punt_reason = FLOW_UNKNOWN;
        packet_ins.count((bit<32>)hdr.ipv4.dstAddr[7:0]);
        standard_metadata.egress_spec = CPU_PORT;
    }

    table flow_cache {
        key = {
            hdr.ipv4.protocol: exact;
            hdr.ipv4.srcAddr: exact;
            hdr.ipv4.dstAddr: exact;
        }
        actions = { cached_action; drop_packet; flow_unknown; }
        size = 65536;
        default_action = flow_unknown();
        support_timeout = true;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            packet_outs.count((bit<32>)hdr.ipv4.dstAddr[7:0]);
            standard_metadata.egress_spec = (bit<9>)hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            flow_cache.apply();
        } else {
            drop_packet();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, { IPV4_FIELDS(hdr.ipv4) }, hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
