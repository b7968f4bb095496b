//! Routing of one host: local addresses lead to `lo`, all others follow the routing tables.

use crate::conf::v6;
use crate::devices::vrf;
use crate::family::{FlowKey, RouteQuery, refused};
use crate::routing::Routed;
use crate::socket::Socket;
use crate::{LO, Stack};
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_net::policy::table;
use belljar_net::routes::NextHop;
use belljar_net::routes::{self, Metrics, RouteKind};
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The route of packets to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedRoute {
    /// The number of the output interface.
    pub interface: usize,
    /// The source address for sockets that are not bound to one.
    pub source: IpAddr,
    /// The destination; the unspecified address is replaced by an address of this host.
    pub destination: IpAddr,
    /// The gateway; `None` if the destination is on-link.
    pub gateway: Option<IpAddr>,
    /// True if the destination is a broadcast address of the link.
    pub broadcast: bool,
    /// The number of the routing table that contains the route.
    pub table: u32,
    /// The route's metrics.
    pub metrics: Metrics,
}

impl ResolvedRoute {
    /// The route to an address of this host, which is also the source.
    #[inline]
    pub fn to_this_host(ip: IpAddr) -> ResolvedRoute {
        ResolvedRoute {
            interface: LO,
            source: ip,
            destination: ip,
            gateway: None,
            broadcast: false,
            table: table::LOCAL,
            metrics: Metrics::default(),
        }
    }
}

/// Routing options of a socket: attributes other than the addresses that determine the route.
#[derive(Clone, Copy, Debug, Default)]
pub struct Through {
    /// The index of the required output interface, if any.
    pub device: Option<u32>,
    /// The socket's mark.
    pub mark: u32,
    /// Type of service of the packets.
    pub tos: u8,
    /// Protocol, ports and owner of the socket.
    pub sender: FlowKey,
}

impl From<Option<u32>> for Through {
    fn from(device: Option<u32>) -> Through {
        Through { device, ..Through::default() }
    }
}

impl Through {
    /// The options of a socket whose packets leave by `device`.
    pub fn of(socket: &Socket, device: Option<u32>) -> Through {
        let ports = socket.ports();
        let tos = socket.ip_options().map_or(0, |ip| ip.tos);
        let sender = FlowKey { protocol: socket.protocol as u8, ports, uid: socket.uid };
        Through { device, mark: socket.options.mark, tos, sender }
    }

    /// Sets the destination port.
    pub fn to_port(mut self, port: u16) -> Through {
        self.sender.ports.1 = port;
        self
    }
}

/// The number of the interface with this index; `None` for 0.
fn interface_named(index: Option<u32>) -> Option<usize> {
    index.filter(|index| *index != 0).map(|index| index as usize - 1)
}

/// The errno of a packet that a route rejects.
fn no_way<A>(route: &routes::Route<A>) -> Errno {
    match route.kind {
        RouteKind::Blackhole => Errno::EINVAL,
        RouteKind::Prohibit => Errno::EACCES,
        _ => Errno::EHOSTUNREACH,
    }
}

