//! Administrative changes of interfaces and addresses by rtnetlink or `ioctl`, with their notifications.

use crate::Admin;
use crate::netlink::bond_links::ports_of_bond;
use crate::netlink::bridge_links::leave_master;
use crate::netlink::ipvlan_links::adapt_ipvlans;
use crate::netlink::macvlan_links::{adapt_macvlans, check_macvlan_address, macvlan_mtu};
use crate::netlink::refusal::{Refusal, refusal};
use crate::netlink::vxlan_links::vxlan_mtu;
use crate::netlink::{RT_SCOPE_NOWHERE, group};
use belljar_linux_abi::{Errno, c};
use belljar_net::InterfaceAddress;
use belljar_net::routes::{NextHop, Route, protocol};
use belljar_netstack::conf;
use belljar_netstack::devices::{self, bond, ipvlan, macvlan, vrf, wireguard};
use belljar_netstack::interface::{Attachment, DeviceKind};
use belljar_netstack::ip::filtering;
use belljar_netstack::lifetimes::Lifetime;
use belljar_netstack::own_addresses::{AddressAttributes, AddressConflict};
use belljar_netstack::routing::{rest_hops, wake_hops};
use belljar_netstack::traffic;
use belljar_netstack::v6::{ORIGIN_LOOPBACK, insert_address};
use belljar_netstack::veth::PeerNews;
use belljar_netstack::virtual_links::random_mac;
use belljar_netstack::{InitialRoute, LO};
use belljar_wire::ipv6;
use std::net::{Ipv4Addr, Ipv6Addr};

/// `ETH_MIN_MTU`.
pub(crate) const LEAST_MTU: u32 = 68;

/// Flags that an administrator can set, besides `IFF_UP`.
const SETTABLE: i32 = c::IFF_DEBUG
    | c::IFF_NOTRAILERS
    | c::IFF_NOARP
    | c::IFF_DYNAMIC
    | c::IFF_MULTICAST
    | c::IFF_PORTSEL
    | c::IFF_AUTOMEDIA
    | c::IFF_PROMISC
    | c::IFF_ALLMULTI;

