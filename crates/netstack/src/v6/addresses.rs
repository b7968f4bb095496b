//! Addition, change and removal of interfaces' IPv6 addresses.

use super::advertised::Tentative;
use super::given::AddressAttributes6;
use super::insert_address;
use crate::lifetimes::Lifetime;
use crate::{LO, Stack};
use belljar_base::SimTime;
use belljar_net::InterfaceAddress;
use belljar_wire::ipv6;
use std::net::Ipv6Addr;

/// True if an IPv6 address has no end (`IFA_F_PERMANENT`).
pub(super) fn is_permanent(net: &Stack, interface: usize, ip: Ipv6Addr) -> bool {
    let lifetime = net.lifetimes.lifetime(interface, ip);
    net.v6.valid_until(interface, ip).is_none()
        && lifetime.is_none_or(|lifetime| lifetime.valid == SimTime::MAX)
}

/// True if another address of the interface needs the route to the network of an address
/// (`check_cleanup_prefix_route`).
fn keeps_network(net: &Stack, interface: usize, own: InterfaceAddress<Ipv6Addr>) -> bool {
    let mut others = net.interfaces[interface].addresses6.iter().filter(|other| other.ip != own.ip);
    others.any(|other| other.len == own.len && other.network() == own.network())
}

/// Changes an IPv6 address with its routes (`inet6_addr_modify`): it gets these attributes and this lifetime. The
/// unspecified address as `peer` removes the peer; `None` keeps it.
pub fn modify_address(
    net: &mut Stack,
    interface: usize,
    own: InterfaceAddress<Ipv6Addr>,
    (given, peer): (AddressAttributes6, Option<Ipv6Addr>),
    lifetime: Option<Lifetime>,
) {
    let before = net.v6.attributes(interface, own.ip);
    let had_route = before.is_routed() && is_permanent(net, interface, own.ip);
    let peer = match peer {
        Some(peer) if Some(peer) != before.peer => {
            net.v6.disconnect_peer(interface, own);
            Some(peer).filter(|peer| !peer.is_unspecified())
        }
        _ => before.peer,
    };
    let metric = if given.metric == 0 { before.metric } else { given.metric };
    net.v6.set_attributes(interface, own.ip, AddressAttributes6 { peer, metric, ..given });
    net.set_lifetime(interface, own.ip, lifetime);
    let there = &net.interfaces[interface];
    if there.up && (there.routes_networks6() || interface == LO) {
        let kept = keeps_network(net, interface, own);
        net.v6.reconnect_address(interface, own, had_route, kept);
    }
}

impl Stack {
    /// Adds an address to an interface. With `ask` it is subject to duplicate address detection.
    pub fn new_address6(
        &mut self,
        interface: usize,
        own: InterfaceAddress<Ipv6Addr>,
        ask: bool,
        route: bool,
    ) {
        insert_address(&mut self.interfaces[interface].addresses6, own);
        if route {
            self.v6.connect_address(interface, own);
        }
        self.report_group(interface, ipv6::solicited_node(own.ip), true);
        let alone = !self.interfaces[interface].is_link() || !self.interfaces[interface].asks_neighbours();
        let there = &self.interfaces[interface];
        let asks = ask && !alone && self.interface_settings.asks_for_duplicates(interface, there);
        if asks && !(there.up && self.v6.is_configured(interface)) {
            self.v6.tentative.push(Tentative { interface, ip: own.ip, at: SimTime::MAX, asked: false });
        } else if asks {
            let at = self.v6.delay(self.clock.now());
            self.v6.tentative.push(Tentative { interface, ip: own.ip, at, asked: false });
        } else if !there.up {
            self.v6.miss_peer(interface, own.ip);
        }
        self.v6.set_timer(&mut self.timers, self.clock.now());
    }

    /// Removes an address from an interface, and the routes to its networks that no other address needs.
    pub fn drop_address6(&mut self, interface: usize, own: InterfaceAddress<Ipv6Addr>) {
        let permanent = is_permanent(self, interface, own.ip);
        let kept = keeps_network(self, interface, own);
        self.v6.disconnect_address(interface, own, permanent && !kept);
        self.v6.set_attributes(interface, own.ip, AddressAttributes6::default());
        self.interfaces[interface].addresses6.retain(|other| *other != own);
        self.set_lifetime(interface, own.ip, None);
        self.v6.forget_address(interface, own.ip);
        self.report_group(interface, ipv6::solicited_node(own.ip), false);
    }

    /// Marks an address of this host as a duplicate, because another host uses it. The address is kept but
    /// never used.
    pub fn address_is_taken(&mut self, interface: usize, ip: Ipv6Addr) {
        if !self.v6.mark_duplicate(interface, ip) {
            return;
        }
        let name = self.interfaces[interface].name.clone();
        self.effects.note(format!("IPv6 address {ip} of {name} is used by another host on the link"));
    }
}
