//! Routes in rtnetlink: `RTM_NEWROUTE`, `RTM_GETROUTE`.

use super::group;
use super::message::{MULTI, Message, Request, attribute};
use super::route::{ip_bytes, parse_ip};
use crate::host::Host;
use crate::net::{LO, interface_index};
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::routes::{NextHop, Route, RouteKind};
use std::net::{IpAddr, Ipv4Addr};

/// The length of `struct rtmsg`.
pub(super) const RTMSG: usize = 12;
/// The route is not in the table: it is one packet's way.
const RTM_F_CLONED: u32 = 0x200;
/// The length of `struct rta_cacheinfo`.
const CACHEINFO_LEN: usize = 32;
/// The length of `struct rtnexthop`.
pub(super) const RTNEXTHOP: usize = 8;

impl Host {
    /// The main table.
    pub(super) fn routes(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        let to = (sequence, MULTI, port);
        let mut v6 = if family == c::AF_INET { Vec::new() } else { self.routes6(to) };
        if family == c::AF_INET6 {
            return v6;
        }
        let v4 = self
            .net
            .routes
            .iter()
            .map(|(prefix, metric, route)| route_message(prefix, metric, route, c::RTM_NEWROUTE, to));
        let mut all: Vec<Vec<u8>> = v4.collect();
        all.append(&mut v6);
        all
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
            .put(&RTM_F_CLONED.to_ne_bytes())
            .attribute(c::RTA_TABLE, &u32::from(table).to_ne_bytes())
            .attribute(c::RTA_DST, destination);
        if let Some(gateway) = found.gateway {
            message = message.attribute(c::RTA_GATEWAY, &ip_bytes(gateway));
        }
        Ok(message
            .attribute(c::RTA_OIF, &interface_index(found.interface).to_ne_bytes())
            .attribute(c::RTA_PREFSRC, &ip_bytes(found.source))
            // Nothing is known of its use.
            .attribute(c::RTA_CACHEINFO, &[0; CACHEINFO_LEN])
            .finish())
    }
}

