//! RREPs, their acknowledgment, and Hello messages (RFC 3561, sections 6.7, 6.8, 6.9 and 6.10).

use super::Aodv;
use super::packet::{Message, Rrep};
use super::table::{Offer, State};
use crate::contract::Transmit;
use crate::{InterfaceId, Time};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Upper bound each on the neighbours monitored by Hello messages, with a pending acknowledgment, and on the
/// blacklist.
const MOST_NEIGHBORS: usize = 4096;

/// A neighbour that sends Hello messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// Time at which the link counts as lost unless a packet arrives before.
    pub until: Time,
    /// Longest silence before the link counts as lost.
    patience: Duration,
}

impl Aodv {
    /// Sends an RREP towards its originator.
    pub(super) fn send_reply(&mut self, now: Time, mut rrep: Rrep) {
        let Some(entry) = self.valid(rrep.originator) else { return };
        let (interface, next_hop) = (entry.interface, entry.next_hop);
        rrep.acknowledge = self.config.acknowledge;
        if rrep.acknowledge
            && (self.unacknowledged.len() < MOST_NEIGHBORS || self.unacknowledged.contains_key(&next_hop))
        {
            self.unacknowledged.entry(next_hop).or_insert(now + self.config.next_hop_wait());
        }
        self.counts.replies += 1;
        self.unicast(interface, next_hop, &Message::Rrep(rrep));
    }

    pub(super) fn unicast(&mut self, interface: InterfaceId, to: Ipv4Addr, message: &Message) {
        let ttl = self.config.net_diameter.max(1);
        self.outbox.push(Transmit { interface, destination: Some(to), ttl, payload: message.encode() });
    }

    /// Section 6.7.
    pub(super) fn on_rrep(&mut self, now: Time, interface: InterfaceId, from: Ipv4Addr, rrep: Rrep) {
        let hello = rrep.hop_count == 0
            && rrep.destination == from
            && (rrep.originator == rrep.destination || rrep.originator.is_unspecified());
        if hello {
            return self.on_hello(now, interface, from, rrep);
        }
        self.touch_neighbor(now, from, interface, now + self.config.active_route_timeout);
        if rrep.acknowledge {
            self.unicast(interface, from, &Message::RrepAck);
        }
        if !super::is_node(rrep.destination) || self.is_own(rrep.destination) || rrep.hop_count == u8::MAX {
            return;
        }
        let hop_count = rrep.hop_count + 1;
        let offer = Offer {
            sequence: rrep.destination_sequence,
            hop_count: u32::from(hop_count),
            next_hop: from,
            interface,
            until: now + rrep.lifetime,
        };
        self.learn(now, rrep.destination, offer);
        // "If the current node is not the node indicated by the Originator IP Address in the RREP message AND
        // a forward route has been created or updated as described above, the node [...] forwards the RREP
        // towards the originator." A reply that only confirms the known route (a consequence of the D flag)
        // must be forwarded too, or it would never arrive.
        let known = self.valid(rrep.destination).filter(|entry| entry.sequence == rrep.destination_sequence);
        let Some(hop_count) = known.map(|entry| entry.hop_count.min(255) as u8) else { return };
        if self.is_own(rrep.originator) || now < self.quiet_until {
            return;
        }
        let Some(back) = self.table.get_mut(&rrep.originator).filter(|entry| entry.state == State::Valid)
        else {
            return;
        };
        // "the route is updated to be max(existing-lifetime, (current time + ACTIVE_ROUTE_TIMEOUT))"
        back.until = back.until.max(now + self.config.active_route_timeout);
        let towards = back.next_hop;
        self.add_precursor(rrep.destination, towards);
        self.add_precursor(from, towards);
        self.send_reply(now, Rrep { hop_count, ..rrep });
    }

    /// Handles an RREP-ACK: the neighbour hears this node.
    pub(super) fn on_acknowledgment(&mut self, now: Time, interface: InterfaceId, from: Ipv4Addr) {
        self.unacknowledged.remove(&from);
        self.blacklist.remove(&from);
        self.touch_neighbor(now, from, interface, now + self.config.active_route_timeout);
    }

