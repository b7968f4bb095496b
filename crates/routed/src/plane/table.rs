//! The kernel's routes and neighbours, in the form that a forwarder needs.

use crate::netlink::{KernelRoute, Neighbor};
use belljar_wire::ethernet::Address;
use std::net::Ipv4Addr;

/// An interface of the forwarder; index 0 if it was removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exit {
    /// The interface's index.
    pub index: u32,
    pub mac: Address,
    pub mtu: usize,
}

/// Next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the exit.
    pub exit: usize,
    pub from: Address,
    pub to: Address,
    pub mtu: usize,
}

/// Snapshot of routes and neighbours.
#[derive(Debug, Default)]
pub struct Table {
    /// Sorted by descending prefix length, then by metric.
    routes: Vec<KernelRoute>,
    neighbors: Vec<Neighbor>,
    exits: Vec<Exit>,
}

impl Table {
    pub fn new(mut routes: Vec<KernelRoute>, neighbors: Vec<Neighbor>, exits: Vec<Exit>) -> Table {
        routes.sort_by_key(|route| (std::cmp::Reverse(route.bits), route.metric, route.destination));
        Table { routes, neighbors, exits }
    }

    /// The next hop for an address. `None` without a route, for a route over an interface that is not an
    /// exit, and if ARP has not resolved the next hop.
    pub fn hop(&self, destination: Ipv4Addr) -> Option<Hop> {
        let route = self.routes.iter().find(|route| route.prefix().contains(destination))?;
        let exit = self.exits.iter().position(|exit| exit.index == route.interface)?;
        let next = route.gateway.unwrap_or(destination);
        let neighbor =
            self.neighbors.iter().find(|one| one.interface == route.interface && one.address == next)?;
        let Exit { mac: from, mtu, .. } = self.exits[exit];
        Some(Hop { exit, from, to: neighbor.mac, mtu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address([2, 0, 0, 0, 0, 1]);
    const B: Address = Address([2, 0, 0, 0, 0, 2]);

    fn route(
        destination: [u8; 4],
        bits: u8,
        gateway: Option<[u8; 4]>,
        interface: u32,
        metric: u32,
    ) -> KernelRoute {
        KernelRoute {
            destination: destination.into(),
            bits,
            gateway: gateway.map(Ipv4Addr::from),
            interface,
            metric,
            source: None,
        }
    }

    #[test]
    fn the_longest_prefix_with_the_lowest_metric_leads_to_its_neighbour() {
        let routes = vec![
            route([0, 0, 0, 0], 0, Some([10, 0, 0, 2]), 3, 0),
            route([10, 9, 0, 0], 16, Some([10, 0, 0, 9]), 3, 20),
            route([10, 9, 0, 0], 16, Some([10, 0, 0, 2]), 3, 10),
            route([10, 9, 9, 0], 24, None, 7, 0),
        ];
        let neighbor = |address: [u8; 4], mac| Neighbor { interface: 3, address: address.into(), mac };
        let neighbors = vec![neighbor([10, 0, 0, 2], A), neighbor([10, 0, 0, 9], B)];
        let table = Table::new(routes, neighbors, vec![Exit { index: 3, mac: B, mtu: 1500 }]);
        let hop = |to: [u8; 4]| table.hop(to.into());
        assert_eq!(hop([10, 9, 1, 1]), Some(Hop { exit: 0, from: B, to: A, mtu: 1500 }));
        assert_eq!(hop([8, 8, 8, 8]).map(|hop| hop.to), Some(A));
        assert_eq!(hop([10, 9, 9, 1]), None, "by an interface that is none of the exits");
    }
}
