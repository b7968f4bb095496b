//! The routing tables of all hosts at a time, and the ways that packets take by them.

use super::log::{Hop, Prefix, Route};
use super::network::Network;
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;

/// The routes of a host: those of the longest prefix first, then by metric.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    routes: Map<(u8, Ipv4Addr, u32), Route>,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Way {
    /// It arrives, after so many hops.
    Arrives(u32),
    /// Its source has no route.
    NoRoute,
    /// It is lost at this host, which another has sent it to, or whose next hop is not there.
    Lost(usize),
    /// It goes in circles through these hosts.
    Loop(Vec<usize>),
    /// It is given to a device whose routes are not known.
    Unknown,
}

impl Table {
    /// Adds a route or takes it out. Gives what was there.
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
    /// Number of routes that protocols have made.
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

/// Follows a packet from a host to an address that `to` has. With `neighbours`, a next hop has to be in reach; without,
/// every next hop is taken to be.
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
            // A network's own route leads nowhere if the destination is too far away.
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
