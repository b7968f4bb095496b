//! Node of the tree: a queueing discipline with its counters, its filters and its handle (`struct Qdisc`).

use crate::attributes::{Attributes, Out, words};
use crate::buffer::Buffer;
use crate::error::{TcError, invalid};
use crate::filters::Filters;
use crate::size_table::SizeTable;
use belljar_base::{Seed, SimTime};
use belljar_linux_abi::Errno;
use std::fmt::Debug;

/// `TC_H_ROOT`: the parent of a root.
pub(crate) const ROOT: u32 = 0xffff_ffff;
/// `TC_H_INGRESS`: the parent of ingress and clsact.
pub(crate) const INGRESS: u32 = 0xffff_fff1;
/// Mask of the number of a discipline in a handle.
pub(crate) const MAJOR: u32 = 0xffff_0000;
/// Mask of the number of a class in a handle.
pub(crate) const MINOR: u32 = 0xffff;

/// Counters of bytes and packets sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl Traffic {
    /// Counts a packet (`bstats_update`).
    pub(crate) fn count(&mut self, buffer: &Buffer) {
        self.bytes = self.bytes.wrapping_add(u64::from(buffer.len));
        self.packets = self.packets.wrapping_add(u64::from(buffer.segments));
    }
}

/// Counters of a queue (`struct gnet_stats_queue`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueCounters {
    pub(crate) len: u32,
    pub(crate) backlog: u32,
    pub(crate) drops: u32,
    pub(crate) requeues: u32,
    pub(crate) overlimits: u32,
}

/// Statistics of a discipline, a class or an action.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) traffic: Traffic,
    pub(crate) queue: QueueCounters,
    /// Statistics of the kind's own.
    pub(crate) own: Option<Vec<u8>>,
}

impl Statistics {
    /// Writes the attributes of statistics (`gnet_stats_finish_copy`): `TCA_STATS2`, `TCA_STATS` and `TCA_XSTATS`
    /// where the types are given.
    pub(crate) fn write(&self, out: &mut Out, (nest, compatible, own): (u16, Option<u16>, Option<u16>)) {
        let Statistics { traffic, queue, .. } = self;
        out.nest(nest, |out| {
            let mut basic = traffic.bytes.to_ne_bytes().to_vec();
            basic.extend((traffic.packets as u32).to_ne_bytes());
            basic.extend([0; 4]);
            if let Some(bytes) = &self.own {
                out.put(4, bytes);
            }
            out.put(1, &basic);
            out.put(3, &words([queue.len, queue.backlog, queue.drops, queue.requeues, queue.overlimits]));
        });
        if let Some(kind) = compatible {
            let mut old = traffic.bytes.to_ne_bytes().to_vec();
            let packets = traffic.packets as u32;
            old.extend(words([packets, queue.drops, queue.overlimits, 0, 0, queue.len, queue.backlog, 0]));
            out.put(kind, &old);
        }
        if let (Some(kind), Some(bytes)) = (own, &self.own) {
            out.put(kind, bytes);
        }
    }
}

/// Reason for which traffic control drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcDrop {
    /// A queueing discipline dropped the packet: its queue was full, its control of the delay, its rate.
    Queue,
    /// The loss of netem.
    Loss,
    /// An action of a filter dropped the packet.
    Action,
}

/// Packet that an action passes to another interface.
#[derive(Debug)]
pub struct Redirected {
    /// Packet or frame.
    pub buffer: Buffer,
    /// Number of the interface that gets the packet.
    pub interface: usize,
    /// True if the interface receives the packet, false if it sends it.
    pub ingress: bool,
    /// True for a copy, whose original continues.
    pub copy: bool,
}

