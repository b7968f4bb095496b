//! Hooks: functions that see every IP packet of a host at fixed points of its path and let it pass or drop it, as Linux's
//! netfilter has them (`NF_INET_*`).
//!
//! # Points
//!
//! | packet | hooks that it passes |
//! |---|---|
//! | received, for this host | [`Prerouting`](HookPoint::Prerouting), [`Input`](HookPoint::Input) |
//! | received, for another host | `Prerouting`, [`Forward`](HookPoint::Forward), [`Postrouting`](HookPoint::Postrouting) |
//! | of this host | [`Output`](HookPoint::Output), `Postrouting` |
//! | of this host, over `lo` | `Output`, `Postrouting`, `Prerouting`, `Input` |
//!
//! `Prerouting` comes before the route of a received packet is known. IPv4 reassembles fragments before `Input`, IPv6 behind it:
//! there each fragment passes. Both fragment behind `Postrouting`. The copy of a multicast that its sender receives passes
//! `Postrouting` once more than the packet itself, then `Prerouting` and `Input` of the interface that the packet leaves by.
//! IGMP, MLD and neighbour discovery are packets of this host as all others. ARP, and what packet sockets send, is not IP's.
//!
//! # Adding a hook
//!
//! [`Stack::register_hook`] takes the point, a priority and a function. Each point has one call site: `Prerouting` and `Input` in
//! `ip/input.rs`, `Forward` in `ip/forward/mod.rs`, `Output` and `Postrouting` in `ip/output.rs`. Without any hook a site is one
//! test of a pointer.

use super::{Inbound, IpHeader};
use crate::Stack;
use crate::mib::version;
use belljar_net::Packet;

/// A point at which packets pass hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookPoint {
    /// Received, its header checked.
    Prerouting,
    /// For this host.
    Input,
    /// For another host, its route known and its TTL decremented.
    Forward,
    /// Made by this host, complete.
    Output,
    /// About to leave by an interface.
    Postrouting,
}

impl HookPoint {
    /// All points, by their `NF_INET_*` numbers.
    pub const ALL: [HookPoint; 5] = [
        HookPoint::Prerouting,
        HookPoint::Input,
        HookPoint::Forward,
        HookPoint::Output,
        HookPoint::Postrouting,
    ];
}

/// The circumstances in which a packet passes a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The point.
    pub point: HookPoint,
    /// True for a packet of IPv6.
    pub v6: bool,
    /// The number of the interface that it came by; none for a packet of this host.
    pub incoming: Option<usize>,
    /// The number of the interface that it leaves by, where that is known.
    pub outgoing: Option<usize>,
}

/// The decision of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// The packet goes on.
    Accept,
    /// It is dropped: [`StackCounters::hook_drops`](crate::StackCounters::hook_drops). A socket that sends it gets `EPERM`.
    Drop,
}

/// A function that decides on packets. It may change a packet, its checksums included, or its mark.
pub type Hook = Box<dyn FnMut(&mut Packet, &Passage) -> HookVerdict + Send>;

/// The hooks of a point with their priorities, in order of these.
type AtPoint = Vec<(i32, Hook)>;

/// The hooks of a host by point; `None` while there are none.
#[derive(Default)]
pub struct Hooks(Option<Box<[AtPoint; HookPoint::ALL.len()]>>);

impl Hooks {
    /// True if there is none: packets need not ask.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn decide(&mut self, packet: &mut Packet, passage: &Passage) -> HookVerdict {
        let Some(all) = &mut self.0 else { return HookVerdict::Accept };
        let hooks = &mut all[passage.point as usize];
        match hooks.iter_mut().all(|(_, hook)| hook(packet, passage) == HookVerdict::Accept) {
            true => HookVerdict::Accept,
            false => HookVerdict::Drop,
        }
    }
}

impl Stack {
    /// Adds a hook behind those whose priority is not greater (`nf_register_net_hook`). A host that loses its power loses its
    /// hooks.
    pub fn register_hook(&mut self, point: HookPoint, priority: i32, hook: Hook) {
        let hooks = &mut self.hooks.0.get_or_insert_default()[point as usize];
        let at = hooks.partition_point(|(other, _)| *other <= priority);
        hooks.insert(at, (priority, hook));
    }

    /// Passes a packet through the hooks of a point; `None` if one drops it.
    #[cold]
    #[inline(never)]
    pub(crate) fn pass_hooks(
        &mut self,
        point: HookPoint,
        mut packet: Packet,
        incoming: Option<usize>,
        outgoing: Option<usize>,
    ) -> Option<Packet> {
        packet.fill_checksum();
        let v6 = packet.bytes().first().is_some_and(|first| first >> 4 == 6);
        let passage = Passage { point, v6, incoming, outgoing };
        match self.hooks.decide(&mut packet, &passage) {
            HookVerdict::Accept => Some(packet),
            HookVerdict::Drop => {
                self.counters.hook_drops[point as usize][usize::from(v6)] += 1;
                self.recycle_buffer(packet.into_bytes());
                None
            }
        }
    }

    /// Passes a received packet through the hooks of a point, and reads its header again; false if it goes no further.
    #[cold]
    #[inline(never)]
    pub(crate) fn pass_input_hooks(&mut self, point: HookPoint, inbound: &mut Inbound) -> bool {
        let packet = Packet::new(std::mem::take(&mut inbound.packet))
            .with_checksum(inbound.checksum)
            .with_segment(inbound.segment)
            .with_mark(inbound.mark);
        let Some(packet) = self.pass_hooks(point, packet, Some(inbound.interface), None) else {
            return false;
        };
        (inbound.checksum, inbound.mark) = (packet.checksum(), packet.mark());
        inbound.packet = packet.into_bytes();
        match IpHeader::parse(&inbound.packet) {
            Ok(parsed) => (inbound.header, inbound.payload) = parsed,
            Err(_) => {
                self.counters.malformed += 1;
                self.counters.ip[version(&inbound.header.dst)].in_header_errors += 1;
                self.recycle_buffer(std::mem::take(&mut inbound.packet));
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
