//! Routing tables of all hosts at a time, and the paths of packets.

use super::log::{Hop, Prefix, Route};
use super::network::{Neighbours, Network};
use belljar_base::Map;
use std::net::Ipv4Addr;

/// Routes of a host, sorted by descending prefix length, then by metric.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    routes: Map<(u8, Ipv4Addr, u32), Route>,
}

/// Outcome of following a packet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The packet arrives.
    Arrives {
        /// Number of hops.
        hops: u32,
        /// Expected share of packets that arrive: above 0.
        delivery: f64,
    },
    /// The source has no route.
    NoRoute,
    /// The packet is lost after this host: the host has no route or an unreachable next hop, or all packets
    /// to the next hop are lost.
    Lost(usize),
    /// The packet loops through these hosts.
    Loop(Vec<usize>),
    /// The packet reaches a device with unknown routes.
    Unknown,
}

/// State of the network at a time.
pub(super) struct Present<'a> {
    /// Time in seconds.
    pub(super) time: f64,
    /// The hosts that each host reaches in one hop.
    pub(super) neighbours: Neighbours<'a>,
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

/// Follows a packet from a host to an address of `to`. With `present`, a next hop must be in reach; without,
/// every next hop counts as reachable, without loss.
pub(super) fn follow(
    tables: &[Table],
    network: &Network,
    present: Option<&Present<'_>>,
    from: usize,
    to: usize,
    address: Ipv4Addr,
) -> Outcome {
    let (mut at, mut passed, mut delivery) = (from, Vec::new(), 1.0);
    while at != to {
        if let Some(start) = passed.iter().position(|host| *host == at) {
            return Outcome::Loop(passed.split_off(start));
        }
        passed.push(at);
        let route = tables[at].lookup(address);
        let next = match route.and_then(|route| route.hops.first()) {
            // An on-link route fails if the destination is out of reach.
            Some(hop @ Hop { via: None, .. }) => Some((hop, to)),
            Some(hop @ Hop { via: Some(via), .. }) => match network.owners.get(via) {
                Some(host) => Some((hop, *host)),
                None if network.has_routers => return Outcome::Unknown,
                None => None,
            },
            None => None,
        };
        let next = next.and_then(|(hop, next)| match present {
            Some(present) => Some((next, reach(network, present, at, hop, next)?)),
            None => Some((next, 1.0)),
        });
        let has_route = route.is_some_and(|route| !route.is_own() && !route.hops.is_empty());
        let Some((next, share)) = next else {
            return if at == from && !has_route { Outcome::NoRoute } else { Outcome::Lost(at) };
        };
        // A host discards packets from a source behind a partition.
        if share <= 0.0 || present.is_some_and(|present| network.is_split(from, next, present.time)) {
            return Outcome::Lost(at);
        }
        delivery *= share;
        at = next;
    }
    Outcome::Arrives { hops: passed.len() as u32, delivery }
}

/// Expected share of packets that a host delivers to a next hop; `None` if it is out of reach. Bridges, VLANs
/// and tunnels are interfaces without a link of their own: the link that loses least stands for theirs.
fn reach(network: &Network, present: &Present<'_>, host: usize, hop: &Hop, next: usize) -> Option<f64> {
    let contacts = present.neighbours[host].get(&next)?;
    let of_link = network.has_interface(host, &hop.dev);
    let usable = contacts.iter().filter(|contact| !of_link || contact.interface == hop.dev);
    usable.map(|contact| contact.delivery).reduce(f64::max)
}
