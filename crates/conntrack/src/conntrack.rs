//! The tracker of one network namespace: its table, settings and counters, and the course of a packet.

use crate::conn::{
    Attached, Conn, ConnKey, CtInfo, CtStatus, CtZone, Jiffies, ProtocolState, Template, seconds,
};
use crate::event::{CtEvent, EventGroups, Reporter, change};
use crate::expect::Expectations;
use crate::parse::Datagram;
use crate::settings::Settings;
use crate::statistics::CtStatistics;
use crate::table::Table;
use crate::tuple::{InetAddress, Tuple, TupleDirection, protocol};
use crate::{ctnetlink, icmp};
use belljar_base::{HZ, SimTime, Stream};
use belljar_linux_abi::Errno;

/// Ticks after which a connection that was never confirmed is forgotten: its packet is gone.
const STALE: Jiffies = seconds(60);
/// Ticks between two evictions from a full table (`GC_SCAN_INTERVAL_MAX`).
const EVICTION_INTERVAL: Jiffies = seconds(60);
/// Nanoseconds between 1970 and the start of simulations, 1 January 2000.
const START_OF_SIMULATION: u64 = 946_684_800_000_000_000;

/// Points of the packet path, by their `NF_INET_*` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InetHook {
    /// Received.
    Prerouting,
    /// Addressed to this host.
    Input,
    /// Being forwarded.
    Forward,
    /// Sent by this host.
    Output,
    /// About to leave by an interface.
    Postrouting,
}

/// Circumstances of a packet.
#[derive(Clone, Copy, Debug)]
pub struct TrackContext {
    /// Point of the packet path.
    pub hook: InetHook,
    /// Present time.
    pub now: SimTime,
    /// True if the transport checksum is known to be right, so that it need not be verified.
    pub checksum_verified: bool,
}

/// Decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackVerdict {
    /// The packet continues.
    Accept,
    /// The packet is to be dropped.
    Drop,
}

/// Result of tracking a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Decision on the packet.
    pub verdict: TrackVerdict,
    /// Part that accompanies the packet.
    pub attached: Attached,
}

impl Tracked {
    pub(crate) const fn accept(attached: Attached) -> Tracked {
        Tracked { verdict: TrackVerdict::Accept, attached }
    }

    pub(crate) const DROP: Tracked = Tracked { verdict: TrackVerdict::Drop, attached: Attached::None };
}

/// Effect of a packet on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The packet is part of the connection.
    Accept,
    /// The packet is not part of the connection.
    Invalid,
    /// The connection is over; the packet is to be tracked again.
    Repeat,
}

/// Connection tracking of one network namespace.
///
/// # Packets
/// [`track`](Self::track) at `Prerouting` and `Output`; [`nat_wanted`](Self::nat_wanted), the `setup_*`
/// methods and [`translate`](Self::translate) at the hooks of NAT; [`confirm`](Self::confirm) at the end of
/// `Input` and `Postrouting`; [`release`](Self::release) for packets that end elsewhere. The head of the
/// crate has the order.
///
/// # Time
/// Each method that takes `now` first removes what is over by then where that matters. A caller that needs
/// removals to be in time, since a program listens to them, calls [`expire`](Self::expire) at
/// [`next_deadline`](Self::next_deadline).
///
/// # Connections
/// [`conn`](Self::conn) and the `set_*` methods take the attachment of a packet;
/// [`connections`](Self::connections), [`find`](Self::find) and [`delete`](Self::delete) keys.
#[derive(Debug)]
pub struct Conntrack {
    pub(crate) table: Table,
    pub(crate) expectations: Expectations,
    pub(crate) settings: Settings,
    pub(crate) statistics: CtStatistics,
    pub(crate) stream: Stream,
    listeners: EventGroups,
    events: Vec<CtEvent>,
    /// Time at which entries are evicted from the whole table, after it was full.
    eviction: Option<Jiffies>,
    /// Key of connection identifiers, and the number of connections that have been created.
    id_key: u64,
    created: u64,
    start: u64,
}

