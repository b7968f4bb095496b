//! State of a node, for display and tests.

use super::{Aodv, State};
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that could not be parsed.
    pub malformed: u64,
    /// RREQs originated by this node.
    pub requests: u64,
    /// RREPs sent, including forwarded ones.
    pub replies: u64,
    /// RERRs sent.
    pub errors: u64,
    /// Entries refused because their set was full, and messages over a rate limit.
    pub refused: u64,
}

/// An entry of the route table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// The destination.
    pub destination: Ipv4Addr,
    /// Sequence number of the destination, if known.
    pub sequence: Option<u32>,
    /// State of the entry.
    pub state: State,
    /// Number of hops to the destination.
    pub hop_count: u32,
    /// The neighbour to which packets are forwarded.
    pub next_hop: Ipv4Addr,
    /// Interface to the next hop.
    pub interface: InterfaceId,
    /// Time until the entry changes its state.
    pub lifetime: Duration,
    /// Neighbours that forward packets for this destination to this node.
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
    /// Neighbours whose RREQs are ignored because they do not hear this node.
    pub fn blacklist(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.blacklist.keys().copied()
    }
    /// Event counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// Number of entries in all sets and queues, including held packets.
    pub fn footprint(&self) -> usize {
        let held: usize = self.discoveries.values().map(|discovery| 1 + discovery.held.len()).sum();
        let near = self.heard.len() + self.unacknowledged.len() + self.blacklist.len();
        self.table.len() + self.seen.len() + held + near + self.delayed.len()
    }
}
