//! The network between hosts: who has which address, and the paths between them.

use crate::plan;
use belljar_base::HostId;
use belljar_config::Experiment;
use belljar_engine::Plan;
use belljar_net::{Addresses, Graph, NodeIndex, Path};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// What all hosts share of the network; never changes during a run.
pub struct Fabric {
    graph: Arc<Graph>,
    addresses: Addresses,
    nodes: Vec<NodeIndex>,
}

impl Fabric {
    /// The network of an experiment.
    pub fn new(experiment: &Experiment) -> Fabric {
        Fabric {
            graph: experiment.network.graph.clone(),
            addresses: experiment.addresses(),
            nodes: experiment.hosts.iter().map(|host| host.node).collect(),
        }
    }
    /// The host with this address.
    pub fn host(&self, address: Ipv4Addr) -> Option<HostId> {
        self.addresses.host_by_address(address)
    }
    /// The path from one host to another, if there is one.
    pub fn path(&self, from: HostId, to: HostId) -> Option<Path> {
        self.graph.path(self.nodes[from.index()], self.nodes[to.index()])
    }
    /// Names and addresses in name order.
    pub fn names(&self) -> Vec<(String, Ipv4Addr)> {
        self.addresses.iter().map(|(_, name, address)| (name.to_owned(), address)).collect()
    }
    /// How the engine runs the hosts.
    pub fn plan(&self, workers: usize) -> Plan {
        plan::plan(&self.graph, &self.nodes, workers)
    }
}
