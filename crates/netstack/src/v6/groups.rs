//! IPv6 multicast group memberships, and their reports to routers (MLDv2, RFC 3810, as in Linux).

use super::state::Ipv6;
use crate::LO;
use crate::interface::Attachment;
use crate::interfaces::Interfaces;
use belljar_base::{SimDuration, SimTime};
use belljar_wire::icmpv6::kind;
use belljar_wire::ipv6;
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

/// All nodes, with interface-local scope.
pub const ALL_NODES_HERE: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);

impl Ipv6 {
    /// True if an interface receives packets to a group; `forwards` is true for a router.
    pub fn is_member(
        &self,
        interfaces: &Interfaces,
        interface: usize,
        group: Ipv6Addr,
        forwards: bool,
    ) -> bool {
        let all = matches!(group.segments(), [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1]);
        let routers = matches!(group.segments(), [0xff01 | 0xff02 | 0xff05, 0, 0, 0, 0, 0, 0, 2]);
        let on = |number: usize| {
            interfaces[number].addresses6.iter().any(|own| ipv6::solicited_node(own.ip) == group)
                || self.groups.contains_key(&(number, group))
        };
        all || routers && forwards
            || match interface {
                LO => (0..interfaces.len()).any(on),
                number => on(number),
            }
    }

    /// Adds the membership of a socket. True if it is the first one.
    pub fn join_group(&mut self, interface: usize, group: Ipv6Addr) -> bool {
        let members = self.groups.entry((interface, group)).or_default();
        *members += 1;
        *members == 1
    }

    /// Removes the membership of a socket. True if it was the last one.
    pub fn leave_group(&mut self, interface: usize, group: Ipv6Addr) -> bool {
        let key = (interface, group);
        let Some(members) = self.groups.get_mut(&key) else { return false };
        *members -= 1;
        let last = *members == 0;
        if last {
            self.groups.remove(&key);
        }
        last
    }