/// Surroundings of an operation on packets, with its results.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: SimTime,
    /// Actions of the namespace.
    pub(crate) actions: &'a mut crate::action::Actions,
    /// Number of the interface, and true at its ingress.
    pub(crate) interface: (usize, bool),
    /// Queued or offered packets that were dropped: every discipline above counts them.
    pub(crate) lost: Vec<(TcDrop, Buffer)>,
    /// Cookies and lengths of packets whose senders account for them no longer.
    pub(crate) orphaned: Vec<(u64, usize)>,
    /// Packets that actions have consumed.
    pub(crate) consumed: Vec<Buffer>,
    /// Packets that actions have passed to other interfaces.
    pub(crate) redirected: Vec<Redirected>,
    /// Duplicates of netem, which are queued at the root.
    pub(crate) duplicates: Vec<Buffer>,
    /// True while duplicates are queued.
    pub(crate) duplicating: bool,
    /// Earliest time at which a throttled discipline may have a packet.
    pub(crate) next: Option<SimTime>,
}

impl Context<'_> {
    /// Sets the time at which a throttled discipline may have a packet (`qdisc_watchdog_schedule_ns`).
    pub(crate) fn watch(&mut self, at: SimTime) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
    /// Drops a packet.
    pub(crate) fn drop(&mut self, buffer: Buffer) {
        self.lost.push((TcDrop::Queue, buffer));
    }
    /// Time in nanoseconds.
    pub(crate) fn ns(&self) -> i64 {
        self.now.as_nanos() as i64
    }
    /// Sets the time of [`watch`](Self::watch) in nanoseconds.
    pub(crate) fn watch_ns(&mut self, at: i64) {
        let now = self.now;
        self.watch(SimTime::from_nanos(at.max(0) as u64).max(now));
    }
}

/// Outcome of queueing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// `NET_XMIT_SUCCESS`: queued.
    Queued,
    /// `NET_XMIT_CN`: queued, and another packet of the flow was dropped.
    Congested,
    /// `NET_XMIT_DROP`: the packet is the last of `Context::lost`.
    Dropped,
    /// `__NET_XMIT_BYPASS`: the packet is the last of `Context::lost`, and the sender is not to know.
    Vanished,
    /// `__NET_XMIT_STOLEN`: an action has consumed the packet.
    Stolen,
}

/// State of a node that its discipline uses.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) handle: u32,
    pub(crate) traffic: Traffic,
    pub(crate) queue: QueueCounters,
    pub(crate) filters: Filters,
}

/// Properties of an interface for the set-up of a discipline.
#[derive(Clone, Copy, Debug)]
pub struct TcDevice {
    /// Index of the interface, as programs see it.
    pub index: u32,
    /// MTU in bytes.
    pub mtu: u32,
    /// Length of the link-layer header in bytes.
    pub header: u32,
    /// `IFLA_TXQLEN`.
    pub queue_len: u32,
    /// True if the interface is up.
    pub up: bool,
    /// Default discipline, as listed.
    pub default: DefaultDiscipline,
    /// Traffic of the default discipline: bytes, packets, and dropped packets.
    pub sent: (u64, u64, u32),
}

/// Discipline of an interface without one of the administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultDiscipline {
    /// `noqueue`.
    None,
    /// `pfifo_fast`.
    Bands,
    /// A queue of the experiment's `queue:`, by its kind and its limits.
    Queue {
        /// Kind of the discipline.
        kind: &'static str,
        /// First word of its options.
        limit: u32,
    },
}

/// Surroundings of the set-up of a discipline.
pub(crate) struct Setup<'a> {
    pub(crate) device: &'a TcDevice,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) now: SimTime,
    /// Seed of the random draws of this discipline.
    pub(crate) seed: Seed,
    pub(crate) warning: &'a mut Option<String>,
    /// Packets that a change has removed from the queues.
    pub(crate) purged: &'a mut Vec<Buffer>,
}