impl Conntrack {
    /// Tracker without connections. Hashes, identifiers and the ports that NAT chooses are drawn from
    /// `stream`.
    pub fn new(mut stream: Stream) -> Conntrack {
        let (key, id_key) = (stream.next_u64(), stream.next_u64());
        Conntrack {
            table: Table::new(key),
            expectations: Expectations::default(),
            settings: Settings::default(),
            statistics: CtStatistics::default(),
            stream,
            listeners: EventGroups::empty(),
            events: Vec::new(),
            eviction: None,
            id_key,
            created: 0,
            start: START_OF_SIMULATION,
        }
    }

    /// Sets the time of [`SimTime::ZERO`] in nanoseconds since 1970, which is 1 January 2000 otherwise.
    pub fn set_start(&mut self, nanoseconds: u64) {
        self.start = nanoseconds;
    }

    pub(crate) fn real_time(&self, now: SimTime) -> u64 {
        self.start.saturating_add(now.as_nanos())
    }

    /// Tracks a packet (`nf_conntrack_in`), from the start of its IP header, at `Prerouting` or `Output`. A
    /// packet that has been tracked before or is exempt keeps its attachment. Fragments must have been
    /// reassembled: one other than the first is invalid.
    pub fn track(&mut self, packet: &[u8], attached: Attached, context: &TrackContext) -> Tracked {
        let template = match attached {
            Attached::Conn { key, .. } if self.table.get(key).is_some() => return Tracked::accept(attached),
            Attached::Untracked => return Tracked::accept(attached),
            Attached::Template(template) => template,
            Attached::None | Attached::Conn { .. } => Template::default(),
        };
        self.expire(context.now);
        let Some(datagram) = Datagram::parse(packet) else { return self.invalid() };
        if matches!(datagram.protocol, protocol::ICMP | protocol::ICMPV6) {
            match self.track_icmp_error(packet, &datagram, &template, context) {
                icmp::ErrorDisposition::Query => {}
                icmp::ErrorDisposition::Settled(attached) => return Tracked::accept(attached),
            }
        }
        let Some(tuple) = datagram.tuple(packet) else { return self.invalid() };
        // A packet that ends a closed connection is tracked again, as the first of a new one.
        for _ in 0..2 {
            let (key, direction) = match self.table.find(template.zone, &tuple, context.now) {
                Some(found) => found,
                None => match self.begin(&tuple, &template, context.now) {
                    Ok(Some(key)) => (key, TupleDirection::Original),
                    Ok(None) => return self.invalid(),
                    Err(_) => {
                        self.statistics.drop += 1;
                        return Tracked::DROP;
                    }
                },
            };
            let Some(info) = self.table.get(key).map(|conn| relation(conn, direction)) else { break };
            match self.packet(key, info, packet, &datagram, context) {
                Disposition::Accept => {
                    if info == CtInfo::EstablishedReply {
                        self.note_reply(key);
                    }
                    return Tracked::accept(Attached::Conn { key, info });
                }
                Disposition::Invalid => {
                    self.release(Attached::Conn { key, info });
                    break;
                }
                Disposition::Repeat => {}
            }
        }
        self.invalid()
    }

    fn invalid(&mut self) -> Tracked {
        self.statistics.invalid += 1;
        Tracked::accept(Attached::None)
    }

    fn note_reply(&mut self, key: ConnKey) {
        let Some(conn) = self.table.get_mut(key) else { return };
        if !conn.is(CtStatus::SEEN_REPLY) {
            conn.status.insert(CtStatus::SEEN_REPLY);
            self.note(key, change::REPLY);
        }
    }

