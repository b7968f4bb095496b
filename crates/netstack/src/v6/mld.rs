//! Announcement of IPv6 multicast groups (MLDv2, RFC 3810).

use crate::Stack;
use crate::account::Origin;
use crate::ip::Onward;
use belljar_base::SimTime;
use belljar_net::Packet;
use belljar_wire::{icmpv6, ipv6, protocol};
use std::net::Ipv6Addr;

impl Stack {
    /// Adds the membership of a socket, and reports the first one.
    pub fn join_group6(&mut self, interface: usize, group: Ipv6Addr) {
        if self.v6.join_group(interface, group) {
            self.report_group(interface, group, true);
        }
    }
    /// Removes the membership of a socket, and reports the removal of the last one.
    pub fn leave_group6(&mut self, interface: usize, group: Ipv6Addr) {
        if self.v6.leave_group(interface, group) {
            self.report_group(interface, group, false);
        }
    }

    /// Schedules a state change report.
    pub fn report_group(&mut self, interface: usize, group: Ipv6Addr, joined: bool) {
        let now = self.clock.now();
        if self.v6.report_group(&self.interfaces, (interface, group), joined, now) {
            self.v6.set_timer(&mut self.timers, now);
        }
    }

    /// Sends the due reports.
    pub fn send_reports(&mut self, now: SimTime) {
        for interface in 0..self.interfaces.len() {
            for (to, message) in self.v6.reports_due(interface, now) {
                self.send_group_message(interface, to, message);
            }
        }
    }

    fn send_group_message(&mut self, interface: usize, dst: Ipv6Addr, mut message: Vec<u8>) {
        let own = &self.interfaces[interface].addresses6;
        // RFC 3590: the unspecified address while there is no link-local address.
        let local = own.iter().find(|own| own.ip.is_unicast_link_local());
        let local = local.filter(|own| !self.v6.is_tentative(interface, own.ip));
        let src = local.map_or(Ipv6Addr::UNSPECIFIED, |own| own.ip);
        icmpv6::fill_checksum(src, dst, &mut message);
        // A hop-by-hop options header with a Router Alert option (RFC 2711) and padding.
        let mut packet = vec![0; ipv6::HEADER_LEN];
        packet.extend([protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
        let message_at = packet.len();
        packet.extend(message);
        let header = ipv6::Repr {
            src,
            dst,
            next_header: ipv6::extension::HOP_BY_HOP,
            payload_len: packet.len() - ipv6::HEADER_LEN,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
        };
        header.emit(&mut packet);
        self.counters.count_icmp_sent(&dst.into(), protocol::ICMPV6, &packet[message_at..]);
        let onward = Onward { station: Some(ipv6::group_address(dst)), ..Onward::by(interface, None) };
        self.ip_local_out(Origin::Mld, &dst.into(), Packet::new(packet), &onward);
    }
}
