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
//! `ip/output.rs`. Without hooks a call site costs one test.
//!
//! # Rules
//!
//! The rules of programs (nf_tables) are a [`Netfilter`] beside these functions, which packets pass after them:
//! see `ip/filtering.rs`. It is created with the first request of a program.

use crate::TimerId;
use belljar_base::Stream;
use belljar_net::Packet;
use belljar_netfilter::Netfilter;

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

/// Rules of programs, with their random stream.
pub struct Rules {
    /// The rules.
    pub netfilter: Netfilter,
    /// Random stream of rules.
    pub random: Stream,
    /// The timer of connection tracking.
    pub(crate) timer: Option<TimerId>,
}

/// The hooks of a host.
#[derive(Default)]
pub struct Hooks {
    /// True if any point has a function or rules.
    active: bool,
    /// The functions by point; `None` while there are none.
    registered: Option<Box<[AtPoint; HookPoint::ALL.len()]>>,
    /// The rules of programs; `None` before the first request.
    rules: Option<Box<Rules>>,
    /// Attachment of connection tracking of the next local packet, which answers a rejected one.
    pub(crate) answers: Option<u64>,
}

impl Hooks {
    /// True if there are no hooks.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        !self.active
    }

    /// Registers a hook after those of lower or equal priority value (`nf_register_net_hook`). A power cut
    /// removes the hooks of a host.
    pub fn register(&mut self, point: HookPoint, priority: i32, hook: Hook) {
        let hooks = &mut self.registered.get_or_insert_default()[point as usize];
        let at = hooks.partition_point(|(other, _)| *other <= priority);
        hooks.insert(at, (priority, hook));
        self.active = true;
    }

    /// The rules, if a program has made any.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }
    /// Takes the rules out for a call, after which they are put back. None are made if there are none.
    pub(crate) fn take_rules(&mut self) -> Option<Box<Rules>> {
        self.rules.take()
    }
    /// Puts the rules back; from now on packets pass them if they have hooks.
    pub(crate) fn put_rules(&mut self, rules: Box<Rules>) {
        self.active = self.registered.is_some() || rules.netfilter.is_active();
        self.rules = Some(rules);
    }

    /// Calls the functions of a point on a packet.
    pub(crate) fn decide(&mut self, packet: &mut Packet, passage: &Passage) -> HookVerdict {
        let Some(all) = &mut self.registered else { return HookVerdict::Accept };
        let hooks = &mut all[passage.point as usize];
        match hooks.iter_mut().all(|(_, hook)| hook(packet, passage) == HookVerdict::Accept) {
            true => HookVerdict::Accept,
            false => HookVerdict::Drop,
        }
    }
}

#[cfg(test)]
mod tests;
