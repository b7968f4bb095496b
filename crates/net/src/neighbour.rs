//! Neighbour cache: the hardware addresses of next hops, resolved by ARP or neighbour discovery with the
//! states and timers of Linux (`net/core/neighbour.c`, arp(7)).
//!
//! A packet for an unknown neighbour is queued during resolution, which sends up to three solicitations at
//! intervals of a second; if none is answered, the neighbour has failed and its packets are dropped. An
//! answer is valid for about half a minute. Afterwards the address remains in use, but each use starts its
//! confirmation: five seconds later the neighbour is probed by unicast.
//!
//! After each call take the events from [`Neighbours::poll`]; call [`Neighbours::on_timeout`] at
//! [`Neighbours::next_timeout`].

use crate::Packet;
use crate::routes::Ip;
use belljar_base::{Map, Set, SimDuration, SimTime, Stream};
use belljar_wire::ethernet::Address;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Interval between solicitations, `retrans_time_ms`.
const RETRANS_TIME: SimDuration = SimDuration::from_secs(1);
/// Mean validity of an answer, `base_reachable_time_ms`; each cache draws its own between half and one and
/// a half times of it.
const BASE_REACHABLE_TIME: SimDuration = SimDuration::from_secs(30);
/// Delay of the first probe, `delay_first_probe_time`.
const DELAY_PROBE_TIME: SimDuration = SimDuration::from_secs(5);
/// Number of solicitations, `mcast_solicit` and `ucast_solicit`.
const SOLICIT: u8 = 3;
/// Maximum number of packets queued for one neighbour, `unres_qlen`.
const UNRESOLVED_PACKETS: usize = 101;

/// State of a neighbour, `NUD_*` of rtnetlink(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Nothing is known.
    None,
    /// Resolution is in progress.
    Incomplete,
    /// The neighbour has recently confirmed its address.
    Reachable,
    /// The validity of the address has expired.
    Stale,
    /// A stale address is in use; a probe follows unless the address is confirmed.
    Delay,
    /// The neighbour is being probed.
    Probe,
    /// Resolution has failed.
    Failed,
    /// The address needs no resolution.
    NoArp,
    /// The address is configured by the administrator.
    Permanent,
}

impl NeighbourState {
    /// True if the hardware address is known in this state.
    pub fn is_valid(self) -> bool {
        !matches!(self, NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed)
    }
    /// True if received advertisements do not change the entry.
    fn is_fixed(self) -> bool {
        matches!(self, NeighbourState::NoArp | NeighbourState::Permanent)
    }
}

/// Event for the owner of a neighbour cache.
#[derive(Debug)]
pub enum NeighbourEvent<A = Ipv4Addr> {
    /// Send a solicitation.
    Ask {
        /// Outgoing interface.
        interface: usize,
        /// Address to resolve.
        target: A,
        /// Receiver for a unicast probe; `None` for broadcast or multicast.
        to: Option<Address>,
        /// Source address of a queued packet.
        source: Option<A>,
    },
    /// Send the queued packets, in order.
    Send {
        /// Outgoing interface.
        interface: usize,
        /// Hardware address of the neighbour.
        to: Address,
        /// Queued packets.
        packets: VecDeque<Packet>,
    },
    /// Drop packets because the neighbour does not answer.
    Failed {
        /// Outgoing interface of the packets.
        interface: usize,
        /// Dropped packets.
        packets: VecDeque<Packet>,
    },
    /// Drop a packet silently because too many are queued.
    Overflow {
        /// Dropped packet.
        packet: Packet,
    },
    /// Notify programs that an entry has changed.
    Changed(Neighbour<A>),
    /// Notify programs that an entry has been removed; contains its last state.
    Forgotten(Neighbour<A>),
}

#[derive(Debug)]
struct Entry {
    state: NeighbourState,
    address: Address,
    /// Number of solicitations sent in this state.
    probes: u8,
    used: SimTime,
    confirmed: SimTime,
    timer: Option<SimTime>,
    waiting: VecDeque<Packet>,
}

impl Entry {
    /// Creates an entry without confirmations.
    fn new(state: NeighbourState, address: Address, now: SimTime) -> Entry {
        Entry {
            state,
            address,
            probes: 0,
            used: now,
            confirmed: SimTime::ZERO,
            timer: None,
            waiting: VecDeque::new(),
        }
    }
    fn shown<A>(&self, interface: usize, ip: A) -> Neighbour<A> {
        let address = self.state.is_valid().then_some(self.address);
        Neighbour { interface, ip, address, state: self.state }
    }
}

