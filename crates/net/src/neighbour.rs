//! The neighbour cache: which hardware address has the next hop of a packet, found by ARP or neighbour discovery with the states
//! and times of Linux (`net/core/neighbour.c`, arp(7)).
//!
//! A packet for a neighbour that is not known waits while it is asked for, three times with a second
//! between; then it has failed, and so have the packets. An answer holds for about half a minute. After
//! that the address is used on, but whoever uses it has it confirmed: five seconds later the neighbour
//! is asked itself.
//!
//! After each call take what is to be done from [`Neighbours::poll`]; call
//! [`Neighbours::on_timeout`] at [`Neighbours::next_timeout`].

use crate::Packet;
use crate::routes::Ip;
use belljar_base::{Map, Set, SimDuration, SimTime, Stream};
use belljar_wire::ethernet::Address;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// `retrans_time_ms`.
const RETRANS_TIME: SimDuration = SimDuration::from_secs(1);
/// `base_reachable_time_ms`; a half more or less, drawn once.
const BASE_REACHABLE_TIME: SimDuration = SimDuration::from_secs(30);
/// `delay_first_probe_time`.
const DELAY_PROBE_TIME: SimDuration = SimDuration::from_secs(5);
/// `mcast_solicit` and `ucast_solicit`.
const SOLICIT: u8 = 3;
/// `unres_qlen`: packets that wait for one neighbour.
const UNRESOLVED_PACKETS: usize = 101;

/// State of a neighbour, `NUD_*` of rtnetlink(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// It is being asked for.
    Incomplete,
    /// It has answered not long ago.
    Reachable,
    /// It has not been heard of for a while.
    Stale,
    /// It is used; it will be asked unless it is heard of.
    Delay,
    /// It is being asked itself.
    Probe,
    /// It does not answer.
    Failed,
    /// It needs no asking.
    NoArp,
    /// The administrator says so.
    Permanent,
}

impl NeighbourState {
    /// True if the hardware address is known in this state.
    pub fn is_valid(self) -> bool {
        !matches!(self, NeighbourState::Incomplete | NeighbourState::Failed)
    }
    /// True if what stations say of it changes nothing.
    fn is_fixed(self) -> bool {
        matches!(self, NeighbourState::NoArp | NeighbourState::Permanent)
    }
}

/// Action to be taken.
#[derive(Debug)]
pub enum NeighbourEvent<A = Ipv4Addr> {
    /// Ask who has an address.
    Ask {
        /// By this interface.
        interface: usize,
        /// The address.
        target: A,
        /// Whom to ask; `None`: everybody.
        to: Option<Address>,
        /// The source of a packet that waits.
        source: Option<A>,
    },
    /// Send packets that have waited, in order.
    Send {
        /// By this interface.
        interface: usize,
        /// To this neighbour.
        to: Address,
        /// The packets.
        packets: VecDeque<Packet>,
    },
    /// Give packets up: the neighbour does not answer.
    Failed {
        /// The interface that they were for.
        interface: usize,
        /// The packets.
        packets: VecDeque<Packet>,
    },
    /// Give a packet up in silence: too many wait.
    Overflow {
        /// The packet.
        packet: Packet,
    },
    /// Something has become known of a neighbour that programs are told of.
    Changed(Neighbour<A>),
    /// A neighbour has been forgotten, as it was last.
    Forgotten(Neighbour<A>),
}

#[derive(Debug)]
struct Entry {
    state: NeighbourState,
    address: Address,
    /// Requests sent in this state.
    probes: u8,
    used: SimTime,
    confirmed: SimTime,
    timer: Option<SimTime>,
    waiting: VecDeque<Packet>,
}

impl Entry {
    /// Of a neighbour of which nothing is known but that `state`.
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

/// A neighbour cannot be said to be known without its hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAddress;

/// A neighbour as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour<A = Ipv4Addr> {
    /// The interface by which it is reached.
    pub interface: usize,
    /// Its address.
    pub ip: A,
    /// Its hardware address, if it is known.
    pub address: Option<Address>,
    /// Its state.
    pub state: NeighbourState,
}

/// The neighbours of one host or router. See the [module](self).
#[derive(Debug)]
pub struct Neighbours<A = Ipv4Addr> {
    entries: Map<(usize, A), Entry>,
    timers: Set<(SimTime, usize, A)>,
    reachable_time: SimDuration,
    events: VecDeque<NeighbourEvent<A>>,
}