    /// Begins a connection with the tuple of its first packet (`init_conntrack`). `Ok(None)` if packets of
    /// this kind begin none; `ENOMEM` if the table is full.
    fn begin(&mut self, tuple: &Tuple, template: &Template, now: SimTime) -> Result<Option<ConnKey>, Errno> {
        let Some(reply) = tuple.inverse() else { return Ok(None) };
        self.make_room(template.zone, tuple, now)?;
        let conn = self.blank(*tuple, reply, template);
        let key = self.table.add(conn, now);
        if !self.fulfil_expectation(key, tuple, template, now)
            && let Some(conn) = self.table.get_mut(key)
        {
            conn.helper = template.helper.filter(|helper| helper.protocol() == tuple.protocol);
        }
        Ok(Some(key))
    }

    /// Connection of two tuples with everything else as at the beginning.
    pub(crate) fn blank(&mut self, original: Tuple, reply: Tuple, template: &Template) -> Conn {
        self.created += 1;
        Conn {
            tuples: [original, reply],
            status: CtStatus::empty(),
            mark: 0,
            id: identifier(self.id_key, self.created),
            zone: template.zone,
            timeout: 0,
            queued: 0,
            serial: 0,
            protocol: ProtocolState::Stateless,
            counters: (self.settings.acct != 0).then(Default::default),
            labels: [0; 16],
            pending: 0,
            event_mask: template.event_mask.unwrap_or(u16::MAX),
            timestamps: (self.settings.timestamp != 0).then_some((0, 0)),
            masquerade: 0,
            helper: None,
            extra: None,
        }
    }

    /// Evicts connections that are not assured if the table is full. `ENOMEM` if there are none among those
    /// that are looked at.
    pub(crate) fn make_room(&mut self, zone: CtZone, tuple: &Tuple, now: SimTime) -> Result<(), Errno> {
        let limit = self.settings.max as usize;
        if limit == 0 || self.table.len() < limit {
            return Ok(());
        }
        let victims = self.table.evictable(zone, tuple, self.settings.buckets, now);
        let count = victims.into_iter().filter(|key| self.kill(*key, Reporter::default(), now)).count();
        self.statistics.early_drop += count as u64;
        if count > 0 {
            return Ok(());
        }
        let next = (now.jiffies() / EVICTION_INTERVAL + 1) * EVICTION_INTERVAL;
        self.eviction.get_or_insert(next);
        Err(Errno::ENOMEM)
    }

    /// Evicts connections that are not assured or are closing until the table is no longer almost full
    /// (`gc_worker`). Linux does so in its next scan after a packet was dropped, which is every minute at the
    /// latest; here it is at whole minutes.
    fn evict(&mut self, now: SimTime) {
        if self.eviction.is_none_or(|at| at > now.jiffies()) {
            return;
        }
        self.eviction = None;
        let almost_full = self.settings.max as usize / 100 * 95;
        if almost_full == 0 {
            return;
        }
        let may_go = |conn: &Conn| match &conn.protocol {
            _ if !conn.is(CtStatus::ASSURED) => true,
            ProtocolState::Tcp(track) => track.state.may_be_evicted(),
            ProtocolState::Sctp(track) => track.state.may_be_evicted(),
            ProtocolState::Stateless | ProtocolState::Udp { .. } => false,
        };
        let victims: Vec<ConnKey> =
            self.connections().filter(|(_, conn)| may_go(conn)).map(|(key, _)| key).collect();
        for key in victims {
            if self.table.len() < almost_full {
                break;
            }
            self.kill(key, Reporter::default(), now);
        }
    }

    /// Renews the timeout of a connection and counts a packet (`nf_ct_refresh_acct`).
    pub(crate) fn refresh(&mut self, key: ConnKey, info: CtInfo, left: Jiffies, bytes: usize, now: SimTime) {
        let Some(conn) = self.table.get_mut(key) else { return };
        conn.count(info.direction(), bytes);
        if !conn.is(CtStatus::FIXED_TIMEOUT) {
            self.table.set_timeout(key, left, now);
        }
    }

