//! State of a node, for display and tests.

use super::Olsr;
use super::topology::tuple_ends;
use crate::contract::Ipv4Route;
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets and messages that could not be parsed.
    pub malformed: u64,
    /// Messages forwarded for other nodes.
    pub forwarded: u64,
    /// Entries refused because their set was full, and messages refused because the queue was full.
    pub refused: u64,
}

/// A link to a neighbour's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The local interface.
    pub interface: InterfaceId,
    /// Address of the neighbour's interface.
    pub address: Ipv4Addr,
    /// Main address of the neighbour.
    pub main_address: Ipv4Addr,
    /// True if both sides hear each other.
    pub symmetric: bool,
    /// True if the neighbour is an MPR of this node.
    pub relay: bool,
    /// True if this node is an MPR of the neighbour.
    pub selector: bool,
    /// Willingness of the neighbour.
    pub willingness: u8,
}

impl Olsr {
    /// The links.
    pub fn links(&self, now: Time) -> Vec<LinkStatus> {
        let status =
            |(&(interface, address), link): (&(InterfaceId, Ipv4Addr), &super::links::Link)| LinkStatus {
                interface,
                address,
                main_address: link.main,
                symmetric: link.is_symmetric(now),
                relay: self.relays.contains(&link.main),
                selector: self.selectors.contains_key(&link.main),
                willingness: self.willingness.get(&link.main).copied().unwrap_or(3),
            };
        self.links.iter().map(status).collect()
    }
    /// The routes.
    pub fn routes(&self) -> impl Iterator<Item = &Ipv4Route> {
        self.routes.table().values()
    }
    /// Main addresses of the multipoint relays.
    pub fn relays(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.relays.iter().copied()
    }
    /// Edges of the topology: the advertising node, and the advertised neighbour.
    pub fn topology(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> + '_ {
        self.topology.keys().map(|key| tuple_ends(*key))
    }
    /// Event counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// Number of entries in all sets and queues.
    pub fn footprint(&self) -> usize {
        let near = self.links.len()
            + self.willingness.len()
            + self.neighbors.len()
            + self.two_hop.len()
            + self.selectors.len();
        let far = self.topology.len() + self.associations.len() + self.networks.len() + self.duplicates.len();
        near + far + self.delayed.len() + self.routes.table().len()
    }
}
