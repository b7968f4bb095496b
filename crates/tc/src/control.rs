//! Interfaces with their trees of disciplines, and the paths of packets through them.

use crate::action::Actions;
use crate::buffer::Buffer;
use crate::disciplines::{MIN_EGRESS, MIN_INGRESS};
use crate::filters::Classified;
use crate::node::{Context, Node, Redirected, TcDrop, Verdict};
use belljar_base::{Map, Seed, SimTime};

/// Tree of an interface, and its filters of received packets.
#[derive(Debug, Default)]
pub(crate) struct Port {
    pub(crate) root: Option<Node>,
    /// `ingress` or `clsact`.
    pub(crate) ingress: Option<Node>,
    /// True once there has been one of them.
    pub(crate) had_ingress: bool,
    /// Time at which a throttled discipline may have a packet.
    next: Option<SimTime>,
}

/// Traffic control of a network namespace.
#[derive(Debug)]
pub struct TrafficControl {
    pub(crate) ports: Map<usize, Port>,
    pub(crate) actions: Actions,
    /// Last handle that was chosen.
    pub(crate) last_handle: u32,
    pub(crate) seed: Seed,
    pub(crate) serial: u64,
}

/// Packets that a call has ended or moved, for their accounts.
#[derive(Debug, Default)]
pub struct Results {
    /// Dropped packets.
    pub dropped: Vec<(TcDrop, Buffer)>,
    /// Packets that actions have consumed.
    pub consumed: Vec<Buffer>,
    /// Packets for other interfaces.
    pub redirected: Vec<Redirected>,
    /// Cookies and lengths of packets whose senders account for them no longer.
    pub orphaned: Vec<(u64, usize)>,
    /// Number of copies among the queued packets.
    pub copies: u64,
}

/// Result of [`TrafficControl::egress`].
#[derive(Debug)]
pub enum Sent {
    /// The packet is queued, or gone without the sender's knowledge.
    Queued,
    /// The packet is dropped, and the sender notices. It is not among [`Results::dropped`].
    Dropped(TcDrop, Buffer),
    /// The interface has no discipline: the packet is sent now.
    Direct(Buffer),
}

impl TrafficControl {
    /// Traffic control without disciplines.
    pub fn new(seed: Seed) -> TrafficControl {
        TrafficControl {
            ports: Map::new(),
            actions: Actions::new(seed),
            last_handle: 0x8000_0000,
            seed,
            serial: 0,
        }
    }
    /// True if packets that the interface receives pass filters.
    pub fn has_ingress(&self, interface: usize) -> bool {
        self.ports.get(&interface).is_some_and(|port| port.ingress.is_some())
    }
    /// Kind of the interface's discipline, if the administrator has set one.
    pub fn root_kind(&self, interface: usize) -> Option<&'static str> {
        Some(self.ports.get(&interface)?.root.as_ref()?.discipline.kind())
    }
    /// Number of packets in all queues.
    pub fn held(&self) -> u64 {
        let roots = self.ports.values().filter_map(|port| port.root.as_ref());
        roots.map(|root| u64::from(root.len())).sum()
    }
    /// Number of packets in the queues of an interface.
    pub fn queue_len(&self, interface: usize) -> usize {
        self.ports.get(&interface).and_then(|port| port.root.as_ref()).map_or(0, |root| root.len() as usize)
    }
    /// Earliest time at which [`dequeue`](Self::dequeue) of an interface may have a packet.
    pub fn next(&self) -> Option<SimTime> {
        self.ports.values().filter_map(|port| port.next).min()
    }
    /// Interfaces that may have a packet at `now`.
    pub fn due(&self, now: SimTime) -> Vec<usize> {
        let due = self.ports.iter().filter(|(_, port)| port.next.is_some_and(|at| at <= now));
        due.map(|(interface, _)| *interface).collect()
    }
    /// Passes a packet that an interface sends by the filters of `clsact`, and queues it.
    pub fn egress(
        &mut self,
        now: SimTime,
        interface: usize,
        mut buffer: Buffer,
        results: &mut Results,
    ) -> Sent {
        let Some(port) = self.ports.get_mut(&interface) else { return Sent::Direct(buffer) };
        let mut context = context(now, &mut self.actions, (interface, false));
        if let Some(node) = &mut port.ingress
            && node.discipline.kind() == "clsact"
        {
            match filter(node, MIN_EGRESS, &mut buffer, &mut context) {
                Classified::Shot => {
                    results.take(context);
                    return Sent::Dropped(TcDrop::Action, buffer);
                }
                Classified::Stolen => {
                    results.take(context);
                    results.consume(buffer);
                    return Sent::Queued;
                }
                _ => {}
            }
        }
        let Some(root) = &mut port.root else {
            results.take(context);
            return Sent::Direct(buffer);
        };
        buffer.queued = now;
        let verdict = root.enqueue(buffer, &mut context);
        let dropped = (verdict == Verdict::Dropped).then(|| context.lost.pop()).flatten();
        for copy in std::mem::take(&mut context.duplicates) {
            context.duplicating = true;
            results.copies += 1;
            let verdict = root.enqueue(copy, &mut context);
            debug_assert!(
                verdict != Verdict::Dropped || !context.lost.is_empty(),
                "a dropped packet is returned"
            );
        }
        results.take(context);
        // A throttled queue is looked at again: the packet may be due before the others.
        port.next = Some(now);
        match dropped {
            Some((reason, buffer)) => Sent::Dropped(reason, buffer),
            None => Sent::Queued,
        }
    }
    /// Ends the wait of an interface whose medium takes no packet now.
    pub fn wait(&mut self, interface: usize) {
        if let Some(port) = self.ports.get_mut(&interface) {
            port.next = None;
        }
    }
    /// Takes the next packet that an interface sends.
    pub fn dequeue(&mut self, now: SimTime, interface: usize, results: &mut Results) -> Option<Buffer> {
        let port = self.ports.get_mut(&interface)?;
        port.next = None;
        let root = port.root.as_mut()?;
        let mut context = context(now, &mut self.actions, (interface, false));
        let buffer = root.dequeue(&mut context);
        let next = context.next;
        results.take(context);
        if buffer.is_none() {
            port.next = next;
        }
        buffer
    }
    /// Passes a packet that an interface receives by the filters of its ingress; `None` if it does not continue.
    pub fn ingress(
        &mut self,
        now: SimTime,
        interface: usize,
        mut buffer: Buffer,
        results: &mut Results,
    ) -> Option<Buffer> {
        let port = self.ports.get_mut(&interface);
        let Some(node) = port.and_then(|port| port.ingress.as_mut()) else { return Some(buffer) };
        let mut context = context(now, &mut self.actions, (interface, true));
        let classified = filter(node, MIN_INGRESS, &mut buffer, &mut context);
        results.take(context);
        match classified {
            Classified::Shot => results.dropped.push((TcDrop::Action, buffer)),
            Classified::Stolen => results.consume(buffer),
            _ => return Some(buffer),
        }
        None
    }
    /// Removes an interface with its disciplines, filters and packets.
    pub fn remove_interface(&mut self, interface: usize, results: &mut Results) {
        let Some(port) = self.ports.remove(&interface) else { return };
        let mut purged = Vec::new();
        for mut node in port.root.into_iter().chain(port.ingress) {
            node.clear(&mut purged);
            release(&mut node, &mut self.actions);
        }
        results.purge(purged);
    }
    /// Removes all packets of an interface that has gone down (`dev_deactivate`).
    pub fn reset_interface(&mut self, interface: usize, results: &mut Results) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let mut purged = Vec::new();
        if let Some(root) = &mut port.root {
            root.clear(&mut purged);
            clear_counts(root);
        }
        port.next = None;
        results.purge(purged);
    }
}

