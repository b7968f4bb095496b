//! Unit: the node or group of close nodes that one worker runs at a time.

use crate::{Node, Outgoing};
use belljar_base::{Footprint, HostId, SimDuration, SimTime};

/// Nodes of a group. Within it, the members run in windows up to the time at which they can affect each
/// other.
pub struct Unit<N: Node> {
    /// Ids of the members, sorted.
    ids: Vec<HostId>,
    nodes: Vec<N>,
    /// Next event of each member; empty for a single member.
    next: Vec<SimTime>,
    inner: SimDuration,
    between: Vec<Outgoing<N::Message>>,
    /// Undelivered messages of a single node; its memory is not touched before it runs.
    mail: Vec<Outgoing<N::Message>>,
    finished: bool,
}

impl<N: Node> Unit<N> {
    pub fn new(mut members: Vec<(HostId, N)>, inner: SimDuration) -> Unit<N> {
        members.sort_by_key(|(id, _)| *id);
        let (ids, nodes): (Vec<HostId>, Vec<N>) = members.into_iter().unzip();
        let next = if nodes.len() > 1 { nodes.iter().map(next_event).collect() } else { Vec::new() };
        Unit { ids, nodes, next, inner, between: Vec::new(), mail: Vec::new(), finished: false }
    }

    pub fn into_members(mut self) -> impl Iterator<Item = (HostId, N)> {
        self.hand_over();
        self.ids.into_iter().zip(self.nodes)
    }

    /// Delivers a message to the member `to`.
    pub fn deliver(&mut self, message: Outgoing<N::Message>) {
        if self.next.is_empty() {
            return self.mail.push(message);
        }
        let at = self.member(message.to).expect("a member");
        self.nodes[at].deliver(message.key, message.message);
        self.next[at] = message.key.time.min(self.next[at]);
    }

    /// Delivers a message to the member `to` between two runs.
    pub fn deliver_now(&mut self, message: Outgoing<N::Message>) {
        self.deliver(message);
        self.hand_over();
    }

    /// Delivers the queued messages of a single node.
    fn hand_over(&mut self) {
        for message in self.mail.drain(..) {
            self.nodes[0].deliver(message.key, message.message);
        }
    }

    /// Executes all events before `limit` and appends messages to nodes outside to `out`. Afterwards, the
    /// next event is still before the limit if a member waits for an external clock, see [`Node::run_until`].
    pub fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<N::Message>>) {
        self.hand_over();
        if let [node] = &mut self.nodes[..] {
            return node.run_until(limit, out);
        }
        let mut between = std::mem::take(&mut self.between);
        let mut first = self.next_event();
        while first < limit {
            let end = limit.min(first + self.inner);
            for (node, next) in self.nodes.iter_mut().zip(&mut self.next).filter(|(_, next)| **next < end) {
                node.run_until(end, &mut between);
                *next = next_event(node);
            }
            for message in between.drain(..) {
                if self.member(message.to).is_none() {
                    out.push(message);
                    continue;
                }
                assert_ahead(&message, end);
                self.deliver(message);
            }
            let next = self.next_event();
            if next == first {
                break;
            }
            first = next;
        }
        self.between = between;
    }

    /// Lets every member serve requests from outside the simulation, and add events from `since` on.
    pub fn attend(&mut self, since: SimTime) {
        self.hand_over();
        self.nodes.iter_mut().for_each(|node| node.attend(since));
        for (node, next) in self.nodes.iter().zip(&mut self.next) {
            *next = next_event(node);
        }
    }

    /// Reports the memory that the next run reads; of several members, only that of the first.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.mail.as_ptr(), 2);
        footprint.start(self.next.as_ptr(), 1);
        for node in self.nodes.iter().take(1) {
            footprint.object(node);
            node.footprint(footprint);
        }
    }

    /// Earliest event of the members, or the end of time.
    pub fn next_event(&self) -> SimTime {
        match &self.nodes[..] {
            [node] => next_event(node),
            _ => self.next.iter().copied().min().unwrap_or(SimTime::MAX),
        }
    }

    /// Member with the earliest event.
    pub fn first(&self) -> Option<HostId> {
        let next = self.ids.iter().zip(&self.next);
        next.min_by_key(|(_, next)| **next).map(|(id, _)| *id).or(self.ids.first().copied())
    }

    /// Time at which the last member finished; returned once.
    pub fn just_finished(&mut self) -> Option<SimTime> {
        if self.finished {
            return None;
        }
        let mut last = SimTime::ZERO;
        for node in &self.nodes {
            last = last.max(node.finished_at()?);
        }
        self.finished = true;
        Some(last)
    }

    fn member(&self, id: HostId) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }
}

/// Asserts that a message arrives after the window in which it was sent; otherwise its sender or the plan has
/// a bug.
pub fn assert_ahead<M>(message: &Outgoing<M>, end: SimTime) {
    let at = message.key.time;
    assert!(at >= end, "a message arrives at {at} within the window that ends at {end}");
}

fn next_event<N: Node>(node: &N) -> SimTime {
    node.next_event().unwrap_or(SimTime::MAX)
}
