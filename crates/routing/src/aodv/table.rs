//! Route table (RFC 3561, sections 2, 6.1 and 6.2).

use super::Aodv;
use crate::contract::Route;
use crate::{InterfaceId, Prefix, Time};
use belljar_base::Set;
use std::net::Ipv4Addr;

/// Upper bound on the entries of a node; further destinations are not learnt.
const MOST_ROUTES: usize = 65_536;
/// Upper bound on the precursors of an entry.
const MOST_PRECURSORS: usize = 1024;

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The route forwards packets.
    Valid,
    /// The entry only preserves the sequence number and hop count of the destination.
    Invalid,
    /// A local repair is in progress; packets are held.
    Repairing,
}

/// An entry of the route table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Sequence number of the destination.
    pub sequence: u32,
    /// True if the sequence number is valid.
    pub sequence_valid: bool,
    pub state: State,
    pub hop_count: u32,
    pub next_hop: Ipv4Addr,
    pub interface: InterfaceId,
    /// Time at which a valid entry becomes invalid, or an invalid one is deleted.
    pub until: Time,
    /// Neighbours that are likely to forward packets for this destination to this node.
    pub precursors: Set<Ipv4Addr>,
    /// Source of the last packet seen for this destination.
    pub used_by: Option<Ipv4Addr>,
    /// True if the entry only states that the destination is a neighbour.
    pub neighbor_only: bool,
    /// Local repair flag (section 6.12): the link broke, the precursors were not notified, and a forwarded
    /// packet before this time starts a repair.
    pub repairable_until: Option<Time>,
}

/// A route offered by a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub sequence: u32,
    pub hop_count: u32,
    pub next_hop: Ipv4Addr,
    pub interface: InterfaceId,
    pub until: Time,
}