/// Queueing discipline. After each call of `enqueue` the owner calls `dequeue` until it returns `None`, and again at
/// the time of [`Context::next`].
pub(crate) trait Discipline: Debug + Send {
    /// `TCA_KIND`.
    fn kind(&self) -> &'static str;
    /// Queues a packet.
    fn enqueue(&mut self, buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict;
    /// Takes the next packet, if one may be sent now.
    fn dequeue(&mut self, own: &mut Own, context: &mut Context<'_>) -> Option<Buffer>;
    /// Changes the settings (`RTM_NEWQDISC` of an existing one).
    fn change(&mut self, _: Option<Attributes<'_>>, _: &mut Setup<'_>) -> Result<(), TcError> {
        Err(invalid("Change operation not supported by specified qdisc"))
    }
    /// Appends `TCA_OPTIONS`.
    fn dump(&self, out: &mut Out);
    /// Statistics of the kind's own.
    fn statistics(&self, _: &Own, _: SimTime) -> Option<Vec<u8>> {
        None
    }
    /// Removes all packets.
    fn clear(&mut self, out: &mut Vec<Buffer>);
    /// Classes, if the kind has any.
    fn classful(&self) -> Option<&dyn Classful> {
        None
    }
    /// Classes to be changed.
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        None
    }
}

/// Class in a listing.
#[derive(Debug, Default)]
pub(crate) struct ClassShown {
    /// Handle of the parent.
    pub(crate) parent: u32,
    /// Handle of the discipline below.
    pub(crate) leaf: u32,
    /// `TCA_OPTIONS` and further attributes.
    pub(crate) options: Out,
    pub(crate) statistics: Option<Statistics>,
}

/// Classes of a discipline, by the lower half of their handles.
pub(crate) trait Classful {
    /// Numbers of the classes, in the order of listings.
    fn classes(&self) -> Vec<u16>;
    /// True if the class exists.
    fn has(&self, class: u16) -> bool;
    /// Discipline below a class.
    fn child(&self, _class: u16) -> Option<&Node> {
        None
    }
    /// All disciplines below.
    fn children(&self) -> Vec<&Node> {
        Vec::new()
    }
    /// All disciplines below, to be changed.
    fn children_mut(&mut self) -> Vec<&mut Node> {
        Vec::new()
    }
    /// Replaces the discipline below a class; `None` restores the default. Returns the former one.
    fn graft(
        &mut self,
        _class: u16,
        _node: Option<Node>,
        _setup: &mut Setup<'_>,
    ) -> Result<Option<Node>, TcError> {
        Err(Errno::EOPNOTSUPP.into())
    }
    /// Creates a class, or changes one that exists. Returns its number.
    fn change_class(
        &mut self,
        _class: u32,
        _parent: u32,
        _options: Option<Attributes<'_>>,
        _setup: &mut Setup<'_>,
    ) -> Result<u16, TcError> {
        Err(Errno::EOPNOTSUPP.into())
    }
    /// Deletes a class, and leaves its packets in `out`.
    fn delete_class(&mut self, _class: u16, _in_use: bool, _out: &mut Vec<Buffer>) -> Result<(), TcError> {
        Err(Errno::EOPNOTSUPP.into())
    }
    /// Describes a class.
    fn show(&self, class: u16, handle: u32, now: SimTime) -> ClassShown;
    /// True if filters can be attached to the discipline.
    fn has_filters(&self) -> bool {
        true
    }
    /// Filters of a class, if the kind has them.
    fn class_filters(&mut self, _class: u16) -> Option<&mut Filters> {
        None
    }
    /// Filters of a class, if the kind has them.
    fn class_filters_ref(&self, _class: u16) -> Option<&Filters> {
        None
    }
}

/// Node of the tree.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// True for a default discipline, which is not listed.
    pub(crate) invisible: bool,
    /// Number of the node in the order of creation.
    pub(crate) serial: u64,
    pub(crate) own: Own,
    pub(crate) discipline: Box<dyn Discipline>,
    pub(crate) sizes: Option<SizeTable>,
    /// Packet taken by [`peek`](Self::peek).
    stash: Option<Buffer>,
}

