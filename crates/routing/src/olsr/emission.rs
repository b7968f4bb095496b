//! Messages originated by this node and the packets that carry them (RFC 3626, sections 3.1, 5.2, 6.2, 9.2,
//! 9.3 and 12.3).

use super::Olsr;
use super::packet::{self, Head, Hello, LinkCode, LinkType, NeighborType, PACKET_HEADER_LEN, Tc, kind};
use crate::Time;
use crate::contract::{InterfaceId, Transmit};
use crate::outbox::Delayed;
use belljar_base::Set;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Upper bound on the messages queued on all interfaces.
const MOST_DELAYED: usize = 8192;
/// Length of the IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Length of the packet and message headers and of the fixed part of the longest body.
const FIXED: usize = PACKET_HEADER_LEN + packet::MESSAGE_HEADER_LEN + 4;

impl Olsr {
    /// A random duration below `MAXJITTER`.
    pub(super) fn jitter(&mut self) -> Duration {
        Duration::from_nanos(self.dice.below(self.config.max_jitter.as_nanos() as u64))
    }

    /// Queues a message.
    pub(super) fn send_later(&mut self, message: Delayed) {
        if self.delayed.len() < MOST_DELAYED {
            self.delayed.push(message);
        } else {
            self.counts.refused += 1;
        }
    }

    /// Queues a message of this node on all interfaces for immediate transmission.
    fn flood(&mut self, now: Time, kind: u8, validity: Duration, body: &[u8]) {
        let message = self.message(kind, validity, 255, body);
        let interfaces: Vec<_> = self.interfaces.keys().copied().collect();
        for interface in interfaces {
            self.send_later(Delayed { at: now, interface, message: message.clone() });
        }
    }

    fn message(&mut self, kind: u8, validity: Duration, ttl: u8, body: &[u8]) -> Vec<u8> {
        let head = Head { kind, validity, originator: self.config.main_address, ttl, seq: self.message_seq };
        self.message_seq = self.message_seq.wrapping_add(1);
        packet::encode_message(head, body)
    }

    /// Number of body bytes that fit into a packet on every interface.
    fn room(&self) -> usize {
        let mtu = self.interfaces.values().map(|interface| interface.at.mtu).min().unwrap_or(0);
        mtu.saturating_sub(HEADERS + FIXED).clamp(64, 60_000)
    }

    /// Generates the messages that are due.
    pub(super) fn emit(&mut self, now: Time) {
        let due: Vec<_> =
            self.interfaces.iter().filter(|(_, i)| i.hello_at <= now).map(|(id, _)| *id).collect();
        for interface in due {
            self.emit_hello(now, interface);
            let next = now + self.config.hello_interval.saturating_sub(self.jitter());
            if let Some(interface) = self.interfaces.get_mut(&interface) {
                (interface.hello_at, interface.said_hello) = (next, now);
            }
        }
        if self.interfaces.is_empty() {
            return;
        }
        if self.tc_at <= now {
            self.emit_tc(now);
            self.tc_at = now + self.config.tc_interval.saturating_sub(self.jitter());
        }
        if self.mid_at <= now {
            self.emit_mid(now);
            self.mid_at = now + self.config.mid_interval.saturating_sub(self.jitter());
        }
        if self.hna_at <= now {
            self.emit_hna(now);
            self.hna_at = now + self.config.hna_interval.saturating_sub(self.jitter());
        }
    }

    /// Section 6.2: advertises the links of one interface, and the neighbours reached by others.
    fn emit_hello(&mut self, now: Time, interface: InterfaceId) {
        let mut links = Vec::new();
        let mut named: Set<Ipv4Addr> = Set::new();
        for (&(_, address), link) in
            self.links.range((interface, Ipv4Addr::UNSPECIFIED)..=(interface, Ipv4Addr::BROADCAST))
        {
            if let Some(state) = link.advertised(now) {
                let neighbor = self.neighbor_type(link.main);
                // A symmetric link whose neighbour entry is added later in this call is not advertised as
                // symmetric yet.
                let link_type = if neighbor == NeighborType::Not && state == LinkType::Symmetric {
                    LinkType::Asymmetric
                } else {
                    state
                };
                links.push((LinkCode { link: link_type, neighbor }, address));
            }
            named.insert(link.main);
        }
        for &main in self.neighbors.keys().filter(|main| !named.contains(main)) {
            links.push((LinkCode { link: LinkType::Unspecified, neighbor: self.neighbor_type(main) }, main));
        }
        links.sort();
        // In the worst case each address needs a link message of its own.
        let most = (self.room() / 8).max(1);
        let (interval, willingness) = (self.config.hello_interval, self.config.willingness());
        let mut parts: Vec<Vec<_>> = links.chunks(most).map(<[_]>::to_vec).collect();
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        for links in parts {
            let body = Hello { interval, willingness, links }.encode();
            let message = self.message(kind::HELLO, self.config.neighbor_hold, 1, &body);
            self.send_later(Delayed { at: now, interface, message });
        }
    }

