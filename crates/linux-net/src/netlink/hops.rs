//! Next hops in requests and messages about routes: as attributes, as `struct rtnexthop` entries, or as the
//! id of a next-hop object.

use super::Announced;
use super::refusal::{Refusal, refusal};
use super::requests::ip_bytes;
use belljar_linux_abi::{Errno, c};
use belljar_net::routes::{NextHop, RouteKind};
use belljar_netstack::{Stack, interface_index};
use std::net::IpAddr;

/// Length of `struct rtnexthop` in bytes.
pub(super) const RTNEXTHOP: usize = 8;
/// `RTA_NH_ID`: the id of a next-hop object.
pub(super) const RTA_NH_ID: u16 = 30;
/// `RTA_VIA`: a gateway of any family, as a `struct rtvia`.
pub(super) const RTA_VIA: u16 = 18;
/// `RTNH_F_ONLINK`: the gateway is taken to be on the link, whatever its address.
pub(super) const RTNH_F_ONLINK: u8 = 4;

/// Next-hop object that a request names, resolved for a route.
pub(super) struct NamedObject<A> {
    /// Object id.
    pub(super) id: u32,
    /// Route type that the object implies.
    pub(super) kind: RouteKind,
    /// Next hops of the object.
    pub(super) hops: Vec<NextHop<A>>,
}

/// Looks up the next-hop object of a route.
pub(super) fn object_named<A: Announced>(net: &Stack, id: u32) -> Result<Option<NamedObject<A>>, Refusal> {
    if id == 0 {
        return Ok(None);
    }
    if net.nexthops.get(id).is_none() {
        return Err(refusal(Errno::EINVAL, "Nexthop id does not exist"));
    }
    match net.nexthops.expand::<A>(id) {
        Some((kind, hops)) => Ok(Some(NamedObject { id, kind, hops })),
        None => Err(refusal(Errno::EINVAL, "IPv6 routes can not use an IPv4 nexthop")),
    }
}

/// Gateway attribute of a route: `RTA_VIA` for an IPv6 gateway of an IPv4 route, else `RTA_GATEWAY`.
pub(super) fn gateway_attribute(gateway: IpAddr, v4: bool) -> (u16, Vec<u8>) {
    match gateway {
        IpAddr::V6(ip) if v4 => (RTA_VIA, [&(c::AF_INET6 as u16).to_ne_bytes()[..], &ip.octets()].concat()),
        ip => (c::RTA_GATEWAY, ip_bytes(ip)),
    }
}

/// `RTNH_F_*` of a next hop.
pub(super) fn hop_flags<A: Announced>(net: &Stack, hop: &NextHop<A>) -> u8 {
    const RTNH_F_DEAD: u8 = 1;
    const RTNH_F_LINKDOWN: u8 = 16;
    let dead = if hop.dead { RTNH_F_DEAD } else { 0 };
    let down = hop.dead || !net.interfaces[hop.interface].carrier;
    dead | (if hop.on_link { RTNH_F_ONLINK } else { 0 }) | if down { RTNH_F_LINKDOWN } else { 0 }
}

/// Encodes a `struct rtnexthop` with its gateway and this weight.
pub(super) fn hop_bytes<A: Announced>(net: &Stack, hop: &NextHop<A>, weight: usize) -> Vec<u8> {
    let gateway = hop.router().map(|ip| gateway_attribute(ip, A::AF == c::AF_INET));
    let attribute = gateway.as_ref().map_or(0, |(_, gateway)| 4 + gateway.len());
    let padded = attribute.next_multiple_of(4);
    let mut bytes = ((RTNEXTHOP + padded) as u16).to_ne_bytes().to_vec();
    bytes.extend([hop_flags(net, hop), (weight - 1).min(255) as u8]);
    bytes.extend(interface_index(hop.interface).to_ne_bytes());
    if let Some((kind, gateway)) = gateway {
        bytes.extend((attribute as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(gateway);
        bytes.resize(RTNEXTHOP + padded, 0);
    }
    bytes
}