    /// Confirms the connection of a packet that passes the last hook, at the end of `Input` and `Postrouting`
    /// (`nf_confirm`): the connection is in the table from now on. A helper may change payload and length of
    /// the packet before. The packet is dropped if another connection took the tuple in the meantime.
    pub fn confirm(&mut self, packet: &mut Vec<u8>, attached: Attached, context: &TrackContext) -> Tracked {
        let Attached::Conn { key, info } = attached else { return Tracked::accept(attached) };
        let Some(conn) = self.table.get(key) else { return Tracked::accept(attached) };
        if info != CtInfo::RelatedReply
            && (conn.helper.is_some() || conn.is(CtStatus::SEQ_ADJUST))
            && self.help(packet, key, info, context) == TrackVerdict::Drop
        {
            self.statistics.drop += 1;
            return Tracked::DROP;
        }
        let Some(conn) = self.table.get(key) else { return Tracked::accept(attached) };
        let mut attached = attached;
        if !conn.is(CtStatus::CONFIRMED) && info.direction() == TupleDirection::Original {
            match self.insert_confirmed(key, info, context.now) {
                Some(key) => attached = Attached::Conn { key, info },
                None => return Tracked::DROP,
            }
        }
        if let Attached::Conn { key, .. } = attached {
            self.report(key, Reporter::default(), context.now);
        }
        Tracked::accept(attached)
    }

    /// Adds a connection to the table (`__nf_conntrack_confirm`). The result is the connection that the
    /// packet belongs to then; `None` drops the packet.
    fn insert_confirmed(&mut self, key: ConnKey, info: CtInfo, now: SimTime) -> Option<ConnKey> {
        let conn = self.table.get(key)?;
        if conn.is(CtStatus::DYING) {
            self.statistics.insert_failed += 1;
            return None;
        }
        let (zone, [original, reply]) = (conn.zone, conn.tuples);
        let related = conn.is(CtStatus::EXPECTED);
        let helped = conn.helper.is_some();
        let clash = self.table.find(zone, &original, now).or_else(|| self.table.find(zone, &reply, now));
        if let Some((other, _)) = clash {
            return self.resolve_clash(key, other, info, now);
        }
        self.table.confirm(key, false, now);
        let start = self.real_time(now);
        if let Some(conn) = self.table.get_mut(key)
            && let Some(times) = &mut conn.timestamps
        {
            times.0 = start;
        }
        if helped {
            self.note(key, change::HELPER);
        }
        self.note(key, if related { change::RELATED } else { change::NEW });
        Some(key)
    }

    /// Handles a connection whose tuple another one took between its first hook and its last
    /// (`nf_ct_resolve_clash`).
    ///
    /// Without translation, or if both are equal, the packet joins the other connection. Otherwise the entry
    /// is added for its reply tuple alone, for a second, if that tuple is free. TCP does neither: its packet
    /// is dropped and sent again.
    fn resolve_clash(&mut self, key: ConnKey, other: ConnKey, info: CtInfo, now: SimTime) -> Option<ConnKey> {
        let (Some(own), Some(found)) = (self.table.get(key), self.table.get(other)) else { return None };
        let (zone, reply, tuples) = (own.zone, *own.reply(), own.tuples);
        if allows_clash(found.original().protocol) {
            let joins = |found: &Conn| {
                !found.is(CtStatus::DYING)
                    && (!found.status.intersects(CtStatus::NAT_DONE_MASK)
                        || found.tuples == tuples && found.zone == zone)
            };
            let holder = self.table.find(zone, &reply, now).map(|(key, _)| key);
            let target = if joins(found) {
                Some(other)
            } else {
                holder.filter(|key| self.table.get(*key).is_some_and(joins))
            };
            if let Some(target) = target {
                let bytes = own.counters(info.direction()).bytes;
                if let Some(winner) = self.table.get_mut(target) {
                    winner.count(info.direction(), bytes as usize);
                }
                self.table.remove(key);
                self.statistics.clash_resolve += 1;
                return Some(target);
            }
            if holder.is_none() {
                if let Some(conn) = self.table.get_mut(key) {
                    conn.timeout = HZ;
                    conn.status.insert(CtStatus::FIXED_TIMEOUT | CtStatus::NAT_CLASH);
                }
                self.table.confirm(key, true, now);
                self.statistics.clash_resolve += 1;
                return Some(key);
            }
        }
        self.statistics.drop += 1;
        self.statistics.insert_failed += 1;
        self.table.remove(key);
        None
    }

