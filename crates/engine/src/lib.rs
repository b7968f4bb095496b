//! A conservative discrete-event engine over nodes that exchange keyed messages.
//!
//! The engine knows neither packets nor guests: a [`Node`] is anything that runs up to a point in
//! time and sends messages that arrive later. It works in *windows*. The end of a window is the
//! earliest time at which anything that happens from now on could be felt by another node: the
//! earliest event of all nodes plus the least latency between any two ([`Engine::new`]'s
//! `lookahead`). Up to there nodes cannot disturb each other, so each one that has something to do
//! runs alone, in any order and on any thread, and what it sends is handed over afterwards. A node
//! without events in a window is not visited.
//!
//! The order of events within a node is that of their [`EventKey`]s, which the nodes make; the
//! engine adds nothing to it. That is why results cannot depend on the order of execution.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use belljar_base::{EventKey, HostId, SimDuration, SimTime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message to another node.
#[derive(Debug)]
pub struct Outgoing<M> {
    /// Who gets it.
    pub to: HostId,
    /// When and in which order it arrives: at least the lookahead after it was sent.
    pub key: EventKey,
    /// What arrives.
    pub message: M,
}

/// Something that is simulated sequentially.
pub trait Node: Send {
    /// What nodes send each other.
    type Message: Send;

    /// Takes a message that arrives at `key.time`, which lies ahead of everything that has run.
    fn deliver(&mut self, key: EventKey, message: Self::Message);
    /// Does everything that happens strictly before `limit`; what it sends goes to `out`.
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Self::Message>>);
    /// When it will next do something without a further message; `None` if never.
    fn next_event(&self) -> Option<SimTime>;
    /// When it came to rest for good: it is not waited for any more. `None` while it is.
    fn finished_at(&self) -> Option<SimTime>;
}

/// What the caller of [`Engine::run`] decides after each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run the next window.
    Continue,
    /// Stop here.
    Stop,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stop time was reached, or nothing will happen any more.
    StopTime,
    /// Every node has finished, and [`LINGER`] has passed since.
    AllFinished,
    /// The observer stopped it.
    Stopped,
}

/// How long a simulation goes on after its last node has finished, so that what was sent last
/// arrives and connections are closed.
pub const LINGER: SimDuration = SimDuration::from_secs(1);

/// The nodes of one simulation.
pub struct Engine<N: Node> {
    nodes: Vec<N>,
    lookahead: SimDuration,
    /// Each node's next event as last seen; an entry of `due` that differs is out of date.
    next: Vec<SimTime>,
    due: BinaryHeap<Reverse<(SimTime, HostId)>>,
    committed: SimTime,
    unfinished: usize,
    finished: Vec<bool>,
    last_finish: SimTime,
}

impl<N: Node> Engine<N> {
    /// An engine over `nodes`, whose index is their [`HostId`]. No message arrives earlier than
    /// `lookahead` (not zero) after what caused it.
    pub fn new(nodes: Vec<N>, lookahead: SimDuration) -> Engine<N> {
        assert!(!lookahead.is_zero(), "nodes that feel each other at once cannot be run apart");
        let count = nodes.len();
        let mut engine = Engine {
            nodes,
            lookahead,
            next: vec![SimTime::MAX; count],
            due: BinaryHeap::with_capacity(count),
            committed: SimTime::ZERO,
            unfinished: count,
            finished: vec![false; count],
            last_finish: SimTime::ZERO,
        };
        (0..count as u32).for_each(|n| engine.looked_at(HostId(n)));
        engine
    }

    /// Everything strictly before this time has happened.
    pub fn committed(&self) -> SimTime {
        self.committed
    }
    /// The nodes, for reading their results.
    pub fn nodes(&self) -> &[N] {
        &self.nodes
    }
    /// The nodes, for collecting their results.
    pub fn nodes_mut(&mut self) -> &mut [N] {
        &mut self.nodes
    }

    /// Runs everything before `stop`; `observe` is called after each window.
    pub fn run(&mut self, stop: SimTime, mut observe: impl FnMut(&mut Self) -> Verdict) -> Ending {
        let mut sent = Vec::new();
        loop {
            let (limit, ending) = match self.unfinished {
                0 => (stop.min(self.last_finish + LINGER), Ending::AllFinished),
                _ => (stop, Ending::StopTime),
            };
            let Some(first) = self.earliest().filter(|first| *first < limit) else {
                self.committed = self.committed.max(limit);
                return ending;
            };
            let end = (first + self.lookahead).min(limit);
            self.run_window(end, &mut sent);
            self.committed = end;
            if observe(self) == Verdict::Stop {
                return Ending::Stopped;
            }
        }
    }

    fn run_window(&mut self, end: SimTime, sent: &mut Vec<Outgoing<N::Message>>) {
        while let Some(&Reverse((at, node))) = self.due.peek()
            && at < end
        {
            self.due.pop();
            if self.next[node.index()] != at {
                continue;
            }
            self.nodes[node.index()].run_until(end, sent);
            self.looked_at(node);
        }
        for Outgoing { to, key, message } in sent.drain(..) {
            assert!(
                key.time >= end,
                "a message arrives at {} within the window that ends at {end}",
                key.time
            );
            self.nodes[to.index()].deliver(key, message);
            let next = &mut self.next[to.index()];
            if key.time < *next {
                *next = key.time;
                self.due.push(Reverse((key.time, to)));
            }
        }
    }

    /// Takes note of a node's next event and of its end.
    fn looked_at(&mut self, node: HostId) {
        let n = node.index();
        let next = self.nodes[n].next_event().unwrap_or(SimTime::MAX);
        self.next[n] = next;
        if next < SimTime::MAX {
            self.due.push(Reverse((next, node)));
        }
        if !self.finished[n]
            && let Some(at) = self.nodes[n].finished_at()
        {
            self.finished[n] = true;
            self.unfinished -= 1;
            self.last_finish = self.last_finish.max(at);
        }
    }

    /// The earliest event of all nodes.
    fn earliest(&mut self) -> Option<SimTime> {
        while let Some(&Reverse((at, node))) = self.due.peek() {
            if self.next[node.index()] == at {
                return Some(at);
            }
            self.due.pop();
        }
        None
    }
}
