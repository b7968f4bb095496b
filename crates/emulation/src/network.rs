//! Links of an emulation. A link is *direct* if the kernel alone can provide its properties: a pair of
//! interfaces (`veth`) between two namespaces. Otherwise each end is a pair whose peer is in the hub, and a
//! [`RelayedLink`] moves frames between the two peers.
//!
//! A host's interface has a token bucket of the kernel even where a line enforces the rate: packets then
//! queue in the host, where its TCP accounts for them and limits itself (TCP small queues), as in a
//! simulation and on a physical interface.

use crate::clock::monotonic_ns;
use crate::error::{Doing, Result};
use crate::gateways::{self, Machine};
use crate::graph::{GraphNetwork, MAC};
use crate::longest_path;
use crate::netlink::VethEnd;
use crate::nodes::{Node, apply_settings, interface_settings, p4_port_settings};
use crate::relayed_link::RelayedLink;
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{Device, DeviceKind};
use belljar_net::link::{DirectionChange, LinkProperties};
use belljar_net::nic::{Limit, QueueConfig};
use belljar_packetio::{Namespace, PacketOptions, PacketRing, Port, Timestamps};
use belljar_plan::{Direction, HostChange, LinkChange, Schedule};
use belljar_wire::ethernet::HEADER_LEN;

/// Largest latency that is left to the kernel, whose own latency is of this order.
pub const KERNELS_LATENCY: SimDuration = SimDuration::from_micros(100);
/// Time in which a full bucket drains at its rate, and minimum size of a bucket in bytes.
const BURST: SimDuration = SimDuration::from_micros(1_000);
const LEAST_BURST: u64 = 3_200;
/// Minimum burst in bytes at rates of at least [`FAST`]; smaller bursts do not reach the rate (measured
/// over 16 bridges: 32 kB 18 %, 256 kB 95 %).
const FAST_BURST: u64 = 256 << 10;
const FAST: u64 = 1_000_000_000;
/// Maximum size in bytes of a segment that TCP hands to an interface at once (TSO), headers included.
const LARGEST_SEGMENT: usize = 66_000;
/// Name of a switch's bridge in its namespace, which no port has.
const BRIDGE: &str = "bj-bridge";
/// Longest wait for the ports of bridges to come up.
const CARRIER_NS: u64 = 2_000_000_000;

/// Network of an emulation, after its construction.
pub struct Network {
    /// Links whose frames pass through this process, with their ports.
    pub relayed: Vec<(RelayedLink, [Box<dyn Port>; 2])>,
    /// Graph network with the ports of its hosts.
    pub graph: Option<(GraphNetwork, Vec<Box<dyn Port>>)>,
    /// Number of direct links.
    pub direct: usize,
    /// Interface indices of the ends in the hub, by link; none for a direct link.
    pub hub_ends: Vec<Option<[u32; 2]>>,
    /// Smallest latency of a relayed link or of the graph.
    pub least_latency: Option<SimDuration>,
    /// Latency of the longest of the shortest paths over links.
    pub longest_path: SimDuration,
    /// Notes on rates of direct links that the kernel could not enforce.
    pub notes: Vec<String>,
    /// Token buckets of hosts and of direct links.
    pub buckets: Vec<Bucket>,
}

/// Token bucket of the kernel at a node's interface.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Index of the node.
    pub node: usize,
    /// Index of the interface in the node's namespace.
    index: u32,
    rate: u64,
    room: u32,
    mtu: usize,
    /// Largest size so far, in bytes.
    burst: u32,
}

impl Bucket {
    /// Sets the bucket's rate for a time dilation factor: the bucket fills in real time.
    pub fn set(&mut self, node: &mut Node, tdf: f64) -> std::io::Result<()> {
        let rate = self.fill(tdf);
        node.netlink.set_rate(self.index, rate, self.burst, self.room)
    }

    /// Rate in bit/s at which the bucket fills at a factor. Its size never decreases: queued segments may
    /// be as large as the bucket was, and a bucket smaller than a segment never passes it.
    fn fill(&mut self, tdf: f64) -> u64 {
        let rate = ((self.rate as f64 / tdf) as u64).max(1);
        self.burst = self.burst.max(burst(rate, self.mtu));
        rate
    }
}

