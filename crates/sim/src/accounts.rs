//! Accounts of packets of a run, from the counters of hosts, devices and links.
//!
//! Every location has its own account: `host:eth0` is an interface, `host` the stack behind it, `link: a to b`
//! a direction of a link, `graph: from a` the paths over the graph from a host. Where two locations meet, the
//! account of one uses the counter of the other: an interface has sent the frames that its link has counted,
//! and a link has delivered those that its receiver has counted. A packet that disappears between two
//! locations is thus missed in one of their accounts, and [`Statistics::check_accounts`] reports it. Three boundaries have one
//! side only: between the driver of a PCI device and the device, which exchange transactions, and between a
//! gateway or another simulator and what lies outside.
//!
//! The two ends of a direction may be in different cells: each cell adds its part.

use crate::device::{Boundary, DeviceAccount, DeviceNode};
use crate::node::HostNode;
use crate::outbound::OutboundLink;
use belljar_base::{Map, PacketAccount};
use belljar_config::Experiment;
use belljar_config::topology::Interface;
use belljar_net::DropReason;
use belljar_netstack::Stack;
use belljar_results::Statistics;

/// Location of all paths between hosts over the graph together.
const ALL_PATHS: &str = "graph: all paths";

/// Part of a host that has an account of its own.
#[derive(Clone, Copy)]
enum HostPart {
    /// The stacks between the interfaces and the sockets.
    Stacks,
    /// The interface to the graph, or that at a link's port.
    Interface(Option<usize>),
    /// The driver of the PCI device at a port.
    Driver(usize),
    /// The paths over the graph from the host.
    Paths,
}

/// Accounts of the parts of a host.
fn parts(node: &HostNode) -> Vec<(HostPart, PacketAccount)> {
    let (stack, graph) = (node.host.stack(), node.graph_traffic());
    let mut paths =
        PacketAccount { received: graph.entered, sent: graph.arriving, ..PacketAccount::default() };
    node.graph_drops().iter().for_each(|(reason, count)| paths.drop_for(reason.name(), *count));
    let from_graph = graph.delivered + stack.account.from_resolver;
    let eth0 = interface(stack, None, from_graph, graph.entered + stack.account.to_resolver);
    let mut parts = vec![
        (HostPart::Stacks, stacks(node.host.stacks())),
        (HostPart::Paths, paths),
        (HostPart::Interface(None), eth0),
    ];
    for port in 0..stack.links.len() {
        let own = HostPart::Interface(Some(port));
        if let Some(device) = node.devices.iter().find(|device| device.link == port) {
            let driver = device.packet_account();
            parts.push((own, interface(stack, Some(port), driver.sent, driver.received)));
            parts.push((HostPart::Driver(port), driver));
            continue;
        }
        let entered = node.link(port).direction.packet_account().received;
        let mut account = interface(stack, Some(port), node.delivered(port), entered);
        let (lost, in_transit) = node.kept_away().at_port(port);
        account.held += in_transit;
        account.drop_for(DropReason::Partition.name(), lost);
        parts.push((own, account));
    }
    parts
}

/// Account of the interface to the graph, or of that at a link's port, to which its neighbour has delivered
/// `delivered` packets, and from which it has taken `taken`.
fn interface(stack: &Stack, port: Option<usize>, delivered: u64, taken: u64) -> PacketAccount {
    let (nic, in_transit) = match port {
        None => (&stack.eth0.nic, stack.arrivals.in_transit()),
        Some(port) => {
            let delivered = stack.inbox.contents().filter(|(link, _)| *link == port).count();
            (&stack.links[port].nic, delivered)
        }
    };
    // Packets leave an interface after the end of the run, when models and connections close.
    let departing = stack.departures.iter().filter(|departure| departure.link == port).count();
    let (mut account, counters) = (nic.packet_account(), nic.counters());
    account.received = counters.offered_out + delivered;
    account.sent = counters.packets_in + taken;
    account.held += (in_transit + departing) as u64;
    account
}

/// Adds the accounts of a host: of its interfaces, its stacks, its links and its paths over the graph.
pub fn add_host(experiment: &Experiment, node: &HostNode, statistics: &mut Statistics) {
    let (name, interfaces) = (experiment.node_name(node.id()), experiment.node_interfaces(node.id()));
    for (part, account) in parts(node) {
        let location = match part {
            HostPart::Stacks => name.to_owned(),
            HostPart::Interface(None) => format!("{name}:eth0"),
            HostPart::Interface(Some(port)) => format!("{name}:{}", interfaces[port].name),
            HostPart::Driver(port) => format!("{name}:{}:driver", interfaces[port].name),
            HostPart::Paths => format!("graph: from {name}"),
        };
        statistics.add_account(&location, &account);
    }
    let graph = node.graph_traffic();
    let all = PacketAccount { received: graph.arriving, sent: graph.delivered, ..PacketAccount::default() };
    statistics.add_account(ALL_PATHS, &all);
    for (port, interface) in interfaces.iter().enumerate() {
        add_link(experiment, interface, node.link(port), node.delivered(port), statistics);
    }
}

