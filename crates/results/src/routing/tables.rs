//! Routing tables of all hosts at a time, and the paths of packets.

use super::log::{Hop, Prefix, Route};
use super::network::Network;
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;

/// Routes of a host, sorted by descending prefix length, then by metric.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    routes: Map<(u8, Ipv4Addr, u32), Route>,
}

/// Outcome of following a packet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Way {
    /// The packet arrives after this number of hops.
    Arrives(u32),
    /// The source has no route.
    NoRoute,
    /// The packet is lost at this host, which has no route or an unreachable next hop.
    Lost(usize),
    /// The packet loops through these hosts.
    Loop(Vec<usize>),
    /// The packet reaches a device with unknown routes.
    Unknown,
}

impl Table {
    /// Sets or removes a route. Returns the previous one.
    pub(super) fn set(
        &mut self,
        (address, bits): Prefix,
        metric: u32,
        route: Option<Route>,
    ) -> Option<Route> {
        let key = (32 - bits.min(32), address, metric);
        match route {
            Some(route) => self.routes.insert(key, route),
            None => self.routes.remove(&key),
        }
    }
    pub(super) fn clear(&mut self) {
        self.routes.clear();
    }
    /// Number of routes created by protocols.
    pub(super) fn len(&self) -> usize {
        self.routes.values().filter(|route| !route.is_own()).count()
    }
    fn lookup(&self, to: Ipv4Addr) -> Option<&Route> {
        let holds = |rest: u8, network: Ipv4Addr| {
            let mask = u32::MAX.checked_shl(rest.into()).unwrap_or(0);
            u32::from(to) & mask == u32::from(network)
        };
        self.routes.iter().find(|((rest, network, _), _)| holds(*rest, *network)).map(|(_, route)| route)
    }
}

/// Follows a packet from a host to an address of `to`. With `neighbours`, a next hop must be in range;
/// without, every next hop counts as reachable.
pub(super) fn follow(
    tables: &[Table],
    network: &Network,
    neighbours: Option<&[Set<usize>]>,
    from: usize,
    to: usize,
    address: Ipv4Addr,
) -> Way {
    let (mut at, mut passed) = (from, Vec::new());
    while at != to {
        if let Some(start) = passed.iter().position(|host| *host == at) {
            return Way::Loop(passed.split_off(start));
        }
        passed.push(at);
        let reach = |host: &usize| neighbours.is_none_or(|all| all[at].contains(host));
        let route = tables[at].lookup(address);
        let next = match route.map(|route| &route.hops[..]) {
            // An on-link route fails if the destination is out of range.
            Some([Hop { via: None, .. }, ..]) if reach(&to) => Some(to),
            Some([Hop { via: Some(via), .. }, ..]) => match network.owners.get(via) {
                Some(host) if reach(host) => Some(*host),
                None if network.has_routers => return Way::Unknown,
                _ => None,
            },
            _ => None,
        };
        let has_way = route.is_some_and(|route| !route.is_own() && !route.hops.is_empty());
        match next {
            Some(next) => at = next,
            None if at == from && !has_way => return Way::NoRoute,
            None => return Way::Lost(at),
        }
    }
    Way::Arrives(passed.len() as u32)
}
