//! Routing in an explicit topology: shortest-path routes, and the switch ports that the spanning tree blocks.
//! They are computed in advance for each state of the links during a run.

use belljar_base::{DisjointSets, HostId, Map, Set};
use belljar_config::Experiment;
use belljar_config::topology::{Bridging, Interface, LinkEnd, Routing, StaticRoute};
use belljar_net::routes::{Ip, NextHop, Route, RouteKind, protocol};
use belljar_net::{InterfaceAddress, Prefix};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A route of a node: destination, metric and next hops. Next hops refer to interfaces by their indices among
/// the node's interfaces on links.
pub type PlannedRoute<A = Ipv4Addr> = (Prefix<A>, u32, Route<A>);

/// Routes and blocked ports of all nodes in one state of the links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoutingState {
    /// Computed and static IPv4 routes of each node.
    pub routes: Vec<Vec<PlannedRoute>>,
    /// Computed and static IPv6 routes of each node.
    pub routes6: Vec<Vec<PlannedRoute<Ipv6Addr>>>,
    /// Blocked ports of each node; only switches have any.
    pub blocked: Vec<Vec<usize>>,
}

/// Computes the state in which these links are down in both directions.
pub fn state(experiment: &Experiment, down: &Set<usize>) -> RoutingState {
    let count = experiment.node_count();
    let mut state = RoutingState {
        routes: vec![Vec::new(); count],
        routes6: vec![Vec::new(); count],
        blocked: blocked(experiment, down),
    };
    if experiment.topology.links.is_empty() {
        return state;
    }
    family(experiment, down, &mut state.routes, |i| &i.addresses, |routing| &routing.routes);
    if experiment.belljar.ipv6 {
        family(experiment, down, &mut state.routes6, |i| &i.addresses6, |routing| &routing.routes6);
    }
    state
}

/// Routes of a node.
type Table<A> = Vec<PlannedRoute<A>>;
/// Next hops of the shortest paths to each network.
type Paths<A> = Vec<(Prefix<A>, Vec<NextHop<A>>)>;
type Own<A> = fn(&Interface) -> &[InterfaceAddress<A>];

/// Adds the routes of one address family to each node.
fn family<A: Ip>(
    experiment: &Experiment,
    down: &Set<usize>,
    all: &mut [Table<A>],
    own: Own<A>,
    given: fn(&Routing) -> &[StaticRoute<A>],
) {
    let network = Network::new(experiment, down, own);
    let computed = network.routes();
    for (id, routes) in all.iter_mut().enumerate() {
        let id = HostId(id as u32);
        let Some(routing) = experiment.node_routing(id) else { continue };
        let interfaces = experiment.node_interfaces(id);
        routes.extend(static_routes(given(routing), interfaces, own));
        if routing.computed {
            routes.extend(computed[id.index()].iter().map(|(prefix, hops)| {
                let kind = RouteKind::Unicast;
                let route = Route { kind, hops: hops.clone(), ..Route::by(0, None, protocol::COMPUTED) };
                (*prefix, COMPUTED_METRIC, route)
            }));
        }
    }
}

/// Metric of OSPF routes in Linux's routing daemons.
const COMPUTED_METRIC: u32 = 20;

/// The static routes of a node in the file.
fn static_routes<A: Ip>(
    given: &[StaticRoute<A>],
    interfaces: &[Interface],
    own: Own<A>,
) -> Vec<(Prefix<A>, u32, Route<A>)> {
    let near = |ip: &A| {
        let on = |i: &Interface| own(i).iter().any(|own| own.network().contains(*ip));
        interfaces.iter().position(on).map(|interface| NextHop::new(interface, Some(*ip)))
    };
    let route = |given: &StaticRoute<A>| {
        let mut hops: Vec<NextHop<A>> = given.via.iter().filter_map(near).collect();
        hops.extend(given.device.map(|interface| NextHop::new(interface, None)));
        let route = Route { hops, ..Route::by(0, None, protocol::STATIC) };
        (given.to, given.metric, route)
    };
    given.iter().map(route).collect()
}