/// "Sequence number comparison: signed 32-bit arithmetic" (section 6.1): true if `a` is more recent than `b`.
pub(super) fn newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Aodv {
    /// True if the address belongs to this node.
    pub(super) fn is_own(&self, address: Ipv4Addr) -> bool {
        address == self.config.main_address || self.interfaces.values().any(|port| port.at.address == address)
    }

    /// The entry of a destination, if it is valid.
    pub(super) fn valid(&self, destination: Ipv4Addr) -> Option<&Entry> {
        self.table.get(&destination).filter(|entry| entry.state == State::Valid)
    }

    fn has_room(&mut self, destination: Ipv4Addr) -> bool {
        let room = self.table.len() < MOST_ROUTES || self.table.contains_key(&destination);
        self.counts.refused += u64::from(!room);
        room
    }

    /// Creates or refreshes the route to a neighbour that sent a message; a new one is "without a valid
    /// sequence number".
    pub(super) fn touch_neighbor(
        &mut self,
        now: Time,
        neighbor: Ipv4Addr,
        interface: InterfaceId,
        until: Time,
    ) {
        if self.is_own(neighbor) || !self.has_room(neighbor) {
            return;
        }
        let entry = self.table.entry(neighbor).or_insert(Entry {
            sequence: 0,
            sequence_valid: false,
            state: State::Valid,
            hop_count: 1,
            next_hop: neighbor,
            interface,
            until,
            precursors: Set::new(),
            used_by: None,
            neighbor_only: true,
            repairable_until: None,
        });
        if entry.state != State::Valid || entry.hop_count > 1 {
            (entry.state, entry.hop_count, entry.until) = (State::Valid, 1, until);
            entry.repairable_until = None;
        }
        (entry.next_hop, entry.interface) = (neighbor, interface);
        entry.until = entry.until.max(until);
        self.settle(now, neighbor);
    }

    /// Section 6.2: creates a route, or updates it if the offer is more recent, or equally recent and
    /// shorter, or if the table has no valid sequence number. Returns whether it did.
    pub(super) fn learn(&mut self, now: Time, destination: Ipv4Addr, offer: Offer) -> bool {
        if self.is_own(destination) || !self.has_room(destination) {
            return false;
        }
        let old = self.table.get_mut(&destination);
        if let Some(entry) = old {
            let same = entry.sequence == offer.sequence;
            let better = !entry.sequence_valid
                || newer(offer.sequence, entry.sequence)
                || (same && (entry.state != State::Valid || offer.hop_count < entry.hop_count));
            if !better {
                if same && entry.next_hop == offer.next_hop && entry.state == State::Valid {
                    entry.until = entry.until.max(offer.until);
                }
                return false;
            }
        }
        let before = self.table.remove(&destination);
        let lifetime = before
            .as_ref()
            .filter(|entry| entry.state == State::Valid)
            .map_or(offer.until, |entry| entry.until);
        let repaired =
            before.as_ref().is_some_and(|e| e.state == State::Repairing && offer.hop_count > e.hop_count);
        let (precursors, used_by) = before.map(|entry| (entry.precursors, entry.used_by)).unwrap_or_default();
        let Offer { sequence, hop_count, next_hop, interface, until } = offer;
        let entry = Entry {
            sequence,
            sequence_valid: true,
            state: State::Valid,
            hop_count,
            next_hop,
            interface,
            until: until.max(lifetime),
            precursors,
            used_by,
            neighbor_only: false,
            repairable_until: None,
        };
        self.table.insert(destination, entry);
        self.settle(now, destination);
        if repaired {
            // Section 6.12: "if the hop count of the newly determined route [...] is greater than the hop count of the
            // previously known route, the node SHOULD issue a RERR message for the destination, with the 'N' bit set"
            self.report(now, &[(destination, sequence)], true);
        }
        true
    }

    /// Synchronises the forwarding table, the expiry timer and held packets with the entry of a destination.
    pub(super) fn settle(&mut self, now: Time, destination: Ipv4Addr) {
        let Some(entry) = self.table.get(&destination) else {
            return self.routes.remove(Prefix::host(destination));
        };
        self.expire_at = self.expire_at.min(entry.until);
        if entry.state != State::Valid {
            return self.routes.remove(Prefix::host(destination));
        }
        let &Entry { next_hop, interface, hop_count, .. } = entry;
        self.routes.set(Route {
            destination: Prefix::host(destination),
            next_hop,
            interface,
            distance: hop_count,
        });
        self.discovered(now, destination);
    }

    /// Section 6.11: "the destination sequence number is incremented, the entry is invalidated, and its Lifetime is
    /// updated to current time plus DELETE_PERIOD".
    pub(super) fn invalidate(&mut self, now: Time, destination: Ipv4Addr, sequence: Option<u32>) {
        let until = now + self.config.delete_period();
        if let Some(entry) = self.table.get_mut(&destination) {
            entry.sequence = sequence.unwrap_or(entry.sequence.wrapping_add(1));
            (entry.state, entry.until, entry.repairable_until) = (State::Invalid, until, None);
            self.settle(now, destination);
        }
    }

    /// Adds a neighbour that forwards packets for `destination` to this node.
    pub(super) fn add_precursor(&mut self, destination: Ipv4Addr, neighbor: Ipv4Addr) {
        if let Some(entry) = self.table.get_mut(&destination)
            && entry.precursors.len() < MOST_PRECURSORS
        {
            entry.precursors.insert(neighbor);
        }
    }

    /// Section 6.2: extends the lifetimes of the routes to both addresses of a forwarded packet, and to their
    /// next hops.
    pub(super) fn refresh(&mut self, now: Time, source: Ipv4Addr, destination: Ipv4Addr) {
        let until = now + self.config.active_route_timeout;
        for (address, other) in [(destination, source), (source, destination)] {
            let Some(entry) = self.table.get_mut(&address).filter(|entry| entry.state == State::Valid) else {
                continue;
            };
            entry.until = entry.until.max(until);
            entry.neighbor_only = false;
            entry.used_by = Some(other);
            let next_hop = entry.next_hop;
            if let Some(entry) = self.table.get_mut(&next_hop).filter(|entry| entry.state == State::Valid) {
                entry.until = entry.until.max(until);
            }
        }
    }

    /// Invalidates or deletes expired entries. Returns the time of the next expiry.
    pub(super) fn expire_routes(&mut self, now: Time) -> Time {
        let over: Vec<_> =
            self.table.iter().filter(|(_, entry)| entry.until <= now).map(|(to, e)| (*to, e.state)).collect();
        for (destination, state) in over {
            match state {
                State::Valid => self.invalidate(now, destination, None),
                // A repair in progress ends together with its discovery.
                State::Repairing if self.discoveries.contains_key(&destination) => {
                    if let Some(entry) = self.table.get_mut(&destination) {
                        entry.until = now + self.config.delete_period();
                    }
                }
                State::Repairing | State::Invalid => {
                    self.table.remove(&destination);
                    self.settle(now, destination);
                }
            }
        }
        self.table.values().map(|entry| entry.until).min().unwrap_or(Time::MAX)
    }
}
