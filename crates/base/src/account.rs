//! Account of packets: conservation of packets at one location of the network.
//!
//! A location is a part of the network with a boundary: a queue, a link, a switch, the stack of a host. Every
//! packet that crosses the boundary inwards, or originates inside, either crosses it outwards, reaches a
//! receiver inside, is dropped for a reason, or is still inside at the end. The entries of an account are
//! counted at different points of the code, so that a packet that is discarded without being counted leaves
//! an [imbalance](PacketAccount::imbalance).
//!
//! Copies (multicast, clones, duplication, flooding) and parts (fragments, segments) are packets that
//! originate at the location which makes them.

use crate::Map;

/// Account of the packets at one location. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketAccount {
    /// Packets received from other locations.
    pub received: u64,
    /// Packets that originated at the location, by origin: `duplicates`, `fragments`.
    pub originated: Map<&'static str, u64>,
    /// Packets sent to other locations.
    pub sent: u64,
    /// Packets that reached a receiver at the location, by receiver: `udp`, `arp`.
    pub consumed: Map<&'static str, u64>,
    /// Packets dropped, by reason.
    pub dropped: Map<&'static str, u64>,
    /// Packets at the location at the end, for example in a queue.
    pub held: u64,
}

impl PacketAccount {
    /// Number of packets that were received or originated, minus those that were sent, consumed, dropped or
    /// are held. A positive number of packets disappeared without being counted; a negative one was counted
    /// twice, or appeared from nowhere. Zero if the account balances.
    pub fn imbalance(&self) -> i64 {
        let entered = self.received + self.originated.values().sum::<u64>();
        let ended = self.consumed.values().chain(self.dropped.values()).sum::<u64>();
        entered as i64 - (self.sent + ended + self.held) as i64
    }

    /// Adds what happened inside a part of the location: all entries but those of the part's boundary.
    pub fn include(&mut self, part: &PacketAccount) {
        self.held += part.held;
        part.originated.iter().for_each(|(origin, packets)| self.originate(origin, *packets));
        part.consumed.iter().for_each(|(receiver, packets)| self.consume(receiver, *packets));
        part.dropped.iter().for_each(|(reason, packets)| self.drop_for(reason, *packets));
    }
    /// Number of packets dropped for any reason.
    pub fn dropped_in_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Adds packets that originated at the location.
    pub fn originate(&mut self, origin: &'static str, packets: u64) {
        add(&mut self.originated, origin, packets);
    }
    /// Adds packets that reached a receiver at the location.
    pub fn consume(&mut self, receiver: &'static str, packets: u64) {
        add(&mut self.consumed, receiver, packets);
    }
    /// Adds packets that were dropped.
    pub fn drop_for(&mut self, reason: &'static str, packets: u64) {
        add(&mut self.dropped, reason, packets);
    }
}

/// Adds to a count; a count of zero has no entry.
fn add(counts: &mut Map<&'static str, u64>, name: &'static str, packets: u64) {
    if packets > 0 {
        *counts.entry(name).or_default() += packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncounted_packet_is_an_imbalance() {
        let mut account = PacketAccount { received: 10, sent: 6, held: 1, ..PacketAccount::default() };
        account.originate("copies", 2);
        account.consume("udp", 3);
        account.drop_for("queue_full", 1);
        account.drop_for("queue_full", 0);
        assert_eq!(account.imbalance(), 1);
        account.drop_for("queue_full", 1);
        assert_eq!((account.imbalance(), account.dropped["queue_full"]), (0, 2));
        account.sent += 1;
        assert_eq!(account.imbalance(), -1);
    }
}
