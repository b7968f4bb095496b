//! Duplicate set and forwarding of messages (RFC 3626, section 3.4).

use super::Olsr;
use super::packet::{Message, TTL_AT};
use crate::outbox::Delayed;
use crate::{InterfaceId, Time};
use belljar_base::Set;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Upper bound on the duplicate tuples of a node; further messages are processed, but not forwarded.
const MOST_DUPLICATES: usize = 65_536;
/// Minimum interval between sweeps of expired tuples.
const SWEEP: Duration = Duration::from_secs(1);

/// Key of a duplicate tuple: originator and sequence number of the message.
pub(super) fn duplicate_key(message: &Message<'_>) -> u64 {
    u64::from(message.originator.to_bits()) << 16 | u64::from(message.seq)
}

/// A duplicate tuple.
#[derive(Clone, Debug)]
pub(super) struct Duplicate {
    /// `D_retransmitted`.
    retransmitted: bool,
    /// `D_iface_list`: interfaces on which the message arrived.
    interfaces: Set<InterfaceId>,
    /// `D_time`.
    until: Time,
}

impl Olsr {
    /// True if the message was seen before.
    pub(super) fn is_duplicate(&self, now: Time, message: &Message<'_>) -> bool {
        self.duplicates.get(&duplicate_key(message)).is_some_and(|tuple| tuple.until > now)
    }

    /// True if the message needs no processing: it was seen before, and has arrived on this interface or been
    /// forwarded already.
    pub(super) fn is_spent(&self, now: Time, message: &Message<'_>, interface: InterfaceId) -> bool {
        let seen = self.duplicates.get(&duplicate_key(message)).filter(|tuple| tuple.until > now);
        seen.is_some_and(|tuple| tuple.retransmitted || tuple.interfaces.contains(&interface))
    }

    /// Section 3.4.1, the default forwarding algorithm. All message types but HELLO pass through it.
    pub(super) fn forward(
        &mut self,
        now: Time,
        message: &Message<'_>,
        interface: InterfaceId,
        sender: Ipv4Addr,
    ) {
        // "1. If the sender interface address of the message is not detected to be in the symmetric 1-hop neighborhood of
        // the node, the forwarding algorithm MUST silently stop here"
        if !self.is_symmetric_sender(now, sender) {
            return;
        }
        let key = duplicate_key(message);
        let seen = self.duplicates.get(&key).filter(|tuple| tuple.until > now);
        // "2. If there exists a tuple in the duplicate set [...] the message will be further considered for forwarding if
        // and only if: D_retransmitted is false, AND the (address of the) interface which received the message is not
        // included among the addresses in D_iface_list"
        if seen.is_some_and(|tuple| tuple.retransmitted || tuple.interfaces.contains(&interface)) {
            return;
        }
        if self.duplicates.len() >= MOST_DUPLICATES && seen.is_none() {
            self.counts.refused += 1;
            return;
        }
        // "4. If the sender interface address is an interface address of a MPR selector of this node and if the time to
        // live of the message is greater than '1', the message MUST be retransmitted"
        let selected = self.selectors.contains_key(&self.main_address_of(sender)) && message.ttl > 1;
        let tuple = self.duplicates.entry(key).or_insert(Duplicate {
            retransmitted: false,
            interfaces: Set::new(),
            until: Time::ZERO,
        });
        tuple.until = now + self.config.duplicate_hold;
        tuple.interfaces.insert(interface);
        tuple.retransmitted |= selected;
        self.expire_at = self.expire_at.min(tuple.until);
        if !selected {
            return;
        }
        let mut copy = message.bytes.to_vec();
        copy[TTL_AT] = message.ttl - 1;
        copy[TTL_AT + 1] = message.hop_count.saturating_add(1);
        let at = now + self.jitter();
        let interfaces: Vec<_> = self.interfaces.keys().copied().collect();
        for interface in interfaces {
            self.send_later(Delayed { at, interface, message: copy.clone() });
        }
        self.counts.forwarded += 1;
    }

    /// True if there is a symmetric link to the interface with this address.
    pub(super) fn is_symmetric_sender(&self, now: Time, sender: Ipv4Addr) -> bool {
        let local = self.interfaces.keys();
        local.filter_map(|interface| self.links.get(&(*interface, sender))).any(|link| link.is_symmetric(now))
    }

    /// Removes expired tuples. Returns the time of the next sweep.
    pub(super) fn expire_duplicates(&mut self, now: Time) -> Time {
        if now >= self.sweep_at {
            self.duplicates.retain(|_, tuple| tuple.until > now);
            self.sweep_at = now + SWEEP;
        }
        let first = self.duplicates.values().map(|tuple| tuple.until).min();
        first.map_or(Time::MAX, |first| first.max(self.sweep_at))
    }
}