    /// The due reports of an interface, as messages with their destinations: MLDv2 in one message, MLDv1 in one
    /// per group.
    pub fn reports_due(&mut self, interface: usize, now: SimTime) -> Vec<(Ipv6Addr, Vec<u8>)> {
        let mut due: Vec<(Ipv6Addr, Record)> = Vec::new();
        let mut reports = std::mem::take(&mut self.reports);
        for report in reports.iter_mut().filter(|r| r.interface == interface && r.at <= now) {
            due.push((report.group, report.record));
            report.left -= 1;
            report.at = self.delay(now);
        }
        reports.retain(|report| report.left > 0);
        self.reports = reports;
        let (old, new): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|(_, record)| *record == Record::MemberV1);
        let mut messages = Vec::new();
        for (group, _) in old {
            let mut message = vec![kind::MLD_REPORT, 0, 0, 0, 0, 0, 0, 0];
            message.extend(group.octets());
            messages.push((group, message));
        }
        if !new.is_empty() {
            let mut message = vec![kind::MLDV2_REPORT, 0, 0, 0, 0, 0];
            message.extend((new.len() as u16).to_be_bytes());
            for (group, record) in new {
                message.extend([record as u8, 0, 0, 0]);
                message.extend(group.octets());
            }
            messages.push((ipv6::ALL_MLDV2_ROUTERS, message));
        }
        messages
    }

    /// Schedules a state change report with a random delay of up to a second; its repetition follows with
    /// another. False if there is no report. The caller then invokes [`set_timer`](Self::set_timer).
    pub fn report_group(
        &mut self,
        interfaces: &Interfaces,
        (interface, group): (usize, Ipv6Addr),
        joined: bool,
        now: SimTime,
    ) -> bool {
        let link = matches!(
            interfaces[interface].attachment,
            Attachment::Link(_) | Attachment::Vlan { .. } | Attachment::Veth { .. } | Attachment::Made(_)
        );
        // No reports for all-nodes and for groups of interface-local scope (RFC 3810, section 6).
        if !link || group == ipv6::ALL_NODES || group.octets()[1] & 0xf < 2 {
            return false;
        }
        let at = self.delay(now);
        self.reports.retain(|r| (r.interface, r.group) != (interface, group));
        let record = if joined { Record::Joined } else { Record::Left };
        self.reports.push(GroupReport { interface, group, record, left: ROBUSTNESS, at });
        true
    }

    /// Processes a general or group-specific query: `igmp6_event_query` of Linux. The response is scheduled
    /// with a random delay up to the maximum that the router permits. False if the query is not valid. The caller then invokes
    /// [`set_timer`](Self::set_timer).
    pub fn group_query(
        &mut self,
        interfaces: &Interfaces,
        (interface, source): (usize, Ipv6Addr),
        message: &[u8],
        now: SimTime,
    ) -> bool {
        let known = message.len() == QUERY_V1_LEN || message.len() >= QUERY_V2_LEN;
        if !known || !source.is_unicast_link_local() {
            return false;
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
        let own = interfaces[interface].addresses6.iter().map(|own| ipv6::solicited_node(own.ip));
        let joined = self.groups.keys().filter(|(number, _)| *number == interface);
        let mut groups: Vec<Ipv6Addr> = own.chain(joined.map(|(_, group)| *group)).collect();
        groups.sort();
        groups.dedup();
        groups.retain(|group| group.octets()[1] & 0xf >= 2 && *group != ipv6::ALL_NODES);
        groups.retain(|group| asked.is_unspecified() || *group == asked);
        let delay = SimDuration::from_millis(self.stream.below(milliseconds.max(1)));
        let at = now + delay;
        for group in groups {
            // A report that is already pending serves as the response.
            if !self.reports.iter().any(|r| (r.interface, r.group) == (interface, group)) {
                self.reports.push(GroupReport { interface, group, record, left: 1, at });
            }
        }
        true
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StackConfig;
    use crate::interface::Interface;
    use belljar_base::{HostId, Seed};

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7);

    fn parts() -> (Ipv6, Interfaces) {
        let mut config = StackConfig::new(HostId(0), "host", Seed(1));
        config.ipv6 = true;
        let dummy = Interface::program("eth0", [2, 0, 0, 0, 0, 1], Attachment::Link(0));
        (Ipv6::new(&config), Interfaces::new(vec![Interface::loopback(), dummy], 1))
    }

    #[test]
    fn the_first_and_the_last_member_are_reported() {
        let (mut v6, interfaces) = parts();
        assert!(!v6.is_member(&interfaces, 1, GROUP, false));
        assert_eq!([v6.join_group(1, GROUP), v6.join_group(1, GROUP)], [true, false]);
        assert!(v6.is_member(&interfaces, 1, GROUP, false) && v6.is_member(&interfaces, LO, GROUP, false));
        assert_eq!([v6.leave_group(1, GROUP), v6.leave_group(1, GROUP)], [false, true]);
        assert!(!v6.is_member(&interfaces, 1, GROUP, false) && !v6.leave_group(1, GROUP));
    }

    #[test]
    fn a_change_is_reported_twice_and_an_old_query_is_answered_in_its_version() {
        let (mut v6, interfaces) = parts();
        let now = SimTime::from_secs(1);
        assert!(!v6.report_group(&interfaces, (LO, GROUP), true, now));
        assert!(v6.report_group(&interfaces, (1, GROUP), true, now));
        let later = SimTime::from_secs(2);
        for _ in 0..ROBUSTNESS {
            let reports = v6.reports_due(1, later + SimDuration::from_secs(1));
            assert_eq!(reports.len(), 1);
            let (to, message) = &reports[0];
            assert_eq!((*to, message[0], message[8]), (ipv6::ALL_MLDV2_ROUTERS, kind::MLDV2_REPORT, 4));
            v6.reports.iter_mut().for_each(|report| report.at = later);
        }
        assert_eq!(v6.reports_due(1, SimTime::from_secs(9)), []);
        v6.join_group(1, GROUP);
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let query = [0; QUERY_V1_LEN];
        assert!(!v6.group_query(&interfaces, (1, GROUP), &query, now));
        assert!(v6.group_query(&interfaces, (1, router), &query, now));
        let reports = v6.reports_due(1, now);
        assert_eq!(
            reports.iter().map(|(to, message)| (*to, message[0])).collect::<Vec<_>>(),
            [(GROUP, kind::MLD_REPORT)]
        );
    }
}
