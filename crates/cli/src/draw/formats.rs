//! The network to be drawn, for Graphviz and as GraphML.

use belljar_base::Map;
use belljar_base::SimDuration;
use belljar_net::units::{format_bandwidth, format_duration};
use belljar_results::Topology;
use std::fmt::Write;

/// A node of the drawing.
pub(super) struct Node {
    pub(super) name: String,
    /// `host`, `graph` for a node of the graph, or the kind of a device.
    pub(super) kind: String,
    pub(super) addresses: Vec<String>,
}

/// A connection of two nodes, by their numbers.
pub(super) struct Edge {
    pub(super) ends: [usize; 2],
    pub(super) name: Option<String>,
    pub(super) latency_ns: u64,
    pub(super) jitter_ns: u64,
    pub(super) loss: f64,
    pub(super) rate: Option<u64>,
    /// True for the attachment of a host to its node of the graph.
    pub(super) is_attachment: bool,
}

impl Edge {
    /// Latency, rate and loss, as far as the edge has them.
    pub(super) fn label(&self) -> String {
        if self.is_attachment {
            return String::new();
        }
        let mut parts = Vec::new();
        if self.latency_ns > 1 {
            parts.push(format_duration(SimDuration::from_nanos(self.latency_ns)));
        }
        parts.extend(self.rate.map(format_bandwidth));
        if self.loss > 0.0 {
            parts.push(format!("{} % loss", (self.loss * 1e5).round() / 1e3));
        }
        parts.join(", ")
    }
}

/// A network to be drawn.
pub(super) struct Drawing {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

impl Drawing {
    pub(super) fn new(network: &Topology) -> Drawing {
        let mut drawing = Drawing { nodes: Vec::new(), edges: Vec::new() };
        // Numbers by the node's id.
        let mut numbers = Map::new();
        for node in &network.nodes {
            let host = network.hosts.iter().find(|host| host.node == node.id);
            let is_host = node.kind.as_deref() == Some("host");
            let name = match (host.filter(|_| is_host), &node.label) {
                (Some(host), _) => host.name.clone(),
                (None, Some(label)) => label.clone(),
                (None, None) => node.id.to_string(),
            };
            let addresses = host.filter(|_| is_host).map(|host| host.addresses.clone()).unwrap_or_default();
            let kind = node.kind.clone().unwrap_or_else(|| "graph".to_owned());
            numbers.insert(node.id, drawing.nodes.len());
            drawing.nodes.push(Node { name, kind, addresses });
        }
        for edge in &network.edges {
            let (Some(source), Some(target)) = (numbers.get(&edge.source), numbers.get(&edge.target)) else {
                continue;
            };
            drawing.edges.push(Edge {
                ends: [*source, *target],
                name: edge.link.clone(),
                latency_ns: edge.latency_ns,
                jitter_ns: edge.jitter_ns,
                loss: edge.loss,
                rate: edge.rate,
                is_attachment: false,
            });
        }
        let is_graph = |number: usize| drawing.nodes[number].kind == "graph";
        let on_graph = network.hosts.iter().filter_map(|host| Some((host, *numbers.get(&host.node)?)));
        let on_graph: Vec<_> = on_graph.filter(|(_, number)| is_graph(*number)).collect();
        for (host, number) in on_graph {
            let (name, addresses) = (host.name.clone(), vec![host.address.clone()]);
            let edge = Edge {
                ends: [drawing.nodes.len(), number],
                name: None,
                latency_ns: 0,
                jitter_ns: 0,
                loss: 0.0,
                rate: host.bandwidth_up,
                is_attachment: true,
            };
            drawing.nodes.push(Node { name, kind: "host".to_owned(), addresses });
            drawing.edges.push(edge);
        }
        drawing
    }

    /// The drawing in the language of Graphviz.
    pub(super) fn dot(&self, has_labels: bool) -> String {
        let mut out = String::from(
            "graph experiment {\n  node [fontname=\"sans-serif\", fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8];\n",
        );
        for (number, node) in self.nodes.iter().enumerate() {
            let shape = if node.kind == "host" { "ellipse" } else { "box" };
            let _ = writeln!(
                out,
                "  n{number} [label={}, shape={shape}, class={}];",
                quoted(&node.name),
                quoted(&node.kind)
            );
        }
        for edge in &self.edges {
            let label = if has_labels { edge.label() } else { String::new() };
            let label = if label.is_empty() { label } else { format!(" [label={}]", quoted(&label)) };
            let _ = writeln!(out, "  n{} -- n{}{label};", edge.ends[0], edge.ends[1]);
        }
        out.push_str("}\n");
        out
    }

    /// The drawing as GraphML, with the properties of links as attributes.
    pub(super) fn graphml(&self) -> String {
        let mut out = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
        );
        let keys = [
            ("node", "label", "string"),
            ("node", "kind", "string"),
            ("node", "addresses", "string"),
            ("edge", "link", "string"),
            ("edge", "latency", "string"),
            ("edge", "jitter", "string"),
            ("edge", "packet_loss", "double"),
            ("edge", "LinkSpeedRaw", "double"),
        ];
        for (of, name, kind) in keys {
            let _ = writeln!(
                out,
                "  <key id=\"{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>"
            );
        }
        out.push_str("  <graph edgedefault=\"undirected\">\n");
        let data = |key: &str, value: &str| format!("<data key=\"{key}\">{}</data>", escaped(value));
        for (number, node) in self.nodes.iter().enumerate() {
            let mut own = data("label", &node.name) + &data("kind", &node.kind);
            if !node.addresses.is_empty() {
                own += &data("addresses", &node.addresses.join(" "));
            }
            let _ = writeln!(out, "    <node id=\"n{number}\">{own}</node>");
        }
        for edge in &self.edges {
            let mut own = edge.name.as_ref().map(|name| data("link", name)).unwrap_or_default();
            if !edge.is_attachment {
                own += &data("latency", &format_duration(SimDuration::from_nanos(edge.latency_ns)));
            }
            if edge.jitter_ns > 0 {
                own += &data("jitter", &format_duration(SimDuration::from_nanos(edge.jitter_ns)));
            }
            if edge.loss > 0.0 {
                own += &data("packet_loss", &edge.loss.to_string());
            }
            own += &edge.rate.map(|rate| data("LinkSpeedRaw", &rate.to_string())).unwrap_or_default();
            let _ = writeln!(
                out,
                "    <edge source=\"n{}\" target=\"n{}\">{own}</edge>",
                edge.ends[0], edge.ends[1]
            );
        }
        out.push_str("  </graph>\n</graphml>\n");
        out
    }
}

/// A string of Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Text for XML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
