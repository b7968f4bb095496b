//! IPv6 multicast group memberships, and their reports to routers (MLDv2, RFC 3810, as in Linux).

use super::Ipv6;
use crate::account::Origin;
use crate::interface::Attachment;
use crate::interfaces::Interfaces;
use crate::ip::Onward;
use crate::{LO, Stack};
use belljar_base::{SimDuration, SimTime};
use belljar_net::Packet;
use belljar_wire::icmpv6::{self, kind};
use belljar_wire::{ipv6, protocol};
use std::net::Ipv6Addr;

/// Type of a multicast address record (RFC 3810, section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// `MODE_IS_EXCLUDE`: current state, with members.
    Member = 2,
    /// `CHANGE_TO_INCLUDE_MODE`: the last member has left.
    Left = 3,
    /// `CHANGE_TO_EXCLUDE_MODE`: the first member has joined.
    Joined = 4,
    /// MLDv1 report, for a router that supports MLDv1 only.
    MemberV1,
}

/// Lengths of queries of MLDv1 and MLDv2 in bytes.
const QUERY_V1_LEN: usize = 24;
const QUERY_V2_LEN: usize = 28;
/// Number of transmissions of a state change report (`MLD_QRV_DEFAULT`).
const ROBUSTNESS: u8 = 2;

/// A pending report about a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupReport {
    /// The number of the interface.
    pub interface: usize,
    group: Ipv6Addr,
    record: Record,
    /// Number of transmissions left.
    left: u8,
    /// Time of the next transmission.
    pub at: SimTime,
}

impl Stack {
    /// True if an interface receives packets to a group.
    pub fn is_member6(&self, interface: usize, group: Ipv6Addr) -> bool {
        let all = matches!(group.segments(), [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1]);
        let routers = matches!(group.segments(), [0xff01 | 0xff02 | 0xff05, 0, 0, 0, 0, 0, 0, 2]);
        let on = |number: usize| {
            self.interfaces[number].addresses6.iter().any(|own| ipv6::solicited_node(own.ip) == group)
                || self.v6.groups.contains_key(&(number, group))
        };
        all || routers && self.sysctls.forwarding6
            || match interface {
                LO => (0..self.interfaces.len()).any(on),
                number => on(number),
            }
    }
}

impl Stack {
    /// Adds the membership of a socket, and reports the first one.
    pub fn join_group6(&mut self, interface: usize, group: Ipv6Addr) {
        let members = self.v6.groups.entry((interface, group)).or_default();
        *members += 1;
        if *members == 1 {
            self.report_group(interface, group, true);
        }
    }
    /// Removes the membership of a socket, and reports the removal of the last one.
    pub fn leave_group6(&mut self, interface: usize, group: Ipv6Addr) {
        let key = (interface, group);
        let Some(members) = self.v6.groups.get_mut(&key) else { return };
        *members -= 1;
        if *members == 0 {
            self.v6.groups.remove(&key);
            self.report_group(interface, group, false);
        }
    }

    /// Schedules a state change report with a random delay of up to a second; its repetition follows with
    /// another.
    pub fn report_group(&mut self, interface: usize, group: Ipv6Addr, joined: bool) {
        let link = matches!(
            self.interfaces[interface].attachment,
            Attachment::Link(_) | Attachment::Vlan { .. } | Attachment::Veth { .. }
        );
        // No reports for all-nodes and for groups of interface-local scope (RFC 3810, section 6).
        if !link || group == ipv6::ALL_NODES || group.octets()[1] & 0xf < 2 {
            return;
        }
        let at = self.v6.delay(self.clock.now());
        self.v6.reports.retain(|r| (r.interface, r.group) != (interface, group));
        let record = if joined { Record::Joined } else { Record::Left };
        self.v6.reports.push(GroupReport { interface, group, record, left: ROBUSTNESS, at });
        self.set_timer6();
    }