/// True if the kernel alone can provide the link.
fn is_direct(experiment: &Experiment, schedule: &Schedule, link: usize) -> bool {
    let plain = |properties: &LinkProperties| {
        let LinkProperties { rate, latency, .. } = *properties;
        // All other properties, those added later too, have their defaults.
        latency <= KERNELS_LATENCY
            && *properties == LinkProperties { rate, latency, ..LinkProperties::default() }
    };
    let settings = &experiment.topology.links[link];
    let touched = [0, 1].map(|end| Direction::of(experiment, link, end)).into_iter().any(|direction| {
        schedule.network.iter().any(|(_, change)| match change.of_link(direction) {
            None | Some(DirectionChange::Heal(_)) => false,
            Some(DirectionChange::Split { apart, .. }) => apart,
            Some(_) => true,
        })
    });
    let changes = |node: HostId, port: usize| {
        schedule.of_links(node).any(
            |(_, change)| matches!(change, LinkChange::Nic(p, _) | LinkChange::Carrier(p, _) if *p == port),
        )
    };
    settings.ends.iter().all(|end| plain(&end.properties) && !changes(end.node, end.port)) && !touched
}

/// True if events or the end of the bootstrap phase change the sending rate of a host at a port, or over
/// the graph.
fn changes_rate(schedule: &Schedule, host: usize, port: Option<usize>) -> bool {
    let changes = schedule.hosts.get(host).into_iter().flatten();
    changes.into_iter().any(|(_, change)| match (change, port) {
        (HostChange::Link(LinkChange::Nic(changed, _)), Some(port)) => *changed == port,
        (HostChange::Bandwidth { .. }, None) => true,
        _ => false,
    })
}

/// Size in bytes of a token bucket at a rate in bit/s: at least the longest frame, which would never pass
/// otherwise.
fn burst(rate: u64, mtu: usize) -> u32 {
    let bytes = (rate as f64 / 8.0 * BURST.as_nanos() as f64 / 1e9) as u64;
    let least = if rate >= FAST { FAST_BURST } else { LEAST_BURST };
    u32::try_from(bytes.max(least).max((mtu + HEADER_LEN) as u64)).unwrap_or(u32::MAX)
}

/// Queue limit in bytes of a token bucket that stands for a queue; `None` if the queue is not a plain FIFO.
fn room(queue: &QueueConfig, mtu: usize) -> Option<u32> {
    let bytes = match queue {
        QueueConfig::Fifo { limit: Limit::Packets(packets), ecn_threshold: None } => {
            packets.saturating_mul(mtu + HEADER_LEN)
        }
        QueueConfig::Fifo { limit: Limit::Bytes(bytes), ecn_threshold: None } => *bytes,
        _ => return None,
    };
    // A large segment of TCP (TSO) is queued as one packet.
    Some(u32::try_from(bytes.max(LARGEST_SEGMENT)).unwrap_or(u32::MAX))
}

