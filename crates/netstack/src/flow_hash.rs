//! Numbers that spread flows over what is of equal cost.

use crate::family::FlowKey;
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A number that spreads flows over the sockets that share a port.
pub fn flow_hash(source: SocketAddr, destination: SocketAddr) -> u64 {
    let mut hasher = SipHasher13::new();
    (source, destination).hash(&mut hasher);
    hasher.finish()
}
/// A number that spreads what goes from one host to another over paths of equal cost.
pub fn flow_hash_of(key: u64, source: Ipv4Addr, destination: Ipv4Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    (source, destination).hash(&mut hasher);
    hasher.finish()
}
/// The same for packets of one protocol and pair of ports.
pub fn flow_hash_with_ports(key: u64, source: Ipv4Addr, destination: Ipv4Addr, sender: &FlowKey) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    (source, destination, sender.protocol, sender.ports).hash(&mut hasher);
    hasher.finish()
}
/// A number that spreads IPv6 packets of one pair of addresses over paths of equal cost.
pub fn flow_hash_of6(key: u64, source: Ipv6Addr, destination: Ipv6Addr) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&source.octets());
    hasher.write(&destination.octets());
    hasher.finish()
}
