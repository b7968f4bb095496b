//! Neighbour set, 2-hop neighbour set and MPR selector set (RFC 3626, sections 4.3 and 8).

use super::Olsr;
use super::packet::{Hello, NeighborType};
use crate::Time;
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Upper bound on the 2-hop tuples of a node.
const MOST_TWO_HOP: usize = 65_536;

/// Duration for which a 2-hop tuple counts as new: the validity time of TC messages.
const NEW: Duration = Duration::from_secs(15);

/// A 2-hop tuple: a neighbour advertises a neighbour of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoHop {
    /// `N_time`.
    pub until: Time,
    /// Time at which the tuple was created, while it is new. Of mobile nodes, those that met last stay in
    /// range longest.
    pub new_since: Option<Time>,
}

impl TwoHop {
    /// Sort key among the tuples of one 2-hop neighbour, the best first: the newest, but those of a neighbour
    /// that may be out of range last.
    pub fn rank(&self, is_last: bool) -> u64 {
        u64::from(is_last) << 63 | ((u64::MAX >> 1) - self.new_since.map_or(0, Time::as_nanos))
    }
    fn is_new_until(&self) -> Time {
        self.new_since.map_or(Time::MAX, |since| since + NEW)
    }
}

/// A neighbour tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbor {
    /// True if `N_status` is SYM.
    pub symmetric: bool,
    /// `N_willingness`.
    pub willingness: u8,
}

impl Olsr {
    /// Sections 8.1.1 and 8.4.1: records the sender's willingness and its selection of this node as MPR.
    pub(super) fn note_neighbor(&mut self, now: Time, main: Ipv4Addr, validity: Duration, hello: &Hello) {
        if let Some(known) = self.willingness.insert(main, hello.willingness)
            && known != hello.willingness
        {
            self.dirty.neighborhood = true;
        }
        let own = |address| self.interfaces.values().any(|interface| interface.at.address == address);
        let chosen =
            hello.links.iter().any(|&(code, address)| code.neighbor == NeighborType::Mpr && own(address));
        if chosen && self.neighbors.get(&main).is_some_and(|neighbor| neighbor.symmetric) {
            self.dirty.advertised |= self.selectors.insert(main, now + validity).is_none();
            self.expire_at = self.expire_at.min(now + validity);
        }
        // "MPR selector tuples are removed when they expire": a neighbour that lists this node with another
        // type withdraws its selection.
        let listed = hello.links.iter().any(|&(_, address)| own(address));
        if listed && !chosen {
            self.dirty.advertised |= self.selectors.remove(&main).is_some();
        }
    }

    /// Section 8.2.1: records the neighbours of a symmetric neighbour.
    pub(super) fn note_two_hop(&mut self, now: Time, main: Ipv4Addr, validity: Duration, hello: &Hello) {
        if !self.neighbors.get(&main).is_some_and(|neighbor| neighbor.symmetric) {
            return;
        }
        for &(code, address) in &hello.links {
            let two_hop = self.main_address_of(address);
            match code.neighbor {
                // "if the main address of the 2-hop neighbor address == main address of the receiving node: silently
                // discard the 2-hop neighbor address"
                NeighborType::Symmetric | NeighborType::Mpr if two_hop != self.config.main_address => {
                    let key = (main, two_hop);
                    if self.two_hop.len() >= MOST_TWO_HOP && !self.two_hop.contains_key(&key) {
                        self.counts.refused += 1;
                        continue;
                    }
                    let until = now + validity;
                    let tuple = self.two_hop.entry(key).or_insert_with(|| {
                        self.dirty.relays = true;
                        TwoHop { until, new_since: Some(now) }
                    });
                    tuple.until = until;
                    self.expire_at = self.expire_at.min(until);
                }
                NeighborType::Symmetric | NeighborType::Mpr => {}
                // "if the Neighbor Type is equal to NOT_NEIGH, all 2-hop tuples [...] are deleted"
                NeighborType::Not => self.dirty.relays |= self.two_hop.remove(&(main, two_hop)).is_some(),
            }
        }
    }

    /// Updates the neighbour set from the link set, and removes the 2-hop tuples of lost neighbours (section
    /// 8.5).
    pub(super) fn update_neighbors(&mut self, now: Time) {
        let mut next: Map<Ipv4Addr, Neighbor> = Map::new();
        for link in self.links.values_mut() {
            let state = (link.is_symmetric(now), link.is_overdue(now));
            self.dirty.near |= state != (link.was_symmetric, link.was_overdue);
            (link.was_symmetric, link.was_overdue) = state;
            let willingness = self.willingness.get(&link.main).copied().unwrap_or(3);
            let neighbor = next.entry(link.main).or_insert(Neighbor { symmetric: false, willingness });
            neighbor.symmetric |= link.was_symmetric;
        }
        if next == self.neighbors {
            return;
        }
        self.willingness.retain(|main, _| next.contains_key(main));
        let symmetric: Set<Ipv4Addr> =
            next.iter().filter(|(_, n)| n.symmetric).map(|(main, _)| *main).collect();
        self.two_hop.retain(|(main, _), _| symmetric.contains(main));
        let before = self.selectors.len();
        self.selectors.retain(|main, _| symmetric.contains(main));
        self.dirty.advertised |= self.selectors.len() != before || self.config.tc_redundancy > 0;
        self.neighbors = next;
        (self.dirty.relays, self.dirty.hello) = (true, true);
    }

    /// Main addresses of the symmetric neighbours.
    pub(super) fn symmetric_neighbors(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.neighbors.iter().filter(|(_, neighbor)| neighbor.symmetric).map(|(main, _)| *main)
    }

    /// Removes expired tuples. Returns the time of the next expiry.
    pub(super) fn expire_neighbors(&mut self, now: Time) -> Time {
        let before = (self.two_hop.len(), self.selectors.len());
        let mut next = Time::MAX;
        self.two_hop.retain(|_, tuple| {
            let stays = tuple.until > now;
            if stays {
                if tuple.is_new_until() <= now {
                    tuple.new_since = None;
                    self.dirty.near = true;
                }
                next = next.min(tuple.until).min(tuple.is_new_until());
            }
            stays
        });
        self.selectors.retain(|_, until| *until > now);
        self.dirty.relays |= self.two_hop.len() != before.0;
        self.dirty.advertised |= self.selectors.len() != before.1;
        self.selectors.values().copied().fold(next, Time::min)
    }
}
