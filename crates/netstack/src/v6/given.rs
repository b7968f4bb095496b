//! Attributes of interfaces' IPv6 addresses other than their network (`struct inet6_ifaddr` of Linux), and
//! the routes that follow from them.

use super::state::{ADDRCONF_METRIC, Ipv6};
use crate::LO;
use crate::interfaces::Interfaces;
use crate::own_addresses::NO_PREFIX_ROUTE;
use belljar_net::routes::{InterfaceAddress, NextHop, Prefix, Route, RouteKind, RouteTable, protocol};
use std::net::Ipv6Addr;

/// `IFAPROT_KERNEL_LO`: originator of the loopback address.
pub const ORIGIN_LOOPBACK: u8 = 1;
/// `IFAPROT_KERNEL_LL`: originator of link-local addresses.
pub(super) const ORIGIN_LINK_LOCAL: u8 = 3;

/// Attributes of an IPv6 address other than its network, as set by the administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressAttributes6 {
    /// The `IFA_F_*` flags that are reported as set.
    pub flags: u32,
    /// `IFA_RT_PRIORITY`: the metric of the route to the network; 0 for the default.
    pub metric: u32,
    /// The peer's address on a point-to-point link.
    pub peer: Option<Ipv6Addr>,
    /// `IFA_PROTO`: the originator of the address.
    pub origin: u8,
    /// True if the address became usable while its interface was down: the peer is not routed when the interface comes up.
    pub peer_missed: bool,
}

impl AddressAttributes6 {
    /// The networks routed for a new address with these attributes: its own one and the peer.
    fn networks(self, own: InterfaceAddress<Ipv6Addr>) -> impl Iterator<Item = Prefix<Ipv6Addr>> {
        [Some(own.network()).filter(|_| self.is_routed()), self.routed_peer()].into_iter().flatten()
    }
    /// The peer as a network that is routed.
    fn routed_peer(self) -> Option<Prefix<Ipv6Addr>> {
        self.peer.filter(|_| !self.peer_missed).map(|peer| Prefix::new(peer, 128))
    }
    /// The metric of routes to the networks.
    fn route_metric(self) -> u32 {
        if self.metric == 0 { ADDRCONF_METRIC } else { self.metric }
    }
    /// True if the address has a route to its network.
    pub(super) fn is_routed(self) -> bool {
        self.flags & NO_PREFIX_ROUTE == 0
    }
}

impl Ipv6 {
    /// The attributes of an address; the defaults if none were set.
    pub fn attributes(&self, interface: usize, ip: Ipv6Addr) -> AddressAttributes6 {
        self.given.get(&(interface, ip)).copied().unwrap_or_default()
    }

    /// Sets the attributes of an address, which need not exist yet.
    /// [`connect_address`](Self::connect_address) adds the routes of a new one.
    pub fn set_attributes(&mut self, interface: usize, ip: Ipv6Addr, attributes: AddressAttributes6) {
        self.given.remove(&(interface, ip));
        if attributes != AddressAttributes6::default() {
            self.given.insert((interface, ip), attributes);
        }
    }

    /// Removes the route to the peer of an address that will have another one.
    pub(super) fn disconnect_peer(&mut self, interface: usize, own: InterfaceAddress<Ipv6Addr>) {
        if let Some(peer) = self.attributes(interface, own.ip).peer {
            self.remove_prefix_route(interface, Prefix::new(peer, own.len), true);
        }
    }

    /// Adapts the routes to the networks of an address to its changed attributes. Before, it had a route of its
    /// own if `had_route`; another address keeps the route if `kept`.
    pub(super) fn reconnect_address(
        &mut self,
        interface: usize,
        own: InterfaceAddress<Ipv6Addr>,
        had_route: bool,
        kept: bool,
    ) {
        let given = self.attributes(interface, own.ip);
        let (network, metric) = (own.network(), given.route_metric());
        if !given.is_routed() {
            if had_route && !kept {
                self.remove_prefix_route(interface, network, true);
            }
            return;
        }
        let mut found = had_route && self.change_prefix_route(interface, network, metric);
        if !found {
            self.connect(interface, network, metric);
        }
        let Some(peer) = given.peer.map(|peer| Prefix::new(peer, own.len)) else { return };
        if had_route {
            found = self.change_prefix_route(interface, peer, metric);
        }
        if !found {
            self.connect(interface, peer, metric);
        }
    }

    /// The first route to an on-link network by an interface (`addrconf_get_prefix_route`), with its metric. It
    /// has no gateway if `direct`.
    fn prefix_route(
        &self,
        interface: usize,
        network: Prefix<Ipv6Addr>,
        direct: bool,
    ) -> Option<(u32, Route<Ipv6Addr>)> {
        let by_interface = |route: &Route<Ipv6Addr>| {
            let hop = route.hops.first().map(|hop| (hop.interface, hop.is_direct()));
            let (over, is_direct) = hop.unwrap_or((LO, true));
            route.object.is_none() && over == interface && (is_direct || !direct)
        };
        let mut all = self.table_of(interface).iter().filter(|(prefix, ..)| *prefix == network);
        all.find(|(.., route)| by_interface(route)).map(|(_, metric, route)| (metric, route.clone()))
    }

