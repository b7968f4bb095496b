//! Host side of IGMP: reports the host's multicast groups to the routers of a link by version 3 (RFC 3376),
//! and by version 2 (RFC 2236) where a router uses it, with the timing of Linux (`net/ipv4/igmp.c`).
//!
//! A change of a group is reported at once and, since reports can be lost, again within a second. A query
//! is answered after a random part of its maximum response time.
//!
//! After each call take the messages from [`Igmp::poll`]; call [`Igmp::on_timeout`] at
//! [`Igmp::next_timeout`].

use belljar_base::{Map, Set, SimDuration, SimTime, Stream};
use belljar_wire::checksum;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// All-systems group: every host is a member, without reports.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All-routers group, to which version 2 hosts send their leave messages.
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Destination of version 3 reports.
const REPORTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// Number of transmissions of a change, `IGMP_QUERY_ROBUSTNESS_VARIABLE`.
const ROBUSTNESS: u8 = 2;
/// Delay of a first report, two jiffies.
const FIRST_DELAY: SimDuration = SimDuration::from_millis(8);
/// Maximum interval between transmissions of a change, `igmpv3_unsolicited_report_interval`.
const REPORT_INTERVAL: SimDuration = SimDuration::from_secs(1);
/// Time for which a host uses version 2 after a query of that version: robustness times 125 s, plus 10 s.
const OLDER_VERSION_PRESENT: SimDuration = SimDuration::from_secs(260);
/// Number of records in a report that fit into the MTU of Ethernet with a few sources each.
const RECORDS_PER_REPORT: usize = 60;

/// Types of messages.
mod kind {
    pub const QUERY: u8 = 0x11;
    pub const V2_REPORT: u8 = 0x16;
    pub const V2_LEAVE: u8 = 0x17;
    pub const V3_REPORT: u8 = 0x22;
}
/// Types of records of a version 3 report.
mod record {
    pub const IS_INCLUDE: u8 = 1;
    pub const IS_EXCLUDE: u8 = 2;
    pub const TO_INCLUDE: u8 = 3;
    pub const TO_EXCLUDE: u8 = 4;
    pub const ALLOW: u8 = 5;
    pub const BLOCK: u8 = 6;
}

/// Source filter of a group: the senders whose packets are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFilter {
    /// True if only `sources` are accepted, false if all others are.
    pub include: bool,
    /// Sources that the filter lists.
    pub sources: Set<Ipv4Addr>,
}

impl SourceFilter {
    /// Filter that accepts all sources.
    pub fn everybody() -> SourceFilter {
        SourceFilter { include: false, sources: Set::new() }
    }
    /// Filter that accepts no source.
    pub fn nobody() -> SourceFilter {
        SourceFilter { include: true, sources: Set::new() }
    }
    /// True if the filter accepts a source.
    pub fn takes(&self, source: Ipv4Addr) -> bool {
        self.sources.contains(&source) == self.include
    }
    /// Filter that combines those of several sockets (RFC 3376, section 3.2).
    pub fn union<'a>(filters: impl Iterator<Item = &'a SourceFilter> + Clone) -> SourceFilter {
        let included: Set<Ipv4Addr> =
            filters.clone().filter(|f| f.include).flat_map(|f| f.sources.iter().copied()).collect();
        let mut excludes = filters.filter(|f| !f.include).map(|f| &f.sources);
        match excludes.next() {
            None => SourceFilter { include: true, sources: included },
            Some(first) => {
                let mut sources = first.clone();
                for other in excludes {
                    sources.retain(|source| other.contains(source));
                }
                sources.retain(|source| !included.contains(source));
                SourceFilter { include: false, sources }
            }
        }
    }
    /// True if the filter accepts no source.
    pub fn is_nobody(&self) -> bool {
        self.include && self.sources.is_empty()
    }
}

/// IGMP message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgmpMessage {
    /// Index of the outgoing interface.
    pub interface: usize,
    /// Destination address.
    pub to: Ipv4Addr,
    /// Payload of the IP packet.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct Group {
    filter: SourceFilter,
    /// Records still to be reported, and the number of transmissions left.
    changes: Vec<(u8, Set<Ipv4Addr>)>,
    left: u8,
    /// Time at which a query about the group is answered.
    answer: Option<SimTime>,
}

#[derive(Debug, Default)]
struct Link {
    /// Time of the next report of changes.
    report: Option<SimTime>,
    /// Time at which a general query is answered.
    answer: Option<SimTime>,
    /// Time until which a version 2 router is assumed to be present.
    version2_until: Option<SimTime>,
}

/// IGMP state of one host. See the [module](self).
#[derive(Debug)]
pub struct Igmp {
    groups: Map<(usize, Ipv4Addr), Group>,
    links: Map<usize, Link>,
    stream: Stream,
    messages: VecDeque<IgmpMessage>,
}

