//! IPv6 routes in rtnetlink.

use super::group;
use super::message::{MULTI, Message, Request, attribute};
use super::route::parse_ip;
use super::routes::{RTMSG, RTNEXTHOP};
use crate::host::Host;
use crate::net::{LO, interface_index};
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::routes::{NextHop, Route, RouteKind};
use std::net::{IpAddr, Ipv6Addr};

/// The metric of routes whose maker names none (`IP6_RT_PRIO_USER`).
const USER_METRIC: u32 = 1_024;

impl Host {
    /// The local table's route to `::1`, and the main table, as Linux lists them.
    pub(super) fn routes6(&self, to: (u32, u16, u32)) -> Vec<Vec<u8>> {
        let (sequence, _, port) = to;
        let local = |ip: &Ipv6Addr, number: usize| {
            Message::new(c::RTM_NEWROUTE, MULTI, sequence, port)
                .put(&[
                    c::AF_INET6 as u8,
                    128,
                    0,
                    0,
                    c::RT_TABLE_LOCAL,
                    2,
                    c::RT_SCOPE_UNIVERSE,
                    c::RTN_LOCAL,
                ])
                .put(&[0; 4])
                .attribute(c::RTA_TABLE, &u32::from(c::RT_TABLE_LOCAL).to_ne_bytes())
                .attribute(c::RTA_DST, &ip.octets())
                .attribute(c::RTA_PRIORITY, &0u32.to_ne_bytes())
                .attribute(c::RTA_OIF, &interface_index(number).to_ne_bytes())
                .finish()
        };
        let table = self.net.v6.routes.iter();
        let main = table.map(|(prefix, metric, route)| message(prefix, metric, route, c::RTM_NEWROUTE, to));
        let interfaces = self.net.interfaces.iter().enumerate();
        let own = interfaces.flat_map(|(n, i)| i.addresses6.iter().map(move |own| (own.ip, n)));
        main.chain(own.map(|(ip, number)| local(&ip, number))).collect()
    }

