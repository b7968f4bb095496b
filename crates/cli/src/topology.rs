//! An experiment's network as `belljar report` draws it.

use belljar_base::{HostId, Set};
use belljar_config::topology::{DeviceKind, Link};
use belljar_config::{Experiment, Host};
use belljar_net::NodeIndex;
use belljar_results::{Topology, TopologyEdge, TopologyHost, TopologyNode, TopologyRadio, TopologyStation};

/// Upper bound on the nodes of a drawing.
const MOST_NODES: usize = 150;
/// Upper bound on the edges of a drawing.
const MOST_EDGES: usize = 1_000;

/// Network to draw: all nodes of the graph if they are at most `MOST_NODES`, otherwise the nodes with hosts; and the
/// edges between the nodes drawn.
pub fn topology(experiment: &Experiment) -> Topology {
    topology_of(experiment, MOST_NODES, MOST_EDGES)
}

/// [`topology`] with other bounds on nodes and edges.
pub fn topology_of(experiment: &Experiment, most_nodes: usize, most_edges: usize) -> Topology {
    let graph = &experiment.network.graph;
    let used: Set<NodeIndex> = experiment.hosts.iter().filter_map(|host| host.node).collect();
    // An experiment with links alone has a placeholder graph.
    let stand_in = used.is_empty() && !experiment.topology.links.is_empty();
    let count = if stand_in { 0 } else { graph.nodes().len() as u32 };
    let all = 0..count;
    let mut shown: Vec<NodeIndex> = all.map(NodeIndex).collect();
    if shown.len() > most_nodes {
        shown.retain(|node| used.contains(node));
        shown.truncate(most_nodes);
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
                interfaces: None,
            });
        }
    }
    let mut nodes: Vec<TopologyNode> = nodes.collect();
    let first = nodes.iter().map(|node| node.id + 1).max().unwrap_or(0);
    add_links(experiment, first, most_nodes, &mut nodes, &mut edges);
    edges.truncate(most_edges);
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
                addresses: addresses(host),
                node: match host.node {
                    Some(node) if host.interfaces.is_empty() => graph.node(node).id,
                    _ => first + n as u32,
                },
                bandwidth_up: host.bandwidth_up,
                bandwidth_down: host.bandwidth_down,
            })
            .collect(),
        radios: radios(experiment),
        omitted_nodes: count as usize - shown.len(),
    }
}

/// Adds the devices and hosts with links as nodes, numbered from `first`, and the links as edges.
fn add_links(
    experiment: &Experiment,
    first: u32,
    most_nodes: usize,
    nodes: &mut Vec<TopologyNode>,
    edges: &mut Vec<TopologyEdge>,
) {
    let graph = &experiment.network.graph;
    for n in 0..experiment.node_count() as u32 {
        if experiment.node_interfaces(HostId(n)).is_empty() || nodes.len() >= most_nodes {
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
                interfaces: None,
            });
        }
    }
    for link in &experiment.topology.links {
        let [a, b] = &link.ends;
        edges.push(TopologyEdge {
            source: first + a.node.0,
            target: first + b.node.0,
            latency_ns: a.properties.latency.as_nanos(),
            jitter_ns: a.properties.jitter.as_nanos(),
            loss: a.properties.loss.mean(),
            link: Some(link.name.clone()),
            rate: rates(experiment, link)[0],
            interfaces: Some([a, b].map(|end| experiment.node_interfaces(end.node)[end.port].name.clone())),
        });
    }
    let shown: Set<u32> = nodes.iter().map(|node| node.id).collect();
    edges.retain(|edge| shown.contains(&edge.source) && shown.contains(&edge.target));
}

/// Returns the rates of a link in both directions, in bits per second, those of the channel for a radio's; `None` for unlimited.
pub fn rates(experiment: &Experiment, link: &Link) -> [Option<u64>; 2] {
    let of_radio = link.ends.iter().find_map(|end| match &experiment.device(end.node)?.kind {
        DeviceKind::Radio(radio) => Some(radio.settings.rate),
        _ => None,
    });
    link.ends.each_ref().map(|end| of_radio.or(end.properties.rate))
}

/// Returns all addresses of a host.
pub fn addresses(host: &Host) -> Vec<String> {
    let on_graph = host.node.map(|_| host.address.to_string());
    let v4 = host.interfaces.iter().flat_map(|interface| &interface.addresses).map(|own| own.ip.to_string());
    let v6 = host.interfaces.iter().flat_map(|interface| &interface.addresses6).map(|own| own.ip.to_string());
    on_graph.into_iter().chain(v4).chain(v6).collect()
}

/// Returns the radio channels, with their stations' tracks until the end of the run.
pub fn radios(experiment: &Experiment) -> Vec<TopologyRadio> {
    let ids = (experiment.hosts.len() as u32..).map(HostId);
    let radio = |(id, device): (HostId, &belljar_config::topology::Device)| {
        let DeviceKind::Radio(radio) = &device.kind else { return None };
        let (range, carrier_sense_range) = radio.settings.propagation.reach();
        let stations =
            device.interfaces.iter().zip(belljar_plan::tracks(experiment, id)).map(|(port, track)| {
                let end = &experiment.topology.links[port.link].ends[1 - port.end];
                let past_end = track.waypoints().partition_point(|w| w.at < experiment.general.stop_time) + 1;
                TopologyStation {
                    node: experiment.node_name(end.node).to_owned(),
                    interface: experiment.node_interfaces(end.node)[end.port].name.clone(),
                    path: track
                        .waypoints()
                        .iter()
                        .take(past_end)
                        .map(|waypoint| {
                            [waypoint.at.as_secs_f64(), waypoint.to.x, waypoint.to.y, waypoint.to.z]
                        })
                        .collect(),
                }
            });
        Some(TopologyRadio {
            name: device.name.clone(),
            range,
            carrier_sense_range,
            stations: stations.collect(),
        })
    };
    ids.zip(&experiment.topology.devices).filter_map(radio).collect()
}
