//! IPv4 multicast: group memberships of sockets with source filters, and their announcement by IGMP.

use super::interface::Attachment;
use super::{LO, Stack, interface_index};
use crate::SocketKey;
use crate::StackTimer;
use crate::account::Origin;
use crate::ip::Onward;
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_net::igmp::{IgmpMessage, SourceFilter};
use belljar_wire::checksum;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// `igmp_max_memberships`.
const MAX_MEMBERSHIPS: usize = 20;
/// `igmp_max_msf`: maximum number of sources of a filter.
pub const MAX_SOURCES: usize = 10;
/// Protocol number of IGMP.
pub const IGMP: u8 = 2;
/// The Router Alert option (RFC 2113).
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// Membership of a socket in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: Ipv4Addr,
    /// The number of the interface.
    pub interface: usize,
    /// The source filter.
    pub filter: SourceFilter,
}

/// Change of one source in a membership's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// Include the source: `IP_ADD_SOURCE_MEMBERSHIP`.
    Join,
    /// No longer include the source: `IP_DROP_SOURCE_MEMBERSHIP`.
    Leave,
    /// Exclude the source: `IP_BLOCK_SOURCE`.
    Block,
    /// No longer exclude the source: `IP_UNBLOCK_SOURCE`.
    Unblock,
}

impl super::ip::IpOptions {
    /// True if the socket accepts packets from `source` to `destination`: `ip_mc_sf_allow` of Linux. A socket
    /// that is not a member accepts all groups that the host receives, unless `IP_MULTICAST_ALL` is off.
    pub fn takes_group(&self, interface: usize, destination: IpAddr, source: IpAddr) -> bool {
        let (IpAddr::V4(group), IpAddr::V4(source)) = (destination, source) else { return true };
        if !group.is_multicast() {
            return true;
        }
        let member = self.groups.iter().find(|m| m.group == group && m.interface == interface);
        member.map_or(self.multicast_all, |member| member.filter.takes(source))
    }
}

impl Stack {
    /// The interface of a membership (`ip_mc_find_dev`): by index, by one of its addresses, or by the route
    /// to the group.
    pub fn multicast_interface(&self, index: u32, own: Ipv4Addr, group: Ipv4Addr) -> Result<usize, Errno> {
        if index != 0 {
            return self.interfaces.by_index(index).ok_or(Errno::ENODEV);
        }
        if !own.is_unspecified() {
            return self.interfaces.with_address(own).ok_or(Errno::ENODEV);
        }
        self.route(group.into(), None, None).map(|route| route.interface).map_err(|_| Errno::ENODEV)
    }
}

impl Stack {
    /// `IP_ADD_MEMBERSHIP`.
    pub fn join_group(&mut self, key: SocketKey, interface: usize, group: Ipv4Addr) -> Result<(), Errno> {
        if self.interfaces[interface].attachment == Attachment::Graph {
            self.effects.note(
                "multicast groups reach the sockets of one net, and others over links: not over the graph",
            );
        }
        let groups = &mut self.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?.groups;
        if groups.iter().any(|m| m.group == group && m.interface == interface) {
            return Err(Errno::EADDRINUSE);
        }
        if groups.len() >= MAX_MEMBERSHIPS {
            return Err(Errno::ENOBUFS);
        }
        groups.push(Membership { group, interface, filter: SourceFilter::everybody() });
        self.group_changed(interface, group);
        Ok(())
    }

    /// `IP_DROP_MEMBERSHIP`.
    pub fn leave_group(&mut self, key: SocketKey, interface: usize, group: Ipv4Addr) -> Result<(), Errno> {
        let groups = &mut self.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?.groups;
        let at = groups.iter().position(|m| m.group == group && m.interface == interface);
        groups.remove(at.ok_or(Errno::EADDRNOTAVAIL)?);
        self.group_changed(interface, group);
        Ok(())
    }