    /// Section 6.8: blacklists neighbours whose acknowledgment is overdue.
    pub(super) fn expire_acknowledgments(&mut self, now: Time) {
        let until = now + self.config.blacklist_timeout();
        let late: Vec<_> =
            self.unacknowledged.iter().filter(|(_, at)| **at <= now).map(|(n, _)| *n).collect();
        for neighbor in late {
            self.unacknowledged.remove(&neighbor);
            if self.blacklist.len() < MOST_NEIGHBORS {
                self.blacklist.insert(neighbor, until);
            }
        }
        self.blacklist.retain(|_, until| *until > now);
    }

    /// Section 6.9: "the node should make sure that it has an active route to the neighbor, and create one if necessary".
    fn on_hello(&mut self, now: Time, interface: InterfaceId, from: Ipv4Addr, rrep: Rrep) {
        let own = self.config.hello_interval.unwrap_or(Duration::from_secs(1));
        let interval = rrep.hello_interval.unwrap_or(own).max(Duration::from_millis(10));
        let patience = interval * self.config.allowed_hello_loss;
        self.touch_neighbor(now, from, interface, now + rrep.lifetime.max(patience));
        if let Some(entry) = self.table.get_mut(&from).filter(|entry| entry.hop_count == 1)
            && (!entry.sequence_valid || super::table::newer(rrep.destination_sequence, entry.sequence))
        {
            (entry.sequence, entry.sequence_valid) = (rrep.destination_sequence, true);
        }
        let key = (interface, from);
        if self.heard.len() < MOST_NEIGHBORS || self.heard.contains_key(&key) {
            self.heard.insert(key, Heard { until: now + patience, patience });
        }
    }

    /// Records that a packet arrived from a neighbour.
    pub(super) fn heard(&mut self, now: Time, interface: InterfaceId, neighbor: Ipv4Addr) {
        if let Some(heard) = self.heard.get_mut(&(interface, neighbor)) {
            heard.until = heard.until.max(now + heard.patience);
        }
    }

    /// "If [...] for that neighbor does not receive any packets (Hello messages or otherwise) for more than
    /// ALLOWED_HELLO_LOSS * HELLO_INTERVAL milliseconds, the node SHOULD assume that the link to this neighbor is currently
    /// lost."
    pub(super) fn expire_hellos(&mut self, now: Time) {
        let silent: Vec<_> =
            self.heard.iter().filter(|(_, heard)| heard.until <= now).map(|(key, _)| *key).collect();
        for (interface, neighbor) in silent {
            self.link_broken(now, interface, neighbor);
        }
    }

    /// Section 6.9: "A node SHOULD only use hello messages if it is part of an active route. Every
    /// HELLO_INTERVAL milliseconds, the node checks whether it has sent a broadcast within the last
    /// HELLO_INTERVAL."
    ///
    /// The check is due HELLO_INTERVAL after the last broadcast. If it were made at fixed times, a broadcast
    /// shortly before a check would be followed by a silence of nearly ALLOWED_HELLO_LOSS * HELLO_INTERVAL
    /// without any loss, and neighbours would consider the link lost if the next Hello message were slightly
    /// late.
    pub(super) fn say_hello(&mut self, now: Time) {
        let Some(interval) = self.config.hello_interval else { return };
        if now < self.hello_at {
            return;
        }
        let active = self.table.values().any(|entry| entry.state == State::Valid && !entry.neighbor_only);
        if !active || now < self.quiet_until {
            self.hello_at = now + interval;
            return;
        }
        let (sequence, loss) = (self.sequence, self.config.allowed_hello_loss);
        let quiet = self.interfaces.iter_mut().filter(|(_, port)| port.said + interval <= now);
        for (id, port) in quiet {
            port.said = now;
            let hello = Rrep {
                repair: false,
                acknowledge: false,
                prefix_size: 0,
                hop_count: 0,
                destination: port.at.address,
                destination_sequence: sequence,
                originator: port.at.address,
                lifetime: interval * loss,
                hello_interval: Some(interval),
            };
            let payload = Message::Rrep(hello).encode();
            self.outbox.push(Transmit { interface: *id, destination: None, ttl: 1, payload });
        }
        let first_said = self.interfaces.values().map(|port| port.said).min().unwrap_or(now);
        self.hello_at = first_said + interval;
    }
}
