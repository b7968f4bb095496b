//! Partitions of hosts behind devices. A partition takes effect where both ends are known. It blocks the
//! [path](crate::outbound) between two hosts ([`PathState`](belljar_net::link::PathState)); a frame that
//! passes switches or routers reveals its origin only at its receiver, and is discarded there.

use crate::fabric::Fabric;
use crate::message::Message;
use belljar_base::{HostId, Map, SimTime};
use std::net::IpAddr;

/// Frames discarded by partitions at a host, counted by their arrival times, at which they are lost.
#[derive(Default)]
pub struct KeptAway(Map<SimTime, u64>);

impl KeptAway {
    /// Returns true, and counts the frame, if a message that arrives at host `id` at a time is discarded.
    pub fn takes(&mut self, fabric: &Fabric, id: HostId, message: &Message, at: SimTime) -> bool {
        if message.port.is_none() || !fabric.splits() {
            return false;
        }
        let from = origin(message.packet.bytes()).and_then(|address| fabric.owner(address));
        let apart = from.is_some_and(|from| from != id && fabric.apart(from, id, at));
        if apart {
            *self.0.entry(at).or_default() += 1;
        }
        apart
    }
    /// Arrival time of the next discarded frame.
    pub fn next(&self) -> Option<SimTime> {
        self.0.first_key_value().map(|(at, _)| *at)
    }
    /// Removes and counts the frames that are lost before `limit`.
    pub fn lost_before(&mut self, limit: SimTime) -> u64 {
        let mut lost = 0;
        while let Some(first) = self.0.first_entry().filter(|first| *first.key() < limit) {
            lost += first.remove();
        }
        lost
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
