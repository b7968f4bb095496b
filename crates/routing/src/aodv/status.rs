//! The state of a node, for displays and tests.

use super::{Aodv, State};
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Events that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that could not be read.
    pub malformed: u64,
    /// RREQs of this node.
    pub requests: u64,
    /// RREPs sent, those of others included.
    pub replies: u64,
    /// RERRs sent.
    pub errors: u64,
    /// Entries that found their set full, and messages over a rate limit.
    pub refused: u64,
}

/// An entry of the route table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// The destination.
    pub destination: Ipv4Addr,
    /// Its sequence number, if known.
    pub sequence: Option<u32>,
    /// The entry's state.
    pub state: State,
    /// Hops to it.
    pub hop_count: u32,
    /// The neighbour that packets are handed to.
    pub next_hop: Ipv4Addr,
    /// The interface to it.
    pub interface: InterfaceId,
    /// Time until the entry changes its state.
    pub lifetime: Duration,
    /// Neighbours that forward by it.
    pub precursors: Vec<Ipv4Addr>,
}

impl Aodv {
    /// The route table.
    pub fn entries(&self, now: Time) -> Vec<RouteStatus> {
        let status = |(destination, entry): (&Ipv4Addr, &super::Entry)| RouteStatus {
            destination: *destination,
            sequence: entry.sequence_valid.then_some(entry.sequence),
            state: entry.state,
            hop_count: entry.hop_count,
            next_hop: entry.next_hop,
            interface: entry.interface,
            lifetime: entry.until.since(now),
            precursors: entry.precursors.iter().copied().collect(),
        };
        self.table.iter().map(status).collect()
    }
    /// The node's sequence number.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }
    /// Neighbours whose RREQs are ignored, because they do not hear this node.
    pub fn blacklist(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.blacklist.keys().copied()
    }
    /// Counted events.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// The number of entries in all sets and queues, held packets included.
    pub fn footprint(&self) -> usize {
        let held: usize = self.discoveries.values().map(|discovery| 1 + discovery.held.len()).sum();
        let near = self.heard.len() + self.unacknowledged.len() + self.blacklist.len();
        self.table.len() + self.seen.len() + held + near + self.delayed.len()
    }
}