    /// Ends the attachment of a packet that is dropped or consumed before the last hook. A connection that
    /// has not been confirmed ends with its packet. Packets for which this is not called are noticed after a
    /// minute.
    pub fn release(&mut self, attached: Attached) {
        if let Attached::Conn { key, .. } = attached
            && let Some(conn) = self.table.get(key)
            && !conn.is(CtStatus::CONFIRMED)
        {
            self.remove_expectations(key);
            self.table.remove(key);
        }
    }

    /// Attachment of a packet that this host sends in answer to another one, such as a reset or an ICMP error
    /// (`nf_ct_attach`).
    pub fn attach_reply(&self, attached: Attached) -> Attached {
        match attached {
            Attached::Conn { key, info } => {
                let info = match info.direction() {
                    TupleDirection::Original => CtInfo::RelatedReply,
                    TupleDirection::Reply => CtInfo::Related,
                };
                Attached::Conn { key, info }
            }
            Attached::Untracked => Attached::Untracked,
            Attached::None | Attached::Template(_) => Attached::None,
        }
    }

    /// Removes the connections and expectations whose time is over.
    pub fn expire(&mut self, now: SimTime) {
        self.table.bury();
        while let Some(key) = self.table.next_expired(now) {
            self.kill(key, Reporter::default(), now);
        }
        if let Some(created) = now.jiffies().checked_sub(STALE) {
            while let Some(key) = self.table.next_stale(created) {
                self.table.remove(key);
            }
        }
        self.expire_expectations(now);
        self.evict(now);
    }

    /// Earliest time at which something may expire. There may be nothing to do then.
    pub fn next_deadline(&self) -> Option<SimTime> {
        let deadlines = [self.table.next_deadline(), self.expectations.next_deadline(), self.eviction];
        let ticks = deadlines.into_iter().flatten().min()?;
        Some(SimTime::from_nanos(ticks.saturating_mul(1_000_000_000 / HZ)))
    }

    /// Removes a connection and reports it. Its key stays valid for the packet that caused it. False if it
    /// was removed before.
    pub(crate) fn kill(&mut self, key: ConnKey, reporter: Reporter, now: SimTime) -> bool {
        let stop = self.real_time(now);
        let Some(conn) = self.table.get_mut(key) else { return false };
        if conn.is(CtStatus::DYING) {
            return false;
        }
        if let Some(times) = &mut conn.timestamps {
            times.1 = stop;
        }
        let reported = conn.is(CtStatus::CONFIRMED) && conn.event_mask & change::DESTROY != 0;
        self.remove_expectations(key);
        self.table.remove(key);
        if reported && self.listens(EventGroups::DESTROY, reporter) {
            self.send_event(key, EventGroups::DESTROY, change::DESTROY, reporter, now);
        }
        true
    }

    /// Removes a connection (`nf_ct_delete`). False if there is none of that key.
    pub fn delete(&mut self, key: ConnKey, reporter: Reporter, now: SimTime) -> bool {
        let removed = self.kill(key, reporter, now);
        self.table.bury();
        removed
    }

    /// Removes the connections for which `matches` is true, and returns their number.
    pub fn flush(&mut self, reporter: Reporter, now: SimTime, matches: impl Fn(&Conn) -> bool) -> usize {
        let keys: Vec<ConnKey> =
            self.connections().filter(|(_, conn)| matches(conn)).map(|(key, _)| key).collect();
        keys.into_iter().filter(|key| self.delete(*key, reporter, now)).count()
    }

