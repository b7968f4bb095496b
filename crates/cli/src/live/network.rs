//! The network as the page draws it, and the load of its links and hosts.

use crate::topology::rates;
use belljar_base::{HostId, Map};
use belljar_config::Experiment;
use belljar_results::Topology;
use belljar_sim::{NodeView, Picture};
use serde::Serialize;

/// The drawing's network with the rates of its links.
#[derive(Debug, Serialize)]
pub struct Network {
    topology: Topology,
    /// Rates in bits per second for each edge, from its source and from its target; `None` for unlimited, and for
    /// edges that are no links.
    rates: Vec<[Option<u64>; 2]>,
    /// Sending nodes and their interfaces for each edge, from its source and from its target; `None` for edges of the
    /// graph.
    #[serde(skip)]
    senders: Vec<Option<[(HostId, usize); 2]>>,
    host_count: usize,
}

/// Traffic between two pictures, in bits per simulated second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loads {
    /// For each edge of the network, from its source and from its target.
    edges: Vec<[u64; 2]>,
    /// For each host, sent and received.
    hosts: Vec<u64>,
}

impl Network {
    pub fn new(experiment: &Experiment) -> Network {
        let topology = crate::topology::topology(experiment);
        let by_name: Map<&str, _> =
            experiment.topology.links.iter().map(|link| (link.name.as_str(), link)).collect();
        let links: Vec<_> =
            topology.edges.iter().map(|edge| by_name.get(edge.link.as_deref()?).copied()).collect();
        let rates = links.iter().map(|link| link.map_or([None; 2], |link| rates(experiment, link)));
        let senders =
            links.iter().map(|link| link.map(|link| link.ends.each_ref().map(|end| (end.node, end.port))));
        Network {
            rates: rates.collect(),
            senders: senders.collect(),
            host_count: experiment.hosts.len(),
            topology,
        }
    }

    /// Loads between two pictures; `None` if no simulated time has passed between them.
    pub fn loads(&self, before: &Picture, after: &Picture) -> Option<Loads> {
        if after.at <= before.at {
            return None;
        }
        let seconds = after.at.since(before.at).as_secs_f64();
        let rate = |old: u64, new: u64| (new.saturating_sub(old) as f64 * 8.0 / seconds) as u64;
        let [old, new] = [before, after].map(|picture| {
            picture.nodes.iter().map(|node| (node.id, node)).collect::<Map<HostId, &NodeView>>()
        });
        let sent = |nodes: &Map<HostId, &NodeView>, (node, port): (HostId, usize)| {
            nodes.get(&node).and_then(|node| node.links.get(port)).map_or(0, |link| link.bytes)
        };
        let moved = |nodes: &Map<HostId, &NodeView>, host: HostId| {
            nodes.get(&host).and_then(|node| node.host).map_or(0, |host| host.bytes_in + host.bytes_out)
        };
        let of_edge = |senders: &Option<[(HostId, usize); 2]>| {
            senders.map_or([0; 2], |both| both.map(|sender| rate(sent(&old, sender), sent(&new, sender))))
        };
        let hosts = (0..self.host_count as u32).map(HostId);
        Some(Loads {
            edges: self.senders.iter().map(of_edge).collect(),
            hosts: hosts.map(|host| rate(moved(&old, host), moved(&new, host))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::SimTime;
    use belljar_config::PathContext;
    use belljar_sim::{HostView, LinkView};

    const TEXT: &str = "general: { stop_time: 1 s }\nswitches: [s]\nhosts: { a: {}, b: {} }\n\
        links: [{ between: [a, s], rate: 1 Mbit, reverse: { rate: 2 Mbit } }, { between: [s, b] }]\n";

    fn picture(at: SimTime, sent: [u64; 3]) -> Picture {
        let node = |(n, links): (u32, Vec<u64>)| NodeView {
            id: HostId(n),
            host: (n < 2).then(|| HostView { bytes_out: links[0], ..HostView::default() }),
            dropped: 0,
            links: links.into_iter().map(|bytes| LinkView { bytes, ..LinkView::default() }).collect(),
            warnings: Map::new(),
            tables: Vec::new(),
        };
        let [a, b, s] = sent;
        let nodes = [vec![a], vec![b], vec![s, 2 * s]];
        Picture { at, nodes: (0..).zip(nodes).map(node).collect() }
    }

    #[test]
    fn loads_are_those_of_the_time_between() {
        let experiment = Experiment::parse_in("test.yaml", TEXT, &PathContext::default());
        let network = Network::new(&experiment.unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(network.rates, [[Some(1_000_000), Some(2_000_000)], [Some(1_000_000_000); 2]]);
        let first = picture(SimTime::from_secs(1), [1_000, 500, 0]);
        let later = picture(SimTime::from_secs(3), [2_000, 500, 4_000]);
        let loads = network.loads(&first, &later).expect("time has passed");
        assert_eq!((loads.edges, loads.hosts), (vec![[4_000, 16_000], [32_000, 0]], vec![4_000, 0]));
        assert_eq!(network.loads(&later, &later), None);
    }
}
