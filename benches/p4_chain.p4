// A router for lines and rings: the longest prefix of the destination decides, the time to live sinks, the checksum is
// verified and updated. ARP goes the way of the address that is asked for, so that hosts of one network find each other.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }

header arp_t {
    bit<64> kind;
    bit<48> sender_mac;
    bit<32> sender;
    bit<48> target_mac;
    bit<32> target;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t { ethernet_t ethernet; arp_t arp; ipv4_t ipv4; }
struct metadata_t { bit<32> dst; }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            0x0806: arp;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.dst = hdr.ipv4.dst;
        transition accept;
    }
    state arp {
        packet.extract(hdr.arp);
        meta.dst = hdr.arp.target;
        transition accept;
    }
}

control check(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action drop() { mark_to_drop(standard); }
    action forward(bit<9> port) {
        standard.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { meta.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }
    apply { routes.apply(); }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }

control update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(parse(), check(), ingress(), egress(), update(), deparse()) main;
