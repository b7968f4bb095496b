//! Forwarding: packets for other hosts are passed on, or refused by an ICMP error.

mod v4;
mod v6;

use super::Onward;
use super::hooks::HookPoint;
use crate::Stack;
use crate::interface::destination;
use crate::mib::version;
use belljar_net::Packet;

impl Stack {
    /// Passes a packet on that came by `arrived`, after its TTL has been decremented: `ip_forward_finish` of Linux.
    fn ip_forward_finish(&mut self, arrived: usize, mut packet: Packet, onward: &Onward) {
        if !self.hooks.is_empty() {
            let leaves = Some(onward.interface);
            match self.pass_hooks(HookPoint::Forward, packet, Some(arrived), leaves) {
                Some(passed) => packet = passed,
                None => return,
            }
        }
        let Some(to) = destination(packet.open_bytes()) else { return };
        self.counters.ip[version(&to)].forwarded += 1;
        self.counters.count_sent(&to, packet.len());
        self.ip_finish_output(packet, onward);
    }
}