    /// Connection that a packet is attached to.
    pub fn conn(&self, attached: Attached) -> Option<&Conn> {
        self.conn_of(attached.key()?)
    }

    /// Connection of a key.
    pub fn conn_of(&self, key: ConnKey) -> Option<&Conn> {
        self.table.get(key)
    }

    /// Connection with a tuple in a zone, and the direction of the tuple.
    pub fn find(&self, zone: CtZone, tuple: &Tuple, now: SimTime) -> Option<(ConnKey, TupleDirection)> {
        self.table.find(zone, tuple, now)
    }

    /// Confirmed connections, in order of creation while none has ended.
    pub fn connections(&self) -> impl Iterator<Item = (ConnKey, &Conn)> {
        self.table.confirmed_from(0)
    }

    /// Number of connections, those included whose first packet is on its path.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there are no connections.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// True if a connection is over but for a last timeout, so that limits of connections do not count it
    /// (`already_closed` of `nf_conncount.c`).
    pub fn is_closed(&self, key: ConnKey) -> bool {
        let state = self.table.get(key).and_then(Conn::tcp_state);
        matches!(state, Some(crate::TcpState::TimeWait | crate::TcpState::Close))
    }

    /// Counters.
    pub fn statistics(&self) -> &CtStatistics {
        &self.statistics
    }

    /// Settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Value of a setting by name, such as `nf_conntrack_max`.
    pub fn setting(&self, name: &str) -> Option<u32> {
        match name {
            "nf_conntrack_count" => Some(self.table.len() as u32),
            _ => self.settings.get(name),
        }
    }

    /// Changes a setting to a value as written to its file: see [`Settings::set`].
    pub fn set_setting(&mut self, name: &str, text: &str) -> Result<(), Errno> {
        self.settings.set(name, text)
    }

    /// Sets the mark of a packet's connection.
    pub fn set_mark(&mut self, attached: Attached, mark: u32) {
        let Some(key) = attached.key() else { return };
        if let Some(conn) = self.table.get_mut(key)
            && conn.mark != mark
        {
            conn.mark = mark;
            self.note(key, change::MARK);
        }
    }

    /// Replaces the bits of `mask` in the labels of a packet's connection by those of `value`.
    pub fn set_labels(&mut self, attached: Attached, value: [u8; 16], mask: [u8; 16]) {
        let Some(key) = attached.key() else { return };
        let Some(conn) = self.table.get_mut(key) else { return };
        let old = conn.labels;
        for (n, label) in conn.labels.iter_mut().enumerate() {
            *label = *label & !mask[n] | value[n] & mask[n];
        }
        if conn.labels != old {
            self.note(key, change::LABEL);
        }
    }

    /// Sets one label of a packet's connection, 0 to 127. Others are ignored.
    pub fn set_label(&mut self, attached: Attached, label: u32) {
        let mut bits = [0; 16];
        if let Some(byte) = bits.get_mut(label as usize / 8) {
            *byte = 1 << (label % 8);
            self.set_labels(attached, bits, bits);
        }
    }

    /// Assigns a helper to a packet's connection. A confirmed connection keeps the one that it has.
    pub fn set_helper(&mut self, attached: Attached, helper: crate::Helper) {
        let Some(conn) = attached.key().and_then(|key| self.table.get_mut(key)) else { return };
        if !conn.is(CtStatus::CONFIRMED) && helper.protocol() == conn.original().protocol {
            conn.helper = Some(helper);
            conn.status.insert(CtStatus::HELPER);
        }
    }

    /// Limits the events of a packet's connection to the changes in `mask`, by their `IPCT_*` bits. A
    /// confirmed connection keeps its mask.
    pub fn set_event_mask(&mut self, attached: Attached, mask: u16) {
        let Some(conn) = attached.key().and_then(|key| self.table.get_mut(key)) else { return };
        if !conn.is(CtStatus::CONFIRMED) {
            conn.event_mask = mask;
        }
    }

