//! Nodes, links and addresses of an experiment, as Mininet's prompt prints them.

use belljar_base::HostId;
use belljar_config::Experiment;
use std::fmt::Write as _;

/// Address of a host's first interface that has one.
pub fn address(experiment: &Experiment, name: &str) -> Option<String> {
    let host = experiment.hosts.iter().find(|host| host.name == name)?;
    Some(host.address.to_string())
}

/// Names of all hosts and devices.
pub fn nodes(experiment: &Experiment) -> Vec<String> {
    let count = experiment.hosts.len() + experiment.topology.devices.len();
    (0..count as u32).map(|id| experiment.node_name(HostId(id)).to_owned()).collect()
}

/// Name of an end of a link: node and interface.
fn end(experiment: &Experiment, node: HostId, port: usize) -> String {
    let interface =
        experiment.node_interfaces(node).get(port).map_or("", |interface| interface.name.as_str());
    let name = experiment.node_name(node);
    // Mininet's own names have the node in them.
    match interface.strip_prefix(name) {
        Some(rest) if rest.starts_with('-') => interface.to_owned(),
        _ => format!("{name}-{interface}"),
    }
}

/// `links`.
pub fn links(experiment: &Experiment) -> String {
    let mut text = String::new();
    for link in &experiment.topology.links {
        let [a, b] = [0, 1].map(|n| end(experiment, link.ends[n].node, link.ends[n].port));
        let _ = writeln!(text, "{a}<->{b} ({})", link.name);
    }
    if text.is_empty() {
        text.push_str("no links: the hosts are on the graph\n");
    }
    text
}

/// `net`: each node with its interfaces and their peers.
pub fn net(experiment: &Experiment) -> String {
    let mut text = String::new();
    for (number, name) in nodes(experiment).iter().enumerate() {
        let id = HostId(number as u32);
        let _ = write!(text, "{name}");
        for (port, interface) in experiment.node_interfaces(id).iter().enumerate() {
            let peer = &experiment.topology.links[interface.link].ends[1 - interface.end];
            let own = end(experiment, id, port);
            let _ = write!(text, " {own}:{}", end(experiment, peer.node, peer.port));
        }
        text.push('\n');
    }
    text
}

/// `dump`: each node with its kind and addresses.
pub fn dump(experiment: &Experiment) -> String {
    let mut text = String::new();
    for (number, name) in nodes(experiment).iter().enumerate() {
        let id = HostId(number as u32);
        let kind = experiment.device(id).map_or("host", |device| device.kind.noun().0);
        let interfaces = experiment.node_interfaces(id).iter().enumerate().map(|(port, interface)| {
            let address = interface.addresses.first().map_or("none".to_owned(), |a| a.ip.to_string());
            format!("{}:{address}", end(experiment, id, port))
        });
        let mut all: Vec<String> = interfaces.collect();
        if let (true, Some(host)) = (all.is_empty(), experiment.hosts.get(number)) {
            all.push(format!("{name}-eth0:{}", host.address));
        }
        let _ = writeln!(text, "<{kind} {name}: {}>", all.join(","));
    }
    text
}

/// Interfaces of a link between two nodes: its name, and for each end the host, if it is one, and the interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Joined {
    /// Name of the link.
    pub name: String,
    /// Ends at hosts: host and interface.
    pub hosts: Vec<(String, String)>,
}

/// Links between two nodes.
pub fn between(experiment: &Experiment, a: &str, b: &str) -> Vec<Joined> {
    let joins = |link: &&belljar_config::topology::Link| {
        let names = [0, 1].map(|n| experiment.node_name(link.ends[n].node));
        names == [a, b] || names == [b, a]
    };
    let ends = |link: &belljar_config::topology::Link| {
        let hosts = link.ends.iter().filter(|end| experiment.device(end.node).is_none());
        let named = hosts.map(|end| {
            let interface = &experiment.node_interfaces(end.node)[end.port];
            (experiment.node_name(end.node).to_owned(), interface.name.clone())
        });
        Joined { name: link.name.clone(), hosts: named.collect() }
    };
    experiment.topology.links.iter().filter(joins).map(ends).collect()
}