/// Error of an entry that is to be valid without a hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAddress;

/// Entry of the neighbour cache, as reported to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour<A = Ipv4Addr> {
    /// Interface of the neighbour.
    pub interface: usize,
    /// IP address.
    pub ip: A,
    /// Hardware address, if it is known.
    pub address: Option<Address>,
    /// State of the entry.
    pub state: NeighbourState,
}

/// Neighbour cache of one host or router. See the [module](self).
#[derive(Debug)]
pub struct Neighbours<A = Ipv4Addr> {
    entries: Map<(usize, A), Entry>,
    timers: Set<(SimTime, usize, A)>,
    reachable_time: SimDuration,
    events: VecDeque<NeighbourEvent<A>>,
}

impl<A: Ip> Neighbours<A> {
    /// Creates an empty cache. `stream` is drawn from once, for the validity of answers.
    pub fn new(stream: &mut Stream) -> Neighbours<A> {
        let half = BASE_REACHABLE_TIME.as_picos() / 2;
        Neighbours {
            entries: Map::new(),
            timers: Set::new(),
            reachable_time: SimDuration::from_picos(half + stream.below(2 * half)),
            events: VecDeque::new(),
        }
    }

    /// Returns the hardware address of `next`, with the packet for it; `None` if the packet has been queued
    /// for resolution.
    pub fn resolve(
        &mut self,
        now: SimTime,
        interface: usize,
        next: A,
        packet: Packet,
    ) -> Option<(Address, Packet)> {
        let key = (interface, next);
        let entry = self.entries.entry(key).or_insert_with(|| nothing_known(now));
        entry.used = now;
        match entry.state {
            NeighbourState::Reachable
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::NoArp
            | NeighbourState::Permanent => return Some((entry.address, packet)),
            NeighbourState::Stale => {
                entry.state = NeighbourState::Delay;
                let address = entry.address;
                self.set_timer(key, Some(now + DELAY_PROBE_TIME));
                return Some((address, packet));
            }
            NeighbourState::Incomplete => {
                entry.waiting.push_back(packet);
                if entry.waiting.len() > UNRESOLVED_PACKETS
                    && let Some(packet) = entry.waiting.pop_front()
                {
                    self.events.push_back(NeighbourEvent::Overflow { packet });
                }
            }
            NeighbourState::Failed | NeighbourState::None => {
                let source = A::source_of(packet.bytes());
                entry.waiting.push_back(packet);
                self.begin(now, key, source);
            }
        }
        None
    }

    /// Starts the resolution of an unknown neighbour.
    fn begin(&mut self, now: SimTime, key: (usize, A), source: Option<A>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        (entry.state, entry.probes) = (NeighbourState::Incomplete, 1);
        self.set_timer(key, Some(now + RETRANS_TIME));
        self.events.push_back(NeighbourEvent::Ask { interface: key.0, target: key.1, to: None, source });
    }

    /// Confirms a neighbour: a packet sent through it was answered, so that it is reachable
    /// (`sk_dst_confirm`).
    pub fn confirm(&mut self, now: SimTime, interface: usize, next: A) {
        if let Some(entry) = self.entries.get_mut(&(interface, next)) {
            entry.confirmed = now;
        }
    }

    /// Resolves or probes a neighbour as if there were a packet for it (`NTF_USE` of rtnetlink(7)).
    pub fn make_use(&mut self, now: SimTime, interface: usize, ip: A) {
        let key = (interface, ip);
        let entry = self.entries.entry(key).or_insert_with(|| nothing_known(now));
        entry.used = now;
        match entry.state {
            // A permanent entry loses its state (`__neigh_update`).
            NeighbourState::Failed | NeighbourState::None | NeighbourState::Permanent => {
                self.begin(now, key, None);
            }
            NeighbourState::Stale => {
                entry.state = NeighbourState::Delay;
                self.set_timer(key, Some(now + DELAY_PROBE_TIME));
            }
            _ => {}
        }
    }

