use serde::{Deserialize, Serialize};

/// The network as it is drawn, and when its clocks start: `topology.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The hosts' clock at the start, in seconds since 1970.
    pub epoch_secs: u64,
    /// The seed of the run.
    pub seed: u64,
    /// The places of the graph that have hosts, and those on the way between them if they are few.
    pub nodes: Vec<TopologyNode>,
    /// The edges between the nodes.
    pub edges: Vec<TopologyEdge>,
    /// The hosts in the order of their names.
    pub hosts: Vec<TopologyHost>,
    /// Radio channels and the ways of their stations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<TopologyRadio>,
    /// Nodes of the graph that were left out because there are too many to be drawn.
    pub omitted_nodes: usize,
}

/// A place of the graph, or what stands at the end of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// Its `network_node_id`.
    pub id: u32,
    /// Its label, if it has one.
    pub label: Option<String>,
    /// The kind of node at the end of a link: `host`, or that of a device such as `switch` or `router`. `None` for a
    /// place of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A connection of two places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyEdge {
    /// Its start: the id of a node.
    pub source: u32,
    /// Its end: the id of a node.
    pub target: u32,
    /// Latency in nanoseconds.
    pub latency_ns: u64,
    /// Jitter in nanoseconds.
    pub jitter_ns: u64,
    /// The probability that a packet is lost.
    pub loss: f64,
    /// The name of the link, if it is one: properties are those from `source` to `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Bits per second of a link; `None` is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// The interfaces of a link, at `source` and at `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<[String; 2]>,
}

/// A host and where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyHost {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// All its addresses but loopback's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The `network_node_id` of its place.
    pub node: u32,
    /// Bits per second that it can send; `None` is unlimited.
    pub bandwidth_up: Option<u64>,
    /// Bits per second that it can receive; `None` is unlimited.
    pub bandwidth_down: Option<u64>,
}

/// A radio channel and where its stations are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyRadio {
    /// Its name.
    pub name: String,
    /// The distance in metres up to which frames are received.
    pub range: f64,
    /// The distance up to which they are heard.
    pub carrier_sense_range: f64,
    /// Its stations.
    pub stations: Vec<TopologyStation>,
}

/// The way of a station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyStation {
    /// The host or router.
    pub node: String,
    /// Its interface.
    pub interface: String,
    /// Waypoints: seconds, and x, y, z in metres. It goes straight from one to the next.
    pub path: Vec<[f64; 4]>,
}

impl Topology {
    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be serialised");
        text.push('\n');
        text
    }
    /// Reads the file's text; `None` if it is not one.
    pub fn from_json(text: &str) -> Option<Topology> {
        serde_json::from_str(text).ok()
    }
}
