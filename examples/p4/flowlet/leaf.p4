// A leaf switch with several equal paths up. Which of them a packet takes is decided in one of three ways:
//
// by_flow      a hash of the flow: its packets stay in order, and two large flows may share a path (ECMP);
// by_flowlet   a hash of the flow and of its flowlet: after a pause, long enough that nothing can be overtaken, a flow may
//              take another path (Sinha et al., HotNets 2004);
// by_packet    at random.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define FLOWS 4096

struct metadata {
    bit<16> source_port;
    bit<16> destination_port;
    bit<8> path;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
    tcp_t tcp;
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_tcp;
            default: accept;
        }
    }
    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    register<bit<48>>(FLOWS) last_packet;
    register<bit<32>>(FLOWS) flowlet;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    // Down to a host.
    action deliver(mac_t dstAddr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = dstAddr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action climb() {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table destinations {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { deliver; climb; drop; }
        size = 1024;
        default_action = drop();
    }

    action by_flow(bit<8> paths) {
        hash(meta.path, HashAlgorithm.crc32, 8w0,
             { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.ipv4.protocol, hdr.tcp.srcPort, hdr.tcp.dstPort }, paths);
    }

    action by_flowlet(bit<8> paths, bit<48> pause) {
        bit<32> place;
        bit<48> last;
        bit<32> number;
        hash(place, HashAlgorithm.crc16, 32w0,
             { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.ipv4.protocol, hdr.tcp.srcPort, hdr.tcp.dstPort }, 32w4096);
        last_packet.read(last, place);
        flowlet.read(number, place);
        if (standard_metadata.ingress_global_timestamp - last > pause) {
            number = number + 1;
            flowlet.write(place, number);
        }
        last_packet.write(place, standard_metadata.ingress_global_timestamp);
        hash(meta.path, HashAlgorithm.crc32, 8w0,
             { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.ipv4.protocol, hdr.tcp.srcPort, hdr.tcp.dstPort, number }, paths);
    }

    action by_packet(bit<8> paths) {
        bit<8> path;
        random(path, 0, paths - 1);
        meta.path = path;
    }

    table policy {
        actions = { by_flow; by_flowlet; by_packet; NoAction; }
        default_action = NoAction();
    }

    action up(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table paths {
        key = { meta.path: exact; }
        actions = { up; drop; }
        size = 16;
        default_action = drop();
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            switch (destinations.apply().action_run) {
                climb: {
                    policy.apply();
                    paths.apply();
                }
            }
        } else {
            drop();
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
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
