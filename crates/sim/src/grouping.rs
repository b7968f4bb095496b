//! Grouping of nodes: sets of nodes that one worker runs together, and their lookahead with respect to all
//! others.

use belljar_base::{DisjointSets, HostId, SimDuration};
use belljar_engine::{Group, Plan};
use belljar_net::{Graph, NodeIndex};

/// Maximum number of hosts of a group. One worker runs a group at a time, member by member.
const LARGEST_GROUP: usize = 64;
/// Minimum number of groups per worker, so that the longest group does not keep the others waiting.
const GROUPS_PER_WORKER: usize = 4;
/// Minimum ratio by which grouping must lengthen the shortest latency between groups.
const WORTH: u64 = 4;

/// Plan for hosts at these nodes of the graph. Each host is a group of its own, unless hosts that are close
/// to each other can be grouped so that the groups are much farther apart.
pub fn plan(graph: &Graph, nodes: &[Option<NodeIndex>], workers: usize) -> Plan {
    let mut hosts = vec![0; graph.nodes().len()];
    nodes.iter().flatten().for_each(|node| hosts[node.index()] += 1);
    let clusters = Clusters { graph, hosts: &hosts, lookaheads: lookaheads(graph, &hosts) };
    let cluster_of =
        (workers > 1).then(|| clusters.join(nodes.len() / (workers * GROUPS_PER_WORKER))).flatten();
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of_cluster = vec![None; hosts.len()];
    for (host, node) in nodes.iter().enumerate() {
        let Some(node) = node else {
            // The host receives nothing over the graph.
            let (inner, lookahead) = (SimDuration::MAX, SimDuration::MAX);
            groups.push(Group { members: vec![HostId(host as u32)], inner, lookahead });
            continue;
        };
        let cluster = cluster_of.as_ref().map_or(usize::MAX, |cluster_of| cluster_of[node.index()]);
        if let Some(Some(group)) = group_of_cluster.get(cluster) {
            let group: &mut Group = &mut groups[*group];
            group.inner = group.inner.min(clusters.lookaheads[node.index()]);
            group.members.push(HostId(host as u32));
            continue;
        }
        let lookahead = clusters.lookaheads[node.index()];
        let mut group = Group { members: vec![HostId(host as u32)], inner: lookahead, lookahead };
        if let Some(cluster_of) = cluster_of.as_ref().filter(|_| cluster != usize::MAX) {
            group_of_cluster[cluster] = Some(groups.len());
            group.lookahead = clusters.lookahead_of(cluster_of, cluster);
        }
        groups.push(group);
    }
    Plan::new(groups)
}

/// Minimum latency between a host at a node and any other host, in either direction, for each node with
/// hosts.
fn lookaheads(graph: &Graph, hosts: &[u32]) -> Vec<SimDuration> {
    let out = |node: usize| {
        let node = NodeIndex(node as u32);
        (hosts[node.index()] > 0).then(|| graph.least_latency_to_hosts(node, hosts)).flatten()
    };
    let out: Vec<Option<SimDuration>> = (0..hosts.len()).map(out).collect();
    // In an undirected graph the shortest paths are symmetric.
    let into = if graph.is_directed() { out.iter().flatten().min().copied() } else { None };
    let into = into.unwrap_or(SimDuration::MAX);
    out.into_iter().map(|out| out.unwrap_or(SimDuration::MAX).min(into)).collect()
}