impl<A: Ip> Neighbours<A> {
    /// No neighbours. `stream` is drawn from once, for how long an answer holds.
    pub fn new(stream: &mut Stream) -> Neighbours<A> {
        let half = BASE_REACHABLE_TIME.as_picos() / 2;
        Neighbours {
            entries: Map::new(),
            timers: Set::new(),
            reachable_time: SimDuration::from_picos(half + stream.below(2 * half)),
            events: VecDeque::new(),
        }
    }

    /// The hardware address of `next`, with the packet for it; `None` if the packet has to wait, or has
    /// just failed.
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
            NeighbourState::Failed => {
                let source = A::source_of(packet.bytes());
                entry.waiting.push_back(packet);
                self.begin(now, key, source);
            }
        }
        None
    }

    /// Asks for a neighbour of which nothing is known.
    fn begin(&mut self, now: SimTime, key: (usize, A), source: Option<A>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        (entry.state, entry.probes) = (NeighbourState::Incomplete, 1);
        self.set_timer(key, Some(now + RETRANS_TIME));
        self.events.push_back(NeighbourEvent::Ask { interface: key.0, target: key.1, to: None, source });
    }

    /// Confirms a neighbour: a packet that went by it was answered from beyond, so it is reachable (`sk_dst_confirm`).
    pub fn confirm(&mut self, now: SimTime, interface: usize, next: A) {
        if let Some(entry) = self.entries.get_mut(&(interface, next)) {
            entry.confirmed = now;
        }
    }

    /// Finds out about a neighbour as if there were a packet for it (`NTF_USE` of rtnetlink(7)).
    pub fn make_use(&mut self, now: SimTime, interface: usize, ip: A) {
        let key = (interface, ip);
        let entry = self.entries.entry(key).or_insert_with(|| nothing_known(now));
        entry.used = now;
        match entry.state {
            NeighbourState::Failed => self.begin(now, key, None),
            NeighbourState::Stale => {
                entry.state = NeighbourState::Delay;
                self.set_timer(key, Some(now + DELAY_PROBE_TIME));
            }
            _ => {}
        }
    }

    /// A neighbour has said what its address is: in answer (`solicited`), or in passing. What was said
    /// in passing makes a new entry only if `create`.
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
            // What has been confirmed is not less so because it is said again.
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

    /// True if [`poll`](Self::poll) has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<NeighbourEvent<A>> {
        self.events.pop_front()
    }

    /// When [`on_timeout`](Self::on_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// Time has come to `now`.
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
        // That a neighbour is waited for, or used, is nobody else's matter.
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

    /// Sets what is known of a neighbour by hand, as `__neigh_update` of Linux does for an administrator: an
    /// address that is not named stays.
    ///
    /// # Errors
    /// [`NoAddress`] if `state` needs an address and there is none; nothing has changed then.
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
    /// The medium could not deliver a frame to this hardware address: the neighbours that have it have failed, so that the next
    /// packet asks for them anew.
    pub fn fail(&mut self, now: SimTime, interface: usize, address: Address) {
        let has =
            |entry: &Entry| entry.state.is_valid() && !entry.state.is_fixed() && entry.address == address;
        let range = self.entries.range((interface, A::LEAST)..=(interface, A::GREATEST));
        let lost: Vec<A> = range.filter(|(_, entry)| has(entry)).map(|((_, ip), _)| *ip).collect();
        for ip in lost {
            // An entry without an address can always be set to this state.
            let _ = self.assign(now, interface, ip, None, NeighbourState::Failed);
        }
    }
    /// Entry of a neighbour.
    pub fn get(&self, interface: usize, ip: A) -> Option<Neighbour<A>> {
        self.entries.get(&(interface, ip)).map(|entry| entry.shown(interface, ip))
    }
    /// Forgets a neighbour; packets that wait for it have failed. False if there is none.
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
    /// Forgets all neighbours of an interface that has lost its carrier or goes down.
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
    /// All neighbours, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = Neighbour<A>> {
        self.entries.iter().map(|((interface, ip), entry)| entry.shown(*interface, *ip))
    }
}

/// Of a neighbour that has not been asked for yet.
fn nothing_known(now: SimTime) -> Entry {
    Entry::new(NeighbourState::Failed, Address::default(), now)
}

#[cfg(test)]
#[path = "neighbour_tests.rs"]
mod tests;
