// Source routing: the sender lists the ports by which a packet leaves each switch, and every switch takes the first off.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define MAX_HOPS 9
const bit<16> ETHERTYPE_SOURCE_ROUTE = 0x1234;

header srcRoute_t {
    // Bottom of the stack.
    bit<1> bos;
    bit<15> port;
}

struct metadata {}

struct headers {
    ethernet_t ethernet;
    srcRoute_t[MAX_HOPS] srcRoutes;
    ipv4_t ipv4;
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            ETHERTYPE_SOURCE_ROUTE: parse_route;
            default: accept;
        }
    }
    state parse_route {
        packet.extract(hdr.srcRoutes.next);
        transition select(hdr.srcRoutes.last.bos) {
            1: parse_ipv4;
            default: parse_route;
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
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action srcRoute_nhop() {
        standard_metadata.egress_spec = (bit<9>)hdr.srcRoutes[0].port;
        hdr.srcRoutes.pop_front(1);
    }

    action last_hop() {
        hdr.ethernet.etherType = ETHERTYPE_IPV4;
    }

    apply {
        // A route longer than the stack, or one that ends nowhere, is no route.
        if (hdr.srcRoutes[0].isValid() && standard_metadata.parser_error == error.NoError) {
            if (hdr.srcRoutes[0].bos == 1) {
                last_hop();
            }
            srcRoute_nhop();
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
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
        packet.emit(hdr.srcRoutes);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
