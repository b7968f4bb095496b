//! Flow hashes, which distribute flows over paths of equal cost and over sockets that share a port.

use crate::family::FlowKey;
use crate::ip::IpHeader;
use belljar_wire::{ipv6, protocol};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Hash that distributes flows over the sockets that share a port.
pub fn flow_hash(source: SocketAddr, destination: SocketAddr) -> u64 {
    let mut hasher = SipHasher13::new();
    (source, destination).hash(&mut hasher);
    hasher.finish()
}
/// Hash that distributes pairs of IPv4 addresses over paths of equal cost.
pub fn flow_hash_of(key: u64, source: Ipv4Addr, destination: Ipv4Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    (source, destination).hash(&mut hasher);
    hasher.finish()
}
/// Hash of an address pair, the protocol and the ports.
pub fn flow_hash_with_ports(key: u64, source: Ipv4Addr, destination: Ipv4Addr, sender: &FlowKey) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    (source, destination, sender.protocol, sender.ports).hash(&mut hasher);
    hasher.finish()
}
/// Hash that distributes pairs of IPv6 addresses over paths of equal cost.
pub fn flow_hash_of6(key: u64, source: Ipv6Addr, destination: Ipv6Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&source.octets());
    hasher.write(&destination.octets());
    hasher.finish()
}

/// The IPv6 flow label of a packet, whose payload is preceded by space for the header. Linux labels all flows
/// (`net.ipv6.auto_flowlabels` is 1).
pub fn flow_label(key: u64, header: &IpHeader, packet: &[u8]) -> u32 {
    let ports = match header.protocol {
        protocol::TCP | protocol::UDP | protocol::UDP_LITE => {
            packet.get(ipv6::HEADER_LEN..ipv6::HEADER_LEN + 4)
        }
        _ => None,
    };
    flow_label_of(key, header, ports.unwrap_or_default())
}

/// The flow label of a packet with these encoded ports.
pub fn flow_label_of(key: u64, header: &IpHeader, ports: &[u8]) -> u32 {
    let mut hasher = SipHasher13::new_with_keys(key, 6);
    for ip in [header.src, header.dst] {
        if let IpAddr::V6(ip) = ip {
            hasher.write(&ip.octets());
        }
    }
    hasher.write_u8(header.protocol);
    hasher.write(ports);
    hasher.finish() as u32 & 0xf_ffff
}
