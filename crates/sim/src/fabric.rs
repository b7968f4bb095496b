//! The network between hosts: who has which address, the paths between them, and how they change.

use crate::faults::{NetChange, concerns_host, least_delay};
use crate::plan;
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_engine::{Group, Plan};
use belljar_net::{Addresses, Graph, NodeIndex, Path};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// What all hosts share of the network; never changes during a run, since what will change is
/// known before.
pub struct Fabric {
    /// The states of the graph, the first one first.
    graphs: Vec<Arc<Graph>>,
    changes: Vec<(SimTime, NetChange)>,
    addresses: Addresses,
    nodes: Vec<NodeIndex>,
}

impl Fabric {
    /// The network of an experiment, with its changes and the later states of the graph.
    pub fn new(
        experiment: &Experiment,
        changes: Vec<(SimTime, NetChange)>,
        later: Vec<Arc<Graph>>,
    ) -> Fabric {
        Fabric {
            graphs: [experiment.network.graph.clone()].into_iter().chain(later).collect(),
            changes,
            addresses: experiment.addresses(),
            nodes: experiment.hosts.iter().map(|host| host.node).collect(),
        }
    }
    /// The host with this address.
    pub fn host(&self, address: Ipv4Addr) -> Option<HostId> {
        self.addresses.host_by_address(address)
    }
    /// A host's name.
    pub fn name(&self, host: HostId) -> &str {
        self.addresses.name(host)
    }
    /// The path from one host to another in a state of the graph, if there is one.
    pub fn path(&self, from: HostId, to: HostId, graph: usize) -> Option<Path> {
        self.graphs[graph].path(self.nodes[from.index()], self.nodes[to.index()])
    }
    /// How far a host is from what answers without being a host: as far as from another host at its
    /// node, or where the node has no edge to itself, as far as from the nearest node.
    pub fn latency_to_services(&self, host: HostId) -> SimDuration {
        let (graph, node) = (&self.graphs[0], self.nodes[host.index()]);
        let own = graph.path(node, node).map(|path| path.latency);
        own.or_else(|| graph.least_latency_from(node)).unwrap_or(SimDuration::from_millis(1))
    }
    /// Changes of the network and when they happen, in order.
    pub fn changes(&self) -> &[(SimTime, NetChange)] {
        &self.changes
    }
    /// Names and addresses in name order.
    pub fn names(&self) -> Vec<(String, Ipv4Addr)> {
        self.addresses.iter().map(|(_, name, address)| (name.to_owned(), address)).collect()
    }

    /// How the engine runs the hosts: by the least latency that any packet can have at any time.
    pub fn plan(&self, workers: usize) -> Plan {
        let first = &self.graphs[0];
        let plan = match &self.graphs[1..] {
            [] => plan::plan(first, &self.nodes, workers),
            later => plan::plan(&first.fastest(later.iter().map(|graph| &**graph)), &self.nodes, workers),
        };
        let changes = || self.changes.iter().filter(|(_, change)| matches!(change, NetChange::Set(..)));
        if changes().next().is_none() {
            return plan;
        }
        let limited = |group: &Group| {
            let usual = group.lookahead.min(group.inner);
            let least = changes().filter_map(|(_, change)| match change {
                NetChange::Set(target, change) => {
                    let concerned = group.members.iter().any(|host| concerns_host(target, *host));
                    concerned.then(|| least_delay(change, usual))
                }
                _ => None,
            });
            let least = least.min().unwrap_or(SimDuration::MAX);
            Group {
                members: group.members.clone(),
                inner: group.inner.min(least),
                lookahead: group.lookahead.min(least),
            }
        };
        Plan::new(plan.groups().iter().map(limited).collect())
    }
}
