// An IPv4 router: the longest prefix decides, the TTL sinks, the checksum follows.
#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;
const bit<16> TYPE_IPV4 = 0x0800;

enum bit<8> Protocol { ICMP = 1, TCP = 6, UDP = 17 }

header ethernet_t { mac_t destination; mac_t source; bit<16> type; }

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> identification;
    bit<3> flags;
    bit<13> offset;
    bit<8> ttl;
    Protocol protocol;
    bit<16> checksum;
    ipv4_address_t source;
    ipv4_address_t destination;
}

header label_t { bit<7> value; bit<1> last; }

struct metadata_t {
    bit<9> chosen;
    @field_list(1) bit<16> seen;
}

struct headers_t { ethernet_t ethernet; label_t[4] labels; ipv4_t ipv4; }

bit<8> smaller(in bit<8> value, in bit<8> by) {
    if (value < by) {
        return 0;
    }
    return value - by;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: ipv4;
            0x88B5 &&& 0xFFFE: labels;
            0x9000..0x9003: accept;
            default: accept;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            0: labels;
            1: ipv4;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.ParserInvalidArgument);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(16, CounterType.packets) ports;
    register<bit<32>>(16) totals;

    action drop() { mark_to_drop(standard); }

    action forward(mac_t next, bit<9> port) {
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = next;
        standard.egress_spec = port;
        hdr.ipv4.ttl = smaller(hdr.ipv4.ttl, 1);
    }

    table routes {
        key = { hdr.ipv4.destination: lpm; hdr.ipv4.protocol: ternary; }
        actions = { forward; drop; NoAction; }
        size = 256;
        default_action = drop();
    }

    apply {
        if (hdr.ipv4.isValid() && standard.parser_error == error.NoError) {
            if (hdr.ipv4.ttl == 0) {
                drop();
                exit;
            }
            switch (routes.apply().action_run) {
                forward: {
                    bit<32> total;
                    totals.read(total, 1);
                    totals.write(1, total + 1);
                    ports.count((bit<32>) standard.egress_spec);
                }
                default: { meta.seen = 1; }
            }
        } else {
            drop();
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification, hdr.ipv4.flags,
              hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Verify(), Route(), Leave(), Compute(), Deparse()) main;
