// Multi-hop route inspection: every switch adds its number and the depth of the queue that the packet waited in, as an IP
// option, to packets that ask for it.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

#define MAX_HOPS 4
const bit<5> OPTION_MRI = 31;

header ipv4_option_t {
    bit<1> copyFlag;
    bit<2> optClass;
    bit<5> option;
    bit<8> optionLength;
}

header mri_t {
    bit<16> count;
}

header switch_t {
    bit<32> swid;
    bit<32> qdepth;
}

struct metadata {
    bit<16> remaining;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv4_option_t ipv4_option;
    mri_t mri;
    switch_t[MAX_HOPS] swtraces;
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
        verify(hdr.ipv4.ihl >= 5, error.PacketTooShort);
        transition select(hdr.ipv4.ihl) {
            5: accept;
            default: parse_option;
        }
    }
    state parse_option {
        packet.extract(hdr.ipv4_option);
        transition select(hdr.ipv4_option.option) {
            OPTION_MRI: parse_mri;
            default: accept;
        }
    }
    state parse_mri {
        packet.extract(hdr.mri);
        meta.remaining = hdr.mri.count;
        transition select(meta.remaining) {
            0: accept;
            default: parse_trace;
        }
    }
    state parse_trace {
        packet.extract(hdr.swtraces.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_trace;
        }
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, { IPV4_FIELDS(hdr.ipv4) }, hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
    }
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
        // A packet whose checksum is wrong, or whose time is up, goes no further.
        if (hdr.ipv4.isValid() && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
            ipv4_lpm.apply();
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    action add_swtrace(bit<32> swid) {
        hdr.mri.count = hdr.mri.count + 1;
        hdr.swtraces.push_front(1);
        hdr.swtraces[0].setValid();
        hdr.swtraces[0].swid = swid;
        hdr.swtraces[0].qdepth = (bit<32>)standard_metadata.deq_qdepth;
        // A trace is two words of the header.
        hdr.ipv4.ihl = hdr.ipv4.ihl + 2;
        hdr.ipv4_option.optionLength = hdr.ipv4_option.optionLength + 8;
        hdr.ipv4.totalLen = hdr.ipv4.totalLen + 8;
    }

    table swtrace {
        actions = { add_swtrace; NoAction; }
        default_action = NoAction();
    }

    apply {
        // A header has at most 15 words: five of its own, one of the option, and two for each of four traces.
        if (hdr.mri.isValid() && hdr.mri.count < 4) {
            swtrace.apply();
        }
    }
}

#define TRACE(n) hdr.swtraces[n].swid, hdr.swtraces[n].qdepth
#define OPTION_FIELDS \
    IPV4_FIELDS(hdr.ipv4), hdr.ipv4_option.copyFlag, hdr.ipv4_option.optClass, hdr.ipv4_option.option, \
    hdr.ipv4_option.optionLength, hdr.mri.count

control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, { IPV4_FIELDS(hdr.ipv4) }, hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
        // The options count too, and a checksum's fields are a fixed list: one for each number of traces.
        update_checksum(hdr.mri.isValid() && hdr.mri.count == 1, { OPTION_FIELDS, TRACE(0) }, hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
        update_checksum(hdr.mri.isValid() && hdr.mri.count == 2, { OPTION_FIELDS, TRACE(0), TRACE(1) },
                        hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
        update_checksum(hdr.mri.isValid() && hdr.mri.count == 3, { OPTION_FIELDS, TRACE(0), TRACE(1), TRACE(2) },
                        hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
        update_checksum(hdr.mri.isValid() && hdr.mri.count == 4,
                        { OPTION_FIELDS, TRACE(0), TRACE(1), TRACE(2), TRACE(3) }, hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_option);
        packet.emit(hdr.mri);
        packet.emit(hdr.swtraces);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
