//! Hooks: functions called for every IP packet at fixed points of its path, which accept or drop it, after
//! Linux's netfilter (`NF_INET_*`).
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
//! `Prerouting` precedes the routing of a received packet. IPv4 reassembles fragments before `Input`; IPv6
//! reassembles them after it, so that each fragment passes. Both fragment after `Postrouting`. The
//! looped-back copy of a multicast packet passes `Postrouting` in addition to the packet itself, then
//! `Prerouting` and `Input` of the interface by which the packet leaves. IGMP, MLD and neighbour discovery
//! messages pass the hooks like other local packets. ARP, and packets sent by packet sockets, do not.
//!
//! # Adding a hook
//!
//! [`Hooks::register`], on [`Stack::hooks`](crate::Stack::hooks), takes the point, a priority and a function. Each point has one call site:
//! `Prerouting` and `Input` in `ip/input.rs`, `Forward` in `ip/forward/mod.rs`, `Output` and `Postrouting` in
//! `ip/output.rs`. Without hooks a call site costs one test of a pointer.

use crate::StackCounters;
use crate::buffers;
use belljar_net::Packet;

/// A point of the packet path at which hooks are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookPoint {
    /// Received, with a valid header.
    Prerouting,
    /// Addressed to this host.
    Input,
    /// Being forwarded: routed, with the TTL decremented.
    Forward,
    /// Sent by this host, with a complete header.
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

/// The context of a hook call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The point of the call.
    pub point: HookPoint,
    /// True for an IPv6 packet.
    pub v6: bool,
    /// The number of the input interface; `None` for a local packet.
    pub incoming: Option<usize>,
    /// The number of the output interface, if known.
    pub outgoing: Option<usize>,
}

/// The decision of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// Continue the processing of the packet.
    Accept,
    /// Drop the packet: [`StackCounters::hook_drops`](crate::StackCounters::hook_drops). A socket that sends
    /// it gets `EPERM`.
    Drop,
}

/// A hook function. It may modify the packet, including its checksums, and its mark.
pub type Hook = Box<dyn FnMut(&mut Packet, &Passage) -> HookVerdict + Send>;

/// The hooks of a point with their priorities, in the order of the priorities.
type AtPoint = Vec<(i32, Hook)>;

/// The hooks of a host by point; `None` while there are none.
#[derive(Default)]
pub struct Hooks(Option<Box<[AtPoint; HookPoint::ALL.len()]>>);

impl Hooks {
    /// True if there are no hooks.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Registers a hook after those of lower or equal priority value (`nf_register_net_hook`). A power cut
    /// removes the hooks of a host.
    pub fn register(&mut self, point: HookPoint, priority: i32, hook: Hook) {
        let hooks = &mut self.0.get_or_insert_default()[point as usize];
        let at = hooks.partition_point(|(other, _)| *other <= priority);
        hooks.insert(at, (priority, hook));
    }

    /// Calls the hooks of a point on a packet, with its input and output interfaces as far as they are known.
    /// `None` if one drops the packet, which is counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn pass(
        &mut self,
        point: HookPoint,
        mut packet: Packet,
        (incoming, outgoing): (Option<usize>, Option<usize>),
        counters: &mut StackCounters,
    ) -> Option<Packet> {
        packet.fill_checksum();
        let v6 = packet.bytes().first().is_some_and(|first| first >> 4 == 6);
        let passage = Passage { point, v6, incoming, outgoing };
        match self.decide(&mut packet, &passage) {
            HookVerdict::Accept => Some(packet),
            HookVerdict::Drop => {
                counters.hook_drops[point as usize][usize::from(v6)] += 1;
                buffers::recycle(packet.into_bytes());
                None
            }
        }
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

#[cfg(test)]
mod tests;
