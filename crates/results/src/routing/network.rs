//! The network below the routes: addresses, links, radio channels and partitions of a run.

use crate::connectivity::{Connectivity, ConnectivityLink, ConnectivityPartition, ConnectivityRadio};
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;

/// The network below the routes.
pub(super) struct Network {
    /// Host of each address.
    pub(super) owners: Map<Ipv4Addr, usize>,
    /// Main address of each host.
    pub(super) addresses: Vec<Option<Ipv4Addr>>,
    /// Ports of each node: the hosts first, then the devices that forward frames.
    ports: Vec<Vec<Port>>,
    links: Vec<ConnectivityLink>,
    radios: Vec<Radio>,
    partitions: Vec<Partition>,
    /// Interfaces without a carrier.
    down: Set<(usize, String)>,
    /// True if a device with unknown routes forwards packets.
    pub(super) has_routers: bool,
}

/// A node's end of a link.
struct Port {
    interface: String,
    link: usize,
    /// Number of the end: the node sends in the direction of this number.
    end: usize,
    /// Node and interface at the other end.
    peer: (usize, String),
}

struct Radio {
    range: f64,
    delivery: f64,
    /// Host, interface and path of each station.
    stations: Vec<(usize, String, Vec<[f64; 4]>)>,
}

/// A partition: its interval, and the group of each host that is in one.
struct Partition {
    from: f64,
    until: Option<f64>,
    groups: Map<usize, usize>,
}

/// A neighbour as reached by one interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contact<'a> {
    /// The sender's interface.
    pub(super) interface: &'a str,
    /// Expected share of packets that arrive.
    pub(super) delivery: f64,
}

/// The hosts that each host reaches in one hop.
pub(super) type Neighbours<'a> = Vec<Map<usize, Vec<Contact<'a>>>>;

impl Network {
    /// Builds the network of these hosts, whose order gives their numbers.
    pub(super) fn new(connectivity: Connectivity, hosts: &[&String]) -> Network {
        let number = |name: &str| hosts.iter().position(|host| host.as_str() == name);
        let mut owners = Map::new();
        let mut addresses = vec![None; hosts.len()];
        let mut numbers: Map<&str, usize> = Map::new();
        let mut count = hosts.len();
        for node in &connectivity.nodes {
            match (node.kind.as_str(), number(&node.name)) {
                ("host", Some(n)) => {
                    let own = node.addresses.iter().filter_map(|own| own.parse::<Ipv4Addr>().ok());
                    addresses[n] = own.clone().next();
                    owners.extend(own.map(|address| (address, n)));
                    numbers.insert(&node.name, n);
                }
                // A radio channel is not a link, a router ends a network, and a memory carries no frames.
                ("host" | "radio" | "router" | "memory", _) => {}
                _ => {
                    numbers.insert(&node.name, count);
                    count += 1;
                }
            }
        }
        let mut ports: Vec<Vec<Port>> = (0..count).map(|_| Vec::new()).collect();
        for (n, link) in connectivity.links.iter().enumerate() {
            for (end, (node, interface)) in link.ends.iter().enumerate() {
                let (peer, at) = &link.ends[1 - end];
                if let (Some(node), Some(peer)) = (numbers.get(node.as_str()), numbers.get(peer.as_str())) {
                    let peer = (*peer, at.clone());
                    ports[*node].push(Port { interface: interface.clone(), link: n, end, peer });
                }
            }
        }
        let radio = |radio: &ConnectivityRadio| Radio {
            range: radio.channel.range,
            delivery: 1.0 - radio.loss,
            stations: radio
                .channel
                .stations
                .iter()
                .filter_map(|station| {
                    Some((number(&station.node)?, station.interface.clone(), station.path.clone()))
                })
                .collect(),
        };
        let partition = |each: &ConnectivityPartition| Partition {
            from: each.from,
            until: each.until,
            groups: each
                .groups
                .iter()
                .enumerate()
                .flat_map(|(group, names)| names.iter().filter_map(move |name| Some((number(name)?, group))))
                .collect(),
        };
        Network {
            owners,
            addresses,
            ports,
            radios: connectivity.radios.iter().map(radio).collect(),
            partitions: connectivity.partitions.iter().map(partition).collect(),
            down: Set::new(),
            has_routers: connectivity.nodes.iter().any(|node| node.kind == "router"),
            links: connectivity.links,
        }
    }

    /// Updates the carrier state of an interface.
    pub(super) fn set_carrier(&mut self, host: usize, dev: String, carrier: bool) {
        match carrier {
            true => self.down.remove(&(host, dev)),
            false => self.down.insert((host, dev)),
        };
    }

    /// True if the host has a link or station at this interface.
    pub(super) fn has_interface(&self, host: usize, interface: &str) -> bool {
        let mut stations = self.radios.iter().flat_map(|radio| &radio.stations);
        self.ports[host].iter().any(|port| port.interface == interface)
            || stations.any(|(own, name, _)| *own == host && name == interface)
    }