    /// Processes a neighbour's advertisement of its address, in answer to a solicitation (`solicited`) or
    /// unsolicited. Without `create`, no new entry is made.
    pub fn learn(
        &mut self,
        now: SimTime,
        interface: usize,
        ip: A,
        address: Address,
        solicited: bool,
        create: bool,
    ) {
        let key = (interface, ip);
        let Some(entry) = self.entries.get_mut(&key) else {
            if create {
                let entry = Entry::new(NeighbourState::Stale, address, now);
                self.events.push_back(NeighbourEvent::Changed(entry.shown(interface, ip)));
                self.entries.insert(key, entry);
            }
            return;
        };
        let same = entry.address == address && entry.state != NeighbourState::Incomplete;
        match entry.state {
            fixed if fixed.is_fixed() => return,
            // An unsolicited repetition does not invalidate a confirmed entry.
            NeighbourState::Reachable | NeighbourState::Delay | NeighbourState::Probe
                if same && !solicited =>
            {
                return;
            }
            _ => {}
        }
        let before = entry.shown(interface, ip);
        entry.address = address;
        entry.probes = 0;
        let packets = std::mem::take(&mut entry.waiting);
        let timer = match solicited {
            true => {
                entry.state = NeighbourState::Reachable;
                entry.confirmed = now;
                Some(now + self.reachable_time)
            }
            false => {
                entry.state = NeighbourState::Stale;
                None
            }
        };
        let after = entry.shown(interface, ip);
        if after != before {
            self.events.push_back(NeighbourEvent::Changed(after));
        }
        self.set_timer(key, timer);
        if !packets.is_empty() {
            self.events.push_back(NeighbourEvent::Send { interface, to: address, packets });
        }
    }

    /// True if [`poll`](Self::poll) has an event.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the next event.
    pub fn poll(&mut self) -> Option<NeighbourEvent<A>> {
        self.events.pop_front()
    }

    /// Time of the next [`on_timeout`](Self::on_timeout).
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// Processes the timers that have expired at `now`.
    pub fn on_timeout(&mut self, now: SimTime) {
        while let Some((at, interface, ip)) = self.timers.first().copied().filter(|(at, ..)| *at <= now) {
            self.entry_timer(at, (interface, ip));
        }
    }

    fn entry_timer(&mut self, now: SimTime, key: (usize, A)) {
        let (interface, ip) = key;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let mut ask = |entry: &mut Entry| {
            entry.probes += 1;
            let to = (entry.state == NeighbourState::Probe).then_some(entry.address);
            let source = entry.waiting.front().and_then(|packet| A::source_of(packet.bytes()));
            self.events.push_back(NeighbourEvent::Ask { interface, target: ip, to, source });
            Some(now + RETRANS_TIME)
        };
        let before = entry.state;
        let is_confirmed = entry.confirmed > SimTime::ZERO;
        let timer = match entry.state {
            NeighbourState::Reachable if now < entry.confirmed + self.reachable_time => {
                Some(entry.confirmed + self.reachable_time)
            }
            NeighbourState::Reachable if now < entry.used + DELAY_PROBE_TIME => {
                entry.state = NeighbourState::Delay;
                Some(now + DELAY_PROBE_TIME)
            }
            NeighbourState::Reachable => {
                entry.state = NeighbourState::Stale;
                None
            }
            NeighbourState::Delay if is_confirmed && now <= entry.confirmed + DELAY_PROBE_TIME => {
                entry.state = NeighbourState::Reachable;
                Some(entry.confirmed + self.reachable_time)
            }
            NeighbourState::Delay => {
                entry.state = NeighbourState::Probe;
                entry.probes = 0;
                ask(entry)
            }
            NeighbourState::Incomplete | NeighbourState::Probe if entry.probes < SOLICIT => ask(entry),
            NeighbourState::Incomplete | NeighbourState::Probe => {
                entry.state = NeighbourState::Failed;
                let packets = std::mem::take(&mut entry.waiting);
                if !packets.is_empty() {
                    self.events.push_back(NeighbourEvent::Failed { interface, packets });
                }
                None
            }
            _ => None,
        };
        // Transitions to the state Delay are not reported.
        if entry.state != before && entry.state != NeighbourState::Delay {
            let changed = entry.shown(interface, ip);
            self.events.push_back(NeighbourEvent::Changed(changed));
        }
        self.set_timer(key, timer);
    }

    fn set_timer(&mut self, key: (usize, A), at: Option<SimTime>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(old) = std::mem::replace(&mut entry.timer, at) {
            self.timers.remove(&(old, key.0, key.1));
        }
        if let Some(at) = at {
            self.timers.insert((at, key.0, key.1));
        }
    }

