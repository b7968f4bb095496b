//! The graph of an internet-scale network: nodes that hosts are attached to, edges with latency,
//! jitter and loss, and the paths between nodes.
//!
//! A path is found on first use, by one run of Dijkstra's algorithm per source, and kept: all hosts
//! share one [`Graph`] through an `Arc`. Which path is best follows from the graph alone: the least
//! latency, then the least loss, then the least jitter; then the one that reaches nodes of lower index
//! first.

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

/// One millisecond over a 1 Gbit/s node: Shadow's built-in graph `1_gbit_switch`.
const ONE_GBIT_SWITCH: &str = r#"graph [
  directed 0
  node [ id 0 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
  edge [ source 0 target 0 latency "1 ms" packet_loss 0.0 ]
]"#;

/// A node's place in the order of the GML text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// As an index into a vector that has one entry per node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node: a place in the network where hosts are attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// The number by which experiments name it (`network_node_id`).
    pub id: u32,
    /// Its label, if it has one.
    pub label: Option<Box<str>>,
    /// Bits per second that a host here can send unless the host says otherwise.
    pub bandwidth_up: Option<u64>,
    /// Bits per second that a host here can receive unless the host says otherwise.
    pub bandwidth_down: Option<u64>,
}

/// Path of a packet from one node to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// The sum of the edges' latencies.
    pub latency: SimDuration,
    /// The sum of the edges' jitters: the delay is uniform in `latency ± jitter`. See
    /// [`Flow`](crate::Flow).
    pub jitter: SimDuration,
    /// The probability that at least one of the edges loses the packet.
    pub loss: f64,
    /// `latency - jitter`, at least 1 ns: no packet is faster.
    pub least_latency: SimDuration,
}

impl Path {
    /// A path of this latency and jitter, which is less than the latency.
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
    /// The least delay in picoseconds. Loading bounds jitter so that this is at least 1 ns.
    fn floor(&self) -> u64 {
        self.latency - self.jitter
    }
}

/// One direction of an edge, stored with its source.
#[derive(Clone, Copy, Debug)]
struct Arc {
    target: u32,
    edge: u32,
    /// The edge's latency again: most arcs are dismissed by it, without a look at the edge.
    latency: u64,
}

/// A network graph. Immutable but for the paths that it has found; share it through an `Arc`.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<GraphNode>,
    by_id: Map<u32, NodeIndex>,
    edges: Vec<Edge>,
    /// All arcs sorted by (source, target), the best of parallel ones only.
    arcs: Vec<Arc>,
    /// Where each source's arcs begin in `arcs`; one entry more than nodes.
    first_arc: Vec<u32>,
    directed: bool,
    shortest_paths: bool,
    rows: Box<[OnceLock<Row>]>,
    notes: Vec<String>,
}

impl Graph {
    /// Reads a graph from GML in Shadow's dialect. With `use_shortest_path` unset, hosts reach only
    /// nodes that their node has an edge to.
    pub fn from_gml(text: &str, use_shortest_path: bool) -> Result<Graph, GraphError> {
        build::graph_from_gml(text, use_shortest_path)
    }

    /// Shadow's built-in graph: one node with 1 Gbit/s up and down, 1 ms from every host to every
    /// other.
    pub fn one_gbit_switch() -> Graph {
        Graph::from_gml(ONE_GBIT_SWITCH, true).expect("the built-in graph is valid")
    }

    /// The nodes in the order of the GML text.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }
    /// True if its edges lead one way only.
    pub fn is_directed(&self) -> bool {
        self.directed
    }
    /// The number of edges, as the text has them.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }
    /// The node with this GML id.
    pub fn node_by_id(&self, id: u32) -> Option<NodeIndex> {
        self.by_id.get(&id).copied()
    }
    /// A node's properties.
    pub fn node(&self, index: NodeIndex) -> &GraphNode {
        &self.nodes[index.index()]
    }
    /// Notes on what was changed or ignored while reading.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The path from one node to another; `None` if none leads there. From a node to itself only an
    /// edge of its own (a self-loop) leads.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Option<Path> {
        if from == to || !self.shortest_paths {
            return self.direct(from, to).map(|e| path_of(e.latency, e.jitter, e.loss));
        }
        self.rows[from.index()].get_or_init(|| self.row(from)).path(to)
    }

    /// The least time that any packet over any path takes.
    pub fn least_latency(&self) -> Option<SimDuration> {
        self.edges.iter().map(Edge::floor).min().map(SimDuration::from_picos)
    }

    /// The least time that any packet from hosts at `from` takes to get to any node. Cheap: no path
    /// is searched for.
    pub fn least_latency_from(&self, from: NodeIndex) -> Option<SimDuration> {
        self.arcs_of(from.0).iter().map(|a| self.edge(a).floor()).min().map(SimDuration::from_picos)
    }

    /// Path of a packet on the edge from one node to another, shortest path or not.
    pub fn edge_path(&self, from: NodeIndex, to: NodeIndex) -> Option<Path> {
        self.direct(from, to).map(|e| path_of(e.latency, e.jitter, e.loss))
    }

    /// True if an edge leads from one node to another.
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
