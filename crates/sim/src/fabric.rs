//! Network between hosts: owners of addresses, paths between hosts, and scheduled changes.

use crate::grouping;
use belljar_base::{HostId, Map, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_engine::{Group, Plan};
use belljar_net::addresses::{automatic6, of_automatic6};
use belljar_net::link::{PathState, least_delay};
use belljar_net::routes::Route;
use belljar_net::{Addresses, Graph, InterfaceAddress, NodeIndex, Path, RouteTable};
use belljar_plan::{NetChange, RoutingState, concerns_host, least_latency};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Network as shared by all hosts. It is immutable during a run, since all changes are scheduled.
pub struct Fabric {
    /// States of the graph, the initial one first.
    graphs: Vec<Arc<Graph>>,
    changes: Vec<(SimTime, NetChange)>,
    addresses: Addresses,
    /// Graph node of each host.
    nodes: Vec<Option<NodeIndex>>,
    /// Routes to addresses behind hosts that connect links to the graph; the next hops are hosts.
    behind: RouteTable,
    /// Routes to IPv6 addresses behind such hosts.
    behind6: RouteTable<Ipv6Addr>,
    /// Hosts by their configured IPv6 addresses, and the IPv6 address of each host; other addresses derive
    /// from IPv4 addresses.
    own6: Map<Ipv6Addr, HostId>,
    addresses6: Vec<Option<Ipv6Addr>>,
    /// Owners of addresses on links.
    owners: Map<IpAddr, HostId>,
    /// Directions of links: sender, receiver, and lower bound of the latency.
    lines: Vec<(HostId, HostId, SimDuration)>,
    /// Nodes that synchronise with clocks outside of the simulation.
    foreign: Vec<HostId>,
    first: RoutingState,
    splits: bool,
    node_count: usize,
    names: Vec<(String, Ipv4Addr)>,
}

impl Fabric {
    /// Creates the network of an experiment, with its changes and the later states of the graph.
    pub fn new(
        experiment: &Experiment,
        changes: Vec<(SimTime, NetChange)>,
        later: Vec<Arc<Graph>>,
        first: RoutingState,
    ) -> Fabric {
        let mut behind = RouteTable::default();
        let mut behind6 = RouteTable::default();
        let mut owners = Map::new();
        for (index, host) in experiment.hosts.iter().enumerate() {
            let own = host.interfaces.iter().flat_map(|interface| &interface.addresses);
            owners.extend(own.map(|own| (IpAddr::V4(own.ip), HostId(index as u32))));
            let own = host.interfaces.iter().flat_map(|interface| &interface.addresses6);
            owners.extend(own.map(|own| (IpAddr::V6(own.ip), HostId(index as u32))));
            if !host.forwarding || host.node.is_none() {
                continue;
            }
            let networks = host.interfaces.iter().flat_map(|i| &i.addresses).map(InterfaceAddress::network);
            let routes = first.routes[index].iter().map(|(prefix, ..)| *prefix);
            for prefix in networks.chain(routes).filter(|prefix| !prefix.is_all()) {
                if behind.get(prefix, 0).is_none() {
                    behind.insert(prefix, 0, Route::by(index, None, 0));
                }
            }
            let networks = host.interfaces.iter().flat_map(|i| &i.addresses6).map(InterfaceAddress::network);
            let routes = first.routes6[index].iter().map(|(prefix, ..)| *prefix);
            for prefix in networks.chain(routes).filter(|prefix| !prefix.is_all()) {
                if behind6.get(prefix, 0).is_none() {
                    behind6.insert(prefix, 0, Route::by(index, None, 0));
                }
            }
        }
        let lines = experiment.topology.links.iter().enumerate().flat_map(|(link, settings)| {
            [0, 1].map(|end| {
                let (near, far) = (settings.ends[end].node, settings.ends[1 - end].node);
                (near, far, least_latency(experiment, &changes, link, end))
            })
        });
        let addresses6: Vec<Option<Ipv6Addr>> = experiment.hosts.iter().map(|host| host.address6).collect();
        let on_graph = experiment.hosts.iter().enumerate().filter(|(_, host)| host.node.is_some());
        let own6 = on_graph.filter_map(|(index, host)| {
            let own = host.address6?;
            (automatic6(host.address) != own).then_some((own, HostId(index as u32)))
        });
        let own6 = own6.collect();
        let devices = (experiment.hosts.len() as u32..).map(HostId).zip(&experiment.topology.devices);
        let foreign = devices.filter(|(_, device)| device.kind.waits_outside()).map(|(id, _)| id);
        Fabric {
            lines: lines.collect(),
            foreign: foreign.collect(),
            first,
            behind,
            behind6,
            own6,
            addresses6,
            owners,
            splits: changes.iter().any(|(_, change)| matches!(change, NetChange::Split(..))),
            node_count: experiment.node_count(),
            names: experiment.names().map(|(name, address)| (name.to_owned(), address)).collect(),
            graphs: [experiment.network.graph.clone()].into_iter().chain(later).collect(),
            changes,
            addresses: experiment.addresses(),
            nodes: experiment.hosts.iter().map(|host| host.node).collect(),
        }
    }
    /// Host on the graph to which packets for this address are delivered.
    #[inline]
    pub fn host(&self, address: Ipv4Addr) -> Option<HostId> {
        let found = self.addresses.host_by_address(address);
        if self.owners.is_empty() { found } else { self.host_among_nodes(found, address) }
    }
    /// Host with an address, which may not be on the graph. `found` is the host with the address on the graph.
    fn host_among_nodes(&self, found: Option<HostId>, address: Ipv4Addr) -> Option<HostId> {
        found.filter(|host| self.nodes[host.index()].is_some()).or_else(|| {
            let (_, hop) = self.behind.lookup(address, || 0, |_| true)?;
            hop.map(|hop| HostId(hop.interface as u32))
        })
    }
    /// Host on the graph to which packets for this IPv6 address are delivered.
    pub fn host6(&self, address: Ipv6Addr) -> Option<HostId> {
        self.on_graph6(address).or_else(|| {
            let (_, hop) = self.behind6.lookup(address, || 0, |_| true)?;
            hop.map(|hop| HostId(hop.interface as u32))
        })
    }
    /// Host with this IPv6 address on the graph.
    fn on_graph6(&self, address: Ipv6Addr) -> Option<HostId> {
        let follows = of_automatic6(address).and_then(|v4| self.addresses.host_by_address(v4));
        let found = follows.filter(|host| self.addresses6[host.index()] == Some(address));
        found.filter(|host| self.nodes[host.index()].is_some()).or_else(|| self.own6.get(&address).copied())
    }
    /// Owner of an address on the graph or on a link.
    pub fn owner(&self, address: IpAddr) -> Option<HostId> {
        self.owners.get(&address).copied().or_else(|| match address {
            IpAddr::V4(v4) => self.addresses.host_by_address(v4),
            IpAddr::V6(v6) => self.on_graph6(v6),
        })
    }
    /// Initial routes and blocked ports.
    pub fn first(&self) -> &RoutingState {
        &self.first
    }
    /// True if partitions are scheduled.
    pub fn splits(&self) -> bool {
        self.splits
    }
    /// True if a partition separates two hosts at a time.
    pub fn apart(&self, from: HostId, to: HostId, at: SimTime) -> bool {
        let mut state = PathState::default();
        let past = self.changes.iter().take_while(|(when, _)| *when <= at);
        for (_, change) in past.filter(|(_, c)| matches!(c, NetChange::Split(..) | NetChange::Heal(_))) {
            change.of_path(from, to).iter().for_each(|change| state.apply(change));
        }
        state.is_split()
    }
    /// Name of a host.
    pub fn name(&self, host: HostId) -> &str {
        self.addresses.name(host)
    }
    /// Path between two hosts in a state of the graph, if there is one.
    pub fn path(&self, from: HostId, to: HostId, graph: usize) -> Option<Path> {
        self.graphs[graph].path(self.nodes[from.index()]?, self.nodes[to.index()]?)
    }
    /// Latency between a host and a service that is not on a host: that to another host at the same graph
    /// node, or if the node has no edge to itself, that to the nearest node.
    pub fn latency_to_services(&self, host: HostId) -> SimDuration {
        let near = SimDuration::from_millis(1);
        let (graph, Some(node)) = (&self.graphs[0], self.nodes[host.index()]) else { return near };
        let own = graph.path(node, node).map(|path| path.latency);
        own.or_else(|| graph.least_latency_from(node)).unwrap_or(near)
    }
    /// Scheduled changes of the network with their times, in order.
    pub fn changes(&self) -> &[(SimTime, NetChange)] {
        &self.changes
    }
    /// Names and addresses, ordered by name.
    pub fn names(&self) -> Vec<(String, Ipv4Addr)> {
        self.names.clone()
    }

    /// Plan of the nodes for the engine, based on the minimum latency of packets over the whole run.
    pub fn plan(&self, workers: usize) -> Plan {
        let on_graph = self.graph_plan(workers);
        if self.lines.is_empty() {
            return on_graph;
        }
        grouping::with_links(&on_graph, self.node_count, &self.lines, &self.foreign, workers)
    }

    fn graph_plan(&self, workers: usize) -> Plan {
        // With links, groups are formed once, from all nodes.
        let workers = if self.lines.is_empty() { workers } else { 1 };
        let first = &self.graphs[0];
        let plan = match &self.graphs[1..] {
            [] => grouping::plan(first, &self.nodes, workers),
            later => grouping::plan(&first.fastest(later.iter().map(|graph| &**graph)), &self.nodes, workers),
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
