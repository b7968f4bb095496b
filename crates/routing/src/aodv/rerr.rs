//! Broken links and RERRs (RFC 3561, section 6.11).

use super::Aodv;
use super::packet::{MOST_UNREACHABLE, Message, Rerr};
use super::table::State;
use crate::{InterfaceId, Time};
use belljar_base::Set;
use std::net::Ipv4Addr;

impl Aodv {
    /// Case (i): the link to a neighbour broke. Precursors of routes over the link are notified, except for
    /// routes that can be repaired.
    ///
    /// "There are often multiple destinations that become unreachable. The node that is upstream of the lost
    /// link tries an immediate local repair for only the one destination towards which the data packet was
    /// traveling. Other routes using the same link MUST be marked as invalid, but the node [...] MAY flag
    /// each such newly lost route as locally repairable; this local repair flag in the route table MUST be
    /// reset when the route times out" (section 6.12). The link layer does not report the lost packet, so the
    /// repair starts with the next packet for that destination, which finds no route.
    pub(super) fn link_broken(&mut self, now: Time, interface: InterfaceId, neighbor: Ipv4Addr) {
        self.heard.remove(&(interface, neighbor));
        let by_it = |entry: &super::table::Entry| {
            entry.state == State::Valid && entry.next_hop == neighbor && entry.interface == interface
        };
        let broken: Vec<_> =
            self.table.iter().filter(|(_, e)| by_it(e)).map(|(to, e)| (*to, e.clone())).collect();
        let mut lost = Vec::new();
        for (destination, entry) in broken {
            let near = entry.hop_count <= self.config.max_repair_ttl();
            let for_others =
                !entry.precursors.is_empty() && entry.used_by.is_some_and(|source| !self.is_own(source));
            self.invalidate(now, destination, None);
            if !(self.config.local_repair && near && for_others) {
                lost.push((destination, entry.sequence.wrapping_add(1)));
            } else if let Some(flagged) = self.table.get_mut(&destination) {
                flagged.repairable_until = Some(entry.until);
            }
        }
        self.report(now, &lost, false);
    }

    /// Case (iii): a neighbour reports destinations that it can no longer reach.
    pub(super) fn on_rerr(&mut self, now: Time, interface: InterfaceId, from: Ipv4Addr, rerr: Rerr) {
        self.touch_neighbor(now, from, interface, now + self.config.active_route_timeout);
        let mut lost = Vec::new();
        for (destination, sequence) in rerr.unreachable {
            let concerns =
                self.valid(destination).is_some_and(|entry| entry.next_hop == from && destination != from);
            if !concerns {
                continue;
            }
            // "if the N flag is set, the route is not invalidated": it was repaired, and is longer now.
            if !rerr.no_delete {
                self.invalidate(now, destination, Some(sequence));
            }
            lost.push((destination, sequence));
        }
        self.report(now, &lost, rerr.no_delete);
    }

    /// Notifies the precursors of destinations that these are unreachable (or, with `no_delete`, that the
    /// path has become longer).
    pub(super) fn report(&mut self, now: Time, lost: &[(Ipv4Addr, u32)], no_delete: bool) {
        let mut told: Set<Ipv4Addr> = Set::new();
        let mut unreachable = Vec::new();
        for (destination, sequence) in lost {
            let Some(entry) = self.table.get_mut(destination) else { continue };
            // "only those destinations with a non-empty precursor list are included"
            if !entry.precursors.is_empty() {
                unreachable.push((*destination, *sequence));
                told.extend(&entry.precursors);
            }
            if !no_delete {
                entry.precursors.clear();
            }
        }
        if unreachable.is_empty() {
            return;
        }
        // "unicast, if there is only 1 precursor", which is a neighbour
        let only = told.first().filter(|_| told.len() == 1).and_then(|neighbor| self.valid(*neighbor));
        match only.filter(|entry| entry.hop_count == 1).map(|entry| (entry.interface, entry.next_hop)) {
            Some((interface, neighbor)) => {
                for part in unreachable.chunks(MOST_UNREACHABLE) {
                    if self.may_report(now) {
                        self.unicast(
                            interface,
                            neighbor,
                            &Message::Rerr(Rerr { no_delete, unreachable: part.to_vec() }),
                        );
                    }
                }
            }
            None => self.broadcast_error(now, unreachable, no_delete),
        }
    }

    /// Broadcasts RERRs to all neighbours.
    pub(super) fn broadcast_error(&mut self, now: Time, unreachable: Vec<(Ipv4Addr, u32)>, no_delete: bool) {
        for part in unreachable.chunks(MOST_UNREACHABLE) {
            if self.may_report(now) {
                self.broadcast(now, 1, &Message::Rerr(Rerr { no_delete, unreachable: part.to_vec() }));
            }
        }
    }

    /// True if an RERR may be sent now: "A node SHOULD NOT originate more than RERR_RATELIMIT RERR messages per second."
    fn may_report(&mut self, now: Time) -> bool {
        let may = self.rerr_limit.take(now, self.config.rerr_rate_limit).is_ok();
        self.counts.errors += u64::from(may);
        self.counts.refused += u64::from(!may);
        may
    }
}
