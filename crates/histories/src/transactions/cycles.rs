//! Search for the shortest cycle of each pattern.
//!
//! Walks of a pattern lie within one strongly connected component of the edges that it has, so a history without anomalies costs no more
//! than Tarjan's algorithm. In a component, a breadth-first search from each transaction over pairs of transaction and state of the pattern
//! finds the shortest walk that returns. A walk may pass a transaction twice: what it excludes does not depend on that.

use super::anomaly::Anomaly;
use super::graph::{Edge, Graph};
use super::pattern::{Pattern, STATES};

/// Cycle of an anomaly: transactions, each with the edge to the next one, the last with that to the first.
pub(super) struct Cycle {
    pub anomaly: Anomaly,
    pub edges: Vec<(u32, Edge)>,
}

/// Shortest cycle of each anomaly, and the anomalies whose search took more than `steps` and is not complete. Patterns that a cycle
/// found before implies are left out: those with stronger edges of order, and `G-nonadjacent` beside `G-single`.
pub(super) fn shortest(graph: &Graph, steps: u64) -> (Vec<Cycle>, Vec<Anomaly>) {
    let mut cycles: Vec<Cycle> = Vec::new();
    let mut incomplete = Vec::new();
    let mut found: Vec<Pattern> = Vec::new();
    let mut search = Search {
        graph,
        seen: vec![0; graph.edges.len() * STATES],
        parents: vec![(0, 0); graph.edges.len() * STATES],
        round: 0,
        steps: 0,
    };
    for pattern in Pattern::all() {
        if found.iter().any(|&other| pattern.is_implied_by(other)) {
            continue;
        }
        search.steps = steps;
        let (cycle, complete) = search.shortest(pattern);
        if let Some(edges) = cycle {
            found.push(pattern);
            cycles.push(Cycle { anomaly: pattern.anomaly(), edges });
        } else if !complete {
            incomplete.push(pattern.anomaly());
        }
    }
    (cycles, incomplete)
}

struct Search<'a> {
    graph: &'a Graph,
    /// Round in which each pair of transaction and state was met last.
    seen: Vec<u32>,
    /// Pair from which each pair was met, and the position of the edge.
    parents: Vec<(usize, usize)>,
    round: u32,
    steps: u64,
}

impl Search<'_> {
    /// Shortest cycle of a pattern, and true if all were looked for.
    fn shortest(&mut self, pattern: Pattern) -> (Option<Vec<(u32, Edge)>>, bool) {
        let components = self.graph.components(pattern.kinds());
        let mut best: Option<Vec<(u32, Edge)>> = None;
        for start in 0..components.len() {
            let Some(component) = components[start] else { continue };
            let longest = best.as_ref().map_or(usize::MAX, |best| best.len() - 1);
            if longest < 2 {
                break;
            }
            if let Some(cycle) = self.from(pattern, start, longest, &components, component) {
                best = Some(cycle);
            }
            if self.steps == 0 {
                return (best, false);
            }
        }
        (best, true)
    }

    /// Shortest cycle through a transaction, if it has at most `longest` edges.
    fn from(
        &mut self,
        pattern: Pattern,
        start: usize,
        longest: usize,
        components: &[Option<u32>],
        component: u32,
    ) -> Option<Vec<(u32, Edge)>> {
        self.round += 1;
        let mut level = vec![start * STATES];
        let mut length = 0;
        while !level.is_empty() && length < longest {
            length += 1;
            let mut next = Vec::new();
            for pair in level {
                let (node, state) = (pair / STATES, (pair % STATES) as u8);
                for (at, edge) in self.graph.edges[node].iter().enumerate() {
                    let to = edge.to as usize;
                    if components[to] != Some(component) {
                        continue;
                    }
                    let Some(after) = pattern.next(state, edge.kind) else { continue };
                    if to == start && pattern.accepts(after) {
                        return Some(self.path(start, pair, at));
                    }
                    let reached = to * STATES + after as usize;
                    if self.seen[reached] != self.round {
                        self.seen[reached] = self.round;
                        self.parents[reached] = (pair, at);
                        next.push(reached);
                        self.steps = self.steps.saturating_sub(1);
                    }
                }
            }
            if self.steps == 0 {
                return None;
            }
            level = next;
        }
        None
    }

    /// Edges from the start to a pair, and the one at `at` that closes the cycle.
    fn path(&self, start: usize, mut pair: usize, mut at: usize) -> Vec<(u32, Edge)> {
        let mut edges = Vec::new();
        loop {
            let node = pair / STATES;
            edges.push((node as u32, self.graph.edges[node][at]));
            if pair == start * STATES {
                edges.reverse();
                return edges;
            }
            (pair, at) = self.parents[pair];
        }
    }
}
