//! Neighbour discovery: interfaces of other bridges that this bridge hears, and whether they hear it.

use super::Bridge;
use super::packet::{Frame, Hello};
use crate::contract::Transmit;
use crate::{InterfaceId, Time};
use belljar_base::Set;
use belljar_wire::ethernet::Address;
use std::time::Duration;

/// Upper bound on the neighbours' interfaces of a bridge.
const MOST_NEIGHBORS: usize = 4096;
/// Minimum interval between triggered HELLOs.
const HELLO_GAP: Duration = Duration::from_millis(100);

/// A neighbour's interface, as heard on one of this bridge's interfaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbor {
    /// Address of the bridge to which it belongs.
    pub bridge: Address,
    pub until: Time,
    /// True if the neighbour lists this bridge's interface as heard.
    pub symmetric: bool,
}

impl Bridge {
    pub(super) fn on_hello(&mut self, now: Time, interface: InterfaceId, source: Address, hello: Hello) {
        let Some(own) = self.interfaces.get(&interface).map(|port| port.at.address) else { return };
        let key = (interface, source);
        if hello.bridge == self.config.address || hello.bridge.is_multicast() {
            return;
        }
        if self.neighbors.len() >= MOST_NEIGHBORS && !self.neighbors.contains_key(&key) {
            self.counts.refused += 1;
            return;
        }
        let until = now + hello.hold.clamp(Duration::from_millis(10), Duration::from_secs(3600));
        let symmetric = hello.heard.contains(&own);
        let before = self.neighbors.insert(key, Neighbor { bridge: hello.bridge, until, symmetric });
        self.expire_at = self.expire_at.min(until);
        if before.is_none() {
            self.hurry_hello(now, interface);
        }
        if before.is_none_or(|before| before.symmetric != symmetric || before.bridge != hello.bridge) {
            self.adjacency_changed(now);
            if symmetric {
                // Send the new neighbour the whole database at once.
                self.hurry_hello(now, interface);
                self.send_database(now, interface, source);
            }
        }
    }

    /// Schedules an announcement of the changed set of neighbours.
    pub(super) fn adjacency_changed(&mut self, now: Time) {
        self.hurry_link_state(now);
        self.dirty = true;
    }

    fn hurry_hello(&mut self, now: Time, interface: InterfaceId) {
        if let Some(port) = self.interfaces.get_mut(&interface) {
            port.hello_at = port.hello_at.min(now.max(port.said_hello + HELLO_GAP));
        }
    }

    /// Bridges with a symmetric link to this one.
    pub(super) fn adjacent(&self) -> Set<Address> {
        self.neighbors
            .values()
            .filter(|neighbor| neighbor.symmetric)
            .map(|neighbor| neighbor.bridge)
            .collect()
    }

    /// Handles the link layer's notification that a neighbour's interface is lost.
    pub(super) fn lose(&mut self, now: Time, key: (InterfaceId, Address)) {
        if self.neighbors.remove(&key).is_some() {
            self.adjacency_changed(now);
        }
    }

    pub(super) fn say_hello(&mut self, now: Time) {
        let due: Vec<_> =
            self.interfaces.iter().filter(|(_, port)| port.hello_at <= now).map(|(id, _)| *id).collect();
        for id in due {
            let jitter =
                Duration::from_nanos(self.dice.below(self.config.hello_interval.as_nanos() as u64 / 10));
            let near = self.neighbors.range((id, Address([0; 6]))..=(id, Address([0xff; 6])));
            let mut heard: Vec<Address> = near.map(|((_, address), _)| *address).collect();
            let Some(port) = self.interfaces.get_mut(&id) else { continue };
            heard.truncate(port.at.mtu.saturating_sub(14) / 6);
            (port.said_hello, port.hello_at) = (now, now + self.config.hello_interval.saturating_sub(jitter));
            let hello = Hello { bridge: self.config.address, hold: 3 * self.config.hello_interval, heard };
            let payload = Frame::Hello(hello).encode();
            self.outbox.push(Transmit { interface: id, destination: None, ttl: 1, payload });
        }
    }

    pub(super) fn expire_neighbors(&mut self, now: Time) -> Time {
        let before = self.neighbors.len();
        self.neighbors.retain(|_, neighbor| neighbor.until > now);
        if self.neighbors.len() != before {
            self.adjacency_changed(now);
        }
        self.neighbors.values().map(|neighbor| neighbor.until).min().unwrap_or(Time::MAX)
    }
}
