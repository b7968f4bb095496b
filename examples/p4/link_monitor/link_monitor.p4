// Monitoring of links: a probe is led by its sender through the switches, and each says how many bytes have left by the
// probe's port since the last probe, and when that was.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define MAX_HOPS 10
#define MAX_PORTS 8
const bit<16> ETHERTYPE_PROBE = 0x0812;

header probe_t {
    bit<8> hop_cnt;
}

header probe_data_t {
    // Bottom of the stack.
    bit<1> bos;
    bit<7> swid;
    bit<8> port;
    bit<32> byte_cnt;
    bit<48> last_time;
    bit<48> cur_time;
}

header probe_fwd_t {
    bit<8> egress_spec;
}

struct metadata {
    bit<8> egress_spec;
    bit<8> remaining;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
    probe_t probe;
    probe_data_t[MAX_HOPS] probe_data;
    probe_fwd_t[MAX_HOPS] probe_fwd;
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_PROBE: parse_probe;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
    state parse_probe {
        packet.extract(hdr.probe);
        // The probe has been through so many switches: it brings as many reports, and so many ports are used up.
        meta.remaining = hdr.probe.hop_cnt;
        transition select(hdr.probe.hop_cnt) {
            0: parse_port;
            default: parse_report;
        }
    }
    state parse_report {
        packet.extract(hdr.probe_data.next);
        transition select(hdr.probe_data.last.bos) {
            1: parse_port;
            default: parse_report;
        }
    }
    state parse_port {
        packet.extract(hdr.probe_fwd.next);
        meta.egress_spec = hdr.probe_fwd.last.egress_spec;
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            // One below 0: the port of this switch is the one after those that are used up.
            255: accept;
            default: parse_port;
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
        if (hdr.ipv4.isValid()) {
            ipv4_lpm.apply();
        } else if (hdr.probe.isValid() && standard_metadata.parser_error == error.NoError) {
            standard_metadata.egress_spec = (bit<9>)meta.egress_spec;
            hdr.probe.hop_cnt = hdr.probe.hop_cnt + 1;
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(MAX_PORTS) byte_cnt_reg;
    register<bit<48>>(MAX_PORTS) last_time_reg;

    action set_swid(bit<7> swid) {
        hdr.probe_data[0].swid = swid;
    }

    table swid {
        actions = { set_swid; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> port = (bit<32>)standard_metadata.egress_port;
        bit<32> bytes;
        byte_cnt_reg.read(bytes, port);
        bytes = bytes + standard_metadata.packet_length;
        if (hdr.probe.isValid()) {
            bit<48> before;
            bit<48> now = standard_metadata.egress_global_timestamp;
            last_time_reg.read(before, port);
            hdr.probe_data.push_front(1);
            hdr.probe_data[0].setValid();
            hdr.probe_data[0].bos = (bit<1>)(hdr.probe.hop_cnt == 1);
            swid.apply();
            hdr.probe_data[0].port = (bit<8>)standard_metadata.egress_port;
            hdr.probe_data[0].byte_cnt = bytes;
            hdr.probe_data[0].last_time = before;
            hdr.probe_data[0].cur_time = now;
            last_time_reg.write(port, now);
            bytes = 0;
        }
        byte_cnt_reg.write(port, bytes);
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
        packet.emit(hdr.probe);
        packet.emit(hdr.probe_data);
        packet.emit(hdr.probe_fwd);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
