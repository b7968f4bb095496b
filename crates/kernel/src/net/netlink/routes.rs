//! Routes in rtnetlink: `RTM_NEWROUTE`, `RTM_GETROUTE`.

use super::message::{MULTI, Message, Request};
use super::route::{ip_bytes, parse_ip};
use crate::host::Host;
use crate::net::{LO, interface_index};
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::routes::{NextHop, Route, RouteKind};

/// The length of `struct rtmsg`.
pub(super) const RTMSG: usize = 12;

impl Host {
    /// The main table.
    pub(super) fn routes(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        if family == c::AF_INET6 {
            return Vec::new();
        }
        let to = (sequence, MULTI, port);
        self.net
            .routes
            .iter()
            .map(|(prefix, metric, route)| route_message(prefix, metric, route, c::RTM_NEWROUTE, to))
            .collect()
    }

    /// `ip route get`.
    pub(super) fn route_to(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Errno> {
        let destination = request.attribute(RTMSG, c::RTA_DST).ok_or(Errno::EINVAL)?;
        let ip = parse_ip(destination)?;
        let source = request.attribute(RTMSG, c::RTA_SRC).map(parse_ip).transpose()?;
        let device =
            request.attribute(RTMSG, c::RTA_OIF).and_then(|oif| oif.try_into().ok()).map(u32::from_ne_bytes);
        let found = self.net.route(ip, source, device)?;
        let (family, bits) = if ip.is_ipv4() { (c::AF_INET, 32) } else { (c::AF_INET6, 128) };
        let kind = match (found.interface, found.broadcast) {
            (LO, _) => c::RTN_LOCAL,
            (_, true) => c::RTN_BROADCAST,
            _ => c::RTN_UNICAST,
        };
        let table = if found.interface == LO { c::RT_TABLE_LOCAL } else { c::RT_TABLE_MAIN };
        let mut message = Message::new(c::RTM_NEWROUTE, 0, request.sequence, port)
            .put(&[family as u8, bits, 0, 0, table, c::RTPROT_UNSPEC, c::RT_SCOPE_UNIVERSE, kind])
            .put(&[0; 4])
            .attribute(c::RTA_TABLE, &u32::from(table).to_ne_bytes())
            .attribute(c::RTA_DST, destination);
        if let Some(gateway) = found.gateway {
            message = message.attribute(c::RTA_GATEWAY, &gateway.octets());
        }
        Ok(message
            .attribute(c::RTA_OIF, &interface_index(found.interface).to_ne_bytes())
            .attribute(c::RTA_PREFSRC, &ip_bytes(found.source))
            .finish())
    }
}

/// A message of `kind` about a route; `to` is its sequence number, flags and receiver's port id.
pub(super) fn route_message(
    prefix: Prefix,
    metric: u32,
    route: &Route,
    kind: u16,
    to: (u32, u16, u32),
) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let on_link = route.kind == RouteKind::Unicast && route.hops.iter().all(|hop| hop.gateway.is_none());
    let scope = if on_link { c::RT_SCOPE_LINK } else { c::RT_SCOPE_UNIVERSE };
    let rtn = match route.kind {
        RouteKind::Unicast => c::RTN_UNICAST,
        RouteKind::Blackhole => c::RTN_BLACKHOLE,
        RouteKind::Unreachable => c::RTN_UNREACHABLE,
        RouteKind::Prohibit => c::RTN_PROHIBIT,
    };
    let mut message = Message::new(kind, flags, sequence, port)
        .put(&[
            c::AF_INET as u8,
            prefix.bits(),
            0,
            0,
            c::RT_TABLE_MAIN,
            route.protocol,
            scope,
            rtn,
            0,
            0,
            0,
            0,
        ])
        .attribute(c::RTA_TABLE, &u32::from(c::RT_TABLE_MAIN).to_ne_bytes());
    if !prefix.is_all() {
        message = message.attribute(c::RTA_DST, &prefix.address().octets());
    }
    if metric != 0 {
        message = message.attribute(c::RTA_PRIORITY, &metric.to_ne_bytes());
    }
    if let Some(source) = route.source {
        message = message.attribute(c::RTA_PREFSRC, &source.octets());
    }
    match &route.hops[..] {
        [] => message,
        [hop] => {
            if let Some(gateway) = hop.gateway {
                message = message.attribute(c::RTA_GATEWAY, &gateway.octets());
            }
            message.attribute(c::RTA_OIF, &interface_index(hop.interface).to_ne_bytes())
        }
        hops => message.attribute(c::RTA_MULTIPATH, &hops.iter().flat_map(next_hop).collect::<Vec<u8>>()),
    }
    .finish()
}

/// A `struct rtnexthop` with its gateway.
fn next_hop(hop: &NextHop) -> Vec<u8> {
    let gateway = hop.gateway.map(|ip| ip.octets());
    let len: u16 = if gateway.is_some() { 16 } else { 8 };
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(interface_index(hop.interface).to_ne_bytes());
    if let Some(gateway) = gateway {
        bytes.extend(8u16.to_ne_bytes());
        bytes.extend(c::RTA_GATEWAY.to_ne_bytes());
        bytes.extend(gateway);
    }
    bytes
}
