//! Packets to the name server and from it.

use super::{SERVICE, Serving};
use crate::Stack;
use belljar_base::{EventClass, EventKey, SimTime};
use belljar_net::Packet;
use belljar_wire::{ipv4, protocol};

/// Distinguishes the event keys of the name server's packets from those of packets from the network.
const SEQUENCE: u64 = 1 << 63;

impl Stack {
    /// Processes a packet to the name server whose last bit departs at `departs`. Packets other than UDP
    /// queries and TCP segments are dropped.
    pub(crate) fn resolver_input(&mut self, departs: SimTime, packet: &Packet) {
        let Some(resolver) = self.config.resolver.as_ref().filter(|resolver| !resolver.down) else { return };
        let Ok(query) = ipv4::Packet::new_checked(packet.bytes()) else { return };
        let arrives = departs + resolver.latency;
        if query.protocol() == protocol::TCP {
            self.streams.push(arrives, packet.bytes());
            self.streams.set_timer(&mut self.timers);
        } else if let Some(answer) = resolver.answer(&query) {
            let back = arrives + resolver.latency;
            self.deliver_from_resolver(back, answer);
        }
    }

    /// Handles the timer of the name server.
    pub fn resolver_timer(&mut self) {
        let now = self.clock.now();
        if let Some(resolver) = &self.config.resolver {
            let serving = Serving { resolver, host: (self.config.seed, &self.config.name) };
            let back = now + resolver.latency;
            for packet in self.streams.on_timeout(now, &serving) {
                self.deliver_from_resolver(back, packet);
            }
        }
        self.streams.set_timer(&mut self.timers);
    }

    /// Schedules the arrival of a packet from the name server at `time`.
    fn deliver_from_resolver(&mut self, time: SimTime, packet: Vec<u8>) {
        let sequence = SEQUENCE | self.resolved;
        self.resolved += 1;
        let key = EventKey { time, class: EventClass::Arrival, source: self.config.id, sequence };
        let packet = Packet::with_cookie(packet, 0);
        self.account.from_resolver += u64::from(self.service.is_none());
        // A host that is not attached to the graph receives the packet as from itself.
        self.deliver(key, self.service.map(|_| SERVICE), packet);
    }
}