    /// True if a partition separates two hosts at a time.
    pub(super) fn is_split(&self, a: usize, b: usize, time: f64) -> bool {
        let mut open = self.partitions.iter().filter(|p| p.from <= time && p.until.is_none_or(|t| t > time));
        open.any(|partition| match (partition.groups.get(&a), partition.groups.get(&b)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        })
    }

    /// The hosts that each host reaches in one hop at a time, by links, over switches, and by radio. A
    /// neighbour to which every packet is lost is one of them.
    pub(super) fn neighbours(&self, time: f64) -> Neighbours<'_> {
        let mut all: Neighbours<'_> = vec![Map::new(); self.addresses.len()];
        for (host, contacts) in all.iter_mut().enumerate() {
            for port in &self.ports[host] {
                self.add_segment(contacts, host, port, time);
            }
        }
        for radio in &self.radios {
            let up =
                radio.stations.iter().filter(|(host, dev, _)| !self.down.contains(&(*host, dev.clone())));
            let positions: Vec<_> =
                up.map(|(host, dev, path)| (*host, dev.as_str(), position(path, time))).collect();
            for (n, (a, _, at)) in positions.iter().enumerate() {
                for (m, (b, interface, from)) in positions.iter().enumerate() {
                    let squares: f64 = from.iter().zip(at).map(|(from, to)| (from - to) * (from - to)).sum();
                    if n != m && squares <= radio.range * radio.range {
                        let contact = Contact { interface, delivery: radio.delivery };
                        all[*b].entry(*a).or_default().push(contact);
                    }
                }
            }
        }
        all
    }

    /// Adds the hosts that a host reaches by one of its ports: that at the other end of the link, or those
    /// behind the devices there.
    fn add_segment<'a>(
        &'a self,
        contacts: &mut Map<usize, Vec<Contact<'a>>>,
        host: usize,
        port: &'a Port,
        time: f64,
    ) {
        let is_down = |node: usize, interface: &String| self.down.contains(&(node, interface.clone()));
        if is_down(host, &port.interface) {
            return;
        }
        let mut seen = Set::new();
        let mut ring = vec![(port, 1.0)];
        while !ring.is_empty() {
            let mut next = Vec::new();
            for (by, delivery) in ring {
                let link = &self.links[by.link];
                let (peer, interface) = &by.peer;
                if is_unused(link, time) || is_down(*peer, interface) {
                    continue;
                }
                let delivery = delivery * (1.0 - loss(link, by.end, time));
                if *peer < self.addresses.len() {
                    if *peer != host {
                        let contact = Contact { interface: &port.interface, delivery };
                        contacts.entry(*peer).or_default().push(contact);
                    }
                } else if seen.insert(*peer) {
                    let others = self.ports[*peer].iter().filter(|other| other.link != by.link);
                    next.extend(others.map(|other| (other, delivery)));
                }
            }
            ring = next;
        }
    }
}

/// Number of hops from `from` to each host; `None` if it is unreachable.
pub(super) fn distances(neighbours: &Neighbours<'_>, from: usize) -> Vec<Option<u32>> {
    let mut found = vec![None; neighbours.len()];
    found[from] = Some(0);
    let mut ring = vec![from];
    let mut hops = 0;
    while !ring.is_empty() {
        hops += 1;
        let mut next = Vec::new();
        for other in ring.iter().flat_map(|host| neighbours[*host].keys()) {
            if found[*other].is_none() {
                found[*other] = Some(hops);
                next.push(*other);
            }
        }
        ring = next;
    }
    found
}

/// Expected loss at a time in the direction of a link that begins at an end.
fn loss(link: &ConnectivityLink, end: usize, time: f64) -> f64 {
    let changes = &link.loss[end];
    let past = changes.partition_point(|(at, _)| *at <= time);
    past.checked_sub(1).map_or(0.0, |last| changes[last].1)
}

/// True if a link carries nothing at a time.
fn is_unused(link: &ConnectivityLink, time: f64) -> bool {
    link.unused.iter().any(|(from, until)| *from <= time && until.is_none_or(|until| until > time))
}

/// Position of a station at a time: waypoints are seconds, x, y, z.
fn position(path: &[[f64; 4]], time: f64) -> [f64; 3] {
    let next = path.partition_point(|waypoint| waypoint[0] <= time);
    let (Some(from), Some(to)) =
        (path.get(next.saturating_sub(1)), path.get(next.min(path.len().saturating_sub(1))))
    else {
        return [0.0; 3];
    };
    let share = if to[0] > from[0] { ((time - from[0]) / (to[0] - from[0])).clamp(0.0, 1.0) } else { 1.0 };
    [1, 2, 3].map(|n| from[n] + (to[n] - from[n]) * share)
}