impl Stack {
    /// True if packets to `ip` are delivered locally.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(v4) => {
                v4.is_loopback() || self.interfaces.with_address(v4).is_some() || self.is_of_local_network(v4)
            }
            IpAddr::V6(v6) => {
                let own = v6 == Ipv6Addr::LOCALHOST || self.v6.interface_of(&self.interfaces, v6).is_some();
                own || self.is_of_routed_here(v6)
            }
        }
    }

    /// True if an address belongs to a network that is local as a whole.
    pub fn is_of_local_network(&self, ip: Ipv4Addr) -> bool {
        self.source_in_local_network(ip).is_some()
    }

    /// The source address of packets to an address of a local network: an address of `lo` with that network,
    /// or `ip` itself if a local route covers it.
    fn source_in_local_network(&self, ip: Ipv4Addr) -> Option<Ipv4Addr> {
        let lo = &self.interfaces[LO];
        let of_lo = |own: &&InterfaceAddress| {
            // An address of 32 bits may have a peer, whose network it has then.
            let network = match own.len {
                32 => self.interfaces.address_network(LO, own),
                _ => own.network(),
            };
            let is_routed = || {
                let wide = network.bits() < 32 || network.address() != own.ip;
                wide && !network.address().is_unspecified()
                    && self.interfaces.address_attributes(LO, own).is_routed()
            };
            lo.up && network.contains(ip) && is_routed()
        };
        let own = lo.addresses.iter().find(of_lo).map(|own| own.ip);
        own.or_else(|| self.is_of_routed_here(ip).then_some(ip))
    }

    #[inline]
    fn is_of_routed_here<A: Routed>(&self, ip: A) -> bool {
        let routes = A::policy(self).table(A::routes(self), table::LOCAL);
        routes.is_some_and(|routes| routes.lookup(ip, || 0, |_| true).is_some())
    }

    /// Finds the route to `destination` for a socket bound to `source`, if it is, with these options. Fails
    /// with `ENETUNREACH` if there is no route, and with `EINVAL` for a loopback source of packets that leave
    /// the host.
    pub fn route(
        &self,
        destination: IpAddr,
        source: Option<IpAddr>,
        through: impl Into<Through>,
    ) -> Result<ResolvedRoute, Errno> {
        let through = through.into();
        let destination = match destination {
            IpAddr::V4(v4) if v4.is_unspecified() => {
                source.filter(IpAddr::is_ipv4).unwrap_or(Ipv4Addr::LOCALHOST.into())
            }
            IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let domain = interface_named(through.device).and_then(|device| vrf::of_interface(self, device));
        let inside = |preferred: IpAddr| ResolvedRoute {
            interface: domain.unwrap_or(LO),
            source: source.unwrap_or(preferred),
            ..ResolvedRoute::to_this_host(destination)
        };
        let route = match destination {
            IpAddr::V4(v4) if v4.is_loopback() && !self.interfaces[LO].up => return Err(Errno::ENETUNREACH),
            IpAddr::V4(v4) if v4.is_loopback() => inside(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V4(_) if self.interfaces.has_vrfs && vrf::owns(self, destination, domain) => {
                inside(destination)
            }
            IpAddr::V4(v4) if !self.interfaces.has_vrfs && self.interfaces.with_address(v4).is_some() => {
                inside(destination)
            }
            IpAddr::V4(v4) if self.service == Some(v4) => inside(
                self.interfaces
                    .source_on(LO + 1, Some(v4), c::RT_SCOPE_UNIVERSE)
                    .unwrap_or(Ipv4Addr::LOCALHOST)
                    .into(),
            ),
            IpAddr::V4(v4) => {
                let own = match source {
                    Some(IpAddr::V6(_)) => return Err(Errno::ENETUNREACH),
                    Some(IpAddr::V4(own)) => Some(own),
                    None => None,
                };
                match self.source_in_local_network(v4) {
                    Some(preferred) => inside(preferred.into()),
                    None => self.route_out(v4, own, &through)?,
                }
            }
            IpAddr::V6(v6) if v6.is_loopback() => inside(destination),
            IpAddr::V6(_) if self.interfaces.has_vrfs && vrf::owns(self, destination, domain) => {
                inside(destination)
            }
            IpAddr::V6(v6)
                if !self.interfaces.has_vrfs && self.v6.interface_of(&self.interfaces, v6).is_some() =>
            {
                inside(destination)
            }
            IpAddr::V6(v6) if self.is_of_routed_here(v6) => inside(Ipv6Addr::LOCALHOST.into()),
            IpAddr::V6(v6) => {
                let own = match source {
                    Some(IpAddr::V4(_)) => return Err(Errno::ENETUNREACH),
                    Some(IpAddr::V6(own)) => Some(own),
                    None => None,
                };
                self.route_out6(v6, own, &through)?
            }
        };
        if route.source.is_ipv4() != destination.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        if route.interface != LO && route.source.is_loopback() {
            return Err(Errno::EINVAL);
        }
        Ok(route)
    }

    /// Finds the route to another host: `ip_route_output_key` of Linux.
    #[inline]
    fn route_out(
        &self,
        to: Ipv4Addr,
        source: Option<Ipv4Addr>,
        through: &Through,
    ) -> Result<ResolvedRoute, Errno> {
        let to_many = to.is_broadcast() || to.is_multicast();
        let given = interface_named(through.device);
        let device = given
            .or_else(|| source.filter(|_| to_many).and_then(|source| self.interfaces.with_address(source)));
        let on_link = match device {
            None => self.interfaces.given_broadcast(to),
            Some(device) => {
                let interface = self.interfaces.get(device).filter(|interface| interface.up);
                interface.ok_or(Errno::ENETUNREACH)?;
                (to_many || self.interfaces.broadcast_on(device, to).is_some()).then_some(device)
            }
        };
        let directly = |device| {
            (device, None, self.interfaces.broadcast_on(device, to), table::MAIN, Metrics::default())
        };
        let (interface, gateway, preferred, table, metrics) = match on_link {
            Some(device) => directly(device),
            None => {
                let from = source.unwrap_or(Ipv4Addr::UNSPECIFIED);
                let hash = || match self.sysctls.multipath_hash {
                    0 => crate::flow_hash::flow_hash_of(self.flow_key, from, to),
                    _ => crate::flow_hash::flow_hash_with_ports(self.flow_key, from, to, &through.sender),
                };
                let Through { mark, tos, sender, .. } = *through;
                let asked = RouteQuery { device, mark, tos, sender, ..RouteQuery::own(to, source) };
                match self.lookup(&asked, hash).map_err(refused)? {
                    Some(found) => {
                        let hop = found.hop.ok_or_else(|| no_way(found.route))?;
                        let router = self.redirects.gateway(to, hop.interface, hop.next());
                        (hop.interface, router, found.route.source, found.table, found.route.metrics)
                    }
                    None if device.is_some_and(|device| vrf::of_interface(self, device).is_some()) => {
                        return Err(Errno::ENETUNREACH);
                    }
                    // "Apparently, routing tables are wrong. Assume that the destination is on link."
                    None => directly(device.ok_or(Errno::ENETUNREACH)?),
                }
            }
        };
        let next = match gateway {
            Some(IpAddr::V4(gateway)) => Some(gateway),
            Some(IpAddr::V6(_)) | None => None,
        };
        // The source's scope is at least that of the route: a link-scope source suffices for on-link
        // destinations.
        let far =
            gateway.is_some() || on_link.is_some() && to.is_multicast() && to.octets()[..3] != [224, 0, 0];
        let scope = if far { c::RT_SCOPE_UNIVERSE } else { c::RT_SCOPE_LINK };
        let own = source.or(preferred).or_else(|| self.interfaces.source_on(interface, next, scope));
        Ok(ResolvedRoute {
            interface,
            source: own.unwrap_or(Ipv4Addr::UNSPECIFIED).into(),
            destination: to.into(),
            gateway,
            broadcast: self.interfaces.is_broadcast(to),
            table,
            metrics,
        })
    }

    /// Finds the route to another host: `ip6_route_output` of Linux.
    fn route_out6(
        &self,
        to: Ipv6Addr,
        source: Option<Ipv6Addr>,
        through: &Through,
    ) -> Result<ResolvedRoute, Errno> {
        let device = interface_named(through.device);
        let usable = |number: usize| {
            self.interfaces.get(number).is_some_and(|i| i.up) && device.is_none_or(|device| device == number)
        };
        let on_link = to.is_multicast() || ipv6::is_link_scope(to);
        let (interface, gateway, preferred, table, metrics) = if on_link {
            // The named interface, or that of the source, or the first one.
            let own = source
                .filter(|ip| ipv6::is_link_scope(*ip))
                .and_then(|ip| self.v6.interface_of(&self.interfaces, ip));
            let first = || self.v6.group_interface(&self.interfaces).filter(|_| self.v6.on);
            let interface = device.or(own).or_else(first).filter(|n| usable(*n));
            (interface.ok_or(Errno::ENETUNREACH)?, None, None, table::MAIN, Metrics::default())
        } else {
            let from = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
            let hash = || crate::flow_hash::flow_hash_of6(self.flow_key, from, to);
            let asked = RouteQuery {
                device,
                mark: through.mark,
                sender: through.sender,
                ..RouteQuery::own(to, source)
            };
            let found = self.lookup(&asked, hash).map_err(refused)?.ok_or(Errno::ENETUNREACH)?;
            let hop = found.hop.ok_or_else(|| no_way(found.route))?;
            (hop.interface, hop.gateway, found.route.source, found.table, found.route.metrics)
        };
        let own = source.or(preferred).or_else(|| self.source_for(to, interface));
        Ok(ResolvedRoute {
            interface,
            source: own.ok_or(Errno::EADDRNOTAVAIL)?.into(),
            destination: to.into(),
            gateway: gateway.map(IpAddr::V6),
            broadcast: false,
            table,
            metrics,
        })
    }
}

impl Stack {
    /// Validates a next hop: its gateway must be on a link of this host (`fib_check_nh` of Linux).
    pub fn hop(&self, gateway: Option<Ipv4Addr>, device: Option<usize>) -> Result<NextHop, Errno> {
        let interface = match (gateway, device) {
            (None, None) => return Err(Errno::ENODEV),
            (None, Some(device)) => device,
            (Some(gateway), device) => {
                let usable = |hop: &NextHop| device.is_none_or(|device| device == hop.interface);
                match self.routes.lookup(gateway, || 0, usable) {
                    Some((_, Some(hop))) if hop.is_direct() => hop.interface,
                    _ => return Err(Errno::ENETUNREACH),
                }
            }
        };
        if !self.interfaces[interface].up {
            return Err(Errno::ENETDOWN);
        }
        Ok(NextHop::new(interface, gateway))
    }

    /// The IPv6 source address of packets to `to` that leave by `interface`.
    pub fn source_for(&self, to: Ipv6Addr, interface: usize) -> Option<Ipv6Addr> {
        let prefers_temporary = self.interface_settings.of6(v6::USE_TEMPADDR, interface) > 1;
        let lifetimes = (&self.lifetimes, self.clock.now());
        self.v6.source_for(&self.interfaces, lifetimes, prefers_temporary, (to, interface))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ETH0;
    use crate::testing::stack;

    #[test]
    fn own_addresses_stay_inside() {
        let stack = stack();
        let to = |ip: &str| {
            stack.route(ip.parse().unwrap(), None, None).map(|r| (r.interface, r.source.to_string()))
        };
        assert_eq!(to("127.0.0.5"), Ok((LO, "127.0.0.1".into())));
        assert_eq!(to("11.0.0.1"), Ok((LO, "11.0.0.1".into())));
        assert_eq!(to("0.0.0.0"), Ok((LO, "127.0.0.1".into())));
        assert_eq!(to("11.0.0.2"), Ok((ETH0, "11.0.0.1".into())));
        assert_eq!(to("::1"), Ok((LO, "::1".into())));
        assert_eq!(to("2001:db8::1"), Err(Errno::ENETUNREACH));
        let loopback = Some(Ipv4Addr::LOCALHOST.into());
        assert_eq!(stack.route([11, 0, 0, 2].into(), loopback, None), Err(Errno::EINVAL));
    }
}