/// Hosts and routers with their networks.
struct Network<A> {
    /// Per node: the directly reachable nodes and the costs.
    arcs: Vec<Vec<Arc<A>>>,
    /// Per node: the networks of its interfaces.
    networks: Vec<Set<Prefix<A>>>,
    /// Per node: true if it forwards packets.
    passes: Vec<bool>,
    /// Nodes with a default route: hosts that forward packets to the graph.
    exits: Vec<usize>,
    /// Per node: true if a single default route may replace equal routes.
    is_host: Vec<bool>,
    on_graph: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Arc<A> {
    to: usize,
    cost: u64,
    hop: NextHop<A>,
}

impl<A: Ip> Network<A> {
    fn new(experiment: &Experiment, down: &Set<usize>, addresses: Own<A>) -> Network<A> {
        let count = experiment.node_count();
        let hosts = experiment.hosts.len();
        let routing = |id: usize| experiment.node_routing(HostId(id as u32));
        let interfaces = |id: usize| match routing(id) {
            Some(_) => experiment.node_interfaces(HostId(id as u32)),
            None => &[],
        };
        let mut members: Map<usize, Vec<(usize, usize)>> = Map::new();
        let segment = segments(experiment, down);
        for id in 0..count {
            for (number, interface) in interfaces(id).iter().enumerate() {
                if !down.contains(&interface.link) {
                    members.entry(segment[interface.link]).or_default().push((id, number));
                }
            }
        }
        let mut arcs: Vec<Vec<Arc<A>>> = vec![Vec::new(); count];
        for members in members.values() {
            for (from, number) in members {
                let own = &interfaces(*from)[*number];
                let cost = u64::from(cost_of(experiment, own.link));
                for (to, other) in members.iter().filter(|(to, _)| to != from) {
                    let theirs = addresses(&interfaces(*to)[*other]);
                    let shares = |address: &&InterfaceAddress<A>| {
                        addresses(own).iter().any(|own| own.network() == address.network())
                    };
                    if let Some(address) = theirs.iter().find(shares) {
                        let hop = NextHop::new(*number, Some(address.ip));
                        arcs[*from].push(Arc { to: *to, cost, hop });
                    }
                }
            }
        }
        let networks = (0..count)
            .map(|id| interfaces(id).iter().flat_map(addresses).map(InterfaceAddress::network).collect());
        let is_router = |id: usize| {
            id >= hosts && experiment.device(HostId(id as u32)).is_some_and(|device| device.kind.forwards())
        };
        let on_graph: Vec<bool> =
            (0..count).map(|id| experiment.hosts.get(id).is_some_and(|host| host.node.is_some())).collect();
        let passes: Vec<bool> = (0..count)
            .map(|id| is_router(id) || experiment.hosts.get(id).is_some_and(|host| host.forwarding))
            .collect();
        Network {
            arcs,
            networks: networks.collect(),
            exits: (0..count).filter(|id| on_graph[*id] && passes[*id]).collect(),
            passes,
            is_host: (0..count).map(|id| !is_router(id)).collect(),
            on_graph,
        }
    }

    /// Per node, the next hops of the shortest paths to each network to which it is not attached.
    fn routes(&self) -> Vec<Paths<A>> {
        let all: Set<Prefix<A>> = self.networks.iter().flatten().copied().collect();
        let mut routes: Vec<Paths<A>> = vec![Vec::new(); self.arcs.len()];
        // Networks behind the same nodes have the same shortest paths.
        let mut by_gates: Map<Vec<usize>, Vec<Prefix<A>>> = Map::new();
        for prefix in all {
            let gates =
                (0..self.arcs.len()).filter(|n| self.passes[*n] && self.networks[*n].contains(&prefix));
            by_gates.entry(gates.collect()).or_default().push(prefix);
        }
        if !self.exits.is_empty() {
            by_gates.entry(self.exits.clone()).or_default().push(Prefix::ALL);
        }
        for (gates, prefixes) in by_gates {
            let distance = self.distances(&gates);
            for (node, found) in routes.iter_mut().enumerate() {
                let hops = self.best_hops(node, &distance);
                if hops.is_empty() {
                    continue;
                }
                for prefix in &prefixes {
                    let has_one =
                        self.networks[node].contains(prefix) || prefix.is_all() && self.on_graph[node];
                    if !has_one {
                        found.push((*prefix, hops.clone()));
                    }
                }
            }
        }
        for (node, found) in routes.iter_mut().enumerate() {
            let alike = found.windows(2).all(|pair| pair[0].1 == pair[1].1);
            if self.is_host[node] && !self.on_graph[node] && !self.passes[node] && alike {
                found.truncate(1);
                found.iter_mut().for_each(|(prefix, _)| *prefix = Prefix::ALL);
            }
            found.sort();
        }
        routes
    }