    /// Sets the groups that sockets have joined; events of others are not made.
    pub fn listen(&mut self, groups: EventGroups) {
        self.listeners = groups;
    }

    /// Events since the last call, in order.
    pub fn take_events(&mut self) -> Vec<CtEvent> {
        std::mem::take(&mut self.events)
    }

    /// True if an event of a group has a receiver.
    pub(crate) fn listens(&self, group: EventGroups, reporter: Reporter) -> bool {
        self.settings.events != 0 && (self.listeners.contains(group) || reporter.echo)
    }

    /// Notes a change for the next report.
    pub(crate) fn note(&mut self, key: ConnKey, changes: u16) {
        if self.settings.events != 0
            && self.listeners.intersects(EventGroups::CONNECTIONS)
            && let Some(conn) = self.table.get_mut(key)
        {
            conn.pending |= changes;
        }
    }

    /// Reports the changes of a connection since the last report (`nf_ct_deliver_cached_events`).
    pub(crate) fn report(&mut self, key: ConnKey, reporter: Reporter, now: SimTime) {
        let Some(conn) = self.table.get_mut(key) else { return };
        if conn.pending == 0 || !conn.is(CtStatus::CONFIRMED) || conn.is(CtStatus::DYING) {
            return;
        }
        let changes = std::mem::take(&mut conn.pending) & conn.event_mask;
        self.report_changes(key, changes, reporter, now);
    }

    /// Reports changes of a connection.
    pub(crate) fn report_changes(&mut self, key: ConnKey, changes: u16, reporter: Reporter, now: SimTime) {
        let group = match changes {
            0 => return,
            changes if changes & (change::NEW | change::RELATED) != 0 => EventGroups::NEW,
            _ => EventGroups::UPDATE,
        };
        if self.listens(group, reporter) {
            self.send_event(key, group, changes, reporter, now);
        }
    }

    fn send_event(
        &mut self,
        key: ConnKey,
        group: EventGroups,
        changes: u16,
        reporter: Reporter,
        now: SimTime,
    ) {
        let Some(conn) = self.table.get(key) else { return };
        let message = ctnetlink::event(conn, group, changes, reporter, now);
        self.events.push(CtEvent { group, message, reporter });
    }

    /// Adds an event of an expectation.
    pub(crate) fn push_event(&mut self, event: CtEvent) {
        self.events.push(event);
    }

    /// Removes the connections whose source is masqueraded with an address of an interface that goes down.
    pub fn interface_down(&mut self, interface: u32, now: SimTime) {
        self.flush(Reporter::default(), now, |conn| conn.masquerade == interface);
    }

    /// Removes the connections whose source is masqueraded with an address that an interface loses.
    pub fn address_removed(&mut self, interface: u32, address: InetAddress, now: SimTime) {
        self.flush(Reporter::default(), now, |conn| {
            conn.masquerade == interface && conn.reply().destination == address
        });
    }
}

/// Relation of a packet to its connection.
fn relation(conn: &Conn, direction: TupleDirection) -> CtInfo {
    match direction {
        TupleDirection::Reply => CtInfo::EstablishedReply,
        TupleDirection::Original if conn.is(CtStatus::SEEN_REPLY) => CtInfo::Established,
        TupleDirection::Original if conn.is(CtStatus::EXPECTED) => CtInfo::Related,
        TupleDirection::Original => CtInfo::New,
    }
}

/// True for protocols of which several packets may be on their path before the first one is answered
/// (`allow_clash`).
pub(crate) const fn allows_clash(protocol: u8) -> bool {
    !matches!(protocol, protocol::TCP | protocol::SCTP | protocol::ICMP | protocol::ICMPV6)
}

/// Identifier of the `n`th connection: a bijection of 64 bits (MurmurHash3's finalizer), cut to 32.
const fn identifier(key: u64, n: u64) -> u32 {
    let mut hash = key ^ n;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash ^ hash >> 33) as u32
}
