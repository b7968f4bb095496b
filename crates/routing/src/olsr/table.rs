//! The routing table (RFC 3626, sections 10 and 12.6).

use super::packet::WILL_NEVER;
use super::{Olsr, is_node, mpr};
use crate::contract::Route;
use crate::{InterfaceId, Prefix, Time};
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;

/// The next hop, interface and distance of a node.
type NextHop = (Ipv4Addr, InterfaceId, u32);

impl Olsr {
    /// Section 8.3.1, for each interface; returns whether the set of relays is another.
    pub(super) fn select_relays(&mut self) -> bool {
        let symmetric: Set<Ipv4Addr> = self.symmetric_neighbors().collect();
        let mut relays = Set::new();
        for id in self.interfaces.keys() {
            let by_interface = (*id, Ipv4Addr::UNSPECIFIED)..=(*id, Ipv4Addr::BROADCAST);
            let mut candidates: Map<Ipv4Addr, mpr::Candidate> = Map::new();
            for link in self.links.range(by_interface).map(|(_, link)| link).filter(|link| link.was_symmetric)
            {
                let Some(neighbor) = self.neighbors.get(&link.main) else { continue };
                candidates.entry(link.main).or_insert_with(|| {
                    let theirs = (link.main, Ipv4Addr::UNSPECIFIED)..=(link.main, Ipv4Addr::BROADCAST);
                    let strict = |two_hop: &Ipv4Addr| {
                        *two_hop != self.config.main_address && !symmetric.contains(two_hop)
                    };
                    let reaches =
                        self.two_hop.range(theirs).map(|((_, two_hop), _)| *two_hop).filter(strict).collect();
                    mpr::Candidate { willingness: neighbor.willingness, reaches }
                });
            }
            relays.extend(mpr::select(&candidates));
        }
        let changed = relays != self.relays;
        self.relays = relays;
        changed
    }

    /// Section 10: all routes, from the neighbours outwards.
    pub(super) fn compute_routes(&mut self) {
        let mut routes: Map<Ipv4Addr, NextHop> = Map::new();
        // "2. The new routing entries are added starting with the symmetric neighbors (h=1) as the destination nodes."
        for ((interface, address), link) in self.links.iter().filter(|(_, link)| link.was_symmetric) {
            routes.entry(*address).or_insert((*address, *interface, 1));
            // "if in the above, no R_dest_addr is equal to the main address of the neighbor, then another new routing entry
            // [...] is added"
            routes.entry(link.main).or_insert((*address, *interface, 1));
        }
        // "3. for each node in N2 [...] 2-hop neighbors which are not neighbors or the node itself, and such that there
        // exist at least one entry in the 2-hop neighbor set where N_neighbor_main_addr correspond to a neighbor node with
        // willingness different of WILL_NEVER"
        let mut at = Vec::new();
        for (neighbor, two_hop) in self.two_hop.keys() {
            let able =
                self.neighbors.get(neighbor).is_some_and(|n| n.symmetric && n.willingness != WILL_NEVER);
            if able && self.extend(&mut routes, *neighbor, *two_hop, 2) {
                at.push(*two_hop);
            }
        }
        // "3.1 For each topology entry in the topology table, if its T_dest_addr does not correspond to R_dest_addr of any
        // route entry in the routing table AND its T_last_addr corresponds to R_dest_addr of a route entry whose R_dist is
        // equal to h, then a new route entry MUST be recorded"
        let mut distance = 2;
        while !at.is_empty() {
            distance += 1;
            let mut reached = Vec::new();
            for last in at {
                let theirs = (last, Ipv4Addr::UNSPECIFIED)..=(last, Ipv4Addr::BROADCAST);
                let destinations: Vec<_> = self.topology.range(theirs).map(|((_, to), _)| *to).collect();
                for to in destinations {
                    if self.extend(&mut routes, last, to, distance) {
                        reached.push(to);
                    }
                }
            }
            at = reached;
        }
        // "4. For each entry in the multiple interface association base where there exists a routing entry such that
        // R_dest_addr == I_main_addr AND there is no routing entry such that R_dest_addr == I_iface_addr"
        for (address, (main, _)) in &self.associations {
            if let Some(way) = routes.get(main).copied() {
                routes.entry(*address).or_insert(way);
            }
        }
        let mut table: Map<Prefix, Route<Prefix, Ipv4Addr>> = Map::new();
        let route = |destination, &(next_hop, interface, distance): &NextHop| Route {
            destination,
            next_hop,
            interface,
            distance,
        };
        for (main, way) in &routes {
            table.insert(Prefix::host(*main), route(Prefix::host(*main), way));
        }
        // Section 12.6: of several gateways to a network, the nearest. A network of this node's own needs none.
        for (gateway, network) in self.networks.keys() {
            let Some(way) = routes.get(gateway).filter(|_| !self.config.networks.contains(network)) else {
                continue;
            };
            let nearer = table.get(network).is_none_or(|route| way.2 < route.distance);
            if nearer && !(network.bits() == 32 && self.is_own(network.address())) {
                table.insert(*network, route(*network, way));
            }
        }
        self.routes.replace(table);
    }

    /// Records a route to `to` by the way to `last`, if there is a way to `last` and none to `to`.
    fn extend(
        &self,
        routes: &mut Map<Ipv4Addr, NextHop>,
        last: Ipv4Addr,
        to: Ipv4Addr,
        distance: u32,
    ) -> bool {
        if routes.contains_key(&to) || self.is_own(to) || !is_node(to) {
            return false;
        }
        let Some(&(next_hop, interface, _)) = routes.get(&last) else { return false };
        routes.insert(to, (next_hop, interface, distance));
        true
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        address == self.config.main_address
            || self.interfaces.values().any(|interface| interface.at.address == address)
    }

    /// Brings all that is computed up to date with the sets that changed, and sends what this changes.
    pub(super) fn settle(&mut self, now: Time) {
        if std::mem::take(&mut self.dirty.neighborhood) {
            self.update_neighbors(now);
        }
        if std::mem::take(&mut self.dirty.relays) {
            self.dirty.hello |= self.select_relays();
            (self.dirty.routes, self.dirty.advertised) =
                (true, self.dirty.advertised || self.config.tc_redundancy > 0);
        }
        if std::mem::take(&mut self.dirty.advertised) {
            let advertised = self.advertised();
            if advertised != self.advertised {
                // "the ANSN is incremented when the advertised neighbor set changes"
                self.advertised = advertised;
                self.ansn = self.ansn.wrapping_add(1);
                if self.config.triggered {
                    self.tc_at = self.tc_at.min(now.max(self.said_tc + self.config.max_jitter));
                }
            }
        }
        if std::mem::take(&mut self.dirty.routes) {
            self.compute_routes();
        }
        if std::mem::take(&mut self.dirty.hello) && self.config.triggered {
            let gap = self.config.max_jitter;
            for interface in self.interfaces.values_mut() {
                interface.hello_at = interface.hello_at.min(now.max(interface.said_hello + gap));
            }
        }
    }
}
