//! Next hops in requests and messages about routes: as attributes, as `struct rtnexthop` entries, or as the
//! id of a next-hop object.

use super::Announced;
use super::message::{Request, attribute};
use super::refusal::{Refusal, refusal};
use super::requests::{ip_bytes, parse_ip};
use super::routes::RTMSG;
use belljar_linux_abi::{Errno, c};
use belljar_net::routes::{NextHop, RouteKind};
use belljar_netstack::{Stack, interface_index};
use std::net::{IpAddr, Ipv6Addr};

/// Length of `struct rtnexthop` in bytes.
const RTNEXTHOP: usize = 8;
/// `RTA_NH_ID`: the id of a next-hop object.
pub(super) const RTA_NH_ID: u16 = 30;
/// `RTA_VIA`: a gateway of any family, as a `struct rtvia`.
const RTA_VIA: u16 = 18;
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

/// Looks up the next-hop object that a request names.
pub(super) fn object_named<A: Announced>(
    net: &Stack,
    request: &Request<'_>,
) -> Result<Option<NamedObject<A>>, Refusal> {
    let Some(id) = request.number(RTMSG, RTA_NH_ID)?.filter(|id| *id != 0) else { return Ok(None) };
    let spelled = [c::RTA_OIF, c::RTA_GATEWAY, RTA_VIA, c::RTA_MULTIPATH];
    if spelled.iter().any(|kind| request.attribute(RTMSG, *kind).is_some()) {
        let words = "Nexthop specification and nexthop id are mutually exclusive";
        return Err(refusal(Errno::EINVAL, words));
    }
    if net.nexthops.get(id).is_none() {
        return Err(refusal(Errno::EINVAL, "Nexthop id does not exist"));
    }
    match net.nexthops.expand::<A>(id) {
        Some((kind, hops)) => Ok(Some(NamedObject { id, kind, hops })),
        None => Err(refusal(Errno::EINVAL, "IPv6 routes can not use an IPv4 nexthop")),
    }
}