/// Adds the accounts of a device: of its interfaces, its parts and its links.
pub fn add_device(experiment: &Experiment, device: &DeviceNode, statistics: &mut Statistics) {
    let name = experiment.node_name(device.id());
    let interfaces = experiment.node_interfaces(device.id());
    let entered = |port: usize| device.link(port).direction.packet_account().received;
    let accounts = device.packet_accounts();
    let has_account = |port: &usize| {
        accounts.iter().any(|part| matches!(part.boundary, Boundary::Port { port: own, .. } if own == *port))
    };
    let others = (0..interfaces.len()).filter(|port| !is_pci(experiment, &interfaces[*port]));
    let others: Vec<usize> = others.filter(|port| !has_account(port)).collect();
    for part in accounts {
        let mut account = part.account;
        let mut location = name.to_owned();
        match part.boundary {
            Boundary::Inside => {}
            Boundary::Port { port, taken, given } => {
                let delivered = device.delivered(port);
                account.received = (account.received + delivered.frames).saturating_sub(taken);
                account.held += delivered.waiting;
                account.sent = (account.sent + entered(port)).saturating_sub(given);
                location = format!("{name}:{}", interfaces[port].name);
            }
            Boundary::Ports => {
                account.received = others.iter().map(|port| device.delivered(*port).frames).sum();
                account.sent = others.iter().map(|port| entered(*port)).sum();
                account.held += others.iter().map(|port| device.delivered(*port).waiting).sum::<u64>();
            }
        }
        if let Some(part) = part.part {
            location = format!("{location}:{part}");
        }
        statistics.add_account(&location, &account);
    }
    for (port, interface) in interfaces.iter().enumerate() {
        add_link(experiment, interface, device.link(port), device.delivered(port).frames, statistics);
    }
}

/// Account of the stacks of one node between its interfaces and its sockets. The packets that they exchanged
/// with interfaces are those that the interfaces have counted. Frames between the stacks of two network
/// namespaces are left out: what one has sent the other has received.
pub fn stacks<'a>(stacks: impl Iterator<Item = &'a Stack>) -> PacketAccount {
    let mut all = PacketAccount::default();
    for stack in stacks {
        let (account, counters) = (stack.packet_account(), stack.interface_counters());
        all.received += counters.packets_in;
        all.sent += counters.offered_out;
        all.include(&account);
    }
    all
}

/// Packets dropped at a node and on its outgoing links and paths, by reason, as their accounts have them.
#[derive(Debug, Default)]
pub struct NodeDrops {
    /// Drops of the node and of its outgoing links and paths, by reason.
    pub all: Map<&'static str, u64>,
    /// Drops at each of the node's interfaces and on the outgoing direction of its link, by port.
    pub by_direction: Vec<Map<&'static str, u64>>,
}

impl NodeDrops {
    /// Drops of a host.
    pub fn of_host(node: &HostNode) -> NodeDrops {
        let parts = parts(node);
        let accounts = parts.iter().map(|(_, account)| account);
        let at_port = |port| {
            let is_own = |part: &HostPart| matches!(part, HostPart::Interface(Some(own)) if *own == port);
            parts.iter().find(|(part, _)| is_own(part)).map(|(_, account)| account.dropped.clone())
        };
        NodeDrops::of_parts(accounts, node.links(), |port| at_port(port).unwrap_or_default())
    }

    /// Drops of a device. One whose account has no interfaces has counted those at its ports apart: they are
    /// part of that account.
    pub fn of_device(device: &DeviceNode) -> NodeDrops {
        let parts = device.packet_accounts();
        let at_port = |port| {
            let is_own = |part: &&DeviceAccount| matches!(part.boundary, Boundary::Port { port: own, .. } if own == port);
            match parts.iter().find(is_own) {
                Some(part) => part.account.dropped.clone(),
                None => {
                    let counters = device.counters(port);
                    let drops = DropReason::ALL.map(|reason| (reason.name(), counters.dropped(reason)));
                    drops.into_iter().filter(|(_, count)| *count > 0).collect()
                }
            }
        };
        NodeDrops::of_parts(parts.iter().map(|part| &part.account), device.links(), at_port)
    }

    fn of_parts<'a>(
        parts: impl Iterator<Item = &'a PacketAccount>,
        links: &[OutboundLink],
        at_port: impl Fn(usize) -> Map<&'static str, u64>,
    ) -> NodeDrops {
        let mut drops = NodeDrops::default();
        parts.for_each(|account| add(&mut drops.all, &account.dropped));
        for (port, link) in links.iter().enumerate() {
            let on_link = link.direction.packet_account().dropped;
            add(&mut drops.all, &on_link);
            let mut of_direction = at_port(port);
            add(&mut of_direction, &on_link);
            drops.by_direction.push(of_direction);
        }
        drops
    }

    /// Number of all of them.
    pub fn total(&self) -> u64 {
        self.all.values().sum()
    }
}

fn add(counts: &mut Map<&'static str, u64>, more: &Map<&'static str, u64>) {
    more.iter().for_each(|(reason, count)| *counts.entry(*reason).or_default() += count);
}

/// True if the interface is a PCI port, whose connection carries transactions.
fn is_pci(experiment: &Experiment, interface: &Interface) -> bool {
    experiment.topology.links[interface.link].pci.is_some()
}

/// Adds an interface's parts of the accounts of its link: as the sender of one direction, and as the receiver
/// of the other, to which `delivered` frames came.
fn add_link(
    experiment: &Experiment,
    interface: &Interface,
    outbound: &OutboundLink,
    delivered: u64,
    statistics: &mut Statistics,
) {
    if is_pci(experiment, interface) {
        return;
    }
    let sender = PacketAccount { sent: 0, ..outbound.direction.packet_account() };
    let receiver = PacketAccount { sent: delivered, ..PacketAccount::default() };
    for (end, account) in [(interface.end, sender), (1 - interface.end, receiver)] {
        statistics.add_account(&direction_name(experiment, interface, end), &account);
    }
}

/// Name of the direction of an interface's link that begins at an end.
fn direction_name(experiment: &Experiment, interface: &Interface, end: usize) -> String {
    let link = &experiment.topology.links[interface.link];
    let [from, to] = [end, 1 - end].map(|end| experiment.node_name(link.ends[end].node));
    format!("{}: {from} to {to}", link.name)
}
