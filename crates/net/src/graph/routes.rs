//! Shortest paths.

use super::{Graph, NodeIndex, Path, path_of};
use belljar_base::SimDuration;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

const UNREACHED: u64 = u64::MAX;

/// Paths from one source to all nodes. Loss and jitter are omitted if no path has any: a graph of 6,000
/// nodes has 36 million paths.
#[derive(Debug)]
pub(super) struct Row {
    latency: Box<[u64]>,
    jitter: Option<Box<[u64]>>,
    loss: Option<Box<[f64]>>,
}

impl Row {
    pub(super) fn path(&self, to: NodeIndex) -> Option<Path> {
        let to = to.index();
        let jitter = self.jitter.as_ref().map_or(0, |j| j[to]);
        let loss = self.loss.as_ref().map_or(0.0, |l| l[to]);
        (self.latency[to] != UNREACHED).then(|| path_of(self.latency[to], jitter, loss))
    }
}

/// Cost of a path, ordered by its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) latency: u64,
    pub(super) loss: f64,
    pub(super) jitter: u64,
}

impl Cost {
    const NONE: Cost = Cost { latency: 0, loss: 0.0, jitter: 0 };
    const UNREACHED: Cost = Cost { latency: UNREACHED, loss: 1.0, jitter: 0 };

    pub(super) fn compare(&self, other: &Cost) -> Ordering {
        let by_loss = || self.loss.total_cmp(&other.loss);
        self.latency.cmp(&other.latency).then_with(by_loss).then(self.jitter.cmp(&other.jitter))
    }

    /// Cost of this path followed by that edge.
    pub(super) fn then(&self, next: &Cost) -> Cost {
        Cost {
            // A latency near overflow is practically unreachable, but must not wrap.
            latency: self.latency.saturating_add(next.latency).min(UNREACHED - 1),
            // Equals 1 - (1-a)(1-b), in a form that keeps the exact loss of a single lossy edge.
            loss: (self.loss + next.loss - self.loss * next.loss).min(1.0),
            jitter: self.jitter.saturating_add(next.jitter),
        }
    }
}

struct Reached {
    cost: Cost,
    node: u32,
}

impl Ord for Reached {
    fn cmp(&self, other: &Reached) -> Ordering {
        self.cost.compare(&other.cost).then(self.node.cmp(&other.node))
    }
}
impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Reached) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Reached {
    fn eq(&self, other: &Reached) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Reached {}

impl Graph {
    /// Dijkstra's algorithm from `from`. All latencies are positive, so that costs increase along a path. A
    /// node's cost is replaced only by a strictly lower one, and nodes leave the heap in the order of
    /// (cost, index): the result does not depend on the order of edges.
    pub(super) fn row(&self, from: NodeIndex) -> Row {
        let mut best = vec![Cost::UNREACHED; self.nodes.len()];
        let mut heap = BinaryHeap::new();
        best[from.index()] = Cost::NONE;
        heap.push(Reverse(Reached { cost: Cost::NONE, node: from.0 }));
        while let Some(Reverse(Reached { cost, node })) = heap.pop() {
            if best[node as usize].compare(&cost) == Ordering::Less {
                continue;
            }
            for arc in self.arcs_of(node) {
                if cost.latency.saturating_add(arc.latency) > best[arc.target as usize].latency {
                    continue;
                }
                let edge = self.edge(arc);
                let step = Cost { latency: edge.latency, loss: edge.loss, jitter: edge.jitter };
                let through = cost.then(&step);
                if through.compare(&best[arc.target as usize]) == Ordering::Less {
                    best[arc.target as usize] = through;
                    heap.push(Reverse(Reached { cost: through, node: arc.target }));
                }
            }
        }
        Row {
            latency: best.iter().map(|c| c.latency).collect(),
            jitter: best.iter().any(|c| c.jitter != 0).then(|| best.iter().map(|c| c.jitter).collect()),
            loss: self.any_loss().then(|| best.iter().map(|c| c.loss).collect()),
        }
    }

    fn any_loss(&self) -> bool {
        self.edges.iter().any(|e| e.loss != 0.0)
    }

    /// Minimum delay from a host at `from` to any other host, at another or the same node, where
    /// `hosts[node]` is the number of hosts at each node. It is the lookahead of hosts at `from`. `None` if
    /// no host can be reached. Tighter than [`least_latency_from`](Self::least_latency_from), at the cost
    /// of a search up to the nearest host.
    pub fn least_latency_to_hosts(&self, from: NodeIndex, hosts: &[u32]) -> Option<SimDuration> {
        let own = (hosts[from.index()] > 1).then(|| self.direct(from, from)).flatten().map(|e| e.floor());
        let others = if self.shortest_paths {
            self.nearest_host(from, hosts)
        } else {
            let used = |target: u32| target != from.0 && hosts[target as usize] > 0;
            self.arcs_of(from.0).iter().filter(|a| used(a.target)).map(|a| self.edge(a).floor()).min()
        };
        own.into_iter().chain(others).min().map(SimDuration::from_picos)
    }

    /// Minimum sum of (latency - jitter) to a node with hosts other than `from`: a lower bound for any
    /// choice of paths.
    fn nearest_host(&self, from: NodeIndex, hosts: &[u32]) -> Option<u64> {
        let mut best = vec![UNREACHED; self.nodes.len()];
        let mut heap = BinaryHeap::from([Reverse((0, from.0))]);
        best[from.index()] = 0;
        while let Some(Reverse((floor, node))) = heap.pop() {
            if node != from.0 && hosts[node as usize] > 0 {
                return Some(floor);
            }
            for arc in self.arcs_of(node) {
                let through = floor.saturating_add(self.edge(arc).floor());
                if through < best[arc.target as usize] {
                    best[arc.target as usize] = through;
                    heap.push(Reverse((through, arc.target)));
                }
            }
        }
        None
    }
}
