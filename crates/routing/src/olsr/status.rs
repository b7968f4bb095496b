//! The sets of a node, for displays and tests.

use super::Olsr;
use super::topology::tuple_ends;
use crate::contract::Ipv4Route;
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;

/// Events that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets and messages that could not be read.
    pub malformed: u64,
    /// Messages forwarded for others.
    pub forwarded: u64,
    /// Entries that found their set full, and messages that found the queue full.
    pub refused: u64,
}

/// A link to a neighbour's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// The local interface.
    pub interface: InterfaceId,
    /// The neighbour's address there.
    pub address: Ipv4Addr,
    /// The neighbour's main address.
    pub main_address: Ipv4Addr,
    /// Both sides hear each other.
    pub symmetric: bool,
    /// The neighbour is one of this node's MPRs.
    pub relay: bool,
    /// This node is one of the neighbour's MPRs.
    pub selector: bool,
    /// The neighbour's willingness.
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
    /// Edges of the topology: the node that told of it, and the neighbour it told of.
    pub fn topology(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> + '_ {
        self.topology.keys().map(|key| tuple_ends(*key))
    }
    /// Counted events.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// The number of entries in all sets and queues.
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