    /// Removes the first route to an on-link network by an interface. Returns false if there is none.
    fn remove_prefix_route(&mut self, interface: usize, network: Prefix<Ipv6Addr>, direct: bool) -> bool {
        let found = self.prefix_route(interface, network, direct);
        found.is_some_and(|(metric, route)| {
            self.change_table(interface, |routes| routes.remove_this(network, metric, &route).is_some())
        })
    }

    /// Gives the first route to an on-link network by an interface a metric (`modify_prefix_route`). Returns
    /// false if there is none.
    fn change_prefix_route(&mut self, interface: usize, network: Prefix<Ipv6Addr>, metric: u32) -> bool {
        let Some((before, route)) = self.prefix_route(interface, network, true) else { return false };
        if before != metric {
            self.change_table(interface, |routes| routes.remove_this(network, before, &route));
            self.connect(interface, network, metric);
        }
        true
    }

    /// Notes that an address with a peer has become usable while its interface is down.
    pub(super) fn miss_peer(&mut self, interface: usize, ip: Ipv6Addr) {
        if let Some(given) = self.given.get_mut(&(interface, ip)) {
            given.peer_missed = given.peer.is_some();
        }
    }

    /// Sets the originator of an address that the kernel has added, `IFAPROT_*`.
    pub fn set_origin(&mut self, interface: usize, ip: Ipv6Addr, origin: u8) {
        self.given.entry((interface, ip)).or_default().origin = origin;
    }

    /// Adds the routes to the networks of an address.
    pub fn connect_address(&mut self, interface: usize, own: InterfaceAddress<Ipv6Addr>) {
        let given = self.attributes(interface, own.ip);
        for network in given.networks(own) {
            self.connect(interface, network, given.route_metric());
        }
    }

    /// Removes the routes to the peer and, if `needless`, to the network of an address that is deleted
    /// (`ipv6_del_addr`).
    pub(super) fn disconnect_address(
        &mut self,
        interface: usize,
        own: InterfaceAddress<Ipv6Addr>,
        needless: bool,
    ) {
        let given = self.attributes(interface, own.ip);
        if let Some(peer) = given.peer {
            self.remove_prefix_route(interface, Prefix::new(peer, 128), false);
        }
        if needless && given.is_routed() {
            self.remove_prefix_route(interface, own.network(), true);
        }
    }

    /// Adds routes to the networks of an interface's addresses.
    pub fn add_connected(&mut self, interfaces: &Interfaces, interface: usize) {
        for own in interfaces[interface].addresses6.clone() {
            self.connect_address(interface, own);
        }
    }

    /// Adds routes to the networks of these addresses of an interface, but not to their peers.
    pub(super) fn add_networks(&mut self, interface: usize, addresses: &[InterfaceAddress<Ipv6Addr>]) {
        for own in addresses {
            let given = self.attributes(interface, own.ip);
            if given.is_routed() {
                self.connect(interface, own.network(), given.route_metric());
            }
        }
    }

    /// Adds routes to the peers of these addresses of an interface.
    pub(super) fn add_peers(&mut self, interface: usize, addresses: &[InterfaceAddress<Ipv6Addr>]) {
        for own in addresses {
            let given = self.attributes(interface, own.ip);
            if let Some(peer) = given.routed_peer() {
                self.connect(interface, peer, given.route_metric());
            }
        }
    }

    /// Adds a route to an on-link network of an interface. Returns false if it exists. A network may be on
    /// several interfaces, as that of link-local addresses is: each has a route of its own.
    pub(crate) fn connect(&mut self, interface: usize, network: Prefix<Ipv6Addr>, metric: u32) -> bool {
        let route = Route::by(interface, None, protocol::KERNEL);
        let by_interface = |old: &Route<Ipv6Addr>| {
            let same = |hop: &NextHop<Ipv6Addr>| hop.interface == interface && hop.is_direct();
            old.object.is_none() && old.hops.first().is_some_and(same)
        };
        if self.table_of(interface).all_alike(network, metric.into()).any(by_interface) {
            return false;
        }
        self.change_table(interface, |routes| routes.insert_beside(network, metric, route, true));
        true
    }

    /// Removes the kernel's route to a network by an interface.
    pub(crate) fn disconnect(&mut self, interface: usize, network: Prefix<Ipv6Addr>) {
        self.change_table(interface, |routes| {
            routes.retain(|prefix, _, route| {
                if prefix == network && route.protocol == protocol::KERNEL {
                    route.hops.retain(|hop| hop.interface != interface);
                }
                !route.hops.is_empty() || route.kind != RouteKind::Unicast
            });
        });
    }

    /// The table in which the connected routes of an interface are: the main one, or that of its VRF.
    fn table_of(&self, interface: usize) -> &RouteTable<Ipv6Addr> {
        match self.vrf_tables.get(&interface) {
            Some(number) => self.policy.table(&self.routes, *number).unwrap_or(&self.no_routes),
            None => &self.routes,
        }
    }
    fn change_table<T>(
        &mut self,
        interface: usize,
        change: impl FnOnce(&mut RouteTable<Ipv6Addr>) -> T,
    ) -> T {
        match self.vrf_tables.get(&interface) {
            Some(number) => self.policy.change(*number, change),
            None => change(&mut self.routes),
        }
    }
}
