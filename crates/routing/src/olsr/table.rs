//! Routing table (RFC 3626, sections 10 and 12.6).

use super::packet::WILL_NEVER;
use super::topology::Topology;
use super::tree::Tree;
use super::{Olsr, is_node, mpr};
use crate::contract::Route;
use crate::{InterfaceId, Prefix, Time};
use belljar_base::map::Entry;
use belljar_base::{Map, Set};
use std::net::Ipv4Addr;

/// Next hop, interface and distance of a node.
type NextHop = (Ipv4Addr, InterfaceId, u32);

/// Routes of one and two hops, which follow from HELLO messages.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Near {
    routes: Map<Ipv4Addr, NextHop>,
    /// Destinations two hops away, in the order of discovery.
    two_hops: Vec<Ipv4Addr>,
}

impl Olsr {
    /// Section 8.3.1: selects MPRs for each interface; returns whether their set has changed.
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

    /// Section 10: computes all routes, starting with the neighbours.
    pub(super) fn compute_routes(&mut self) {
        let mut tree = Tree::new(self.nodes.bound());
        self.routes.replace(self.all_routes(&self.near, &mut tree));
        self.tree = tree;
    }

    /// Steps 2 and 3: computes the routes of one and two hops.
    fn look_around(&self) -> Near {
        let mut routes: Map<Ipv4Addr, NextHop> = Map::new();
        // Of several routes of equal length, those over neighbours with an overdue HELLO come last: these may
        // have moved away.
        let mut links: Vec<_> = self.links.iter().filter(|(_, link)| link.was_symmetric).collect();
        links.sort_by_key(|(_, link)| link.was_overdue);
        // "2. The new routing entries are added starting with the symmetric neighbors (h=1) as the destination nodes."
        for ((interface, address), link) in links {
            routes.entry(*address).or_insert((*address, *interface, 1));
            // "if in the above, no R_dest_addr is equal to the main address of the neighbor, then another new routing entry
            // [...] is added"
            routes.entry(link.main).or_insert((*address, *interface, 1));
        }
        // "3. for each node in N2 [...] 2-hop neighbors which are not neighbors or the node itself, and such that there
        // exist at least one entry in the 2-hop neighbor set where N_neighbor_main_addr correspond to a neighbor node with
        // willingness different of WILL_NEVER"
        let mut ways: Vec<NextHop> = Vec::new();
        // Rank, index into `ways`, and 2-hop neighbour; in the order of neighbours' addresses.
        let mut tuples: Vec<(u64, usize, Ipv4Addr)> = Vec::new();
        for (neighbor, _) in self.neighbors.iter().filter(|(_, n)| n.symmetric && n.willingness != WILL_NEVER)
        {
            let Some(way) = routes.get(neighbor) else { continue };
            let is_last = self.links.get(&(way.1, way.0)).is_some_and(|link| link.was_overdue);
            let theirs = (*neighbor, Ipv4Addr::UNSPECIFIED)..=(*neighbor, Ipv4Addr::BROADCAST);
            let further =
                self.two_hop.range(theirs).filter(|((_, two_hop), _)| !routes.contains_key(two_hop));
            tuples.extend(further.map(|((_, two_hop), tuple)| (tuple.rank(is_last), ways.len(), *two_hop)));
            ways.push(*way);
        }
        tuples.sort_unstable();
        let mut two_hops = Vec::new();
        for (_, place, two_hop) in tuples {
            let (next_hop, interface, _) = ways[place];
            if let Entry::Vacant(entry) = routes.entry(two_hop)
                && !self.is_own(two_hop)
                && is_node(two_hop)
            {
                entry.insert((next_hop, interface, 2));
                two_hops.push(two_hop);
            }
        }
        Near { routes, two_hops }
    }

