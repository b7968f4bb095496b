//! Attributes of interfaces' IPv6 addresses other than their network (`struct inet6_ifaddr` of Linux), and
//! the routes that follow from them.

use super::Ipv6;
use super::{ADDRCONF_METRIC, protocol};
use crate::interfaces::Interfaces;
use belljar_net::routes::{InterfaceAddress, Prefix, Route, RouteKind};
use std::net::Ipv6Addr;

/// `IFA_F_NOPREFIXROUTE`.
const NO_PREFIX_ROUTE: u32 = 0x200;

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
}

impl AddressAttributes6 {
    /// The networks routed for an address with these attributes, with their metric.
    fn networks(self, own: InterfaceAddress<Ipv6Addr>) -> impl Iterator<Item = (Prefix<Ipv6Addr>, u32)> {
        let metric = if self.metric == 0 { ADDRCONF_METRIC } else { self.metric };
        let peer = self.peer.map(|peer| Prefix::new(peer, 128));
        let all = [Some(own.network()), peer];
        let routed = self.flags & NO_PREFIX_ROUTE == 0;
        all.into_iter().flatten().filter(move |_| routed).map(move |network| (network, metric))
    }
}

impl Ipv6 {
    /// The attributes of an address; the defaults if none were set.
    pub fn attributes(&self, interface: usize, ip: Ipv6Addr) -> AddressAttributes6 {
        self.given.get(&(interface, ip)).copied().unwrap_or_default()
    }

    /// Sets the attributes of an address, which need not exist yet, and removes the routes of the previous
    /// attributes. [`connect_address`](Self::connect_address) adds those of the new ones.
    pub fn set_attributes(
        &mut self,
        interfaces: &Interfaces,
        interface: usize,
        own: InterfaceAddress<Ipv6Addr>,
        attributes: AddressAttributes6,
    ) {
        if interfaces[interface].addresses6.contains(&own) {
            self.disconnect_address(interfaces, interface, own);
        }
        self.given.remove(&(interface, own.ip));
        if attributes != AddressAttributes6::default() {
            self.given.insert((interface, own.ip), attributes);
        }
    }

    /// Adds the routes to the networks of an address.
    pub fn connect_address(&mut self, interface: usize, own: InterfaceAddress<Ipv6Addr>) {
        for (network, metric) in self.attributes(interface, own.ip).networks(own) {
            self.connect(interface, network, metric);
        }
    }

    /// Removes the routes to the networks of an address, except for those that another address of the
    /// interface needs.
    pub(crate) fn disconnect_address(
        &mut self,
        interfaces: &Interfaces,
        interface: usize,
        own: InterfaceAddress<Ipv6Addr>,
    ) {
        let others = interfaces[interface].addresses6.iter().filter(|other| other.ip != own.ip);
        // An address without a route of its own keeps an existing one (`check_cleanup_prefix_route`).
        let kept: Vec<_> = others.map(InterfaceAddress::network).collect();
        for (network, _) in self.attributes(interface, own.ip).networks(own) {
            if !kept.contains(&network) {
                self.disconnect(interface, network);
            }
        }
    }

    /// Adds routes to the networks of an interface's addresses.
    pub fn add_connected(&mut self, interfaces: &Interfaces, interface: usize) {
        for own in interfaces[interface].addresses6.clone() {
            self.connect_address(interface, own);
        }
    }

    /// Adds a route to an on-link network of an interface. Returns false if it exists. A network may be on
    /// several interfaces, as that of link-local addresses is.
    pub(crate) fn connect(&mut self, interface: usize, network: Prefix<Ipv6Addr>, metric: u32) -> bool {
        let mut route = Route::by(interface, None, protocol::KERNEL);
        if let Some(there) = self.routes.get(network, metric) {
            if there.object.is_some() || there.hops.iter().any(|hop| hop.interface == interface) {
                return false;
            }
            route = Route { hops: [&there.hops[..], &route.hops].concat(), ..there.clone() };
        }
        self.routes.insert(network, metric, route);
        true
    }

    /// Removes the kernel's route to a network by an interface.
    pub(crate) fn disconnect(&mut self, interface: usize, network: Prefix<Ipv6Addr>) {
        self.routes.retain(|prefix, _, route| {
            if prefix == network && route.protocol == protocol::KERNEL {
                route.hops.retain(|hop| hop.interface != interface);
            }
            !route.hops.is_empty() || route.kind != RouteKind::Unicast
        });
    }
}