    /// Sets an entry manually, as `__neigh_update` of Linux does for an administrator; `None` keeps a known
    /// address.
    ///
    /// # Errors
    /// [`NoAddress`] if `state` requires an address and none is known. An existing entry is unchanged; a new one
    /// is without a state, as in Linux.
    pub fn assign(
        &mut self,
        now: SimTime,
        interface: usize,
        ip: A,
        address: Option<Address>,
        state: NeighbourState,
    ) -> Result<(), NoAddress> {
        let key = (interface, ip);
        let before = self.get(interface, ip);
        let known = address.or(before.and_then(|old| old.address));
        if state.is_valid() && known.is_none() {
            // The entry was made before its state is refused.
            self.entries
                .entry(key)
                .or_insert_with(|| Entry::new(NeighbourState::None, Address::default(), now));
            return Err(NoAddress);
        }
        let entry = self.entries.entry(key).or_insert_with(|| nothing_known(now));
        (entry.state, entry.probes) = (state, 0);
        if let Some(known) = known {
            entry.address = known;
        }
        let after = entry.shown(interface, ip);
        let packets = match state {
            NeighbourState::Incomplete => VecDeque::new(),
            _ => std::mem::take(&mut entry.waiting),
        };
        let timer = match state {
            NeighbourState::Reachable => {
                entry.confirmed = now;
                Some(now + self.reachable_time)
            }
            NeighbourState::Delay | NeighbourState::Probe => Some(now),
            _ => None,
        };
        self.set_timer(key, timer);
        let was_valid = before.is_some_and(|old| old.state.is_valid());
        if before != Some(after) && (was_valid || state.is_valid()) {
            self.events.push_back(NeighbourEvent::Changed(after));
        }
        match (packets.is_empty(), after.address) {
            (true, _) => {}
            (false, Some(to)) => self.events.push_back(NeighbourEvent::Send { interface, to, packets }),
            (false, None) => self.events.push_back(NeighbourEvent::Failed { interface, packets }),
        }
        Ok(())
    }
    /// Fails the neighbours with this hardware address, because the medium could not deliver a frame to it;
    /// the next packet starts resolution anew.
    pub fn fail(&mut self, now: SimTime, interface: usize, address: Address) {
        let has =
            |entry: &Entry| entry.state.is_valid() && !entry.state.is_fixed() && entry.address == address;
        let range = self.entries.range((interface, A::LEAST)..=(interface, A::GREATEST));
        let lost: Vec<A> = range.filter(|(_, entry)| has(entry)).map(|((_, ip), _)| *ip).collect();
        for ip in lost {
            // The state Failed needs no address, so that this cannot fail.
            let _ = self.assign(now, interface, ip, None, NeighbourState::Failed);
        }
    }
    /// Returns the entry of a neighbour.
    pub fn get(&self, interface: usize, ip: A) -> Option<Neighbour<A>> {
        self.entries.get(&(interface, ip)).map(|entry| entry.shown(interface, ip))
    }
    /// Removes an entry and drops its queued packets. Returns false if there is none.
    pub fn remove(&mut self, interface: usize, ip: A) -> bool {
        let key = (interface, ip);
        self.set_timer(key, None);
        let Some(entry) = self.entries.remove(&key) else { return false };
        self.events.push_back(NeighbourEvent::Forgotten(entry.shown(interface, ip)));
        if !entry.waiting.is_empty() {
            self.events.push_back(NeighbourEvent::Failed { interface, packets: entry.waiting });
        }
        true
    }
    /// Removes all entries of an interface that has lost its carrier or goes down.
    pub fn flush(&mut self, interface: usize, permanent_too: bool) {
        let gone: Vec<(usize, A)> = self
            .entries
            .range((interface, A::LEAST)..=(interface, A::GREATEST))
            .filter(|(_, entry)| permanent_too || entry.state != NeighbourState::Permanent)
            .map(|(key, _)| *key)
            .collect();
        for (interface, ip) in gone {
            self.remove(interface, ip);
        }
    }
    /// Number of queued packets, with those of events that have not been taken.
    pub fn queued_packets(&self) -> usize {
        let waiting = self.entries.values().map(|entry| entry.waiting.len());
        let leaving = self.events.iter().map(|event| match event {
            NeighbourEvent::Send { packets, .. } | NeighbourEvent::Failed { packets, .. } => packets.len(),
            NeighbourEvent::Overflow { .. } => 1,
            NeighbourEvent::Ask { .. } | NeighbourEvent::Changed(_) | NeighbourEvent::Forgotten(_) => 0,
        });
        waiting.chain(leaving).sum()
    }
    /// Iterates over all entries, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = Neighbour<A>> {
        self.entries.iter().map(|((interface, ip), entry)| entry.shown(*interface, *ip))
    }
}

/// Entry of a neighbour whose resolution has not started.
fn nothing_known(now: SimTime) -> Entry {
    Entry::new(NeighbourState::Failed, Address::default(), now)
}

#[cfg(test)]
#[path = "neighbour_tests.rs"]
mod tests;
