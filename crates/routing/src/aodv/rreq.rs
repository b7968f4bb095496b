//! Processing of received RREQs (RFC 3561, sections 6.5 and 6.6).

use super::Aodv;
use super::packet::{Message, Rrep, Rreq};
use super::table::{Offer, newer};
use crate::outbox::Delayed;
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Upper bound on remembered request ids; further requests are not forwarded.
const MOST_SEEN: usize = 65_536;

impl Aodv {
    pub(super) fn remember(&mut self, now: Time, originator: Ipv4Addr, id: u32) {
        let until = now + self.config.path_discovery_time();
        self.seen.insert((originator, id), until);
        self.expire_at = self.expire_at.min(until.max(self.sweep_at));
    }

    /// Section 6.5.
    pub(super) fn on_rreq(&mut self, now: Time, interface: InterfaceId, from: Ipv4Addr, ttl: u8, rreq: Rreq) {
        // Section 6.8: "The node ignores all RREQs received from any node in its blacklist set."
        if self.blacklist.contains_key(&from) {
            return;
        }
        self.touch_neighbor(now, from, interface, now + self.config.active_route_timeout);
        if !super::is_node(rreq.originator)
            || !super::is_node(rreq.destination)
            || self.is_own(rreq.originator)
        {
            return;
        }
        // "If such a RREQ has been received, the node silently discards the newly received RREQ."
        if self.seen.contains_key(&(rreq.originator, rreq.id)) || rreq.hop_count == u8::MAX {
            return;
        }
        if self.seen.len() >= MOST_SEEN {
            self.counts.refused += 1;
            return;
        }
        self.remember(now, rreq.originator, rreq.id);
        let hop_count = rreq.hop_count + 1;
        // "MinimalLifetime = (current time + 2*NET_TRAVERSAL_TIME - 2*HopCount*NODE_TRAVERSAL_TIME)"
        let spent = 2 * u32::from(hop_count) * self.config.node_traversal_time;
        let until = now + (2 * self.config.net_traversal_time()).saturating_sub(spent);
        let back = Offer {
            sequence: rreq.originator_sequence,
            hop_count: u32::from(hop_count),
            next_hop: from,
            interface,
            until,
        };
        self.learn(now, rreq.originator, back);
        if let Some(entry) = self.table.get_mut(&rreq.originator) {
            entry.until = entry.until.max(until);
            entry.neighbor_only = false;
        }
        if now < self.quiet_until {
            return;
        }
        if self.is_own(rreq.destination) {
            return self.reply_as_destination(now, &rreq);
        }
        if self.reply_as_intermediate(now, from, &rreq) {
            return;
        }
        // "If a node does not generate a RREP [...], and if the incoming IP header has TTL larger than 1, the node updates
        // and broadcasts the RREQ"
        if ttl > 1 {
            self.forward_request(now, ttl - 1, Rreq { hop_count, ..rreq });
        }
    }

    /// "the Destination Sequence number for the requested destination is set to the maximum of the corresponding value
    /// received in the RREQ message, and the destination sequence value currently maintained by the node"
    fn forward_request(&mut self, now: Time, ttl: u8, mut rreq: Rreq) {
        if let Some(entry) = self.table.get(&rreq.destination).filter(|entry| entry.sequence_valid)
            && (rreq.unknown_sequence || newer(entry.sequence, rreq.destination_sequence))
        {
            (rreq.unknown_sequence, rreq.destination_sequence) = (false, entry.sequence);
        }
        let at = now + Duration::from_nanos(self.dice.below(self.config.broadcast_jitter.as_nanos() as u64));
        let message = Message::Rreq(rreq).encode();
        let interfaces: Vec<_> = self.interfaces.keys().copied().collect();
        for interface in interfaces {
            if self.delayed.len() < super::MOST_DELAYED {
                self.delayed.push((ttl, Delayed { at, interface, message: message.clone() }));
            } else {
                self.counts.refused += 1;
            }
        }
    }

    /// Section 6.6.1.
    fn reply_as_destination(&mut self, now: Time, rreq: &Rreq) {
        // Section 6.1: "it MUST update its own sequence number to the maximum of its current sequence number and the
        // destination sequence number in the RREQ packet."
        if !rreq.unknown_sequence && newer(rreq.destination_sequence, self.sequence) {
            self.sequence = rreq.destination_sequence;
        }
        let rrep = Rrep {
            repair: false,
            acknowledge: false,
            prefix_size: 0,
            hop_count: 0,
            destination: rreq.destination,
            destination_sequence: self.sequence,
            originator: rreq.originator,
            lifetime: self.config.my_route_timeout(),
            hello_interval: None,
        };
        self.send_reply(now, rrep);
    }

    /// Section 6.6.2: "it has an active route to the destination, the destination sequence number in the node's existing
    /// route table entry for the destination is valid and greater than or equal to the Destination Sequence Number of the
    /// RREQ, and the "destination only" ('D') flag is NOT set." Returns whether it replied.
    fn reply_as_intermediate(&mut self, now: Time, from: Ipv4Addr, rreq: &Rreq) -> bool {
        let Some(entry) = self.valid(rreq.destination) else { return false };
        let recent = rreq.unknown_sequence || !newer(rreq.destination_sequence, entry.sequence);
        // A route that leads back through the requesting node is useless to it.
        if rreq.destination_only || !entry.sequence_valid || !recent || entry.next_hop == from {
            return false;
        }
        let (next_hop, sequence) = (entry.next_hop, entry.sequence);
        let rrep = Rrep {
            repair: false,
            acknowledge: false,
            prefix_size: 0,
            hop_count: entry.hop_count.min(255) as u8,
            destination: rreq.destination,
            destination_sequence: sequence,
            originator: rreq.originator,
            lifetime: entry.until.since(now),
            hello_interval: None,
        };
        let back = self.table.get(&rreq.originator).map(|entry| (entry.hop_count, entry.until));
        self.add_precursor(rreq.destination, from);
        self.add_precursor(rreq.originator, next_hop);
        self.send_reply(now, rrep);
        // Section 6.6.3: the gratuitous RREP gives the destination a route to the originator.
        if let Some((hops, until)) = back.filter(|_| rreq.gratuitous) {
            let gratuitous = Rrep {
                hop_count: hops.min(255) as u8,
                destination: rreq.originator,
                destination_sequence: rreq.originator_sequence,
                originator: rreq.destination,
                lifetime: until.since(now),
                ..rrep
            };
            self.send_reply(now, gratuitous);
        }
        true
    }
}
