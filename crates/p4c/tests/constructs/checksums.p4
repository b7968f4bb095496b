// Checksums: verified, updated, with the payload.
#include <core.p4>
#include <v1model.p4>

#define HAS_VERIFY
#define HAS_COMPUTE
#define SUMMED { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id, hdr.ip.flags, hdr.ip.offset, \
                 hdr.ip.ttl, hdr.ip.protocol, hdr.ip.source, hdr.ip.destination }

header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> source; bit<32> destination;
}
header udp_t { bit<16> from; bit<16> to; bit<16> length; bit<16> checksum; }
struct headers_t { ipv4_t ip; udp_t udp; }
struct meta_t {}

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ip);
        transition select(hdr.ip.protocol) {
            17: udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(), SUMMED, hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (std.checksum_error == 1) {
            std.egress_spec = 2;
        }
        hdr.ip.ttl = hdr.ip.ttl - 1;
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(hdr.ip.isValid(), SUMMED, hdr.ip.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.udp.isValid(),
            { hdr.ip.source, hdr.ip.destination, 8w0, hdr.ip.protocol, hdr.udp.length,
              hdr.udp.from, hdr.udp.to, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

#include "rest.inc"