/// Builds all links between `nodes`, which are in the order of their ids, the graph network, and the links
/// to interfaces of the `machine`; far ends are in `hub`.
pub fn build(
    experiment: &Experiment,
    schedule: &Schedule,
    nodes: &mut [Node],
    (hub, machine): (&mut Node, &Machine),
    tdf: Option<f64>,
) -> Result<Network> {
    let mut network = Network {
        relayed: Vec::new(),
        graph: None,
        direct: 0,
        hub_ends: Vec::new(),
        least_latency: None,
        longest_path: longest_path::latency(&experiment.topology.links, nodes.len()),
        notes: Vec::new(),
        buckets: Vec::new(),
    };
    let graph = GraphNetwork::new(experiment, schedule);
    let ports = experiment.topology.links.len() * 2 + graph.iter().flat_map(GraphNetwork::hosts).count();
    // Many ports share the memory of a few, but each must hold the arrivals until the factor of a dilated
    // network has adapted to its load.
    let ring_bytes = ((64 << 20) / ports.max(1)).clamp(512 << 10, 4 << 20);
    for node in nodes.iter_mut() {
        if gateways::of(experiment, node.id).is_none() {
            node.ports = vec![0; experiment.node_interfaces(node.id).len()];
        }
    }
    let mut limited = Vec::new();
    for (link, settings) in experiment.topology.links.iter().enumerate() {
        let names = [0, 1].map(|end| {
            let (node, port) = (settings.ends[end].node, settings.ends[end].port);
            &experiment.node_interfaces(node)[port]
        });
        let macs = [0, 1].map(|end| {
            Some(belljar_plan::mac(experiment, experiment.node_name(settings.ends[end].node), names[end]))
        });
        let [a, b] = [0, 1].map(|end| VethEnd { name: &names[end].name, mac: macs[end] });
        let ids = [0, 1].map(|end| settings.ends[end].node.index());
        // Latency of the kernel is real time, so that no link is direct under dilation.
        let outside = [0, 1].map(|end| gateways::of(experiment, settings.ends[end].node).is_some());
        let by_kernel = tdf.is_none() && outside == [false; 2] && is_direct(experiment, schedule, link);
        if by_kernel {
            let far = nodes[ids[1]].namespace.try_clone().doing("sharing a namespace")?;
            nodes[ids[0]].netlink.add_veth(&a, &b, std::os::fd::AsFd::as_fd(&far), settings.mtu)?;
            network.hub_ends.push(None);
            network.direct += 1;
        } else {
            let mut numbers = [0; 2];
            for (end, near) in [a, b].into_iter().enumerate().filter(|(end, _)| !outside[*end]) {
                let name = format!("l{link}-{end}");
                let far = VethEnd { name: &name, mac: None };
                nodes[ids[end]].netlink.add_veth(&near, &far, hub.fd(), settings.mtu)?;
                numbers[end] = hub.netlink.index(&name)?;
                hub.netlink.set_up(numbers[end], true)?;
            }
            network.hub_ends.push(Some(numbers));
            let least = settings.ends.iter().map(|end| end.properties.latency).min();
            network.least_latency = network.least_latency.into_iter().chain(least).min();
        }
        for end in [0, 1].into_iter().filter(|end| !outside[*end]) {
            let port = settings.ends[end].port;
            let node = &mut nodes[ids[end]];
            node.ports[port] = node.netlink.index(&names[end].name)?;
            apply_settings(node, interface_settings(names[end], tdf))?;
            if let Some(DeviceKind::P4(switch)) = experiment.device(node.id).map(|device| &device.kind)
                && switch.management.as_ref().is_some_and(|management| management.interface != port)
            {
                apply_settings(node, p4_port_settings(names[end]))?;
            }
            let line = &settings.ends[end].properties;
            let is_host = ids[end] < experiment.hosts.len() && !changes_rate(schedule, ids[end], Some(port));
            if let Some(rate) = line.rate.filter(|_| by_kernel || is_host)
                && let Some(room) = room(&line.queue, settings.mtu)
            {
                let link = by_kernel.then(|| settings.name.clone());
                limited.push((ids[end], node.ports[port], rate, (room, settings.mtu), link));
            }
        }
    }
    for node in nodes.iter_mut() {
        let device = experiment.device(node.id);
        if let Some(DeviceKind::Switch(switch)) = device.map(|device| &device.kind) {
            node.netlink.add_bridge(BRIDGE, switch.ageing.as_nanos() / 1_000_000_000)?;
            let bridge = node.netlink.index(BRIDGE)?;
            node.netlink.set_up(bridge, true)?;
            for index in node.ports.clone() {
                node.netlink.set_bridge(index, bridge)?;
            }
        }
    }
    if let Some(graph) = graph {
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        let members: Vec<HostId> = graph.hosts().collect();
        for id in members {
            let node = &mut nodes[id.index()];
            let name = format!("g{}", id.index());
            let (near, far) = (VethEnd { name: "eth0", mac: Some(MAC) }, VethEnd { name: &name, mac: None });
            node.netlink.add_veth(&near, &far, hub.fd(), 1_500)?;
            let index = node.netlink.index("eth0")?;
            node.netlink.set_no_arp(index)?;
            node.graph = Some(index);
            let host = &experiment.hosts[id.index()];
            if let Some(rate) = host.bandwidth_up
                && let Some(room) = room(&host.options.queue, 1_500)
                && experiment.general.bootstrap_end_time == SimTime::ZERO
                && !changes_rate(schedule, id.index(), None)
            {
                // Rates of the graph are those of IP packets; full-size packets are to leave at exactly
                // that rate.
                let framed = u128::from(rate) * (1_500 + HEADER_LEN as u128) / 1_500;
                limited.push((id.index(), index, u64::try_from(framed).unwrap_or(rate), (room, 1_500), None));
            }
            let index = hub.netlink.index(&name)?;
            hub.netlink.set_up(index, true)?;
            ports.push(open(hub, &name, ring_bytes)?);
        }
        let paths = experiment.hosts.iter().filter_map(|host| host.node);
        let least = paths.filter_map(|node| experiment.network.graph.least_latency_from(node)).min();
        network.least_latency = network.least_latency.into_iter().chain(least).min();
        network.graph = Some((graph, ports));
    }
    for node in nodes.iter_mut() {
        node.configure(experiment)?;
        for port in schedule.first.blocked[node.id.index()].clone() {
            node.netlink.set_up(node.ports[port], false)?;
        }
        let index = node.id.index();
        node.set_routes(true, node.specs(&schedule.first.routes[index]))?;
        if experiment.belljar.ipv6 {
            node.set_routes(false, node.specs(&schedule.first.routes6[index]))?;
        }
    }
    for (node, index, rate, (room, mtu), link) in limited {
        let mut bucket = Bucket { node, index, rate, room, mtu, burst: 0 };
        let result = bucket.set(&mut nodes[node], tdf.unwrap_or(1.0));
        network.buckets.push(bucket);
        if let (Err(error), Some(link)) = (result, link) {
            network.notes.push(format!(
                "the rate of link '{link}' is not limited: this kernel has no token bucket filter (tbf): {error}"
            ));
        }
    }
    for (link, ends) in network.hub_ends.iter().enumerate().filter(|(_, ends)| ends.is_some()) {
        debug_assert!(ends.is_some());
        let port =
            |end: usize| match machine.open(experiment, experiment.topology.links[link].ends[end].node)? {
                Some(port) => Ok(port),
                None => open(hub, &format!("l{link}-{end}"), ring_bytes),
            };
        network.relayed.push((RelayedLink::new(experiment, schedule, link), [port(0)?, port(1)?]));
    }
    wait_for_bridges(experiment, nodes)?;
    Ok(network)
}

