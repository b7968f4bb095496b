// A filter against floods of SYN segments, in front of servers. The first SYN of a client is not passed on: its time is kept,
// in a place that a hash of the client's address gives. A real client's TCP repeats it after its timeout, and is passed; a flood whose
// source addresses are made up repeats nothing. Clients that were passed once stay known for a while.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define CLIENTS 65536
// Microseconds. A repetition comes after a second (RFC 6298), its repetition after two more.
const bit<48> SOONEST = 500000;
const bit<48> LATEST = 4000000;
const bit<48> KNOWN_FOR = 60000000;

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
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_tcp;
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
    // The client whose first SYN a place keeps, and when that came; the client that was passed last, and when.
    register<ipv4_address_t>(CLIENTS) waiting;
    register<bit<48>>(CLIENTS) first_syn;
    register<ipv4_address_t>(CLIENTS) known;
    register<bit<48>>(CLIENTS) passed;
    // 0: held back, 1: passed.
    counter(2, CounterType.packets) syns;
    bool filtered = false;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action ipv4_forward(mac_t dstAddr, bit<9> port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = dstAddr;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { ipv4_forward; drop; }
        size = 1024;
        default_action = drop();
    }

    action guard() {
        filtered = true;
    }

    // Ports that the servers are at.
    table protected {
        key = { standard_metadata.egress_spec: exact; }
        actions = { guard; NoAction; }
        size = 16;
        default_action = NoAction();
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1) {
            drop();
            return;
        }
        ipv4_lpm.apply();
        if (!hdr.tcp.isValid() || hdr.tcp.syn == 0 || hdr.tcp.ack == 1) {
            return;
        }
        protected.apply();
        if (filtered) {
            bit<32> place;
            ipv4_address_t client;
            bit<48> first;
            ipv4_address_t friend;
            bit<48> last;
            bit<48> now = standard_metadata.ingress_global_timestamp;
            hash(place, HashAlgorithm.crc32, 32w0, { hdr.ipv4.srcAddr }, 32w65536);
            waiting.read(client, place);
            first_syn.read(first, place);
            known.read(friend, place);
            passed.read(last, place);
            bool is_waiting = client == hdr.ipv4.srcAddr && now - first < LATEST;
            bool is_known = friend == hdr.ipv4.srcAddr && now - last < KNOWN_FOR;
            if (is_known || (is_waiting && now - first > SOONEST)) {
                known.write(place, hdr.ipv4.srcAddr);
                passed.write(place, now);
                syns.count(1);
            } else {
                if (!is_waiting) {
                    waiting.write(place, hdr.ipv4.srcAddr);
                    first_syn.write(place, now);
                }
                syns.count(0);
                drop();
            }
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
