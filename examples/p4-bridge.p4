// A bridge for Ethernet: a frame goes to the port of its station, or to all ports if the station is not known, and never
// back to where it came from.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t { ethernet_t ethernet; }
struct metadata_t { }

parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control check(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action flood() { standard.mcast_grp = 1; }
    action forward(bit<9> port) { standard.egress_spec = port; }
    table stations {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; flood; }
        default_action = flood();
        size = 1024;
    }
    apply {
        if (hdr.ethernet.isValid()) {
            stations.apply();
        } else {
            mark_to_drop(standard);
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

control update(inout headers_t hdr, inout metadata_t meta) { apply { } }

control deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}

V1Switch(parse(), check(), ingress(), egress(), update(), deparse()) main;
