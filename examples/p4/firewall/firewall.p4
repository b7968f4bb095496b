// A router that lets TCP connections be opened from inside only. Connections from inside are remembered in a Bloom filter of
// two arrays; what comes from outside passes if its connection may be in both.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

const bit<32> BLOOM_BITS = 4096;

struct metadata {}

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
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_TCP: parse_tcp;
            default: accept;
        }
    }
    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, { IPV4_FIELDS(hdr.ipv4) }, hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
    }
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    register<bit<1>>(BLOOM_BITS) bloom_filter_1;
    register<bit<1>>(BLOOM_BITS) bloom_filter_2;
    bit<1> direction = 0;
    bit<32> first;
    bit<32> second;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action ipv4_forward(mac_t dstAddr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = dstAddr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // 1: from outside.
    action set_direction(bit<1> dir) {
        direction = dir;
    }

    // The places of a connection, named from inside: the same for both of its directions.
    action compute_hashes(ipv4_address_t inside, ipv4_address_t outside, bit<16> inside_port, bit<16> outside_port) {
        hash(first, HashAlgorithm.crc16, 32w0, { inside, outside, inside_port, outside_port, hdr.ipv4.protocol },
             BLOOM_BITS);
        hash(second, HashAlgorithm.crc32, 32w0, { inside, outside, inside_port, outside_port, hdr.ipv4.protocol },
             BLOOM_BITS);
    }

    table check_ports {
        key = {
            standard_metadata.ingress_port: exact;
            standard_metadata.egress_spec: exact;
        }
        actions = { set_direction; NoAction; }
        size = 1024;
        default_action = NoAction();
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { ipv4_forward; drop; }
        size = 1024;
        default_action = drop();
    }

    apply {
        // A packet whose checksum is wrong, or whose time is up, goes no further.
        if (hdr.ipv4.isValid() && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
            ipv4_lpm.apply();
            if (hdr.tcp.isValid() && check_ports.apply().hit) {
                if (direction == 0) {
                    compute_hashes(hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.tcp.srcPort, hdr.tcp.dstPort);
                    if (hdr.tcp.syn == 1) {
                        bloom_filter_1.write(first, 1);
                        bloom_filter_2.write(second, 1);
                    }
                } else {
                    compute_hashes(hdr.ipv4.dstAddr, hdr.ipv4.srcAddr, hdr.tcp.dstPort, hdr.tcp.srcPort);
                    bit<1> in_first;
                    bit<1> in_second;
                    bloom_filter_1.read(in_first, first);
                    bloom_filter_2.read(in_second, second);
                    if (in_first == 0 || in_second == 0) {
                        drop();
                    }
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