    /// Changes one source of a membership's filter: `ip_mc_source` of Linux.
    pub fn change_group_source(
        &mut self,
        key: SocketKey,
        (interface, group): (usize, Ipv4Addr),
        source: Ipv4Addr,
        change: SourceChange,
    ) -> Result<(), Errno> {
        let include = matches!(change, SourceChange::Join | SourceChange::Leave);
        let groups = &mut self.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?.groups;
        let known = groups.iter().position(|m| m.group == group && m.interface == interface);
        let at = match (known, change) {
            (Some(at), _) => at,
            (None, SourceChange::Join) if groups.len() >= MAX_MEMBERSHIPS => return Err(Errno::ENOBUFS),
            (None, SourceChange::Join) => {
                groups.push(Membership { group, interface, filter: SourceFilter::nobody() });
                groups.len() - 1
            }
            (None, _) => return Err(Errno::EINVAL),
        };
        let filter = &mut groups[at].filter;
        if filter.include != include {
            // An empty filter may change its mode.
            if !filter.sources.is_empty() {
                return Err(Errno::EINVAL);
            }
            filter.include = include;
        }
        let adds = matches!(change, SourceChange::Join | SourceChange::Block);
        if adds && filter.sources.len() >= MAX_SOURCES {
            return Err(Errno::ENOBUFS);
        }
        let changed = if adds { filter.sources.insert(source) } else { filter.sources.remove(&source) };
        if !changed {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if filter.is_nobody() {
            groups.remove(at);
        }
        self.group_changed(interface, group);
        Ok(())
    }

    /// `IP_MSFILTER`: sets the source filter of a membership.
    pub fn set_group_filter(
        &mut self,
        key: SocketKey,
        (interface, group): (usize, Ipv4Addr),
        filter: SourceFilter,
    ) -> Result<(), Errno> {
        let groups = &mut self.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?.groups;
        let member = groups.iter_mut().find(|m| m.group == group && m.interface == interface);
        member.ok_or(Errno::EINVAL)?.filter = filter;
        self.group_changed(interface, group);
        Ok(())
    }

    /// Drops all memberships of a socket at its close.
    pub fn leave_all_groups(&mut self, key: SocketKey) {
        let Some(options) = self.socket(key).ip_options_mut() else { return };
        for member in std::mem::take(&mut options.groups) {
            self.group_changed(member.interface, member.group);
        }
        let Some(options) = self.socket(key).ip_options_mut() else { return };
        for (interface, group) in std::mem::take(&mut options.groups6) {
            self.leave_group6(interface, group);
        }
    }

    /// Recomputes the filter of a group over all sockets, and announces the change by IGMP.
    fn group_changed(&mut self, interface: usize, group: Ipv4Addr) {
        let members = self.own_sockets().filter_map(|(_, socket)| socket.ip_options());
        let filters: Vec<&SourceFilter> = members
            .flat_map(|options| &options.groups)
            .filter(|m| m.interface == interface && m.group == group)
            .map(|m| &m.filter)
            .collect();
        let filter = SourceFilter::union(filters.into_iter());
        self.igmp.set(self.clock.now(), interface, group, filter);
        self.flush_igmp();
    }

    /// Sends the pending IGMP messages and schedules the IGMP timer.
    pub fn flush_igmp(&mut self) {
        while let Some(message) = self.igmp.poll() {
            // `lo` and the graph have no IGMP routers.
            if self.interfaces[message.interface].is_link() {
                self.send_igmp(message);
            }
        }
        let next = self.igmp.next_timeout();
        self.timers.set(&mut self.igmp_timer, next, StackTimer::Igmp);
    }

    fn send_igmp(&mut self, message: IgmpMessage) {
        let own = self.interfaces[message.interface].addresses.first();
        let source = own.map_or(Ipv4Addr::UNSPECIFIED, |own| own.ip);
        let total = (24 + message.bytes.len()) as u16;
        let mut packet = vec![0x46, 0xc0];
        packet.extend_from_slice(&total.to_be_bytes());
        // An unfragmentable packet has identification 0.
        packet.extend_from_slice(&[0, 0, 0x40, 0, 1, IGMP, 0, 0]);
        packet.extend_from_slice(&source.octets());
        packet.extend_from_slice(&message.to.octets());
        packet.extend_from_slice(&ROUTER_ALERT);
        let sum = checksum::internet(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(&message.bytes);
        let onward = Onward::by(message.interface, None);
        self.ip_local_out(Origin::Igmp, &message.to.into(), Packet::new(packet), &onward);
    }

    /// Handles the IGMP timer: sends the reports that are due.
    pub fn igmp_timer(&mut self) {
        self.igmp_timer = None;
        self.igmp.on_timeout(self.clock.now());
        self.flush_igmp();
        self.flush_network();
    }

    /// Processes a message from a router or another member.
    pub fn igmp_input(&mut self, interface: usize, message: &[u8]) {
        self.igmp.input(self.clock.now(), interface, message);
        self.flush_igmp();
    }

    /// `/proc/net/igmp`.
    pub fn proc_net_igmp(&self) -> String {
        let mut text = String::from("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n");
        let all = belljar_net::igmp::ALL_SYSTEMS;
        for (number, interface) in self.interfaces.iter().enumerate().filter(|(_, i)| i.exists()) {
            let mut groups: Vec<Ipv4Addr> =
                self.igmp.iter().filter(|(i, _)| *i == number).map(|(_, group)| group).collect();
            groups.push(all);
            let _ = writeln!(
                text,
                "{}\t{:<10}: {:5} {:>7}",
                interface_index(number),
                interface.name,
                groups.len(),
                "V3"
            );
            for group in groups {
                let users = self.group_users(number, group).max(1);
                let word = u32::from_ne_bytes(group.octets());
                let _ = writeln!(text, "\t\t\t\t{word:08X} {users:5} 0:00000000\t\t0");
            }
        }
        text
    }

    fn group_users(&self, interface: usize, group: Ipv4Addr) -> usize {
        let sockets = self.own_sockets().filter_map(|(_, socket)| socket.ip_options());
        sockets.flat_map(|o| &o.groups).filter(|m| m.interface == interface && m.group == group).count()
    }

    /// `/proc/net/dev_mcast`: hardware addresses of the groups.
    pub fn proc_net_dev_mcast(&self) -> String {
        let mut text = String::new();
        for (number, interface) in self.interfaces.iter().enumerate().filter(|(n, i)| *n != LO && i.exists())
        {
            let groups = self.igmp.iter().filter(|(i, _)| *i == number).map(|(_, group)| group);
            let v4 = groups.chain([belljar_net::igmp::ALL_SYSTEMS]).map(|group| {
                let [_, b, c, d] = group.octets();
                [1, 0, 0x5e, b & 0x7f, c, d]
            });
            let mut addresses: Vec<[u8; 6]> = v4.collect();
            // Groups that differ in their first bytes alone share an Ethernet address.
            for (group, _) in self.v6.groups_on(&self.interfaces, number) {
                let [.., a, b, c, d] = group.octets();
                let address = [0x33, 0x33, a, b, c, d];
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            for address in addresses {
                let (index, name) = (interface_index(number), &interface.name);
                let address: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = writeln!(text, "{index:<4} {name:<15} {:<5} {:<5} {address}", 1, 0);
            }
        }
        text
    }
}