impl Node {
    pub(crate) fn new(handle: u32, parent: u32, discipline: Box<dyn Discipline>) -> Node {
        let own = Own { handle, ..Own::default() };
        Node { parent, invisible: false, serial: 0, own, discipline, sizes: None, stash: None }
    }
    /// Default discipline below a class, which is not listed.
    pub(crate) fn hidden(parent: u32, discipline: Box<dyn Discipline>) -> Node {
        Node { invisible: true, ..Node::new(0, parent, discipline) }
    }
    pub(crate) fn handle(&self) -> u32 {
        self.own.handle
    }
    /// Number of packets in the subtree.
    pub(crate) fn len(&self) -> u32 {
        self.own.queue.len
    }
    /// Queues a packet, and counts.
    pub(crate) fn enqueue(&mut self, mut buffer: Buffer, context: &mut Context<'_>) -> Verdict {
        if let Some(sizes) = &self.sizes {
            buffer.len = sizes.length(buffer.packet.len() as u32);
        }
        let (before, len) = (context.lost.len(), buffer.len);
        let verdict = self.discipline.enqueue(buffer, &mut self.own, context);
        let offered = matches!(verdict, Verdict::Dropped | Verdict::Vanished);
        if matches!(verdict, Verdict::Queued | Verdict::Congested) {
            self.own.queue.len += 1;
            self.own.queue.backlog = self.own.queue.backlog.saturating_add(len);
        }
        self.count_lost(before, offered, context);
        verdict
    }
    /// Counts packets lost since `before`; the last one had not been queued if it was only `offered`.
    fn count_lost(&mut self, before: usize, offered: bool, context: &Context<'_>) {
        let lost = &context.lost[before.min(context.lost.len())..];
        self.own.queue.drops += lost.len() as u32;
        let queued = if offered { &lost[..lost.len().saturating_sub(1)] } else { lost };
        for (_, buffer) in queued {
            self.own.queue.len = self.own.queue.len.saturating_sub(1);
            self.own.queue.backlog = self.own.queue.backlog.saturating_sub(buffer.len);
        }
    }
    fn take(&mut self, context: &mut Context<'_>) -> Option<Buffer> {
        let before = context.lost.len();
        let taken = self.discipline.dequeue(&mut self.own, context);
        self.count_lost(before, false, context);
        taken
    }
    /// Takes the next packet, and counts it.
    pub(crate) fn dequeue(&mut self, context: &mut Context<'_>) -> Option<Buffer> {
        let buffer = match self.stash.take() {
            Some(buffer) => buffer,
            None => self.take(context)?,
        };
        self.own.queue.len = self.own.queue.len.saturating_sub(1);
        self.own.queue.backlog = self.own.queue.backlog.saturating_sub(buffer.len);
        self.own.traffic.count(&buffer);
        Some(buffer)
    }
    /// Next packet, which stays in the queue.
    pub(crate) fn peek(&mut self, context: &mut Context<'_>) -> Option<&Buffer> {
        if self.stash.is_none() {
            self.stash = self.take(context);
        }
        self.stash.as_ref()
    }
    /// Removes all packets of the subtree (`qdisc_reset`).
    pub(crate) fn clear(&mut self, out: &mut Vec<Buffer>) {
        out.extend(self.stash.take());
        self.discipline.clear(out);
        (self.own.queue.len, self.own.queue.backlog) = (0, 0);
    }
    /// Statistics of the discipline.
    pub(crate) fn statistics(&self, now: SimTime) -> Statistics {
        let own = self.discipline.statistics(&self.own, now);
        Statistics { traffic: self.own.traffic, queue: self.own.queue, own }
    }
    /// Node of this handle in the subtree.
    pub(crate) fn find(&self, handle: u32) -> Option<&Node> {
        if self.own.handle == handle {
            return Some(self);
        }
        let below = self.discipline.classful()?.children();
        below.into_iter().find_map(|child| child.find(handle))
    }
    /// Node of this handle in the subtree, to be changed.
    pub(crate) fn find_mut(&mut self, handle: u32) -> Option<&mut Node> {
        if self.own.handle == handle {
            return Some(self);
        }
        let below = self.discipline.classful_mut()?.children_mut();
        below.into_iter().find_map(|child| child.find_mut(handle))
    }
    /// All nodes below this one.
    pub(crate) fn below(&self) -> Vec<&Node> {
        let mut all = Vec::new();
        if let Some(classful) = self.discipline.classful() {
            for child in classful.children() {
                all.push(child);
                all.extend(child.below());
            }
        }
        all
    }
}