impl Igmp {
    /// Creates a state without groups. `stream` is drawn from for delays.
    pub fn new(stream: Stream) -> Igmp {
        Igmp { groups: Map::new(), links: Map::new(), stream, messages: VecDeque::new() }
    }

    /// Sets the source filter of a group on an interface.
    pub fn set(&mut self, now: SimTime, interface: usize, group: Ipv4Addr, filter: SourceFilter) {
        let key = (interface, group);
        let before = self.groups.get(&key).map_or(SourceFilter::nobody(), |g| g.filter.clone());
        if before == filter || group == ALL_SYSTEMS {
            return;
        }
        let difference = |a: &SourceFilter, b: &SourceFilter| -> Set<Ipv4Addr> {
            a.sources.difference(&b.sources).copied().collect()
        };
        let changes = match (before.include, filter.include) {
            (true, true) => vec![
                (record::ALLOW, difference(&filter, &before)),
                (record::BLOCK, difference(&before, &filter)),
            ],
            (false, false) => vec![
                (record::BLOCK, difference(&filter, &before)),
                (record::ALLOW, difference(&before, &filter)),
            ],
            (false, true) => vec![(record::TO_INCLUDE, filter.sources.clone())],
            (true, false) => vec![(record::TO_EXCLUDE, filter.sources.clone())],
        };
        let of_mode = |kind: u8| matches!(kind, record::TO_INCLUDE | record::TO_EXCLUDE);
        let changes = changes.into_iter().filter(|(kind, sources)| of_mode(*kind) || !sources.is_empty());
        let entry = self.groups.entry(key).or_insert_with(|| Group {
            filter: SourceFilter::nobody(),
            changes: Vec::new(),
            left: 0,
            answer: None,
        });
        entry.filter = filter;
        entry.changes = changes.collect();
        entry.left = ROBUSTNESS;
        let link = self.links.entry(interface).or_default();
        let at = now + FIRST_DELAY;
        link.report = Some(link.report.map_or(at, |already| already.min(at)));
    }