impl Host {
    /// `ip route add`, `replace` and `change`.
    pub(super) fn add_route(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        if i32::from(request.body.first().copied().unwrap_or(0)) == c::AF_INET6 {
            return self.add_route6(request);
        }
        let wanted = RouteRequest::read(request)?;
        let hops = self.next_hops(request)?;
        let kind = match (wanted.kind, hops.is_empty()) {
            (c::RTN_UNICAST, false) => RouteKind::Unicast,
            (c::RTN_BLACKHOLE, _) => RouteKind::Blackhole,
            (c::RTN_UNREACHABLE, _) => RouteKind::Unreachable,
            (c::RTN_PROHIBIT, _) => RouteKind::Prohibit,
            (c::RTN_UNICAST, true) => return Err(Errno::ENODEV),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let source = match request.attribute(RTMSG, c::RTA_PREFSRC).map(parse_ip).transpose()? {
            Some(IpAddr::V4(ip)) if self.net.is_local(ip.into()) => Some(ip),
            Some(_) => return Err(Errno::EINVAL),
            None => None,
        };
        let (prefix, metric) = (wanted.prefix, wanted.metric.unwrap_or(0));
        let flags = i32::from(request.flags);
        let exists = self.net.routes.get(prefix, metric).is_some();
        let may_replace = flags & (c::NLM_F_REPLACE | c::NLM_F_APPEND) != 0 && flags & c::NLM_F_EXCL == 0;
        if exists && !may_replace {
            return Err(Errno::EEXIST);
        }
        if !exists && flags & c::NLM_F_CREATE == 0 {
            return Err(Errno::ENOENT);
        }
        let hops = if kind == RouteKind::Unicast { hops } else { Vec::new() };
        let route = Route { kind, hops, source, protocol: wanted.protocol };
        let message = route_message(prefix, metric, &route, c::RTM_NEWROUTE, (0, 0, 0));
        self.net.routes.insert(prefix, metric, route);
        self.netlink_announce(group::IPV4_ROUTE, &message);
        Ok(())
    }

    /// `ip route del`: the first route that is like what is given.
    pub(super) fn remove_route(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        if i32::from(request.body.first().copied().unwrap_or(0)) == c::AF_INET6 {
            return self.remove_route6(request);
        }
        let wanted = RouteRequest::read(request)?;
        let gateway = request.attribute(RTMSG, c::RTA_GATEWAY).map(parse_ip).transpose()?;
        let device = request.number(RTMSG, c::RTA_OIF)?;
        let like = |hop: &NextHop| {
            device.is_none_or(|index| interface_index(hop.interface) == index)
                && gateway.is_none_or(|gateway| hop.gateway.map(IpAddr::V4) == Some(gateway))
        };
        let found = self.net.routes.iter().find(|(prefix, metric, route)| {
            *prefix == wanted.prefix
                && wanted.metric.is_none_or(|wanted| wanted == *metric)
                && (route.hops.is_empty() || route.hops.iter().any(like))
        });
        let (prefix, metric, route) = found.ok_or(Errno::ESRCH)?;
        let message = route_message(prefix, metric, route, c::RTM_DELROUTE, (0, 0, 0));
        self.net.routes.remove(prefix, metric);
        self.netlink_announce(group::IPV4_ROUTE, &message);
        Ok(())
    }

    /// Tells who wants to know of a route that it is there, or no more.
    pub(in crate::net) fn announce_route(&mut self, prefix: Prefix, metric: u32, route: &Route, new: bool) {
        let kind = if new { c::RTM_NEWROUTE } else { c::RTM_DELROUTE };
        let message = route_message(prefix, metric, route, kind, (0, 0, 0));
        self.netlink_announce(group::IPV4_ROUTE, &message);
    }

    fn next_hops(&self, request: &Request<'_>) -> Result<Vec<NextHop>, Errno> {
        if let Some(mut several) = request.attribute(RTMSG, c::RTA_MULTIPATH) {
            let mut hops = Vec::new();
            while several.len() >= RTNEXTHOP {
                let len = usize::from(u16::from_ne_bytes([several[0], several[1]]));
                let index = u32::from_ne_bytes(several[4..8].try_into().expect("four bytes"));
                let rest = several.get(RTNEXTHOP..len).ok_or(Errno::EINVAL)?;
                let gateway = attribute(rest, c::RTA_GATEWAY).map(parse_ip).transpose()?;
                hops.push(self.next_hop(gateway, (index != 0).then_some(index))?);
                several = several.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
            return Ok(hops);
        }
        let gateway = request.attribute(RTMSG, c::RTA_GATEWAY).map(parse_ip).transpose()?;
        let device = request.number(RTMSG, c::RTA_OIF)?;
        match (gateway, device) {
            (None, None) => Ok(Vec::new()),
            _ => Ok(vec![self.next_hop(gateway, device)?]),
        }
    }

    /// A gateway must be on a link of this host (`fib_check_nh` of Linux).
    fn next_hop(&self, gateway: Option<IpAddr>, device: Option<u32>) -> Result<NextHop, Errno> {
        let device =
            device.map(|index| self.net.interface_by_index(index).ok_or(Errno::ENODEV)).transpose()?;
        let gateway = match gateway {
            None => None,
            Some(IpAddr::V4(ip)) => Some(ip),
            Some(IpAddr::V6(_)) => return Err(Errno::EAFNOSUPPORT),
        };
        self.net.hop(gateway, device)
    }
}

/// What a request to change routes says of all of them.
struct RouteRequest {
    prefix: Prefix,
    metric: Option<u32>,
    protocol: u8,
    kind: u8,
}

impl RouteRequest {
    fn read(request: &Request<'_>) -> Result<RouteRequest, Errno> {
        let [family, len, _, _, table, protocol, _, kind, ..] = *request.body else {
            return Err(Errno::EINVAL);
        };
        if i32::from(family) != c::AF_INET {
            return Err(Errno::EAFNOSUPPORT);
        }
        let table = request.number(RTMSG, c::RTA_TABLE)?.unwrap_or(u32::from(table));
        if table != u32::from(c::RT_TABLE_MAIN) && table != u32::from(c::RT_TABLE_UNSPEC) {
            return Err(Errno::EOPNOTSUPP);
        }
        let to = match request.attribute(RTMSG, c::RTA_DST).map(parse_ip).transpose()? {
            Some(IpAddr::V4(ip)) => ip,
            Some(IpAddr::V6(_)) => return Err(Errno::EAFNOSUPPORT),
            None => Ipv4Addr::UNSPECIFIED,
        };
        let prefix = Prefix::new(to, len);
        if len > 32 || prefix.address() != to {
            return Err(Errno::EINVAL);
        }
        Ok(RouteRequest { prefix, metric: request.number(RTMSG, c::RTA_PRIORITY)?, protocol, kind })
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
