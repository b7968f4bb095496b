use crate::topology::TopologyRadio;
use serde::{Deserialize, Serialize};

/// Nodes, links, radio channels and partitions of a run with all their scheduled changes, for the analysis of
/// routing: `routes/network.json`, beside the route logs.
///
/// It is complete, unlike [`Topology`](crate::Topology), which is a drawing. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connectivity {
    /// Hosts and devices.
    pub nodes: Vec<ConnectivityNode>,
    /// Links.
    pub links: Vec<ConnectivityLink>,
    /// Radio channels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub radios: Vec<ConnectivityRadio>,
    /// Partitions of hosts, in order of their starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<ConnectivityPartition>,
}

/// A host or device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectivityNode {
    /// Name of the node.
    pub name: String,
    /// `host`, or the kind of the device, such as `switch` or `router`.
    pub kind: String,
    /// IP addresses of the node except loopback's; a host's main address is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Hardware addresses of the node's interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware_addresses: Vec<String>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectivityLink {
    /// Node and interface at either end.
    pub ends: [(String, String); 2],
    /// Expected loss over time of the direction that begins at either end: times, with the share of frames
    /// lost from then on. It includes corrupted frames, and is 1 while the direction is down or a partition
    /// separates its ends.
    pub loss: [Vec<(f64, f64)>; 2],
    /// Intervals in which the link carries nothing: it is down, or a switch's spanning tree excludes it. The
    /// last one may have no end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<(f64, Option<f64>)>,
}

/// A radio channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectivityRadio {
    /// Stations and their paths.
    #[serde(flatten)]
    pub channel: TopologyRadio,
    /// Expected share of unicast frames that random loss takes, after all retransmissions.
    pub loss: f64,
}

/// A partition of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectivityPartition {
    /// Start of the partition.
    pub from: f64,
    /// End of the partition; `None` if it lasts until the end of the run.
    pub until: Option<f64>,
    /// Names of the hosts of each group.
    pub groups: Vec<Vec<String>>,
}

impl Connectivity {
    /// The content of the file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("plain data can be serialised");
        text.push('\n');
        text
    }
}
