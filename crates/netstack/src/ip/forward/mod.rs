//! Forwarding: packets for other hosts are forwarded, or dropped with an ICMP error.

mod v4;
mod v6;

use super::hooks::HookPoint;
use super::{Onward, filtering};
use crate::Stack;
use crate::account::{DropCause, PacketDisposition};
use crate::family::RouteQuery;
use crate::interface::destination;
use crate::mib::version;
use crate::routing::Routed;
use belljar_net::{MssClamp, Packet};

impl Stack {
    /// Forwards a packet received on `arrived`, after the decrement of its TTL: `ip_forward_finish` of Linux.
    fn ip_forward_finish(
        &mut self,
        arrived: usize,
        mut packet: Packet,
        onward: &Onward,
    ) -> PacketDisposition {
        if !self.hooks.is_empty() {
            let leaves = Some(onward.interface);
            match filtering::pass(self, HookPoint::Forward, packet, (Some(arrived), leaves)) {
                Some(passed) => packet = passed,
                None => return PacketDisposition::dropped(DropCause::Hook),
            }
        }
        let Some(to) = destination(packet.open_bytes()) else {
            return PacketDisposition::dropped(DropCause::Malformed);
        };
        self.counters.ip[version(&to)].forwarded += 1;
        self.counters.count_sent(&to, packet.len());
        self.ip_finish_output(packet, onward)
    }

    /// Clamps the MSS option of a forwarded SYN to the MTUs of both links; `mtu` is that of the output link.
    #[cold]
    fn clamp_mss<A: Routed>(&self, clamp: MssClamp, from: A, mtu: usize, packet: &mut Vec<u8>) {
        let back = self.lookup(&RouteQuery::own(from, None), || 0).ok().flatten();
        let back =
            back.and_then(|found| found.hop).map_or(usize::MAX, |hop| self.interfaces.mtu(hop.interface));
        clamp.apply(packet, mtu.min(back));
    }
}
