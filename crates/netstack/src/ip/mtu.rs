//! MTUs of routes and sockets: those of interfaces, reduced by path MTU discovery and by the metrics of routes.

use crate::interface::ETH0_MTU;
use crate::ip::IpOptions;
use crate::ip::route::ResolvedRoute;
use crate::path_mtu::heeds_routers;
use crate::socket::SocketKind;
use crate::tcp::Role;
use crate::{LO, SocketKey, Stack};
use belljar_base::SimTime;
use belljar_linux_abi::c;
use std::net::IpAddr;

impl Stack {
    /// MTU of a route in bytes: the longest packet that it carries unfragmented.
    #[inline]
    pub fn path_mtu(&self, route: &ResolvedRoute, now: SimTime) -> usize {
        let mtu = self.mtu_to(route.interface, route.destination, now);
        let Some(own) = route.metrics.mtu else { return mtu };
        let own = (own as usize).min(self.interfaces.mtu(route.interface));
        if route.metrics.mtu_locked { own } else { own.min(mtu) }
    }

    /// MTU to a destination by an interface in bytes, without the route's metric.
    #[inline]
    pub fn mtu_to(&self, interface: usize, to: IpAddr, now: SimTime) -> usize {
        let mtu = self.interfaces.mtu(interface);
        match to {
            IpAddr::V4(ip) => self.path_mtus.mtu(ip, now).map_or(mtu, |known| mtu.min(known)),
            IpAddr::V6(_) if interface == LO => mtu,
            IpAddr::V6(ip) => self.v6.mtu_to(interface, ip, mtu, now),
        }
    }

    /// True if a packet of `len` bytes has the DF flag under a socket's `IP_MTU_DISCOVER`.
    pub fn must_not_fragment(&self, discover: i32, route: &ResolvedRoute, len: usize, now: SimTime) -> bool {
        let locked = match route.destination {
            IpAddr::V4(to) => route.metrics.mtu_locked || self.path_mtus.is_locked(to, now),
            IpAddr::V6(_) => false,
        };
        match discover {
            c::IP_PMTUDISC_DONT | c::IP_PMTUDISC_INTERFACE | c::IP_PMTUDISC_OMIT => false,
            // A longer packet is fragmented here.
            c::IP_PMTUDISC_WANT => !locked && len <= self.path_mtu(route, now),
            _ => true,
        }
    }

    /// `tcpi_pmtu`: the path MTU of a socket; for one that ignores path MTUs at least that of Ethernet.
    pub fn heeded_mtu(&self, key: SocketKey) -> usize {
        let mtu = self.socket_mtu(key);
        let options = self.sockets[key.0].ip_options();
        if options.is_some_and(IpOptions::ignores_path_mtu) { ETH0_MTU.max(mtu) } else { mtu }
    }

    /// The path MTU to a socket's peer; without a peer that of Ethernet.
    pub fn socket_mtu(&self, key: SocketKey) -> usize {
        let socket = &self.sockets[key.0];
        let peer = match &socket.kind {
            SocketKind::Udp(udp) => udp.peer.map(|peer| peer.ip()),
            SocketKind::Ping(ping) => ping.end.peer,
            SocketKind::Raw(raw) => raw.end.peer,
            SocketKind::Tcp(tcp) => match &tcp.role {
                Role::Connection(connection) => Some(connection.remote().ip()),
                _ => None,
            },
            _ => None,
        };
        let route = peer.and_then(|peer| self.route(peer, None, socket.options.bound_device).ok());
        route.map_or(ETH0_MTU, |route| self.path_mtu(&route, self.clock.now()))
    }

    /// The longest packet of a socket, in bytes, that a route carries unfragmented.
    pub fn sending_mtu(&self, key: SocketKey, route: &ResolvedRoute) -> usize {
        let ignores = self.sockets[key.0].ip_options().is_some_and(|ip| !heeds_routers(ip.mtu_discover));
        match route.destination {
            IpAddr::V4(_) if ignores => self.interfaces.mtu(route.interface),
            _ => self.path_mtu(route, self.clock.now()),
        }
    }
}