    /// `ip -6 route add`, `replace` and `change`.
    pub(super) fn add_route6(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let wanted = Wanted::read(request)?;
        let hops = self.next_hops6(request)?;
        let kind = match (wanted.kind, hops.is_empty()) {
            (c::RTN_UNICAST, false) => RouteKind::Unicast,
            (c::RTN_BLACKHOLE, _) => RouteKind::Blackhole,
            (c::RTN_UNREACHABLE, _) => RouteKind::Unreachable,
            (c::RTN_PROHIBIT, _) => RouteKind::Prohibit,
            (c::RTN_UNICAST, true) => return Err(Errno::ENODEV),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let source = match request.attribute(RTMSG, c::RTA_PREFSRC).map(parse_ip).transpose()? {
            Some(IpAddr::V6(ip)) if self.net.is_local(ip.into()) => Some(ip),
            Some(_) => return Err(Errno::EINVAL),
            None => None,
        };
        let (prefix, metric) = (wanted.prefix, wanted.metric.unwrap_or(USER_METRIC));
        let flags = i32::from(request.flags);
        let there = self.net.v6.routes.get(prefix, metric).cloned();
        let hops = if kind == RouteKind::Unicast { hops } else { Vec::new() };
        let mut route = Route { kind, hops, source, protocol: wanted.protocol };
        match there {
            Some(mut old) if flags & c::NLM_F_REPLACE == 0 => {
                // Another next hop of the same route joins it, unless that is forbidden.
                let new = route.hops.iter().any(|hop| !old.hops.contains(hop));
                if flags & c::NLM_F_EXCL != 0 || !new {
                    return Err(Errno::EEXIST);
                }
                old.hops.append(&mut route.hops);
                route.hops = old.hops;
            }
            Some(_) => {}
            None if flags & c::NLM_F_CREATE == 0 => return Err(Errno::ENOENT),
            None => {}
        }
        let message = message(prefix, metric, &route, c::RTM_NEWROUTE, (0, 0, 0));
        self.net.v6.routes.insert(prefix, metric, route);
        self.netlink_announce(group::IPV6_ROUTE, &message);
        Ok(())
    }

    /// `ip -6 route del`: the first route that is like what is given.
    pub(super) fn remove_route6(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let wanted = Wanted::read(request)?;
        let gateway = request.attribute(RTMSG, c::RTA_GATEWAY).map(parse_ip).transpose()?;
        let device = request.number(RTMSG, c::RTA_OIF)?;
        let like = |hop: &NextHop<Ipv6Addr>| {
            device.is_none_or(|index| interface_index(hop.interface) == index)
                && gateway.is_none_or(|gateway| hop.gateway.map(IpAddr::V6) == Some(gateway))
        };
        let found = self.net.v6.routes.iter().find(|(prefix, metric, route)| {
            *prefix == wanted.prefix
                && wanted.metric.is_none_or(|wanted| wanted == *metric)
                && (route.hops.is_empty() || route.hops.iter().any(like))
        });
        let (prefix, metric, route) = found.ok_or(Errno::ESRCH)?;
        let message = message(prefix, metric, route, c::RTM_DELROUTE, (0, 0, 0));
        self.net.v6.routes.remove(prefix, metric);
        self.netlink_announce(group::IPV6_ROUTE, &message);
        Ok(())
    }

    fn next_hops6(&self, request: &Request<'_>) -> Result<Vec<NextHop<Ipv6Addr>>, Errno> {
        if let Some(mut several) = request.attribute(RTMSG, c::RTA_MULTIPATH) {
            let mut hops = Vec::new();
            while several.len() >= RTNEXTHOP {
                let len = usize::from(u16::from_ne_bytes([several[0], several[1]]));
                let index = u32::from_ne_bytes(several[4..8].try_into().expect("four bytes"));
                let rest = several.get(RTNEXTHOP..len).ok_or(Errno::EINVAL)?;
                let gateway = attribute(rest, c::RTA_GATEWAY).map(parse_ip).transpose()?;
                hops.push(self.next_hop6(gateway, (index != 0).then_some(index))?);
                several = several.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
            return Ok(hops);
        }
        let gateway = request.attribute(RTMSG, c::RTA_GATEWAY).map(parse_ip).transpose()?;
        match (gateway, request.number(RTMSG, c::RTA_OIF)?) {
            (None, None) => Ok(Vec::new()),
            (gateway, device) => Ok(vec![self.next_hop6(gateway, device)?]),
        }
    }

    /// A gateway must be on a link of this host; for a link-local one the link must be named.
    fn next_hop6(&self, gateway: Option<IpAddr>, device: Option<u32>) -> Result<NextHop<Ipv6Addr>, Errno> {
        let device =
            device.map(|index| self.net.interface_by_index(index).ok_or(Errno::ENODEV)).transpose()?;
        let gateway = match gateway {
            None => None,
            Some(IpAddr::V6(ip)) => Some(ip),
            Some(IpAddr::V4(_)) => return Err(Errno::EINVAL),
        };
        let interface = match (gateway, device) {
            (None, device) => device.ok_or(Errno::ENODEV)?,
            (Some(gateway), Some(device)) if gateway.is_unicast_link_local() => device,
            (Some(gateway), None) if gateway.is_unicast_link_local() => return Err(Errno::EINVAL),
            (Some(gateway), device) => {
                let usable = |hop: &NextHop<Ipv6Addr>| device.is_none_or(|device| device == hop.interface);
                match self.net.v6.routes.lookup(gateway, || 0, usable) {
                    Some((_, Some(hop))) if hop.gateway.is_none() => hop.interface,
                    _ => return Err(Errno::EHOSTUNREACH),
                }
            }
        };
        if !self.net.interfaces[interface].up {
            return Err(Errno::ENETDOWN);
        }
        Ok(NextHop { interface, gateway })
    }
}

/// What a request to change routes says of all of them.
struct Wanted {
    prefix: Prefix<Ipv6Addr>,
    metric: Option<u32>,
    protocol: u8,
    kind: u8,
}

impl Wanted {
    fn read(request: &Request<'_>) -> Result<Wanted, Errno> {
        let [_, len, _, _, table, protocol, _, kind, ..] = *request.body else { return Err(Errno::EINVAL) };
        let table = request.number(RTMSG, c::RTA_TABLE)?.unwrap_or(u32::from(table));
        if table != u32::from(c::RT_TABLE_MAIN) && table != u32::from(c::RT_TABLE_UNSPEC) {
            return Err(Errno::EOPNOTSUPP);
        }
        let to = match request.attribute(RTMSG, c::RTA_DST).map(parse_ip).transpose()? {
            Some(IpAddr::V6(ip)) => ip,
            Some(IpAddr::V4(_)) => return Err(Errno::EINVAL),
            None => Ipv6Addr::UNSPECIFIED,
        };
        let prefix = Prefix::new(to, len);
        if len > 128 {
            return Err(Errno::EINVAL);
        }
        let metric = request.number(RTMSG, c::RTA_PRIORITY)?.filter(|metric| *metric != 0);
        Ok(Wanted { prefix, metric, protocol, kind })
    }
}

/// A message of `kind` about a route; `to` is its sequence number, flags and receiver's port id.
fn message(
    prefix: Prefix<Ipv6Addr>,
    metric: u32,
    route: &Route<Ipv6Addr>,
    kind: u16,
    to: (u32, u16, u32),
) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let rtn = match route.kind {
        RouteKind::Unicast => c::RTN_UNICAST,
        RouteKind::Blackhole => c::RTN_BLACKHOLE,
        RouteKind::Unreachable => c::RTN_UNREACHABLE,
        RouteKind::Prohibit => c::RTN_PROHIBIT,
    };
    let header =
        [c::AF_INET6 as u8, prefix.bits(), 0, 0, c::RT_TABLE_MAIN, route.protocol, c::RT_SCOPE_UNIVERSE, rtn];
    let mut message = Message::new(kind, flags, sequence, port)
        .put(&header)
        .put(&[0; 4])
        .attribute(c::RTA_TABLE, &u32::from(c::RT_TABLE_MAIN).to_ne_bytes());
    if !prefix.is_all() {
        message = message.attribute(c::RTA_DST, &prefix.address().octets());
    }
    message = message.attribute(c::RTA_PRIORITY, &metric.to_ne_bytes());
    if let Some(source) = route.source {
        message = message.attribute(c::RTA_PREFSRC, &source.octets());
    }
    match &route.hops[..] {
        [] => message.attribute(c::RTA_OIF, &interface_index(LO).to_ne_bytes()),
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
fn next_hop(hop: &NextHop<Ipv6Addr>) -> Vec<u8> {
    let gateway = hop.gateway.map(|ip| ip.octets());
    let len: u16 = if gateway.is_some() { 28 } else { 8 };
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(interface_index(hop.interface).to_ne_bytes());
    if let Some(gateway) = gateway {
        bytes.extend(20u16.to_ne_bytes());
        bytes.extend(c::RTA_GATEWAY.to_ne_bytes());
        bytes.extend(gateway);
    }
    bytes
}