/// Decodes the next hops of a request.
pub(super) fn next_hops<A: Announced>(
    net: &Stack,
    request: &Request<'_>,
) -> Result<Vec<NextHop<A>>, Refusal> {
    let on_link = *request.body.get(8).ok_or(Errno::EINVAL)? & RTNH_F_ONLINK != 0;
    if let Some(mut several) = request.attribute(RTMSG, c::RTA_MULTIPATH) {
        let mut weighted = Vec::new();
        while several.len() >= RTNEXTHOP {
            let len = usize::from(u16::from_ne_bytes([several[0], several[1]]));
            let index = u32::from_ne_bytes(several[4..8].try_into().expect("four bytes"));
            let rest = several.get(RTNEXTHOP..len).ok_or(Errno::EINVAL)?;
            let gateway = gateway::<A>(rest)?;
            let on_link = on_link || several[2] & RTNH_F_ONLINK != 0;
            let weight = usize::from(several[3]) + 1;
            weighted.push((next_hop(net, gateway, (index != 0).then_some(index), on_link)?, weight));
            several = several.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        // A hop of weight n occurs n times in the list from which each flow selects one.
        let hops = weighted.into_iter().flat_map(|(hop, weight)| std::iter::repeat_n(hop, weight));
        return Ok(hops.collect());
    }
    let gateway = gateway::<A>(request.body.get(RTMSG..).unwrap_or_default())?;
    match (gateway, request.number(RTMSG, c::RTA_OIF)?) {
        (None, None) => Ok(Vec::new()),
        (gateway, device) => Ok(vec![next_hop(net, gateway, device, on_link)?]),
    }
}

/// Gateway among the attributes of a route or next hop: `RTA_GATEWAY` has the route's family, `RTA_VIA` of an
/// IPv4 route has any.
pub(super) fn gateway<A: Announced>(attributes: &[u8]) -> Result<Option<IpAddr>, Refusal> {
    let plain = attribute(attributes, c::RTA_GATEWAY);
    let Some(via) = attribute(attributes, RTA_VIA) else {
        let gateway = plain.map(parse_ip).transpose()?;
        return match gateway {
            Some(ip) if A::of(ip).is_none() => Err(Errno::EINVAL.into()),
            gateway => Ok(gateway),
        };
    };
    if A::AF == c::AF_INET6 {
        return Err(refusal(Errno::EINVAL, "IPv6 does not support RTA_VIA attribute"));
    }
    if plain.is_some() {
        return Err(refusal(Errno::EINVAL, "Nexthop configuration can not contain both GATEWAY and VIA"));
    }
    let (family, ip) =
        via.split_first_chunk().ok_or(refusal(Errno::EINVAL, "Invalid attribute length for RTA_VIA"))?;
    match (i32::from(u16::from_ne_bytes(*family)), ip.len()) {
        (c::AF_INET, 4) | (c::AF_INET6, 16) => Ok(Some(parse_ip(ip)?)),
        (c::AF_INET, _) => Err(refusal(Errno::EINVAL, "Invalid IPv4 address in RTA_VIA")),
        (c::AF_INET6, _) => Err(refusal(Errno::EINVAL, "Invalid IPv6 address in RTA_VIA")),
        _ => Err(refusal(Errno::EINVAL, "Unsupported address family in RTA_VIA")),
    }
}

/// Gateway attribute of a route: `RTA_VIA` for an IPv6 gateway of an IPv4 route, else `RTA_GATEWAY`.
pub(super) fn gateway_attribute(gateway: IpAddr, v4: bool) -> (u16, Vec<u8>) {
    match gateway {
        IpAddr::V6(ip) if v4 => (RTA_VIA, [&(c::AF_INET6 as u16).to_ne_bytes()[..], &ip.octets()].concat()),
        ip => (c::RTA_GATEWAY, ip_bytes(ip)),
    }
}

/// Next hop by gateway, device or both. `ENODEV` if both are missing.
pub(super) fn next_hop<A: Announced>(
    net: &Stack,
    gateway: Option<IpAddr>,
    device: Option<u32>,
    on_link: bool,
) -> Result<NextHop<A>, Refusal> {
    if let (Some(IpAddr::V6(router)), true) = (gateway, A::AF == c::AF_INET) {
        // As on a kernel without the IPv6 module.
        if !net.v6.on {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        let NextHop { interface, gateway: gateway6, on_link, .. } =
            next_hop::<Ipv6Addr>(net, gateway, device, on_link)?;
        debug_assert_eq!(gateway6, Some(router));
        return Ok(NextHop { interface, gateway: None, gateway6, on_link });
    }
    let device = device.map(|index| net.interfaces.by_index(index).ok_or(Errno::ENODEV)).transpose()?;
    let gateway = match gateway {
        None => None,
        Some(ip) => Some(A::of(ip).ok_or(Errno::EINVAL)?),
    };
    if let (true, Some(_)) = (on_link, gateway) {
        let interface = device.ok_or(Errno::ENODEV)?;
        let hop = NextHop { on_link, ..NextHop::new(interface, gateway) };
        let up = net.interfaces[interface].up;
        return up.then_some(hop).ok_or(refusal(Errno::ENETDOWN, "Nexthop device is not up"));
    }
    let v4 = A::AF == c::AF_INET;
    if gateway.is_some_and(|gateway| !v4 && net.is_local(gateway.into())) {
        return Err(refusal(Errno::EINVAL, "Gateway can not be a local address"));
    }
    A::hop(net, gateway, device).map_err(|errno| match errno {
        Errno::ENETUNREACH if v4 => refusal(errno, "Nexthop has invalid gateway"),
        Errno::EINVAL if !v4 => refusal(errno, "Egress device not specified"),
        Errno::ENETDOWN if v4 && gateway.is_none() => refusal(errno, "Device for nexthop is not up"),
        Errno::ENETDOWN => refusal(errno, "Nexthop device is not up"),
        errno => errno.into(),
    })
}

/// `RTNH_F_*` of a next hop.
pub(super) fn hop_flags<A: Announced>(hop: &NextHop<A>) -> u8 {
    if hop.on_link { RTNH_F_ONLINK } else { 0 }
}

/// Encodes a `struct rtnexthop` with its gateway and this weight.
pub(super) fn hop_bytes<A: Announced>(hop: &NextHop<A>, weight: usize) -> Vec<u8> {
    let gateway = hop.router().map(|ip| gateway_attribute(ip, A::AF == c::AF_INET));
    let attribute = gateway.as_ref().map_or(0, |(_, gateway)| 4 + gateway.len());
    let padded = attribute.next_multiple_of(4);
    let mut bytes = ((RTNEXTHOP + padded) as u16).to_ne_bytes().to_vec();
    bytes.extend([hop_flags(hop), (weight - 1).min(255) as u8]);
    bytes.extend(interface_index(hop.interface).to_ne_bytes());
    if let Some((kind, gateway)) = gateway {
        bytes.extend((attribute as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(gateway);
        bytes.resize(RTNEXTHOP + padded, 0);
    }
    bytes
}
