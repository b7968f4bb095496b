use serde::{Deserialize, Serialize};

/// The network as drawn by the report, and the start of its clocks: `topology.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The hosts' clock at simulated time 0, in seconds since 1970.
    pub epoch_secs: u64,
    /// Random seed of the run.
    pub seed: u64,
    /// Nodes of the graph that have hosts, and those on paths between them if they are few.
    pub nodes: Vec<TopologyNode>,
    /// Edges between the nodes.
    pub edges: Vec<TopologyEdge>,
    /// Hosts, sorted by name.
    pub hosts: Vec<TopologyHost>,
    /// Radio channels and the paths of their stations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<TopologyRadio>,
    /// Number of nodes omitted because there are too many to be drawn.
    pub omitted_nodes: usize,
}

/// A node of the graph, or the node at the end of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// The `network_node_id` of the node.
    pub id: u32,
    /// Label of the node, if it has one.
    pub label: Option<String>,
    /// Kind of the node at the end of a link: `host`, or that of a device such as `switch` or `router`.
    /// `None` for a node of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// An edge between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyEdge {
    /// Id of the first node.
    pub source: u32,
    /// Id of the second node.
    pub target: u32,
    /// Latency in nanoseconds.
    pub latency_ns: u64,
    /// Jitter in nanoseconds.
    pub jitter_ns: u64,
    /// Probability of packet loss.
    pub loss: f64,
    /// Name of the link, if the edge is one: its properties are those from `source` to `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Rate of a link in bits per second; `None` for unlimited. Between a station and its radio channel, the
    /// channel's rate for unicast frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Interfaces of a link, at `source` and at `target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<[String; 2]>,
}

/// A host and its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyHost {
    /// Name of the host.
    pub name: String,
    /// Main address of the host.
    pub address: String,
    /// All addresses of the host except loopback's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The `network_node_id` of its node.
    pub node: u32,
    /// Upstream bandwidth in bits per second; `None` for unlimited.
    pub bandwidth_up: Option<u64>,
    /// Downstream bandwidth in bits per second; `None` for unlimited.
    pub bandwidth_down: Option<u64>,
}

/// A radio channel and the positions of its stations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyRadio {
    /// Name of the channel.
    pub name: String,
    /// Distance in metres up to which frames are received.
    pub range: f64,
    /// Distance in metres up to which transmissions are sensed.
    pub carrier_sense_range: f64,
    /// Stations of the channel.
    pub stations: Vec<TopologyStation>,
}

/// A station and its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyStation {
    /// Name of the host or router.
    pub node: String,
    /// Name of the interface.
    pub interface: String,
    /// Waypoints: seconds, and x, y, z in metres, connected by straight lines.
    pub path: Vec<[f64; 4]>,
}

impl Topology {
    /// The content of the file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be serialised");
        text.push('\n');
        text
    }
    /// Parses the content of the file; `None` if it is malformed.
    pub fn from_json(text: &str) -> Option<Topology> {
        serde_json::from_str(text).ok()
    }
}
