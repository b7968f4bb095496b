//! An experiment's network as `belljar report` draws it.

use belljar_base::{HostId, Set};
use belljar_config::Experiment;
use belljar_net::NodeIndex;
use belljar_results::{Topology, TopologyEdge, TopologyHost, TopologyNode};

/// More places than these are no drawing.
const MOST_NODES: usize = 150;
/// More connections than these neither.
const MOST_EDGES: usize = 1_000;

/// The places with hosts and what joins them; all places if they are few.
pub fn topology(experiment: &Experiment) -> Topology {
    let graph = &experiment.network.graph;
    let used: Set<NodeIndex> = experiment.hosts.iter().filter_map(|host| host.node).collect();
    // The graph of an experiment that has only links is a stand-in.
    let stand_in = used.is_empty() && !experiment.topology.links.is_empty();
    let count = if stand_in { 0 } else { graph.nodes().len() as u32 };
    let all = 0..count;
    let mut shown: Vec<NodeIndex> = all.map(NodeIndex).collect();
    if shown.len() > MOST_NODES {
        shown.retain(|node| used.contains(node));
        shown.truncate(MOST_NODES);
    }
    let nodes = shown.iter().map(|index| {
        let node = graph.node(*index);
        TopologyNode { id: node.id, label: node.label.as_deref().map(str::to_owned), kind: None }
    });
    let mut edges = Vec::new();
    for (n, from) in shown.iter().enumerate() {
        let targets = if graph.is_directed() { &shown[..] } else { &shown[n..] };
        for to in targets.iter().filter(|to| *to != from) {
            let Some(path) = graph.edge_path(*from, *to) else { continue };
            edges.push(TopologyEdge {
                source: graph.node(*from).id,
                target: graph.node(*to).id,
                latency_ns: path.latency.as_nanos(),
                jitter_ns: path.jitter.as_nanos(),
                loss: path.loss,
                link: None,
                rate: None,
            });
        }
    }
    let mut nodes: Vec<TopologyNode> = nodes.collect();
    let first = nodes.iter().map(|node| node.id + 1).max().unwrap_or(0);
    add_links(experiment, first, &mut nodes, &mut edges);
    edges.truncate(MOST_EDGES);
    Topology {
        epoch_secs: experiment.belljar.start_date,
        seed: experiment.general.seed,
        nodes,
        edges,
        hosts: experiment
            .hosts
            .iter()
            .enumerate()
            .map(|(n, host)| TopologyHost {
                name: host.name.clone(),
                address: host.address.to_string(),
                node: match host.node {
                    Some(node) if host.interfaces.is_empty() => graph.node(node).id,
                    _ => first + n as u32,
                },
                bandwidth_up: host.bandwidth_up,
                bandwidth_down: host.bandwidth_down,
            })
            .collect(),
        omitted_nodes: count as usize - shown.len(),
    }
}

/// Adds the stations at the ends of links, each at a place of its own, numbered from `first`; and the links.
fn add_links(
    experiment: &Experiment,
    first: u32,
    nodes: &mut Vec<TopologyNode>,
    edges: &mut Vec<TopologyEdge>,
) {
    let graph = &experiment.network.graph;
    for n in 0..experiment.node_count() as u32 {
        if experiment.node_interfaces(HostId(n)).is_empty() || nodes.len() >= MOST_NODES {
            continue;
        }
        let host = experiment.hosts.get(n as usize);
        let label = host.is_none().then(|| experiment.node_name(HostId(n)).to_owned());
        let kind = experiment.device(HostId(n)).map_or("host", |device| device.kind.noun().0);
        nodes.push(TopologyNode { id: first + n, label, kind: Some(kind.to_owned()) });
        if let Some(node) = host.and_then(|host| host.node) {
            let target = graph.node(node).id;
            let (latency_ns, jitter_ns, loss) = (0, 0, 0.0);
            edges.push(TopologyEdge {
                source: first + n,
                target,
                latency_ns,
                jitter_ns,
                loss,
                link: None,
                rate: None,
            });
        }
    }
    for link in &experiment.topology.links {
        let [a, b] = &link.ends;
        edges.push(TopologyEdge {
            source: first + a.node.0,
            target: first + b.node.0,
            latency_ns: a.line.latency.as_nanos(),
            jitter_ns: a.line.jitter.as_nanos(),
            loss: a.line.loss.mean(),
            link: Some(link.name.clone()),
            rate: a.line.rate,
        });
    }
    let shown: Set<u32> = nodes.iter().map(|node| node.id).collect();
    edges.retain(|edge| shown.contains(&edge.source) && shown.contains(&edge.target));
}
