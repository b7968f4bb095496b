//! States of a graph whose edges change during a run; each state is a graph of its own.

use super::{Arc, Edge, Graph, NodeIndex};
use belljar_base::{Map, SimDuration};
use std::sync::OnceLock;

/// Changes of an edge's properties; `None` keeps a property.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EdgeState {
    /// True if no packet passes the edge.
    pub down: bool,
    /// Latency, raised to at least 1 ns.
    pub latency: Option<SimDuration>,
    /// Jitter, limited to 1 ns less than the latency.
    pub jitter: Option<SimDuration>,
    /// Probability of loss.
    pub loss: Option<f64>,
}

/// Minimum latency of an edge in picoseconds.
const LEAST_PS: u64 = 1_000;

impl EdgeState {
    fn apply(&self, edge: &Edge) -> Edge {
        let latency = self.latency.map_or(edge.latency, SimDuration::as_picos).max(LEAST_PS);
        let jitter = self.jitter.map_or(edge.jitter, SimDuration::as_picos).min(latency - LEAST_PS);
        Edge { latency, jitter, loss: self.loss.unwrap_or(edge.loss) }
    }
}

impl Graph {
    /// Returns this graph with some edges changed, identified by their ends; in an undirected graph either
    /// order of the ends changes both directions. Paths are computed anew.
    pub fn with_edges(&self, states: &Map<(NodeIndex, NodeIndex), EdgeState>) -> Graph {
        let state = |from: u32, to: u32| {
            let (from, to) = (NodeIndex(from), NodeIndex(to));
            let back = || if self.is_directed() { None } else { states.get(&(to, from)) };
            states.get(&(from, to)).or_else(back)
        };
        self.rebuilt(|from, to, edge| match state(from, to) {
            None => Some(*edge),
            Some(state) if state.down => None,
            Some(state) => Some(state.apply(edge)),
        })
    }

    /// Returns a graph whose edges are as fast as the fastest in any of `states`, which were made from this
    /// graph by [`with_edges`](Self::with_edges). Its latencies are lower bounds of all packets' latencies
    /// over the whole run.
    pub fn fastest<'a>(&self, states: impl Iterator<Item = &'a Graph>) -> Graph {
        let states: Vec<&Graph> = states.collect();
        self.rebuilt(|from, to, edge| {
            let in_states = states.iter().filter_map(|s| s.direct(NodeIndex(from), NodeIndex(to)));
            let floor = in_states.map(Edge::floor).chain([edge.floor()]).min();
            floor.map(|latency| Edge { latency, jitter: 0, loss: 0.0 })
        })
    }

    /// Returns a graph of the same nodes, with each direction of an edge replaced by the result of
    /// `change`.
    fn rebuilt(&self, change: impl Fn(u32, u32, &Edge) -> Option<Edge>) -> Graph {
        let (mut edges, mut arcs) = (Vec::new(), Vec::new());
        let mut first_arc = vec![0];
        for source in 0..self.nodes.len() as u32 {
            for arc in self.arcs_of(source) {
                let Some(edge) = change(source, arc.target, self.edge(arc)) else { continue };
                arcs.push(Arc { target: arc.target, edge: edges.len() as u32, latency: edge.latency });
                edges.push(edge);
            }
            first_arc.push(arcs.len() as u32);
        }
        Graph {
            nodes: self.nodes.clone(),
            by_id: self.by_id.clone(),
            edges,
            arcs,
            first_arc,
            rows: (0..self.nodes.len()).map(|_| OnceLock::new()).collect(),
            notes: Vec::new(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> SimDuration {
        SimDuration::from_millis(n)
    }
    fn triangle(directed: u8) -> Graph {
        let text = format!(
            "graph [ directed {directed} node [ id 0 ] node [ id 1 ] node [ id 2 ]
            edge [ source 0 target 1 latency \"10 ms\" jitter \"2 ms\" ]
            edge [ source 1 target 2 latency \"10 ms\" ]
            edge [ source 0 target 2 latency \"50 ms\" ]
            edge [ source 1 target 0 latency \"10 ms\" ] ]"
        );
        Graph::from_gml(&text, true).unwrap()
    }
    fn latency(graph: &Graph, from: u32, to: u32) -> Option<SimDuration> {
        graph.path(NodeIndex(from), NodeIndex(to)).map(|path| path.latency)
    }

    #[test]
    fn paths_lead_round_an_edge_that_is_down() {
        let graph = triangle(0);
        assert_eq!(latency(&graph, 0, 2), Some(ms(20)));
        let down = EdgeState { down: true, ..EdgeState::default() };
        // The ends are in reverse order.
        let changed = graph.with_edges(&[((NodeIndex(2), NodeIndex(1)), down)].into());
        assert_eq!((latency(&changed, 0, 2), latency(&changed, 1, 2)), (Some(ms(50)), Some(ms(60))));
        assert_eq!(latency(&graph, 0, 2), Some(ms(20)), "the graph itself is as it was");
        let both = [((NodeIndex(2), NodeIndex(1)), down), ((NodeIndex(0), NodeIndex(2)), down)].into();
        assert_eq!(latency(&graph.with_edges(&both), 0, 2), None);
    }

    #[test]
    fn one_direction_of_a_directed_graph() {
        let state = EdgeState { latency: Some(ms(1)), ..EdgeState::default() };
        let changed = triangle(1).with_edges(&[((NodeIndex(0), NodeIndex(1)), state)].into());
        assert_eq!((latency(&changed, 0, 1), latency(&changed, 1, 0)), (Some(ms(1)), Some(ms(10))));
        // The edge's own jitter would exceed the new latency.
        let path = changed.path(NodeIndex(0), NodeIndex(1)).unwrap();
        assert_eq!(path.least_latency, SimDuration::from_nanos(1));
    }

    #[test]
    fn the_fastest_graph_is_a_bound_for_all_states() {
        let graph = triangle(0);
        let slow = EdgeState { latency: Some(ms(90)), ..EdgeState::default() };
        let fast = EdgeState { latency: Some(ms(3)), jitter: Some(ms(1)), ..EdgeState::default() };
        let down = EdgeState { down: true, ..EdgeState::default() };
        let states =
            [slow, fast, down].map(|s| graph.with_edges(&[((NodeIndex(0), NodeIndex(2)), s)].into()));
        let bound = graph.fastest(states.iter());
        assert_eq!((latency(&bound, 0, 2), latency(&bound, 0, 1)), (Some(ms(2)), Some(ms(10))));
    }
}
