//! Unit: what one worker runs at a time, a node or a few that are close to each other.

use crate::{Node, Outgoing};
use belljar_base::{Footprint, HostId, SimDuration, SimTime};

/// The nodes of a group. Inside it works as the whole does: in windows as long as the members cannot
/// disturb each other.
pub struct Unit<N: Node> {
    /// Sorted.
    ids: Vec<HostId>,
    nodes: Vec<N>,
    /// Each member's next event; kept only where there is more than one.
    next: Vec<SimTime>,
    inner: SimDuration,
    between: Vec<Outgoing<N::Message>>,
    /// Messages that a node that is alone will be given when it runs next: until then its memory is left alone.
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

    /// Takes a message for the member `to`.
    pub fn deliver(&mut self, message: Outgoing<N::Message>) {
        if self.next.is_empty() {
            return self.mail.push(message);
        }
        let at = self.member(message.to).expect("a member");
        self.nodes[at].deliver(message.key, message.message);
        self.next[at] = message.key.time.min(self.next[at]);
    }

    /// Hands its mail to a node that is alone.
    fn hand_over(&mut self) {
        for message in self.mail.drain(..) {
            self.nodes[0].deliver(message.key, message.message);
        }
    }

    /// Does everything before `limit`; what members send to others goes to `out`. Its next event is before the limit
    /// still if a member waits for a clock outside, see [`Node::run_until`].
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

    /// Lets every member look after what somebody outside wants of it.
    pub fn attend(&mut self) {
        self.hand_over();
        self.nodes.iter_mut().for_each(Node::attend);
    }

    /// Tells which memory is read when it runs next: that of its first member, if there are several.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.mail.as_ptr(), 2);
        footprint.start(self.next.as_ptr(), 1);
        for node in self.nodes.iter().take(1) {
            footprint.object(node);
            node.footprint(footprint);
        }
    }

    /// The earliest event of a member, or the end of time.
    pub fn next_event(&self) -> SimTime {
        match &self.nodes[..] {
            [node] => next_event(node),
            _ => self.next.iter().copied().min().unwrap_or(SimTime::MAX),
        }
    }

    /// The member with the earliest event.
    pub fn first(&self) -> Option<HostId> {
        let next = self.ids.iter().zip(&self.next);
        next.min_by_key(|(_, next)| **next).map(|(id, _)| *id).or(self.ids.first().copied())
    }

    /// When the last of its members finished; told once.
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

/// A message that arrives within the window that it was sent in is a bug of its sender or of the plan.
pub fn assert_ahead<M>(message: &Outgoing<M>, end: SimTime) {
    let at = message.key.time;
    assert!(at >= end, "a message arrives at {at} within the window that ends at {end}");
}

fn next_event<N: Node>(node: &N) -> SimTime {
    node.next_event().unwrap_or(SimTime::MAX)
}