impl Admin<'_> {
    /// Sets the changeable `IFF_*` flags of an interface (`__dev_change_flags`).
    pub(crate) fn set_flags(&mut self, number: usize, flags: u32) {
        let interface = &mut self.net.interfaces[number];
        let changed = (interface.lasting_flags() ^ flags) & SETTABLE as u32;
        interface.settings.toggled ^= changed;
        if changed & c::IFF_NOARP as u32 != 0 && interface.up {
            self.forget_neighbours(number);
        }
        self.set_interface_up(number, flags & c::IFF_UP as u32 != 0);
        if changed & !((c::IFF_PROMISC | c::IFF_ALLMULTI) as u32) != 0 {
            self.interface_changed(number);
        }
    }

    /// Handles a change of an interface that Linux notifies its parts of (`NETDEV_CHANGE`): `lo` loses its IPv6
    /// addresses if its MTU is too short for them, and has ::1 again if it was.
    pub(crate) fn interface_changed(&mut self, number: usize) {
        let interface = &self.net.interfaces[number];
        if number != LO || !interface.up {
            return;
        }
        if interface.mtu < ipv6::MIN_MTU {
            self.net.interface_is_down6(number);
            self.net.v6.loopback_stopped = true;
        } else if std::mem::take(&mut self.net.v6.loopback_stopped) {
            self.address_loopback6();
        }
    }

    /// Removes all neighbours of an interface, as after a change of its hardware address (`neigh_changeaddr`).
    pub(crate) fn forget_neighbours(&mut self, number: usize) {
        self.net.neighbours.flush(number, true);
        self.net.v6.neighbours.flush(number, true);
    }

    /// Brings an interface up or down, and adds or removes its routes.
    pub fn set_interface_up(&mut self, number: usize, up: bool) {
        if self.net.interfaces[number].up == up {
            return;
        }
        let now = self.net.clock.now();
        let interface = &mut self.net.interfaces[number];
        let was_running = interface.is_running();
        interface.up = up;
        // Linux looks at the carrier a moment later, and applies the mode if the state has changed by then
        // (`linkwatch_do_dev`, `rfc2863_policy`): an interface that is taken down and up at once stays in use.
        if !up || interface.settings.taken_down != Some(now) {
            interface.apply_link_mode();
        }
        interface.settings.taken_down = (!up && was_running).then_some(now);
        if up {
            wake_hops::<Ipv4Addr>(self.net, number);
            ipvlan::open(self.net, number);
            self.net.interface_is_up6(number);
            if number == LO {
                self.net.v6.loopback_stopped = false;
                self.address_loopback();
                self.interface_changed(LO);
            }
            let before = self.routes_of(number);
            self.net.interface_is_up(number);
            let new: Vec<_> =
                self.routes_of(number).into_iter().filter(|route| !before.contains(route)).collect();
            new.iter().for_each(|(prefix, metric, route)| self.announce_route(*prefix, *metric, route, true));
        } else {
            // As on Linux, only the removal of connected routes is notified.
            for (prefix, metric, route) in self.routes_of(number) {
                if route.protocol == protocol::KERNEL {
                    self.announce_route(prefix, metric, &route, false);
                }
            }
            rest_hops::<Ipv4Addr>(self.net, |hop| hop.interface == number && hop.scope != RT_SCOPE_NOWHERE);
            rest_hops::<Ipv6Addr>(self.net, |hop| hop.interface == number);
            self.net.flush_nexthops(number);
            self.net.neighbours.flush(number, true);
            self.net.redirects.forget(number);
            filtering::interface_down(self.net, number);
            traffic::interface_down(self.net, number);
            self.net.interface_is_down6(number);
            self.listeners.interface_down(self.net, number);
            for vlan in self.net.interfaces.vlans_of(number) {
                self.set_interface_up(vlan, false);
                self.link_changed(vlan);
            }
        }
        devices::state_changed(self.net, number);
        self.tell_carrier(number);
    }

    /// Assigns the loopback addresses when `lo` comes up, as Linux does (`inetdev_event`, `init_loopback`). With an MTU that
    /// is too short, it has no IPv4.
    fn address_loopback(&mut self) {
        let own = InterfaceAddress::new(Ipv4Addr::LOCALHOST, 8);
        if self.net.interfaces[LO].mtu >= LEAST_MTU as usize
            && self.net.interfaces.add_address(LO, own, None).is_ok()
        {
            self.announce_address(LO, &own, true);
        }
        self.address_loopback6();
    }

    fn address_loopback6(&mut self) {
        let has_v6 = self.net.interfaces[LO].addresses6.iter().any(|own| own.ip.is_loopback());
        if !has_v6 {
            let own = InterfaceAddress::new(Ipv6Addr::LOCALHOST, 128);
            insert_address(&mut self.net.interfaces[LO].addresses6, own);
            self.net.v6.set_origin(LO, Ipv6Addr::LOCALHOST, ORIGIN_LOOPBACK);
        }
    }

    fn routes_of(&self, number: usize) -> Vec<InitialRoute> {
        vrf::routes_by(self.net, number)
    }

    /// Deletes an interface permanently, and for one end of a veth pair its peer.
    pub fn remove_interface(&mut self, number: usize) {
        let attachment = self.net.interfaces[number].attachment;
        self.withdraw_interface(number);
        if let Attachment::Veth { network, peer } = attachment {
            if network != self.net.number {
                self.net.effects.tell_peer(network, peer, PeerNews::Gone);
            } else if self.net.interfaces[peer].exists() {
                self.withdraw_interface(peer);
            }
        }
    }

    /// Deletes an interface from the stack.
    pub fn withdraw_interface(&mut self, number: usize) {
        leave_master(self, number);
        for upper in devices::uppers_of(self.net, number) {
            self.withdraw_interface(upper);
        }
        for port in self.net.interfaces.ports_of(number) {
            leave_master(self, port);
        }
        for own in self.net.interfaces[number].addresses.clone() {
            self.announce_address(number, &own, false);
        }
        self.set_interface_up(number, false);
        // An interface that was down already may have had addresses, routes of host scope and neighbours.
        self.net.interface_is_down6(number);
        // With an interface go IPv4 routes that have other next hops, too.
        let over = |hop: &NextHop| hop.interface == number;
        self.net.retain_routes(|route: &mut Route| route.object.is_some() || !route.hops.iter().any(over));
        self.net.drop_hops::<Ipv6Addr>(|hop| hop.interface == number);
        self.net.neighbours.flush(number, true);
        self.net.interfaces[number].set_carrier(false);
        traffic::interface_removed(self.net, number);
        self.link_gone(number);
        self.net.interfaces.forget_addresses(number);
        self.net.interface_settings.end(number);
        let interface = &mut self.net.interfaces[number];
        (interface.name, interface.attachment) = ("".into(), Attachment::Gone);
        devices::delete(self.net, number);
        self.net.igmp.forget(number);
    }

    /// Changes the hardware address of an interface: `EADDRNOTAVAIL` for a multicast or zero address,
    /// `EINVAL` for a wrong length.
    pub(crate) fn set_mac(&mut self, number: usize, bytes: &[u8]) -> Result<(), Errno> {
        if let Attachment::Made(DeviceKind::Wireguard | DeviceKind::Ipvlan) =
            self.net.interfaces[number].attachment
        {
            return Err(Errno::EOPNOTSUPP);
        }
        let mac: [u8; 6] = bytes.try_into().map_err(|_| Errno::EINVAL)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Errno::EADDRNOTAVAIL);
        }
        check_macvlan_address(self.net, number, mac)?;
        let before = std::mem::replace(&mut self.net.interfaces[number].mac, mac);
        if let Some(bond) = bond::bond_mut(self.net, number) {
            bond.mac_is_set = true;
        }
        devices::mac_changed(self.net, number, before);
        for port in ports_of_bond(self.net, number) {
            self.set_mac(port, bytes)?;
            self.link_changed(port);
        }
        Ok(())
    }

    /// Sets the MTU of an interface in bytes: `EINVAL` if it is out of range.
    pub(crate) fn set_mtu(&mut self, number: usize, mtu: u32) -> Result<(), Errno> {
        let loopback = self.net.interfaces[number].attachment == Attachment::Loopback;
        let allowed = match self.net.interfaces[number].attachment {
            _ if loopback => 0..=i32::MAX as u32,
            Attachment::Made(DeviceKind::Wireguard) => 0..=wireguard::MOST_MTU,
            _ => LEAST_MTU..=65_535,
        };
        let most = vxlan_mtu(self, number).or(macvlan_mtu(self.net, number)).unwrap_or(usize::MAX);
        if !allowed.contains(&mtu) || mtu as usize > most {
            return Err(Errno::EINVAL);
        }
        self.net.interfaces[number].mtu = mtu as usize;
        devices::mtu_changed(self.net, number);
        let uppers = adapt_macvlans(self.net, number);
        self.links_changed(uppers);
        for port in ports_of_bond(self.net, number) {
            self.set_mtu(port, mtu)?;
            self.link_changed(port);
        }
        let uppers = adapt_ipvlans(self.net, number);
        self.links_changed(uppers);
        Ok(())
    }

    /// Adds an address to an interface, permanently or with a lifetime, and its connected route.
    pub(crate) fn insert_address(
        &mut self,
        number: usize,
        own: InterfaceAddress,
        attributes: Option<AddressAttributes>,
        lifetime: Option<Lifetime>,
    ) -> Result<(), AddressConflict> {
        self.net.interfaces.add_address(number, own, attributes)?;
        self.net.set_lifetime(number, own, lifetime);
        self.announce_address(number, &own, true);
        self.connect_networks(number);
        if self.net.interfaces[number].up {
            wake_hops::<Ipv4Addr>(self.net, number);
        }
        self.forget_broadcasts(number, &own);
        Ok(())
    }

    /// Adds the missing connected routes of an interface's addresses.
    fn connect_networks(&mut self, number: usize) {
        let interface = &self.net.interfaces[number];
        if !interface.up || number == LO || interface.attachment == Attachment::Graph {
            return;
        }
        let before = self.routes_of(number);
        self.net.add_connected(number);
        for (prefix, metric, route) in self.routes_of(number) {
            if !before.iter().any(|old| *old == (prefix, metric, route.clone())) {
                self.announce_route(prefix, metric, &route, true);
            }
        }
    }

    /// Changes the metric of an address, and of its connected route if there is one. Other attributes stay.
    pub(crate) fn change_metric(&mut self, number: usize, own: InterfaceAddress, given: &AddressAttributes) {
        let metric = given.metric;
        let before = self.net.interfaces.set_address_metric(number, own, metric, given.origin);
        let kept = self.net.interfaces.address_attributes(number, &own);
        let has_route = kept.is_routed() && self.net.interfaces.primary_of(number, &own) == own;
        if before == metric || !has_route || !self.net.interfaces[number].up {
            return;
        }
        self.connect_networks(number);
        let network = self.net.interfaces.address_network(number, &own);
        let old = self.routes_of(number).into_iter().find(|(prefix, at, route)| {
            (*prefix, *at) == (network, before)
                && route.protocol == protocol::KERNEL
                && route.source == Some(own.ip)
        });
        if let Some((prefix, at, route)) = old {
            self.announce_route(prefix, at, &route, false);
            vrf::remove_route(self.net, number, (prefix, at, &route));
        }
    }

    /// Deletes an address with the routes that use it as their source. Deleting a primary address deletes its
    /// secondary addresses unless they are promoted. With the last address, the interface's IPv4 routes are
    /// deleted. `EADDRNOTAVAIL` if the interface lacks the address.
    pub(crate) fn delete_address(&mut self, number: usize, own: InterfaceAddress) -> Result<(), Errno> {
        if !self.net.interfaces[number].addresses.contains(&own) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if !self.net.interface_settings.either(conf::v4::PROMOTE_SECONDARIES, number) {
            for secondary in self.net.interfaces.secondaries_of(number, &own) {
                self.take_address(number, secondary);
            }
        }
        if let Some(promoted) = self.take_address(number, own) {
            self.announce_address(number, &promoted, true);
            self.forget_broadcasts(number, &promoted);
        }
        self.connect_networks(number);
        if self.net.interfaces[number].addresses.is_empty() {
            rest_hops::<Ipv4Addr>(self.net, |hop| hop.interface == number);
            self.net.neighbours.flush(number, true);
        }
        Ok(())
    }

    /// Deletes a single address and the routes with it as their source; returns the secondary address
    /// promoted to primary.
    fn take_address(&mut self, number: usize, own: InterfaceAddress) -> Option<InterfaceAddress> {
        let message = self.address_message(number, &own, c::RTM_DELADDR, (0, 0, 0));
        let network = self.net.interfaces.address_network(number, &own);
        let metric = self.net.interfaces.address_attributes(number, &own).metric;
        let promoted = self.net.interfaces.remove_address(number, &own);
        self.net.set_lifetime(number, own, None);
        self.announce(group::IPV4_ADDRESS, &message);
        // If the host has the same IP address elsewhere, only the connected route is deleted.
        let elsewhere = self.net.interfaces.with_address(own.ip).is_some();
        for (prefix, at, route) in self.routes_of(number) {
            let is_own = route.protocol == protocol::KERNEL && route.source == Some(own.ip);
            if is_own && (!elsewhere || (prefix, at) == (network, metric)) {
                self.announce_route(prefix, at, &route, false);
                vrf::remove_route(self.net, number, (prefix, at, &route));
            }
        }
        if !elsewhere {
            self.net.retain_routes(|route: &mut Route| route.source != Some(own.ip));
        }
        promoted
    }
}

