// A bridge that can order messages: ordered unreliable multicast, as NOPaxos (Li et al., OSDI 2016) wants it from the
// network. A message to the group gets the next number of its session and goes to all replicas. What reaches a replica
// is in the order of the numbers, and what is lost leaves a hole in them.
//
// The table decides who numbers: the switch (by-switch.json), or a host that the switch passes messages to
// (by-host.json).
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

const bit<16> UNORDERED = 9000;
const bit<16> ORDERED = 9001;

header oum_t {
    bit<32> session;
    bit<32> number;
}

struct metadata {}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    oum_t oum;
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
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dstPort) {
            UNORDERED: parse_oum;
            ORDERED: parse_oum;
            default: accept;
        }
    }
    state parse_oum {
        packet.extract(hdr.oum);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    // The last number given in each session.
    register<bit<32>>(16) numbers;

    action drop() {
        mark_to_drop(standard_metadata);
    }
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }
    action order(bit<32> session, bit<16> group) {
        bit<32> number;
        numbers.read(number, session);
        number = number + 1;
        numbers.write(session, number);
        hdr.oum.session = session;
        hdr.oum.number = number;
        hdr.udp.dstPort = ORDERED;
        // UDP over IPv4 may go without.
        hdr.udp.checksum = 0;
        replicate(group);
    }

    table oum {
        key = { hdr.udp.dstPort: exact; }
        actions = { order; forward; replicate; drop; }
        size = 4;
        default_action = drop();
    }
    table stations {
        key = { hdr.ethernet.dstAddr: exact; }
        actions = { forward; replicate; drop; }
        size = 64;
        default_action = drop();
    }

    apply {
        if (hdr.oum.isValid()) {
            oum.apply();
        } else {
            stations.apply();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.oum);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
