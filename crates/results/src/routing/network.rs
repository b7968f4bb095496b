//! Connectivity of hosts: addresses, links and radio channels of a run.

use crate::topology::{Topology, TopologyRadio};
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;

/// The network below the routes.
pub(super) struct Network {
    /// Host of each address.
    pub(super) owners: Map<Ipv4Addr, usize>,
    /// Main address of each host.
    pub(super) addresses: Vec<Option<Ipv4Addr>>,
    /// Links, each with the hosts and interfaces at its ends; a switch contributes a link for each pair.
    links: Vec<[(usize, String); 2]>,
    radios: Vec<Radio>,
    /// Interfaces without a carrier.
    down: Set<(usize, String)>,
    /// True if a device with unknown routes forwards packets.
    pub(super) has_routers: bool,
}

struct Radio {
    range: f64,
    /// Host, interface and path of each station.
    stations: Vec<(usize, String, Vec<[f64; 4]>)>,
}

impl Network {
    pub(super) fn new(topology: &Topology, hosts: &[&String]) -> Network {
        let number = |name: &str| hosts.iter().position(|host| host.as_str() == name);
        let mut owners = Map::new();
        let mut addresses = vec![None; hosts.len()];
        let mut of_node: Map<u32, usize> = Map::new();
        for host in &topology.hosts {
            let Some(n) = number(&host.name) else { continue };
            addresses[n] = host.address.parse().ok();
            let all = host.addresses.iter().chain([&host.address]).filter_map(|own| own.parse().ok());
            owners.extend(all.map(|own: Ipv4Addr| (own, n)));
            of_node.insert(host.node, n);
        }
        let kinds: Map<u32, &str> =
            topology.nodes.iter().filter_map(|node| Some((node.id, node.kind.as_deref()?))).collect();
        let kind = |node: &u32| kinds.get(node).copied().unwrap_or("");
        // Switches and other simulators connect the links attached to them.
        let mut segments: Map<u32, Vec<(usize, String)>> = Map::new();
        let mut links = Vec::new();
        for edge in &topology.edges {
            let Some([near, far]) = &edge.interfaces else { continue };
            let ends = [(edge.source, near), (edge.target, far)];
            let hosts = ends.each_ref().map(|(node, name)| {
                of_node.get(node).filter(|_| kind(node) == "host").map(|host| (*host, (*name).clone()))
            });
            match hosts {
                [Some(a), Some(b)] => links.push([a, b]),
                [Some(a), None] if kind(&edge.target) != "radio" => {
                    segments.entry(edge.target).or_default().push(a)
                }
                [None, Some(b)] if kind(&edge.source) != "radio" => {
                    segments.entry(edge.source).or_default().push(b)
                }
                _ => {}
            }
        }
        for members in segments.into_values() {
            for (n, a) in members.iter().enumerate() {
                links.extend(members[n + 1..].iter().map(|b| [a.clone(), b.clone()]));
            }
        }
        let radio = |radio: &TopologyRadio| Radio {
            range: radio.range,
            stations: radio
                .stations
                .iter()
                .filter_map(|station| {
                    Some((number(&station.node)?, station.interface.clone(), station.path.clone()))
                })
                .collect(),
        };
        Network {
            owners,
            addresses,
            links,
            radios: topology.radios.iter().map(radio).collect(),
            down: Set::new(),
            has_routers: topology.nodes.iter().any(|node| node.kind.as_deref() == Some("router")),
        }
    }

    /// Updates the carrier state of an interface.
    pub(super) fn set_carrier(&mut self, host: usize, dev: String, carrier: bool) {
        match carrier {
            true => self.down.remove(&(host, dev)),
            false => self.down.insert((host, dev)),
        };
    }

    /// The hosts that each host reaches in one hop at a time.
    pub(super) fn neighbours(&self, time: f64) -> Vec<Set<usize>> {
        let mut all = vec![Set::new(); self.addresses.len()];
        for [a, b] in self.links.iter().filter(|ends| ends.iter().all(|end| !self.down.contains(end))) {
            all[a.0].insert(b.0);
            all[b.0].insert(a.0);
        }
        for radio in &self.radios {
            let up =
                radio.stations.iter().filter(|(host, dev, _)| !self.down.contains(&(*host, dev.clone())));
            let places: Vec<_> = up.map(|(host, _, path)| (*host, place(path, time))).collect();
            for (n, (a, from)) in places.iter().enumerate() {
                for (b, to) in &places[n + 1..] {
                    let squares: f64 = from.iter().zip(to).map(|(from, to)| (from - to) * (from - to)).sum();
                    if squares <= radio.range * radio.range {
                        all[*a].insert(*b);
                        all[*b].insert(*a);
                    }
                }
            }
        }
        all
    }
}

/// Number of hops from `from` to each host; `None` if it is unreachable.
pub(super) fn distances(neighbours: &[Set<usize>], from: usize) -> Vec<Option<u32>> {
    let mut found = vec![None; neighbours.len()];
    found[from] = Some(0);
    let mut ring = vec![from];
    let mut hops = 0;
    while !ring.is_empty() {
        hops += 1;
        let mut next = Vec::new();
        for other in ring.iter().flat_map(|host| &neighbours[*host]) {
            if found[*other].is_none() {
                found[*other] = Some(hops);
                next.push(*other);
            }
        }
        ring = next;
    }
    found
}

/// Position of a station at a time: waypoints are seconds, x, y, z.
fn place(path: &[[f64; 4]], time: f64) -> [f64; 3] {
    let next = path.partition_point(|waypoint| waypoint[0] <= time);
    let (Some(from), Some(to)) =
        (path.get(next.saturating_sub(1)), path.get(next.min(path.len().saturating_sub(1))))
    else {
        return [0.0; 3];
    };
    let share = if to[0] > from[0] { ((time - from[0]) / (to[0] - from[0])).clamp(0.0, 1.0) } else { 1.0 };
    [1, 2, 3].map(|n| from[n] + (to[n] - from[n]) * share)
}
