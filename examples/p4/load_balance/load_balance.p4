// Load balancing by a hash: packets to one address go to one of several servers, all packets of a flow to the same one.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

struct metadata {
    bit<14> ecmp_select;
    bit<16> source_port;
    bit<16> destination_port;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
    tcp_t tcp;
    udp_t udp;
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
            (0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }
    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.source_port = hdr.tcp.srcPort;
        meta.destination_port = hdr.tcp.dstPort;
        transition accept;
    }
    state parse_udp {
        packet.extract(hdr.udp);
        meta.source_port = hdr.udp.srcPort;
        meta.destination_port = hdr.udp.dstPort;
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

// Changes a checksum as an address that it covers changes: RFC 1624, equation 3.
control Adjust(inout bit<16> checksum, in ipv4_address_t old, in ipv4_address_t new_address) {
    apply {
        bit<32> sum = (bit<32>)(~checksum) + (bit<32>)(~old[31:16]) + (bit<32>)(~old[15:0])
            + (bit<32>)new_address[31:16] + (bit<32>)new_address[15:0];
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        checksum = ~sum[15:0];
    }
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    Adjust() adjust;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action set_ecmp_select(bit<16> ecmp_base, bit<32> ecmp_count) {
        hash(meta.ecmp_select, HashAlgorithm.crc16, ecmp_base,
             { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.ipv4.protocol, meta.source_port, meta.destination_port },
             ecmp_count);
    }

    action set_nhop(mac_t nhop_dmac, ipv4_address_t nhop_ipv4, bit<9> port) {
        hdr.ethernet.dstAddr = nhop_dmac;
        hdr.ipv4.dstAddr = nhop_ipv4;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        standard_metadata.egress_spec = port;
    }

    table ecmp_group {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { set_ecmp_select; drop; }
        size = 1024;
        default_action = drop();
    }

    table ecmp_nhop {
        key = { meta.ecmp_select: exact; }
        actions = { set_nhop; drop; }
        size = 16;
        default_action = drop();
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            if (ecmp_group.apply().hit) {
                ipv4_address_t asked = hdr.ipv4.dstAddr;
                ecmp_nhop.apply();
                // The server has an address of its own, and the checksums of TCP and UDP cover addresses.
                if (hdr.tcp.isValid()) {
                    adjust.apply(hdr.tcp.checksum, asked, hdr.ipv4.dstAddr);
                } else if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
                    adjust.apply(hdr.udp.checksum, asked, hdr.ipv4.dstAddr);
                }
            }
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action rewrite_mac(mac_t smac) {
        hdr.ethernet.srcAddr = smac;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table send_frame {
        key = { standard_metadata.egress_port: exact; }
        actions = { rewrite_mac; drop; }
        size = 256;
        default_action = drop();
    }

    apply {
        send_frame.apply();
    }
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
        packet.emit(hdr.udp);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
