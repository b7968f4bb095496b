//! Route discovery: packets that wait for a route, RREQs originated by this node, and the expanding ring
//! search (RFC 3561, sections 6.3, 6.4 and 6.12).

use super::Aodv;
use super::packet::{Message, Rreq};
use super::table::State;
use crate::contract::{Released, Verdict};
use crate::{DataPlaneEvent, Time};
use belljar_wire::ipv4;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

/// A route discovery in progress.
#[derive(Debug)]
pub(super) struct Discovery {
    /// Packets that wait for the route, the oldest first.
    pub held: VecDeque<Vec<u8>>,
    /// Originator address of the RREQs.
    source: Ipv4Addr,
    /// TTL of the last RREQ; 0 before the first.
    ttl: u8,
    /// Number of RREQs sent with `NET_DIAMETER`.
    wide: u32,
    /// Time of the next step.
    pub deadline: Time,
    /// For a local repair: TTL of its RREQ.
    repair: Option<u8>,
}

/// Rate limit: at most a given number of events in any second.
#[derive(Debug, Default)]
pub(super) struct RateLimit(VecDeque<Time>);

impl RateLimit {
    /// Admits one event, or returns the time at which the limit admits it.
    pub fn take(&mut self, now: Time, limit: usize) -> Result<(), Time> {
        let second = Duration::from_secs(1);
        while self.0.front().is_some_and(|first| *first + second <= now) {
            self.0.pop_front();
        }
        if self.0.len() < limit.max(1) {
            self.0.push_back(now);
            return Ok(());
        }
        Err(self.0.front().map_or(now + second, |first| *first + second))
    }
}

