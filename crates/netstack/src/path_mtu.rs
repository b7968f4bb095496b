//! Path MTU discovery for IPv4 (RFC 1191): the MTUs reported by routers.

use super::Stack;
use super::ip::route::ResolvedRoute;
use crate::SocketKey;
use crate::interface::ETH0_MTU;
use crate::socket::SocketKind;
use crate::tcp::Role;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_linux_abi::c;
use std::net::{IpAddr, Ipv4Addr};

/// Lifetime of a reported MTU (`net.ipv4.route.mtu_expires`).
const EXPIRES: SimDuration = SimDuration::from_secs(600);
/// Minimum path MTU in bytes (`net.ipv4.route.min_pmtu`). A path with a smaller reported MTU uses packets of
/// this size without the DF flag.
const LEAST: usize = 552;
/// Maximum number of paths stored.
const PATHS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug)]
struct Known {
    mtu: usize,
    /// True if packets are sent without the DF flag.
    locked: bool,
    until: SimTime,
}

/// Path MTUs by destination.
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

    /// Records a router's report that the MTU of the path to `to` is `mtu` bytes, where `usual` bytes were
    /// used so far (`__ip_rt_update_pmtu`). Returns the path MTU that applies from now on.
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
    /// The MTU of the path to a destination, if a router has reported one.
    #[inline]
    pub fn known_path_mtu4(&self, to: Ipv4Addr, now: SimTime) -> Option<usize> {
        self.path_mtus.get(to, now).map(|known| known.mtu)
    }

    /// True if a packet of `len` bytes has the DF flag under a socket's `IP_MTU_DISCOVER`.
    pub fn must_not_fragment(&self, discover: i32, route: &ResolvedRoute, len: usize, now: SimTime) -> bool {
        let locked = match route.destination {
            IpAddr::V4(to) => {
                route.metrics.mtu_locked || self.path_mtus.get(to, now).is_some_and(|known| known.locked)
            }
            IpAddr::V6(_) => false,
        };
        match discover {
            c::IP_PMTUDISC_DONT | c::IP_PMTUDISC_INTERFACE | c::IP_PMTUDISC_OMIT => false,
            // A longer packet is fragmented here.
            c::IP_PMTUDISC_WANT => !locked && len <= self.path_mtu(route, now),
            _ => true,
        }
    }
}

/// True if a socket with this `IP_MTU_DISCOVER` uses path MTUs (`ip_sk_use_pmtu`), false if it uses the
/// interface's MTU alone.
pub fn heeds_routers(discover: i32) -> bool {
    discover < c::IP_PMTUDISC_PROBE
}

impl Stack {
    /// True if a socket ignores ICMP errors about the path MTU (`IP_PMTUDISC_DONT`).
    pub fn ignores_path_mtu(&mut self, key: SocketKey) -> bool {
        self.socket(key).ip_options().is_some_and(|ip| ip.mtu_discover == c::IP_PMTUDISC_DONT)
    }
}

impl Stack {
    /// `tcpi_pmtu`: the path MTU of a socket; for one that ignores path MTUs at least that of Ethernet.
    pub fn heeded_mtu(&mut self, key: SocketKey) -> usize {
        if self.ignores_path_mtu(key) { ETH0_MTU.max(self.socket_mtu(key)) } else { self.socket_mtu(key) }
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
