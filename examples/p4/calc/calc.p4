// A calculator: a packet brings two numbers and what to do with them, and goes back with the result.
#include <core.p4>
#include <v1model.p4>
#include "../headers.p4"

const bit<16> ETHERTYPE_CALC = 0x1234;

header p4calc_t {
    bit<8> p;
    bit<8> four;
    bit<8> version;
    bit<8> op;
    bit<32> operand_a;
    bit<32> operand_b;
    bit<32> result;
}

struct metadata {}

struct headers {
    ethernet_t ethernet;
    p4calc_t p4calc;
}

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            ETHERTYPE_CALC: check;
            default: accept;
        }
    }
    state check {
        // 'P', '4' and version 1 come before all else.
        transition select(packet.lookahead<bit<24>>()) {
            24w0x503401: parse_calc;
            default: accept;
        }
    }
    state parse_calc {
        packet.extract(hdr.p4calc);
        transition accept;
    }
}

control MyVerifyChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    // Back to where it came from.
    action answer(bit<32> result) {
        hdr.p4calc.result = result;
        mac_t sender = hdr.ethernet.srcAddr;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = sender;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }

    action add() { answer(hdr.p4calc.operand_a + hdr.p4calc.operand_b); }
    action subtract() { answer(hdr.p4calc.operand_a - hdr.p4calc.operand_b); }
    action bit_and() { answer(hdr.p4calc.operand_a & hdr.p4calc.operand_b); }
    action bit_or() { answer(hdr.p4calc.operand_a | hdr.p4calc.operand_b); }
    action bit_xor() { answer(hdr.p4calc.operand_a ^ hdr.p4calc.operand_b); }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table calculate {
        key = { hdr.p4calc.op: exact; }
        actions = { add; subtract; bit_and; bit_or; bit_xor; drop; }
        const default_action = drop();
        const entries = {
            0x2b: add();
            0x2d: subtract();
            0x26: bit_and();
            0x7c: bit_or();
            0x5e: bit_xor();
        }
    }

    apply {
        if (hdr.p4calc.isValid()) {
            calculate.apply();
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control MyComputeChecksum(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyDeparser(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.p4calc);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
