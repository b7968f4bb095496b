//! Graph of an internet-scale network: nodes to which hosts are attached, edges with latency, jitter and
//! loss, and the paths between nodes.
//!
//! Paths are computed on first use, by one run of Dijkstra's algorithm per source, and cached; all hosts
//! share one [`Graph`] through an `Arc`. The choice of paths depends only on the graph: the least latency,
//! then the least loss, then the least jitter; remaining ties are broken by the indices of the nodes.

mod build;
mod change;
mod gml;
mod reach;
mod routes;
#[cfg(test)]
mod tests;

use belljar_base::{Map, SimDuration};
pub use change::EdgeState;
pub use gml::GraphError;
use routes::Row;
use std::sync::OnceLock;

/// Graph with one node at 1 Gbit/s and a latency of 1 ms: Shadow's built-in graph `1_gbit_switch`.
const ONE_GBIT_SWITCH: &str = r#"graph [
  directed 0
  node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
  edge [ source 0 target 0 latency "1 ms" packet_loss 0.0 ]
]"#;

/// Index of a node in the order of the GML text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// Returns the index into a vector with one entry per node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Node of a graph, to which hosts are attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Id by which experiments refer to the node (`network_node_id`).
    pub id: u32,
    /// Label, if there is one.
    pub label: Option<Box<str>>,
    /// Default sending bandwidth of its hosts in bit/s.
    pub bandwidth_up: Option<u64>,
    /// Default receiving bandwidth of its hosts in bit/s.
    pub bandwidth_down: Option<u64>,
}

/// Path from one node to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Sum of the edges' latencies.
    pub latency: SimDuration,
    /// Sum of the edges' jitters: the delay is uniform in `latency ± jitter`. See [`Flow`](crate::Flow).
    pub jitter: SimDuration,
    /// Probability that at least one of the edges loses a packet.
    pub loss: f64,
    /// Lower bound of the delay: `latency - jitter`, at least 1 ns.
    pub least_latency: SimDuration,
}

impl Path {
    /// Creates a path. `jitter` must be less than `latency`.
    pub fn new(latency: SimDuration, jitter: SimDuration, loss: f64) -> Path {
        Path { latency, jitter, loss, least_latency: latency.saturating_sub(jitter) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    latency: u64,
    jitter: u64,
    loss: f64,
}

impl Edge {
    /// Minimum delay in picoseconds. Loading bounds jitter so that this is at least 1 ns.
    fn floor(&self) -> u64 {
        self.latency - self.jitter
    }
}

/// Direction of an edge, stored with its source.
#[derive(Clone, Copy, Debug)]
struct Arc {
    target: u32,
    edge: u32,
    /// Latency of the edge in picoseconds, repeated: it rules out most arcs without an access to the edge.
    latency: u64,
}

/// Network graph, immutable except for its cache of paths; shared through an `Arc`.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<GraphNode>,
    by_id: Map<u32, NodeIndex>,
    edges: Vec<Edge>,
    /// All arcs, sorted by (source, target); of parallel ones only the best.
    arcs: Vec<Arc>,
    /// Index of each source's first arc in `arcs`, and a final entry.
    first_arc: Vec<u32>,
    directed: bool,
    shortest_paths: bool,
    rows: Box<[OnceLock<Row>]>,
    notes: Vec<String>,
}

impl Graph {
    /// Parses a graph from GML in Shadow's dialect. Without `use_shortest_path`, hosts reach only nodes
    /// that are adjacent to their own.
    pub fn from_gml(text: &str, use_shortest_path: bool) -> Result<Graph, GraphError> {
        build::graph_from_gml(text, use_shortest_path)
    }

    /// Shadow's built-in graph: one node with 1 Gbit/s up and down, and 1 ms between any two hosts.
    pub fn one_gbit_switch() -> Graph {
        Graph::from_gml(ONE_GBIT_SWITCH, true).expect("the built-in graph is valid")
    }

    /// Nodes in the order of the GML text.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }
    /// True if the edges are directed.
    pub fn is_directed(&self) -> bool {
        self.directed
    }
    /// Number of edges in the text.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }
    /// Node with this GML id.
    pub fn node_by_id(&self, id: u32) -> Option<NodeIndex> {
        self.by_id.get(&id).copied()
    }
    /// Properties of a node.
    pub fn node(&self, index: NodeIndex) -> &GraphNode {
        &self.nodes[index.index()]
    }
    /// Notes on values that were changed or ignored on loading.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Path from one node to another; `None` if there is none. The path from a node to itself is its
    /// self-loop, if it has one.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Option<Path> {
        if from == to || !self.shortest_paths {
            return self.direct(from, to).map(|e| path_of(e.latency, e.jitter, e.loss));
        }
        self.rows[from.index()].get_or_init(|| self.row(from)).path(to)
    }

    /// Minimum delay of a packet over any edge.
    pub fn least_latency(&self) -> Option<SimDuration> {
        self.edges.iter().map(Edge::floor).min().map(SimDuration::from_picos)
    }

    /// Minimum delay of packets from hosts at `from` to any node, from the adjacent edges only,
    /// without a search for paths.
    pub fn least_latency_from(&self, from: NodeIndex) -> Option<SimDuration> {
        self.arcs_of(from.0).iter().map(|a| self.edge(a).floor()).min().map(SimDuration::from_picos)
    }

    /// Path over the edge from one node to another, whether or not it is the shortest.
    pub fn edge_path(&self, from: NodeIndex, to: NodeIndex) -> Option<Path> {
        self.direct(from, to).map(|e| path_of(e.latency, e.jitter, e.loss))
    }

    /// True if there is an edge from one node to another.
    pub fn has_edge(&self, from: NodeIndex, to: NodeIndex) -> bool {
        self.direct(from, to).is_some()
    }

    fn arcs_of(&self, source: u32) -> &[Arc] {
        let first = |node: usize| self.first_arc[node] as usize;
        &self.arcs[first(source as usize)..first(source as usize + 1)]
    }

    fn edge(&self, arc: &Arc) -> &Edge {
        &self.edges[arc.edge as usize]
    }

    fn direct(&self, from: NodeIndex, to: NodeIndex) -> Option<&Edge> {
        let arcs = self.arcs_of(from.0);
        let found = arcs.binary_search_by_key(&to.0, |a| a.target).ok()?;
        Some(self.edge(&arcs[found]))
    }
}

fn path_of(latency: u64, jitter: u64, loss: f64) -> Path {
    Path::new(SimDuration::from_picos(latency), SimDuration::from_picos(jitter), loss)
}