/// Plan for all nodes. `hosts` has each host as a group of its own with its lookahead over the graph;
/// `lines` are the directions of links with their minimum latencies. Each node is a group of its own,
/// unless nodes that are close to each other can be grouped so that the groups are much farther apart.
/// `foreign` nodes synchronise with clocks outside of the simulation; each is grouped with its neighbours,
/// which thus run many rounds with it in one window.
pub fn with_links(
    hosts: &Plan,
    count: usize,
    lines: &[(HostId, HostId, SimDuration)],
    foreign: &[HostId],
    workers: usize,
) -> Plan {
    let mut over_graph = vec![SimDuration::MAX; count];
    hosts.groups().iter().for_each(|group| over_graph[group.members[0].index()] = group.lookahead);
    let groups_within = |width: SimDuration| {
        let mut groups = DisjointSets::new(count);
        let close = |(from, to, latency): &&(HostId, HostId, SimDuration)| {
            *latency <= width || foreign.contains(from) || foreign.contains(to)
        };
        for (from, to, _) in lines.iter().filter(close) {
            groups.join(from.index(), to.index());
        }
        groups.into_smallest()
    };
    let plan_of = |group_of: &[usize]| {
        let mut groups: Vec<Group> = Vec::new();
        let mut place = vec![usize::MAX; count];
        for node in 0..count {
            let first = group_of[node];
            if place[first] == usize::MAX {
                place[first] = groups.len();
                let (inner, lookahead) = (SimDuration::MAX, SimDuration::MAX);
                groups.push(Group { members: Vec::new(), inner, lookahead });
            }
            let group = &mut groups[place[first]];
            group.members.push(HostId(node as u32));
            group.inner = group.inner.min(over_graph[node]);
            group.lookahead = group.lookahead.min(over_graph[node]);
        }
        for (from, to, latency) in lines {
            let (a, b) = (group_of[from.index()], group_of[to.index()]);
            for place in [place[a], place[b]] {
                let group = &mut groups[place];
                match a == b {
                    true => group.inner = group.inner.min(*latency),
                    false => group.lookahead = group.lookahead.min(*latency),
                }
            }
        }
        groups
            .iter_mut()
            .filter(|group| group.members.len() == 1)
            .for_each(|group| group.inner = group.lookahead);
        groups
    };
    let mut best = plan_of(&groups_within(SimDuration::ZERO));
    let least = |groups: &[Group]| groups.iter().map(|group| group.lookahead).min();
    let largest = (count / (workers.max(1) * GROUPS_PER_WORKER)).min(LARGEST_GROUP);
    let mut widths: Vec<SimDuration> = lines.iter().map(|(.., latency)| *latency).collect();
    widths.sort_unstable();
    widths.dedup();
    let mut tried = SimDuration::ZERO;
    for width in widths.into_iter().filter(|_| workers > 1) {
        if width.as_picos() < tried.as_picos().saturating_mul(2) {
            continue;
        }
        tried = width;
        let groups = plan_of(&groups_within(width));
        if groups.iter().any(|group| group.members.len() > largest) {
            break;
        }
        if least(&groups) >= least(&best).map(|shortest| shortest.saturating_mul(WORTH)) {
            best = groups;
        }
    }
    Plan::new(best)
}

struct Clusters<'a> {
    graph: &'a Graph,
    hosts: &'a [u32],
    lookaheads: Vec<SimDuration>,
}