/// Makes an interface a port of a bond (`bond_enslave`).
pub(crate) fn enslave_to_bond(admin: &mut Admin<'_>, bond: usize, port: usize) -> Result<(), Refusal> {
    let interface = &admin.net.interfaces[port];
    if !macvlan::on(admin.net, port).is_empty() || ipvlan::port(admin.net, port).is_some() {
        return Err(refusal(Errno::EBUSY, "Device is in use and cannot be enslaved"));
    }
    if port == bond {
        return Err(refusal(Errno::EPERM, "Cannot enslave bond to itself."));
    }
    if interface.up {
        return Err(refusal(Errno::EPERM, "Device can not be enslaved while up"));
    }
    if !interface.is_link() || interface.hardware_type() != 1 {
        let words = "Device type is different from other slaves";
        return Err(refusal(Errno::EINVAL, words));
    }
    if interface.attachment == Attachment::Made(DeviceKind::Ipvlan) {
        let words =
            "Slave device does not support setting the MAC address, but fail_over_mac is not set to active";
        return Err(refusal(Errno::EOPNOTSUPP, words));
    }
    let own = (interface.mac, interface.mtu);
    let made = bond::bond(admin.net, bond).ok_or(Errno::ENODEV)?;
    if made.ports.is_empty() && !made.mac_is_set {
        take_mac(admin, bond, own.0);
    }
    let (mac, mtu) = (admin.net.interfaces[bond].mac, admin.net.interfaces[bond].mtu);
    admin.set_mtu(port, mtu as u32)?;
    admin.set_mac(port, &mac)?;
    bond::mark(admin.net, port, true);
    admin.set_interface_up(port, true);
    bond::attach(admin.net, (bond, port), own);
    admin.link_changed(port);
    admin.link_changed(bond);
    Ok(())
}

fn take_mac(admin: &mut Admin<'_>, bond: usize, mac: [u8; 6]) {
    let before = std::mem::replace(&mut admin.net.interfaces[bond].mac, mac);
    if let Some(made) = bond::bond_mut(admin.net, bond) {
        made.mac_is_set = true;
    }
    devices::mac_changed(admin.net, bond, before);
}

/// Takes a port out of its bond: it goes down, and gets back its hardware address and MTU.
pub(crate) fn release(admin: &mut Admin<'_>, port: usize) {
    let Some(bond) = bond::of_port(admin.net, port) else { return };
    let Some((mac, mtu)) = bond::detach(admin.net, port) else { return };
    admin.set_interface_up(port, false);
    // The values are those that the interface had.
    let _ = admin.set_mac(port, &mac);
    let _ = admin.set_mtu(port, mtu as u32);
    admin.link_changed(port);
    if bond::bond(admin.net, bond).is_some_and(|bond| bond.ports.is_empty()) {
        let random = random_mac(&mut admin.net.tun_addresses);
        take_mac(admin, bond, random);
        if let Some(bond) = bond::bond_mut(admin.net, bond) {
            bond.mac_is_set = false;
        }
    }
    admin.link_changed(bond);
}