impl Aodv {
    /// Handles a packet without a route.
    pub(super) fn no_route(&mut self, now: Time, bytes: &[u8]) {
        let Ok(packet) = ipv4::Packet::new_checked(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        let (source, destination) = (packet.src(), packet.dst());
        if !super::is_node(destination) || self.is_own(destination) {
            return self.release(bytes.to_vec(), Verdict::Unreachable);
        }
        // The route was found while the packet was in transit to this function.
        if self.valid(destination).is_some() {
            self.refresh(now, source, destination);
            return self.release(bytes.to_vec(), Verdict::Send);
        }
        let own = self.is_own(source) || source.is_unspecified();
        if own || self.discoveries.contains_key(&destination) {
            let source = if self.is_own(source) { source } else { self.config.main_address };
            return self.hold(now, source, destination, bytes);
        }
        if self.repair(now, source, destination) {
            return self.hold(now, self.config.main_address, destination, bytes);
        }
        self.release(bytes.to_vec(), Verdict::Dropped);
        if now < self.quiet_until {
            // Section 6.13: "if [the node] receives a data packet for some other destination, it SHOULD broadcast a RERR
            // and reset the waiting timer"
            self.quiet_until = now + self.config.delete_period();
        }
        // Section 6.11, case (ii).
        let known = self.table.get(&destination);
        let sequence =
            known.map_or(0, |entry| entry.sequence.wrapping_add(u32::from(entry.state == State::Valid)));
        self.broadcast_error(now, vec![(destination, sequence)], false);
    }

    /// Holds a packet and starts a discovery for its destination.
    fn hold(&mut self, now: Time, source: Ipv4Addr, destination: Ipv4Addr, packet: &[u8]) {
        let (most_each, most) = self.config.held_packets;
        if !self.discoveries.contains_key(&destination) {
            if self.discoveries.len() >= most {
                return self.release(packet.to_vec(), Verdict::Dropped);
            }
            self.search(now, source, destination, None);
        }
        let all: usize = self.discoveries.values().map(|discovery| discovery.held.len()).sum();
        let Some(discovery) = self.discoveries.get_mut(&destination) else { return };
        // "the buffering SHOULD be first-in, first-out": drop the oldest packet.
        let oldest =
            if discovery.held.len() >= most_each || all >= most { discovery.held.pop_front() } else { None };
        if all < most || oldest.is_some() {
            discovery.held.push_back(packet.to_vec());
            oldest.into_iter().for_each(|old| self.release(old, Verdict::Dropped));
        } else {
            self.release(packet.to_vec(), Verdict::Dropped);
        }
    }

    /// Starts a discovery.
    fn search(&mut self, now: Time, source: Ipv4Addr, destination: Ipv4Addr, repair: Option<u8>) {
        let deadline = now.max(self.quiet_until);
        let discovery = Discovery { held: VecDeque::new(), source, ttl: 0, wide: 0, deadline, repair };
        self.discoveries.insert(destination, discovery);
        if deadline <= now {
            self.step(now, destination);
        }
    }

    /// Section 6.12: handles another node's packet whose route has a broken link. Starts a local repair if
    /// the route can be repaired; returns whether it did.
    fn repair(&mut self, now: Time, sender: Ipv4Addr, destination: Ipv4Addr) -> bool {
        // "TTL: max(MIN_REPAIR_TTL, 0.5 * #hops) + LOCAL_ADD_TTL, where #hops is the number of hops to the sender (originator)
        // of the currently undeliverable packet"; MIN_REPAIR_TTL is "the last known hop count to the destination".
        let back = self.table.get(&sender).map_or(0, |entry| entry.hop_count);
        let room = self.discoveries.len() < self.config.held_packets.1;
        let Some(entry) = self.table.get_mut(&destination).filter(|_| room) else { return false };
        if entry.repairable_until.take().is_none_or(|until| until <= now) {
            return false;
        }
        entry.state = State::Repairing;
        let ttl = entry.hop_count.max(back / 2) + self.config.local_add_ttl;
        self.search(now, self.config.main_address, destination, Some(ttl.min(255) as u8));
        true
    }

    /// Sends the next RREQ of a discovery, or ends it.
    pub(super) fn step(&mut self, now: Time, destination: Ipv4Addr) {
        let diameter = self.config.net_diameter;
        let Some(discovery) = self.discoveries.get(&destination) else { return };
        let (was, wide, repair, source) = (discovery.ttl, discovery.wide, discovery.repair, discovery.source);
        let known = self.table.get(&destination);
        let next = match (was, repair) {
            (0, Some(ttl)) => Some(ttl),
            (_, Some(_)) => None,
            // "the TTL is initially set to the Hop Count in the [invalid] routing table entry plus TTL_INCREMENT"
            (0, None) => {
                known.map(|entry| entry.hop_count as u8).map_or(Some(self.config.ttl_start), |hops| {
                    Some(hops.saturating_add(self.config.ttl_increment))
                })
            }
            (_, None) if was >= diameter => (wide <= self.config.rreq_retries).then_some(diameter),
            (_, None) => Some(was.saturating_add(self.config.ttl_increment)),
        };
        // "Beyond TTL_THRESHOLD, TTL = NET_DIAMETER is used for each attempt"
        let next =
            next.map(
                |ttl| if ttl > self.config.ttl_threshold && repair.is_none() { diameter } else { ttl.max(1) },
            );
        let Some(ttl) = next else { return self.not_found(now, destination) };
        if let Err(later) = self.rreq_limit.take(now, self.config.rreq_rate_limit) {
            if let Some(discovery) = self.discoveries.get_mut(&destination) {
                discovery.deadline = later;
            }
            return;
        }
        // "Following each repetition at NET_DIAMETER the waiting time is multiplied by 2" (section 6.3)
        let wait = if ttl >= diameter {
            self.config.net_traversal_time() * (1 << wide.min(8))
        } else {
            self.config.ring_traversal_time(ttl)
        };
        if let Some(discovery) = self.discoveries.get_mut(&destination) {
            (discovery.ttl, discovery.deadline) = (ttl, now + wait);
            discovery.wide += u32::from(ttl >= diameter);
        }
        self.request(now, source, destination, ttl);
    }

    /// Section 6.3: sends an RREQ.
    fn request(&mut self, now: Time, originator: Ipv4Addr, destination: Ipv4Addr, ttl: u8) {
        // "Immediately before a node originates a route discovery, it MUST increment its own sequence number."
        self.sequence = self.sequence.wrapping_add(1);
        self.request_id = self.request_id.wrapping_add(1);
        let known =
            self.table.get(&destination).filter(|entry| entry.sequence_valid).map(|entry| entry.sequence);
        let rreq = Rreq {
            join: false,
            repair: false,
            gratuitous: self.config.gratuitous,
            destination_only: self.config.destination_only,
            unknown_sequence: known.is_none(),
            hop_count: 0,
            id: self.request_id,
            destination,
            destination_sequence: known.unwrap_or(0),
            originator,
            originator_sequence: self.sequence,
        };
        // "the node buffers the RREQ ID and the Originator IP address of the RREQ for PATH_DISCOVERY_TIME"
        self.remember(now, originator, rreq.id);
        self.counts.requests += 1;
        self.broadcast(now, ttl, &Message::Rreq(rreq));
    }

    /// Completes the discovery of a destination: sends the packets held for it.
    pub(super) fn discovered(&mut self, now: Time, destination: Ipv4Addr) {
        let Some(discovery) = self.discoveries.remove(&destination) else { return };
        for packet in discovery.held {
            if let Ok(header) = ipv4::Packet::new_checked(&packet[..]) {
                self.refresh(now, header.src(), header.dst());
            }
            self.release(packet, Verdict::Send);
        }
    }

    /// "If a route discovery has been attempted RREQ_RETRIES times at the maximum TTL without receiving any RREP, all data
    /// packets destined for the corresponding destination SHOULD be dropped from the buffer and a Destination Unreachable
    /// message SHOULD be delivered to the application."
    fn not_found(&mut self, now: Time, destination: Ipv4Addr) {
        let Some(discovery) = self.discoveries.remove(&destination) else { return };
        for packet in discovery.held {
            let source = ipv4::Packet::new_checked(&packet[..]).map(|header| header.src()).ok();
            let own = source.is_some_and(|source| self.is_own(source) || source.is_unspecified());
            self.release(packet, if own { Verdict::Unreachable } else { Verdict::Dropped });
        }
        if self.table.get(&destination).is_some_and(|entry| entry.state == State::Repairing) {
            // The sequence number was incremented when the link broke.
            let sequence = self.table.get(&destination).map(|entry| entry.sequence);
            self.invalidate(now, destination, sequence);
            self.report(now, &[(destination, sequence.unwrap_or(0))], false);
        }
    }

    fn release(&mut self, packet: Vec<u8>, verdict: Verdict) {
        self.released.push_back(Released { packet, verdict });
    }

    pub(super) fn data_plane(&mut self, now: Time, event: DataPlaneEvent<'_, Ipv4Addr>) {
        match event {
            DataPlaneEvent::LinkLost { interface, neighbor } => self.link_broken(now, interface, neighbor),
            DataPlaneEvent::LinkAlive { interface, neighbor } => self.heard(now, interface, neighbor),
            DataPlaneEvent::NoRoute { packet } => self.no_route(now, packet),
            DataPlaneEvent::Used { source, destination } => self.refresh(now, source, destination),
        }
    }
}