/// Waits until bridges forward frames at all their ports: the kernel notices carriers up to a second late.
/// A port may be down from the start, so that the wait is bounded by [`CARRIER_NS`].
fn wait_for_bridges(experiment: &Experiment, nodes: &mut [Node]) -> Result<()> {
    let deadline = monotonic_ns() + CARRIER_NS;
    for node in nodes.iter_mut() {
        let is_switch = |device: &Device| matches!(device.kind, DeviceKind::Switch(_));
        if !experiment.device(node.id).is_some_and(is_switch) {
            continue;
        }
        for interface in experiment.node_interfaces(node.id) {
            while !node.netlink.is_running(&interface.name)? && monotonic_ns() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
    Ok(())
}

/// Opens a port on an interface of the hub.
fn open(hub: &Node, name: &str, ring_bytes: usize) -> Result<Box<dyn Port>> {
    let options = PacketOptions { ring_bytes, timestamps: Timestamps::Kernel, ..PacketOptions::default() };
    Ok(Namespace::Fd(hub.fd()).run(|| Ok(Box::new(PacketRing::open(name, &options)?) as Box<dyn Port>))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_config::PathContext;

    fn direct(link: &str, events: &str) -> bool {
        let text = format!(
            "general: {{ stop_time: 10 }}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\n\
             links: [{{ name: l, between: [a, b]{link} }}]\n{events}"
        );
        let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        is_direct(&experiment, &Schedule::new(&experiment), 0)
    }

    #[test]
    fn the_kernel_is_a_link_that_has_a_rate_alone() {
        assert!(direct("", "") && direct(", rate: 10 Mbit", "") && direct(", latency: 100 us", ""));
        for other in ["latency: 101 us", "jitter: 1 us", "packet_loss: 0.1", "queue: { packets: 5 }"] {
            assert!(!direct(&format!(", {other}"), ""), "{other}");
        }
    }

    #[test]
    fn a_link_that_events_change_is_not_the_kernels() {
        for event in ["link_down: l", "link_change: { link: l }, rate: 1 Mbit", "partition: [[a], [b]]"] {
            assert!(!direct("", &format!("events: [{{ at: 1 s, {event} }}]\n")), "{event}");
        }
    }

    #[test]
    fn a_bucket_keeps_room_for_the_segments_that_wait_before_it() {
        let mut bucket = Bucket { node: 0, index: 0, rate: 600_000_000, room: 600_000, mtu: 1_500, burst: 0 };
        let rates: Vec<(u64, u32)> =
            [4.0, 1.0, 8.0, 100.0].map(|tdf| (bucket.fill(tdf), bucket.burst)).to_vec();
        assert_eq!(
            rates,
            [(150_000_000, 18_750), (600_000_000, 75_000), (75_000_000, 75_000), (6_000_000, 75_000)]
        );
    }

    #[test]
    fn buckets_and_queues_have_room() {
        let bursts = [
            burst(1_000_000, 1_500),
            burst(100_000_000, 1_500),
            burst(1_000_000_000, 1_500),
            burst(1_000_000, 9_000),
        ];
        assert_eq!(bursts, [3_200, 12_500, 262_144, 9_014]);
        assert_eq!(room(&QueueConfig::default(), 1_500), Some(1_514_000));
        assert_eq!(room(&QueueConfig::packets(2), 1_500), Some(66_000));
    }
}
