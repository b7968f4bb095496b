//! An experiment's network as `belljar report` draws it.

use belljar_base::Set;
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
    let used: Set<NodeIndex> = experiment.hosts.iter().map(|host| host.node).collect();
    let all = 0..graph.nodes().len() as u32;
    let mut shown: Vec<NodeIndex> = all.map(NodeIndex).collect();
    if shown.len() > MOST_NODES {
        shown.retain(|node| used.contains(node));
        shown.truncate(MOST_NODES);
    }
    let nodes = shown.iter().map(|index| {
        let node = graph.node(*index);
        TopologyNode { id: node.id, label: node.label.as_deref().map(str::to_owned) }
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
            });
        }
    }
    edges.truncate(MOST_EDGES);
    Topology {
        epoch_secs: experiment.belljar.start_date,
        seed: experiment.general.seed,
        nodes: nodes.collect(),
        edges,
        hosts: experiment
            .hosts
            .iter()
            .map(|host| TopologyHost {
                name: host.name.clone(),
                address: host.address.to_string(),
                node: graph.node(host.node).id,
                bandwidth_up: host.bandwidth_up,
                bandwidth_down: host.bandwidth_down,
            })
            .collect(),
        omitted_nodes: graph.nodes().len() - shown.len(),
    }
}