    fn neighbor_type(&self, main: Ipv4Addr) -> NeighborType {
        match self.neighbors.get(&main) {
            Some(neighbor) if neighbor.symmetric && self.relays.contains(&main) => NeighborType::Mpr,
            Some(neighbor) if neighbor.symmetric => NeighborType::Symmetric,
            _ => NeighborType::Not,
        }
    }

    /// Neighbours advertised by TC messages (sections 9.3 and 15).
    pub(super) fn advertised(&self) -> Set<Ipv4Addr> {
        match self.config.tc_redundancy {
            0 => self.selectors.keys().copied().collect(),
            1 => self.selectors.keys().chain(&self.relays).copied().collect(),
            _ => self.symmetric_neighbors().collect(),
        }
    }

    fn emit_tc(&mut self, now: Time) {
        self.said_tc = now;
        if self.advertised.is_empty() {
            // Section 9.3: a node that advertised before "SHOULD still send (empty) TC-messages during a duration equal to
            // the validity time of its previously emitted TC-messages, in order to invalidate the previous".
            if now >= self.withdraw_until {
                return;
            }
        } else {
            self.withdraw_until = now + self.config.topology_hold;
        }
        let (ansn, all) = (self.ansn, self.advertised.iter().copied().collect::<Vec<_>>());
        let most = (self.room() / 4).max(1);
        let parts =
            if all.is_empty() { vec![Vec::new()] } else { all.chunks(most).map(<[_]>::to_vec).collect() };
        for neighbors in parts {
            self.flood(now, kind::TC, self.config.topology_hold, &Tc { ansn, neighbors }.encode());
        }
    }

    /// Section 5.2: only nodes with several interfaces send MID messages.
    fn emit_mid(&mut self, now: Time) {
        let addresses: Set<Ipv4Addr> =
            self.interfaces.values().map(|interface| interface.at.address).collect();
        let others: Vec<_> =
            addresses.into_iter().filter(|address| *address != self.config.main_address).collect();
        for part in others.chunks((self.room() / 4).max(1)) {
            let body: Vec<u8> = part.iter().flat_map(|address| address.octets()).collect();
            self.flood(now, kind::MID, self.config.mid_hold, &body);
        }
    }

    /// Section 12.3: advertises the networks for which this node is a gateway.
    fn emit_hna(&mut self, now: Time) {
        let networks = self.config.networks.clone();
        for part in networks.chunks((self.room() / 8).max(1)) {
            let pair =
                |prefix: &crate::Prefix| [prefix.address().octets(), prefix.netmask().octets()].concat();
            let body: Vec<u8> = part.iter().flat_map(pair).collect();
            self.flood(now, kind::HNA, self.config.hna_hold, &body);
        }
    }

    /// Sends the messages that are due, together with all others queued on the same interface: section 3.4
    /// requires piggybacking.
    pub(super) fn flush(&mut self, now: Time) {
        let due: Set<InterfaceId> =
            self.delayed.iter().filter(|m| m.at <= now).map(|m| m.interface).collect();
        for id in due {
            let (mut going, staying): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.delayed).into_iter().partition(|message| message.interface == id);
            self.delayed = staying;
            going.sort_by_key(|message| message.at);
            let Some(interface) = self.interfaces.get_mut(&id) else { continue };
            let most = interface.at.mtu.saturating_sub(HEADERS + PACKET_HEADER_LEN);
            let mut batch: Vec<Vec<u8>> = Vec::new();
            let mut len = 0;
            for Delayed { message, .. } in going {
                if len + message.len() > most && !batch.is_empty() {
                    let payload = packet::encode_packet(interface.packet_seq, &std::mem::take(&mut batch));
                    interface.packet_seq = interface.packet_seq.wrapping_add(1);
                    self.outbox.push(Transmit { interface: id, destination: None, ttl: 1, payload });
                    len = 0;
                }
                len += message.len();
                batch.push(message);
            }
            let payload = packet::encode_packet(interface.packet_seq, &batch);
            interface.packet_seq = interface.packet_seq.wrapping_add(1);
            self.outbox.push(Transmit { interface: id, destination: None, ttl: 1, payload });
        }
    }
}
