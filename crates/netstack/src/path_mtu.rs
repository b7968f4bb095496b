//! MTUs of IPv4 paths, learnt from routers (RFC 1191).

use super::Stack;
use super::ip::route::ResolvedRoute;
use crate::SocketKey;
use crate::interface::ETH0_MTU;
use crate::socket::SocketKind;
use crate::tcp::Role;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_linux_abi::c;
use std::net::{IpAddr, Ipv4Addr};

/// For how long a router is believed (`net.ipv4.route.mtu_expires`).
const EXPIRES: SimDuration = SimDuration::from_secs(600);
/// Less than that is not believed: such a path gets packets of so many bytes, which routers may cut
/// (`net.ipv4.route.min_pmtu`).
const LEAST: usize = 552;
/// Number of paths that are remembered.
const PATHS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug)]
struct Known {
    mtu: usize,
    /// Packets may be cut on the way.
    locked: bool,
    until: SimTime,
}

/// The paths by destination.
#[derive(Debug, Default)]
pub struct PathMtus(Map<Ipv4Addr, Known>);

impl PathMtus {
    #[inline(always)]
    fn get(&self, to: Ipv4Addr, now: SimTime) -> Option<Known> {
        if self.0.is_empty() { None } else { self.find(to, now) }
    }

    fn find(&self, to: Ipv4Addr, now: SimTime) -> Option<Known> {
        self.0.get(&to).copied().filter(|known| now < known.until)
    }

    /// A router has said that the path to `to`, by which packets of `usual` bytes went so far, carries packets of `mtu`
    /// bytes (`__ip_rt_update_pmtu`). Gives what counts from now on.
    pub fn learn(&mut self, to: Ipv4Addr, mtu: usize, usual: usize, now: SimTime) -> usize {
        let before = self.get(to, now).map_or(usual, |known| known.mtu.min(usual));
        if before < mtu {
            return before;
        }
        let paths = &mut self.0;
        let locked = mtu < LEAST;
        let mtu = if locked { before.min(LEAST) } else { mtu };
        if paths.len() >= PATHS_MAX && !paths.contains_key(&to) {
            paths.retain(|_, known| now < known.until);
            let soonest = paths.iter().min_by_key(|(_, known)| known.until).map(|(to, _)| *to);
            soonest.filter(|_| paths.len() >= PATHS_MAX).and_then(|soonest| paths.remove(&soonest));
        }
        paths.insert(to, Known { mtu, locked, until: now + EXPIRES });
        mtu
    }
}

impl Stack {
    /// The MTU of the path to a destination, if a router has told it.
    #[inline]
    pub fn known_path_mtu4(&self, to: Ipv4Addr, now: SimTime) -> Option<usize> {
        self.path_mtus.get(to, now).map(|known| known.mtu)
    }

    /// True if a packet of `len` bytes must not be cut on its way, by a socket's `IP_MTU_DISCOVER`.
    pub fn must_not_fragment(&self, discover: i32, route: &ResolvedRoute, len: usize, now: SimTime) -> bool {
        let locked = match route.destination {
            IpAddr::V4(to) => {
                route.metrics.mtu_locked || self.path_mtus.get(to, now).is_some_and(|known| known.locked)
            }
            IpAddr::V6(_) => false,
        };
        match discover {
            c::IP_PMTUDISC_DONT | c::IP_PMTUDISC_INTERFACE | c::IP_PMTUDISC_OMIT => false,
            // It is cut here if it is too long.
            c::IP_PMTUDISC_WANT => !locked && len <= self.path_mtu(route, now),
            _ => true,
        }
    }
}

/// True if a socket with this `IP_MTU_DISCOVER` goes by what routers say (`ip_sk_use_pmtu`), or by its interface alone.
pub fn heeds_routers(discover: i32) -> bool {
    discover < c::IP_PMTUDISC_PROBE
}

impl Stack {
    /// True if an ICMP error about a path concerns a socket that asked not to be told (`IP_PMTUDISC_DONT`).
    pub fn ignores_path_mtu(&mut self, key: SocketKey) -> bool {
        self.socket(key).ip_options().is_some_and(|ip| ip.mtu_discover == c::IP_PMTUDISC_DONT)
    }
}

impl Stack {
    /// `tcpi_pmtu`: the same for a socket that hears of it.
    pub fn heeded_mtu(&mut self, key: SocketKey) -> usize {
        if self.ignores_path_mtu(key) { ETH0_MTU.max(self.socket_mtu(key)) } else { self.socket_mtu(key) }
    }

    /// The MTU of the interface by which a socket's peer is reached; without a peer that of Ethernet.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_believed_for_ten_minutes_and_not_too_much() {
        let mut paths = PathMtus::default();
        let (to, other) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let at = SimTime::from_secs;
        assert_eq!(paths.learn(to, 1400, 1500, at(0)), 1400);
        assert_eq!(paths.learn(to, 1450, 1500, at(1)), 1400, "nobody can make it longer");
        assert_eq!(paths.get(to, at(599)).map(|known| (known.mtu, known.locked)), Some((1400, false)));
        assert!(paths.get(to, at(600)).is_none());
        assert_eq!(paths.learn(other, 68, 1500, at(0)), LEAST);
        assert!(paths.get(other, at(0)).expect("known").locked);
        for n in 0..2 * PATHS_MAX as u32 {
            paths.learn(Ipv4Addr::from(n), 1000, 1500, at(2));
        }
        assert!(paths.0.len() <= PATHS_MAX);
    }
}