impl Clusters<'_> {
    /// Cluster of each node; [`usize::MAX`] for nodes without close ones. The width of clusters is as large
    /// as their size permits. `None` if clusters make too little difference.
    fn join(&self, largest: usize) -> Option<Vec<usize>> {
        if self.graph.is_directed() || largest < 2 {
            return None;
        }
        let mut widths: Vec<SimDuration> = self.used().map(|node| self.lookaheads[node]).collect();
        widths.sort_unstable();
        widths.dedup();
        let shortest = *widths.first()?;
        // The width at least doubles at each step, until a cluster is too large.
        let mut best = None;
        let mut tried = SimDuration::ZERO;
        for width in widths {
            if width.as_picos() < tried.as_picos().saturating_mul(2) {
                continue;
            }
            tried = width;
            let Some(cluster_of) = self.clusters(width, largest.min(LARGEST_GROUP)) else { break };
            let apart = self.used().map(|node| match cluster_of[node] {
                usize::MAX => self.lookaheads[node],
                cluster => self.lookahead_of(&cluster_of, cluster),
            });
            if apart.min()? >= shortest.saturating_mul(WORTH) {
                best = Some(cluster_of);
            }
        }
        best
    }

    fn used(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts.len()).filter(|node| self.hosts[*node] > 0)
    }

    /// Clusters nodes within `width` of each other, transitively; `None` if a cluster has more than
    /// `largest` hosts.
    fn clusters(&self, width: SimDuration, largest: usize) -> Option<Vec<usize>> {
        let mut cluster_of = vec![usize::MAX; self.hosts.len()];
        for first in self.used() {
            if cluster_of[first] != usize::MAX || self.lookaheads[first] > width {
                continue;
            }
            let mut open = vec![first];
            let mut size = 0;
            cluster_of[first] = first;
            while let Some(node) = open.pop() {
                size += self.hosts[node] as usize;
                if size > largest {
                    return None;
                }
                for near in self.graph.hosts_within(NodeIndex(node as u32), self.hosts, width) {
                    if cluster_of[near.index()] == usize::MAX {
                        cluster_of[near.index()] = first;
                        open.push(near.index());
                    }
                }
            }
        }
        Some(cluster_of)
    }

    /// Minimum latency from the cluster's hosts to all other hosts.
    fn lookahead_of(&self, cluster_of: &[usize], cluster: usize) -> SimDuration {
        let elsewhere = |node: usize| if cluster_of[node] == cluster { 0 } else { self.hosts[node] };
        let elsewhere: Vec<u32> = (0..self.hosts.len()).map(elsewhere).collect();
        let members = self.used().filter(|node| cluster_of[*node] == cluster);
        let out =
            members.filter_map(|node| self.graph.least_latency_to_hosts(NodeIndex(node as u32), &elsewhere));
        out.min().unwrap_or(SimDuration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u32, u32, &str)], nodes: u32) -> Graph {
        let mut text = String::from("graph [ directed 0\n");
        (0..nodes).for_each(|n| text += &format!("node [ id {n} ]\n"));
        for (a, b, latency) in edges {
            text += &format!("edge [ source {a} target {b} latency \"{latency}\" ]\n");
        }
        Graph::from_gml(&(text + "]"), true).unwrap()
    }
    fn at(nodes: impl IntoIterator<Item = u32>) -> Vec<Option<NodeIndex>> {
        nodes.into_iter().map(|node| Some(NodeIndex(node))).collect()
    }
    fn us(n: u64) -> SimDuration {
        SimDuration::from_micros(n)
    }

    #[test]
    fn hosts_alone_have_lookaheads_of_their_own() {
        let graph = graph(&[(0, 1, "10 us"), (1, 2, "50 ms")], 3);
        let plan = plan(&graph, &at([0, 1, 2]), 2);
        let lookaheads: Vec<SimDuration> = plan.groups().iter().map(|g| g.lookahead).collect();
        assert_eq!(lookaheads, [us(10), us(10), us(50_000)]);
    }

    #[test]
    fn close_pairs_far_apart_are_grouped_if_there_are_enough_of_them() {
        // Nodes 2k and 2k+1 are 10 us apart, pairs at least 50 ms.
        let pairs = 16;
        let mut edges: Vec<(u32, u32, &str)> = (0..pairs).map(|k| (2 * k, 2 * k + 1, "10 us")).collect();
        edges.extend((1..pairs).map(|k| (0, 2 * k, "50 ms")));
        let graph = graph(&edges, 2 * pairs);
        let plan_for = |workers| plan(&graph, &at(0..2 * pairs), workers);
        assert_eq!(plan_for(1).groups().len(), 32, "one worker needs no groups");
        assert_eq!(plan_for(64).groups().len(), 32, "too few for so many workers");
        let grouped = plan_for(2);
        assert_eq!(grouped.groups().len(), 16);
        for (n, group) in grouped.groups().iter().enumerate() {
            assert_eq!(group.members, [HostId(2 * n as u32), HostId(2 * n as u32 + 1)]);
            assert_eq!((group.inner, group.lookahead), (us(10), us(50_000)));
        }
    }

    #[test]
    fn nodes_on_links_have_the_lookahead_of_their_links() {
        // Pairs of a host and a switch, 1 us apart, form a ring of 10 ms links; one host is on a graph as
        // well.
        let pairs = 16;
        let mut lines = Vec::new();
        for n in 0..pairs {
            let (host, switch) = (HostId(n), HostId(pairs + n));
            let next = HostId(pairs + (n + 1) % pairs);
            lines.extend([(host, switch, us(1)), (switch, host, us(2))]);
            lines.extend([(switch, next, us(10_000)), (next, switch, us(10_000))]);
        }
        let mut alone: Vec<Group> = (0..pairs)
            .map(|n| Group { members: vec![HostId(n)], inner: SimDuration::MAX, lookahead: SimDuration::MAX })
            .collect();
        (alone[3].inner, alone[3].lookahead) = (us(500), us(500));
        let hosts = Plan::new(alone);
        let one = with_links(&hosts, 2 * pairs as usize, &lines, &[], 1);
        assert!(one.groups().iter().all(|group| group.members.len() == 1 && group.lookahead == us(1)));
        let two = with_links(&hosts, 2 * pairs as usize, &lines, &[], 2);
        assert_eq!(two.groups().len(), 16);
        for (n, group) in two.groups().iter().enumerate() {
            assert_eq!(group.members, [HostId(n as u32), HostId(pairs + n as u32)]);
            let lookahead = if n == 3 { us(500) } else { us(10_000) };
            assert_eq!((group.inner, group.lookahead), (us(1), lookahead));
        }
    }

    #[test]
    fn what_waits_for_a_clock_outside_is_grouped_with_its_neighbours() {
        let lines: Vec<_> = [(0, 2, 5), (2, 1, 5), (1, 3, 10_000)]
            .iter()
            .flat_map(|(a, b, latency)| {
                [(HostId(*a), HostId(*b), us(*latency)), (HostId(*b), HostId(*a), us(*latency))]
            })
            .collect();
        let alone =
            |n| Group { members: vec![HostId(n)], inner: SimDuration::MAX, lookahead: SimDuration::MAX };
        let hosts = Plan::new((0..2).map(alone).collect());
        for workers in [1, 2] {
            let plan = with_links(&hosts, 4, &lines, &[HostId(2)], workers);
            let group = &plan.groups()[0];
            assert_eq!(group.members, [HostId(0), HostId(1), HostId(2)]);
            assert_eq!((group.inner, group.lookahead), (us(5), us(10_000)));
        }
    }

    #[test]
    fn a_directed_graph_counts_what_comes_in() {
        let text = "graph [ directed 1 node [ id 0 ] node [ id 1 ] \
            edge [ source 0 target 1 latency \"1 ms\" ] edge [ source 1 target 0 latency \"9 ms\" ] ]";
        let graph = Graph::from_gml(text, true).unwrap();
        let plan = plan(&graph, &at([0, 1]), 2);
        assert!(plan.groups().iter().all(|group| group.lookahead == us(1_000)));
    }
}