    /// Steps 3.1 to 5: computes all routes, sorted by destination, including `near`.
    fn all_routes(&self, near: &Near, tree: &mut Tree) -> Vec<Route<Prefix, Ipv4Addr>> {
        let far = self.reach_out(near, tree);
        // Both are sorted by address.
        let mut far =
            self.nodes.iter().filter_map(|(address, number)| Some((address, far[number]?))).peekable();
        let mut all: Vec<(Ipv4Addr, NextHop)> = Vec::with_capacity(near.routes.len() + self.nodes.bound());
        for (address, way) in &near.routes {
            while let Some(before) = far.next_if(|(other, _)| other < address) {
                all.push(before);
            }
            far.next_if(|(other, _)| other == address);
            all.push((*address, *way));
        }
        all.extend(far);
        // "4. For each entry in the multiple interface association base where there exists a routing entry such that
        // R_dest_addr == I_main_addr AND there is no routing entry such that R_dest_addr == I_iface_addr"
        let way_to = |all: &[(Ipv4Addr, NextHop)], node: &Ipv4Addr| {
            all.binary_search_by_key(node, |(address, _)| *address).ok().map(|n| all[n].1)
        };
        if !self.associations.is_empty() {
            // Sequential: an earlier association may add the only route to the main address.
            let mut more: Map<Ipv4Addr, NextHop> = Map::new();
            for (address, (main, _)) in &self.associations {
                if way_to(&all, address).is_none()
                    && let Some(way) = way_to(&all, main).or_else(|| more.get(main).copied())
                {
                    more.insert(*address, way);
                }
            }
            all.extend(more);
            all.sort_unstable_by_key(|(address, _)| *address);
        }
        let route = |destination, (next_hop, interface, distance): NextHop| Route {
            destination,
            next_hop,
            interface,
            distance,
        };
        let mut table: Vec<Route<Prefix, Ipv4Addr>> =
            all.iter().map(|(address, way)| route(Prefix::host(*address), *way)).collect();
        // Section 12.6: of several gateways to a network, the nearest is used. The node's own networks need
        // none.
        let mut networks: Map<Prefix, Route<Prefix, Ipv4Addr>> = Map::new();
        for (gateway, network) in self.networks.keys() {
            let own = network.bits() == 32 && self.is_own(network.address());
            if own || self.config.networks.contains(network) {
                continue;
            }
            let Some(way) = way_to(&all, gateway) else { continue };
            if networks.get(network).is_none_or(|route| way.2 < route.distance) {
                networks.insert(*network, route(*network, way));
            }
        }
        for (network, way) in networks {
            match table.binary_search_by_key(&network, |route| route.destination) {
                Ok(n) if way.distance < table[n].distance => table[n] = way,
                Ok(_) => {}
                Err(n) => table.insert(n, way),
            }
        }
        table
    }

    /// Step 3.1: computes routes beyond two hops from topology tuples, indexed by node number.
    fn reach_out(&self, near: &Near, tree: &mut Tree) -> Vec<Option<NextHop>> {
        // The destinations of each node's tuples, which are contiguous.
        let mut destinations = Vec::with_capacity(self.topology.len());
        let mut theirs = vec![(0, 0); self.nodes.bound()];
        for Topology { ends: [last, to], .. } in self.topology.values() {
            let theirs = &mut theirs[*last as usize];
            if theirs.0 == theirs.1 {
                theirs.0 = destinations.len();
            }
            destinations.push(*to);
            theirs.1 = destinations.len();
        }
        let mut ways: Vec<Option<NextHop>> = vec![None; self.nodes.bound()];
        for (address, way) in &near.routes {
            if let Some(number) = self.nodes.number(*address) {
                ways[number] = Some(*way);
                tree.is_near(number);
            }
        }
        let mut at: Vec<usize> =
            near.two_hops.iter().filter_map(|address| self.nodes.number(*address)).collect();
        // "3.1 For each topology entry in the topology table, if its T_dest_addr does not correspond to R_dest_addr of any
        // route entry in the routing table AND its T_last_addr corresponds to R_dest_addr of a route entry whose R_dist is
        // equal to h, then a new route entry MUST be recorded"
        at.iter().for_each(|node| tree.follow(*node));
        let mut distance = 2;
        while !at.is_empty() {
            distance += 1;
            let mut reached = Vec::new();
            for last in at {
                let Some((next_hop, interface, _)) = ways[last] else { continue };
                let (first, end) = theirs[last];
                for to in &destinations[first..end] {
                    let address = self.nodes.address(*to);
                    let way = &mut ways[*to as usize];
                    if way.is_none() && !self.is_own(address) && is_node(address) {
                        *way = Some((next_hop, interface, distance));
                        tree.find(*to as usize, last);
                        reached.push(*to as usize);
                    }
                }
            }
            at = reached;
        }
        ways
    }

    fn is_own(&self, address: Ipv4Addr) -> bool {
        address == self.config.main_address
            || self.interfaces.values().any(|interface| interface.at.address == address)
    }

    /// Recomputes all state derived from changed sets, and sends the messages triggered by the changes.
    pub(super) fn settle(&mut self, now: Time) {
        if std::mem::take(&mut self.dirty.neighborhood) {
            self.update_neighbors(now);
        }
        if std::mem::take(&mut self.dirty.relays) {
            self.dirty.hello |= self.select_relays();
            (self.dirty.near, self.dirty.advertised) =
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
        if std::mem::take(&mut self.dirty.near) {
            let near = self.look_around();
            self.dirty.routes |= near != self.near;
            self.near = near;
        }
        if std::mem::take(&mut self.dirty.routes) {
            self.compute_routes();
        }
        if cfg!(test) {
            let routes = self.all_routes(&self.look_around(), &mut Tree::new(self.nodes.bound()));
            assert!(routes.iter().eq(self.routes.table().values()), "a change that counted was passed over");
        }
        if std::mem::take(&mut self.dirty.hello) && self.config.triggered {
            let gap = self.config.max_jitter;
            for interface in self.interfaces.values_mut() {
                interface.hello_at = interface.hello_at.min(now.max(interface.said_hello + gap));
            }
        }
    }
}
