//! The graph of a GraphML or GML file.

use belljar_base::Map;

/// Attributes by their names in lower case.
pub(super) type Attributes = Map<String, String>;

/// A graph as its file has it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) name: Option<String>,
    pub(super) directed: bool,
    pub(super) vertices: Vec<Vertex>,
    pub(super) edges: Vec<Edge>,
}

/// A node with the line on which it begins.
#[derive(Debug)]
pub(super) struct Vertex {
    pub(super) id: String,
    pub(super) line: usize,
    pub(super) attributes: Attributes,
}

/// An edge with the line on which it begins.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) line: usize,
    pub(super) attributes: Attributes,
}