    /// Per forwarding node, the cost of the path to the nearest of `gates`.
    fn distances(&self, gates: &[usize]) -> Vec<u64> {
        let mut back: Vec<Vec<(usize, u64)>> = vec![Vec::new(); self.arcs.len()];
        for (from, arcs) in self.arcs.iter().enumerate().filter(|(from, _)| self.passes[*from]) {
            arcs.iter().for_each(|arc| back[arc.to].push((from, arc.cost)));
        }
        let mut best = vec![u64::MAX; self.arcs.len()];
        let mut heap = BinaryHeap::new();
        for gate in gates {
            best[*gate] = 0;
            heap.push(Reverse((0, *gate)));
        }
        while let Some(Reverse((cost, node))) = heap.pop() {
            if cost > best[node] {
                continue;
            }
            for (from, step) in &back[node] {
                if cost + step < best[*from] {
                    best[*from] = cost + step;
                    heap.push(Reverse((cost + step, *from)));
                }
            }
        }
        best
    }

    /// The next hops from a node on the paths of lowest cost.
    fn best_hops(&self, node: usize, distance: &[u64]) -> Vec<NextHop<A>> {
        if distance[node] == 0 {
            return Vec::new();
        }
        let cost = |arc: &&Arc<A>| match distance[arc.to] {
            u64::MAX => None,
            rest => Some(arc.cost + rest).filter(|_| self.passes[arc.to]),
        };
        let least = self.arcs[node].iter().filter_map(|arc| cost(&arc)).min();
        let mut hops: Vec<NextHop<A>> = self.arcs[node]
            .iter()
            .filter(|arc| least.is_some() && cost(arc) == least)
            .map(|arc| arc.hop)
            .collect();
        hops.sort();
        hops.dedup();
        hops
    }
}

fn in_spanning_tree(experiment: &Experiment, end: &LinkEnd) -> bool {
    experiment.bridging(end) == Bridging::SpanningTree
}

/// Cost of using an interface: that of its link, or of the link at its controller.
fn cost_of(experiment: &Experiment, link: usize) -> u32 {
    let links = &experiment.topology.links;
    let own = &links[link];
    if own.pci.is_none() {
        return own.cost;
    }
    let controller = own.ends[1].node;
    let wire =
        links.iter().find(|link| link.pci.is_none() && link.ends.iter().any(|end| end.node == controller));
    wire.map_or(own.cost, |wire| wire.cost)
}

/// Per link, the index of the segment of cables and switches to which it belongs.
fn segments(experiment: &Experiment, down: &Set<usize>) -> Vec<usize> {
    let links = &experiment.topology.links;
    let mut segments = DisjointSets::new(links.len());
    let mut of_switch: Map<HostId, usize> = Map::new();
    for (n, link) in links.iter().enumerate().filter(|(n, _)| !down.contains(n)) {
        let bridges = |end: &&LinkEnd| experiment.bridging(end) != Bridging::Separate;
        for end in link.ends.iter().filter(bridges) {
            segments.join(n, *of_switch.entry(end.node).or_insert(n));
        }
    }
    segments.into_smallest()
}

/// Per node, the ports of a switch to links between switches outside of the tree of shortest paths from the
/// first switch in order of names (IEEE 802.1D with equal priorities of all bridges).
fn blocked(experiment: &Experiment, down: &Set<usize>) -> Vec<Vec<usize>> {
    let links = &experiment.topology.links;
    let mut blocked = vec![Vec::new(); experiment.node_count()];
    let between = |link: &&(usize, &belljar_config::topology::Link)| {
        !down.contains(&link.0) && link.1.ends.iter().all(|end| in_spanning_tree(experiment, end))
    };
    let numbered: Vec<_> = links.iter().enumerate().collect();
    let trunks: Vec<_> = numbered.iter().filter(between).collect();
    let mut at: Map<HostId, Vec<(usize, HostId, u64)>> = Map::new();
    for (n, link) in &trunks {
        let [a, b] = [link.ends[0].node, link.ends[1].node];
        at.entry(a).or_default().push((*n, b, u64::from(link.cost)));
        at.entry(b).or_default().push((*n, a, u64::from(link.cost)));
    }
    let mut tree = Set::new();
    let mut reached: Set<HostId> = Set::new();
    for first in at.keys() {
        let mut heap = BinaryHeap::from([Reverse((0, *first, None))]);
        while let Some(Reverse((cost, switch, by))) = heap.pop() {
            if !reached.insert(switch) {
                continue;
            }
            tree.extend(by);
            for (link, other, step) in &at[&switch] {
                if !reached.contains(other) {
                    heap.push(Reverse((cost + step, *other, Some(*link))));
                }
            }
        }
    }
    for (n, link) in trunks.iter().filter(|(n, _)| !tree.contains(n)) {
        let _ = n;
        link.ends.iter().for_each(|end| blocked[end.node.index()].push(end.port));
    }
    blocked
}

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;
