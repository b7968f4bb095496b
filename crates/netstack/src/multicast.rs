//! IPv4 multicast: changes of group memberships, and their announcement by IGMP.

use super::Stack;
use super::interface::Attachment;
use crate::SocketKey;
use crate::StackTimer;
use crate::account::Origin;
use crate::ip::IpOptions;
use crate::ip::Onward;
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_net::igmp::{IgmpMessage, SourceFilter};
use belljar_wire::checksum;
use std::net::Ipv4Addr;

/// Protocol number of IGMP.
pub const IGMP: u8 = 2;
/// The Router Alert option (RFC 2113).
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

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
        self.change_memberships(key, interface, group, |options| options.join_group(interface, group))
    }

    /// Changes the memberships of a socket in a group of an interface, and announces the change.
    pub fn change_memberships(
        &mut self,
        key: SocketKey,
        interface: usize,
        group: Ipv4Addr,
        change: impl FnOnce(&mut IpOptions) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        change(self.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?)?;
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
}