    /// Processes a general or group-specific query: `igmp6_event_query` of Linux. The response is scheduled
    /// with a random delay up to the maximum that the router permits.
    pub fn group_query(&mut self, interface: usize, source: Ipv6Addr, message: &[u8]) {
        let known = message.len() == QUERY_V1_LEN || message.len() >= QUERY_V2_LEN;
        if !known || !source.is_unicast_link_local() {
            return;
        }
        let code = u64::from(u16::from_be_bytes([message[4], message[5]]));
        let (record, milliseconds) = match message.len() {
            QUERY_V1_LEN => (Record::MemberV1, code),
            // Values from 2^15 on are floating-point.
            _ if code >= 1 << 15 => (Record::Member, ((code & 0xfff) | 0x1000) << (((code >> 12) & 7) + 3)),
            _ => (Record::Member, code),
        };
        let octets: [u8; 16] = message[8..24].try_into().expect("16 bytes");
        let asked = Ipv6Addr::from(octets);
        let own = self.interfaces[interface].addresses6.iter().map(|own| ipv6::solicited_node(own.ip));
        let joined = self.v6.groups.keys().filter(|(number, _)| *number == interface);
        let mut groups: Vec<Ipv6Addr> = own.chain(joined.map(|(_, group)| *group)).collect();
        groups.sort();
        groups.dedup();
        groups.retain(|group| group.octets()[1] & 0xf >= 2 && *group != ipv6::ALL_NODES);
        groups.retain(|group| asked.is_unspecified() || *group == asked);
        let delay = SimDuration::from_millis(self.v6.stream.below(milliseconds.max(1)));
        let at = self.clock.now() + delay;
        for group in groups {
            // A report that is already pending serves as the response.
            if !self.v6.reports.iter().any(|r| (r.interface, r.group) == (interface, group)) {
                self.v6.reports.push(GroupReport { interface, group, record, left: 1, at });
            }
        }
        self.set_timer6();
    }

    /// Sends the due reports: MLDv2 in one message per interface, MLDv1 in one per group.
    pub fn send_reports(&mut self, now: SimTime) {
        for interface in 0..self.interfaces.len() {
            let mut due: Vec<(Ipv6Addr, Record)> = Vec::new();
            let mut reports = std::mem::take(&mut self.v6.reports);
            for report in reports.iter_mut().filter(|r| r.interface == interface && r.at <= now) {
                due.push((report.group, report.record));
                report.left -= 1;
                report.at = self.v6.delay(now);
            }
            reports.retain(|report| report.left > 0);
            self.v6.reports = reports;
            let (old, new): (Vec<_>, Vec<_>) =
                due.into_iter().partition(|(_, record)| *record == Record::MemberV1);
            for (group, _) in old {
                let mut message = vec![kind::MLD_REPORT, 0, 0, 0, 0, 0, 0, 0];
                message.extend(group.octets());
                self.send_group_message(interface, group, message);
            }
            if !new.is_empty() {
                let mut message = vec![kind::MLDV2_REPORT, 0, 0, 0, 0, 0];
                message.extend((new.len() as u16).to_be_bytes());
                for (group, record) in new {
                    message.extend([record as u8, 0, 0, 0]);
                    message.extend(group.octets());
                }
                self.send_group_message(interface, ipv6::ALL_MLDV2_ROUTERS, message);
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

/// All nodes, with interface-local scope.
pub const ALL_NODES_HERE: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);

impl Ipv6 {
    /// The groups of an interface, with the number of member sockets of each.
    pub fn groups_on(&self, interfaces: &Interfaces, number: usize) -> Vec<(Ipv6Addr, u32)> {
        if number != LO && !self.on {
            return Vec::new();
        }
        let interface = &interfaces[number];
        let own = interface.addresses6.iter().filter(|own| !own.ip.is_loopback());
        let mut groups: Vec<(Ipv6Addr, u32)> = vec![(ALL_NODES_HERE, 1), (ipv6::ALL_NODES, 1)];
        groups.extend(own.map(|own| (ipv6::solicited_node(own.ip), 1)));
        let joined = self.groups.iter().filter(|((n, _), _)| *n == number);
        groups.extend(joined.map(|((_, group), users)| (*group, *users)));
        groups.dedup_by_key(|(group, _)| *group);
        groups
    }

    /// The interface of a membership for which the program names none: the first that is up, or `lo` if there
    /// is none or if the host has no IPv6.
    pub fn group_interface(&self, interfaces: &Interfaces) -> Option<usize> {
        (1..interfaces.len()).find(|number| interfaces[*number].up).filter(|_| self.on).or(Some(LO))
    }
}
