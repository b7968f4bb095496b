//! Flow hashes, which distribute flows over paths of equal cost and over sockets that share a port.

use crate::family::FlowKey;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

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
