// A switch that bridges, and routes what is addressed to itself. It learns nothing by itself: stations that it has not met are
// reported by digests, packets to unknown hosts go to the controller, which sends the questions by ARP.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define CPU_PORT 510
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ARP_REQUEST = 1;
const bit<16> ARP_REPLY = 2;
const bit<16> FLOOD = 1;

@controller_header("packet_in")
header packet_in_t {
    bit<16> input_port;
}

@controller_header("packet_out")
header packet_out_t {
    // A multicast group.
    bit<16> group;
}

header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<8> hardwareLen;
    bit<8> protocolLen;
    bit<16> operation;
    mac_t senderMac;
    ipv4_address_t senderIp;
    mac_t targetMac;
    ipv4_address_t targetIp;
}

// What the controller is told of a station; the address is 0 unless it came by ARP.
struct station_t {
    mac_t mac;
    ipv4_address_t ip;
    bit<16> port;
}

struct metadata {
    station_t station;
}

struct headers {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    arp_t arp;
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
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
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

    action learn() {
        meta.station.mac = hdr.ethernet.srcAddr;
        meta.station.ip = 0;
        if (hdr.arp.isValid()) {
            meta.station.ip = hdr.arp.senderIp;
        }
        meta.station.port = (bit<16>)standard_metadata.ingress_port;
        digest(1, meta.station);
    }

    // Stations that are known, at their ports.
    table stations {
        key = {
            hdr.ethernet.srcAddr: exact;
            standard_metadata.ingress_port: exact;
        }
        actions = { learn; NoAction; }
        size = 1024;
        default_action = learn();
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action flood() {
        standard_metadata.mcast_grp = FLOOD;
    }

    table bridge {
        key = { hdr.ethernet.dstAddr: exact; }
        actions = { forward; flood; }
        size = 1024;
        default_action = flood();
    }

    // A question for an address of the switch is answered at once.
    action answer(mac_t own) {
        ipv4_address_t asked = hdr.arp.targetIp;
        hdr.ethernet.dstAddr = hdr.ethernet.srcAddr;
        hdr.ethernet.srcAddr = own;
        hdr.arp.operation = ARP_REPLY;
        hdr.arp.targetMac = hdr.arp.senderMac;
        hdr.arp.targetIp = hdr.arp.senderIp;
        hdr.arp.senderMac = own;
        hdr.arp.senderIp = asked;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    table own_addresses {
        key = { hdr.arp.targetIp: exact; }
        actions = { answer; NoAction; }
        size = 16;
        default_action = NoAction();
    }

    action own() {}

    table own_stations {
        key = { hdr.ethernet.dstAddr: exact; }
        actions = { own; NoAction; }
        size = 16;
        default_action = NoAction();
    }

    action route(mac_t station, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = station;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action ask_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.input_port = (bit<16>)standard_metadata.ingress_port;
        standard_metadata.egress_spec = CPU_PORT;
    }

    table routes {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { route; ask_controller; drop; }
        size = 1024;
        default_action = drop();
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.mcast_grp = hdr.packet_out.group;
            hdr.packet_out.setInvalid();
            return;
        }
        if (!hdr.ethernet.isValid()) {
            drop();
            return;
        }
        stations.apply();
        if (hdr.arp.isValid() && hdr.arp.operation == ARP_REQUEST && own_addresses.apply().hit) {
            return;
        }
        if (own_stations.apply().hit) {
            if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
                routes.apply();
            } else {
                drop();
            }
        } else {
            bridge.apply();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {
        // Nothing is flooded back to where it came from; questions of the controller came from no port.
        if (standard_metadata.egress_rid != 0 && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
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
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