    /// True if any socket accepts packets from `source` to a group.
    pub fn takes(&self, interface: usize, group: Ipv4Addr, source: Ipv4Addr) -> bool {
        group == ALL_SYSTEMS || self.groups.get(&(interface, group)).is_some_and(|g| g.filter.takes(source))
    }
    /// True if the host is a member of a group.
    pub fn is_member(&self, interface: usize, group: Ipv4Addr) -> bool {
        group == ALL_SYSTEMS || self.groups.get(&(interface, group)).is_some_and(|g| !g.filter.is_nobody())
    }
    /// Iterates over all groups, by interface.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Ipv4Addr)> {
        self.groups.iter().filter(|(_, g)| !g.filter.is_nobody()).map(|(key, _)| *key)
    }

    /// Processes an IGMP message received on an interface.
    pub fn input(&mut self, now: SimTime, interface: usize, message: &[u8]) {
        if message.len() < 8 || checksum::internet(message) != 0 {
            return;
        }
        let group = Ipv4Addr::new(message[4], message[5], message[6], message[7]);
        match message[0] {
            kind::QUERY => self.query(now, interface, group, message),
            kind::V2_REPORT if self.speaks_version2(now, interface) => {
                // Another host has answered the query.
                if let Some(entry) = self.groups.get_mut(&(interface, group)) {
                    entry.answer = None;
                }
            }
            _ => {}
        }
    }

    fn query(&mut self, now: SimTime, interface: usize, group: Ipv4Addr, message: &[u8]) {
        let version3 = message.len() >= 12;
        let tenths = match message[1] {
            0 => 100,
            code @ 1..=127 => u64::from(code),
            code if version3 => (u64::from(code & 0xf) | 0x10) << ((code >> 4 & 7) + 3),
            code => u64::from(code),
        };
        let most = SimDuration::from_millis(tenths * 100);
        if !version3 {
            self.links.entry(interface).or_default().version2_until = Some(now + OLDER_VERSION_PRESENT);
        }
        if group.is_unspecified() && version3 {
            let at = now + self.delay(most);
            let link = self.links.entry(interface).or_default();
            link.answer = Some(link.answer.map_or(at, |already| already.min(at)));
            return;
        }
        let asked: Vec<(usize, Ipv4Addr)> = self
            .groups
            .range((interface, Ipv4Addr::UNSPECIFIED)..=(interface, Ipv4Addr::BROADCAST))
            .filter(|((_, g), entry)| (group.is_unspecified() || *g == group) && !entry.filter.is_nobody())
            .map(|(key, _)| *key)
            .collect();
        for key in asked {
            let at = now + self.delay(most);
            if let Some(entry) = self.groups.get_mut(&key) {
                entry.answer = Some(entry.answer.map_or(at, |already| already.min(at)));
            }
        }
    }

    fn delay(&mut self, most: SimDuration) -> SimDuration {
        SimDuration::from_nanos(self.stream.below(most.as_nanos().max(1)))
    }

    fn speaks_version2(&self, now: SimTime, interface: usize) -> bool {
        self.links.get(&interface).and_then(|link| link.version2_until).is_some_and(|until| now < until)
    }

    /// Takes the next message to send.
    pub fn poll(&mut self) -> Option<IgmpMessage> {
        self.messages.pop_front()
    }

    /// Time of the next [`on_timeout`](Self::on_timeout).
    pub fn next_timeout(&self) -> Option<SimTime> {
        let links = self.links.values().flat_map(|link| [link.report, link.answer]).flatten();
        links.chain(self.groups.values().filter_map(|group| group.answer)).min()
    }

    /// Processes the timers that have expired at `now`.
    pub fn on_timeout(&mut self, now: SimTime) {
        let due = |at: Option<SimTime>| at.is_some_and(|at| at <= now);
        let links: Vec<usize> = self.links.keys().copied().collect();
        for interface in links {
            if due(self.links[&interface].report) {
                self.report_changes(now, interface);
            }
            if due(self.links[&interface].answer) {
                self.links.entry(interface).or_default().answer = None;
                let members =
                    self.groups.iter().filter(|((i, _), g)| *i == interface && !g.filter.is_nobody());
                let records = members.map(|((_, group), g)| state_record(*group, &g.filter)).collect();
                self.send_records(interface, records);
            }
        }
        let groups: Vec<(usize, Ipv4Addr)> =
            self.groups.iter().filter(|(_, g)| due(g.answer)).map(|(key, _)| *key).collect();
        for key in groups {
            let (interface, group) = key;
            let version2 = self.speaks_version2(now, interface);
            let Some(entry) = self.groups.get_mut(&key) else { continue };
            entry.answer = None;
            let state = state_record(group, &entry.filter);
            match version2 {
                true => self.send_version2(interface, kind::V2_REPORT, group, group),
                false => self.send_records(interface, vec![state]),
            }
        }
    }

    fn report_changes(&mut self, now: SimTime, interface: usize) {
        let version2 = self.speaks_version2(now, interface);
        let mut records = Vec::new();
        let mut older = Vec::new();
        let mut again = false;
        for ((i, group), entry) in &mut self.groups {
            if *i != interface || entry.left == 0 {
                continue;
            }
            entry.left -= 1;
            again |= entry.left > 0;
            records.extend(entry.changes.iter().map(|(kind, sources)| to_record(*kind, *group, sources)));
            older.push((*group, entry.filter.is_nobody()));
        }
        match version2 {
            false => self.send_records(interface, records),
            true => older.into_iter().for_each(|(group, gone)| match gone {
                true => self.send_version2(interface, kind::V2_LEAVE, group, ALL_ROUTERS),
                false => self.send_version2(interface, kind::V2_REPORT, group, group),
            }),
        }
        self.groups.retain(|_, entry| entry.left > 0 || !entry.filter.is_nobody());
        let next = again.then(|| now + FIRST_DELAY + self.delay(REPORT_INTERVAL));
        self.links.entry(interface).or_default().report = next;
    }

    fn send_records(&mut self, interface: usize, records: Vec<Vec<u8>>) {
        for records in records.chunks(RECORDS_PER_REPORT) {
            let mut bytes = vec![kind::V3_REPORT, 0, 0, 0, 0, 0, 0, records.len() as u8];
            records.iter().for_each(|record| bytes.extend_from_slice(record));
            self.send(interface, REPORTS, bytes);
        }
    }

    fn send_version2(&mut self, interface: usize, kind: u8, group: Ipv4Addr, to: Ipv4Addr) {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend_from_slice(&group.octets());
        self.send(interface, to, bytes);
    }

    fn send(&mut self, interface: usize, to: Ipv4Addr, mut bytes: Vec<u8>) {
        let sum = checksum::internet(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        self.messages.push_back(IgmpMessage { interface, to, bytes });
    }

    /// Removes the state of an interface that has been removed.
    pub fn forget(&mut self, interface: usize) {
        self.links.remove(&interface);
        self.groups.retain(|(i, _), _| *i != interface);
    }
}

fn state_record(group: Ipv4Addr, filter: &SourceFilter) -> Vec<u8> {
    to_record(if filter.include { record::IS_INCLUDE } else { record::IS_EXCLUDE }, group, &filter.sources)
}

fn to_record(kind: u8, group: Ipv4Addr, sources: &Set<Ipv4Addr>) -> Vec<u8> {
    let [high, low] = (sources.len() as u16).to_be_bytes();
    let mut bytes = vec![kind, 0, high, low];
    bytes.extend_from_slice(&group.octets());
    sources.iter().for_each(|source| bytes.extend_from_slice(&source.octets()));
    bytes
}

#[cfg(test)]
#[path = "igmp_tests.rs"]
mod tests;
