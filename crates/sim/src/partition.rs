//! Partitions of hosts behind devices. A partition takes effect where both ends are known. It blocks the
//! [path](crate::outbound) between two hosts ([`PathState`](belljar_net::link::PathState)); a frame that
//! passes switches or routers reveals its origin only at its receiver, and is discarded there.

use crate::fabric::Fabric;
use crate::message::Message;
use belljar_base::{HostId, Map, SimTime};
use std::net::IpAddr;

/// Frames discarded by partitions at a host, counted by their arrival times, at which they are lost, and by
/// the interface.
#[derive(Default)]
pub struct KeptAway {
    future: Map<(SimTime, usize), u64>,
    /// Frames lost so far, by interface.
    lost: Map<usize, u64>,
}

impl KeptAway {
    /// Returns true, and counts the frame, if a message that arrives at host `id` at a time is discarded.
    pub fn takes(&mut self, fabric: &Fabric, id: HostId, message: &Message, at: SimTime) -> bool {
        let Some(port) = message.port.filter(|_| fabric.splits()) else { return false };
        let from = origin(message.packet.bytes()).and_then(|address| fabric.owner(address));
        let apart = from.is_some_and(|from| from != id && fabric.apart(from, id, at));
        if apart {
            *self.future.entry((at, port)).or_default() += 1;
        }
        apart
    }
    /// Arrival time of the next discarded frame.
    pub fn next(&self) -> Option<SimTime> {
        self.future.first_key_value().map(|((at, _), _)| *at)
    }
    /// Counts the frames that are lost before `limit`.
    pub fn lose_before(&mut self, limit: SimTime) {
        while let Some(first) = self.future.first_entry().filter(|first| first.key().0 < limit) {
            let port = first.key().1;
            let count = first.remove();
            *self.lost.entry(port).or_default() += count;
        }
    }
    /// Frames for an interface that have been lost, and those that will be.
    pub fn at_port(&self, port: usize) -> (u64, u64) {
        let future = self.future.iter().filter(|((_, of), _)| *of == port).map(|(_, count)| count).sum();
        (self.lost.get(&port).copied().unwrap_or_default(), future)
    }
}

/// Source address of an IP or ARP frame.
fn origin(frame: &[u8]) -> Option<IpAddr> {
    let at = match frame.get(12..14)? {
        [0x86, 0xdd] => {
            let octets: [u8; 16] = frame.get(22..38)?.try_into().ok()?;
            return Some(octets.into());
        }
        [0x08, 0x00] => 14 + 12,
        [0x08, 0x06] => 14 + 14,
        _ => return None,
    };
    let octets: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
    Some(octets.into())
}