/// Sets the lengths of all queues below a node to zero, after the packets were removed.
fn clear_counts(node: &mut Node) {
    (node.own.queue.len, node.own.queue.backlog) = (0, 0);
    if let Some(classful) = node.discipline.classful_mut() {
        classful.children_mut().into_iter().for_each(clear_counts);
    }
}

/// Releases the actions of all filters of a subtree that is destroyed.
pub(crate) fn release(node: &mut Node, actions: &mut Actions) {
    node.own.filters.clear(actions);
    if let Some(classful) = node.discipline.classful_mut() {
        for class in classful.classes().into_iter().chain([MIN_INGRESS, MIN_EGRESS]) {
            if let Some(filters) = classful.class_filters(class) {
                filters.clear(actions);
            }
        }
        classful.children_mut().into_iter().for_each(|child| release(child, actions));
    }
}

/// Passes a packet by the filters of `ingress` or `clsact`, and counts it.
fn filter(node: &mut Node, hook: u16, buffer: &mut Buffer, context: &mut Context<'_>) -> Classified {
    let classful = node.discipline.classful_mut();
    let Some(filters) = classful.and_then(|classful| classful.class_filters(hook)) else {
        return Classified::Unmatched;
    };
    if filters.is_empty() {
        return Classified::Unmatched;
    }
    let full = buffer.len;
    if hook == MIN_INGRESS {
        // The link-layer header has been taken off.
        buffer.len = buffer.len.saturating_sub(if buffer.framed || context.interface.1 { 14 } else { 0 });
    }
    node.own.traffic.count(buffer);
    let classified = filters.classify(buffer, context);
    buffer.len = full;
    node.own.queue.drops += u32::from(classified == Classified::Shot);
    classified
}

fn context(now: SimTime, actions: &mut Actions, interface: (usize, bool)) -> Context<'_> {
    Context {
        now,
        actions,
        interface,
        lost: Vec::new(),
        orphaned: Vec::new(),
        consumed: Vec::new(),
        redirected: Vec::new(),
        duplicates: Vec::new(),
        duplicating: false,
        next: None,
    }
}

impl Results {
    fn take(&mut self, context: Context<'_>) {
        self.dropped.extend(context.lost);
        self.consumed.extend(context.consumed);
        self.redirected.extend(context.redirected);
        self.orphaned.extend(context.orphaned);
    }
    /// Ends a packet that an action has consumed, unless the action has moved it to another interface.
    fn consume(&mut self, buffer: Buffer) {
        if !buffer.packet.is_empty() {
            self.consumed.push(buffer);
        }
    }
    /// Ends packets that a change of the tree has removed.
    pub(crate) fn purge(&mut self, buffers: Vec<Buffer>) {
        self.dropped.extend(buffers.into_iter().map(|buffer| (TcDrop::Queue, buffer)));
    }
}
