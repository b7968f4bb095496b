// In-band telemetry: every switch on the way of a probe adds when the packet came in, when it left its queue and how many
// packets were before it there. All switches have one clock, the simulation's, so their times can be subtracted.
//
// A probe is a UDP packet to port 9100. Its payload begins with the number of reports; new ones are put before the others.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define MAX_HOPS 8
const bit<16> PORT_PROBE = 9100;
const bit<16> REPORT_BYTES = 20;

header probe_t {
    bit<16> reports;
}

header report_t {
    bit<32> swid;
    // Microseconds since the start of the simulation.
    bit<48> ingress_time;
    bit<48> egress_time;
    bit<32> queued;
}

struct metadata {
    bit<16> remaining;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    probe_t probe;
    report_t[MAX_HOPS] reports;
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
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dstPort) {
            PORT_PROBE: parse_probe;
            default: accept;
        }
    }
    state parse_probe {
        packet.extract(hdr.probe);
        meta.remaining = hdr.probe.reports;
        transition select(meta.remaining) {
            0: accept;
            default: parse_report;
        }
    }
    state parse_report {
        packet.extract(hdr.reports.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_report;
        }
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
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

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            ipv4_lpm.apply();
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action report(bit<32> swid) {
        hdr.reports.push_front(1);
        hdr.reports[0].setValid();
        hdr.reports[0].swid = swid;
        hdr.reports[0].ingress_time = standard_metadata.ingress_global_timestamp;
        hdr.reports[0].egress_time = standard_metadata.egress_global_timestamp;
        hdr.reports[0].queued = (bit<32>)standard_metadata.enq_qdepth;
        hdr.probe.reports = hdr.probe.reports + 1;
        hdr.ipv4.totalLen = hdr.ipv4.totalLen + REPORT_BYTES;
        hdr.udp.length = hdr.udp.length + REPORT_BYTES;
        // No checksum, as IPv4 allows.
        hdr.udp.checksum = 0;
    }

    table telemetry {
        actions = { report; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.probe.isValid() && hdr.probe.reports < MAX_HOPS) {
            telemetry.apply();
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
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.probe);
        packet.emit(hdr.reports);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
