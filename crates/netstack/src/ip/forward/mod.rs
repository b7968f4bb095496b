//! Forwarding: packets for other hosts are passed on, or refused by an ICMP error.

mod v4;
mod v6;

use super::Onward;
use super::hooks::HookPoint;
use crate::Stack;
use crate::family::{Family, RouteQuery};
use crate::interface::destination;
use crate::mib::version;
use belljar_net::{MssClamp, Packet};

/// Counts of packets of others that were not passed on, of both versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounters {
    /// Packets that had made too many hops.
    pub expired: u64,
    /// Packets to which no route led, or one that forbids them.
    pub no_route: u64,
    /// Packets whose next hop did not answer, the node's own among them.
    pub unanswered: u64,
}

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

    /// Holds the MSS option of a SYN that is passed on to what the links on both sides carry; `mtu` is that of the one ahead.
    #[cold]
    fn clamp_mss<A: Family>(&self, clamp: MssClamp, from: A, mtu: usize, packet: &mut Vec<u8>) {
        let back = self.lookup(&RouteQuery::own(from, None), || 0).ok().flatten();
        let back =
            back.and_then(|found| found.hop).map_or(usize::MAX, |hop| self.interfaces.mtu(hop.interface));
        clamp.apply(packet, mtu.min(back));
    }
}
