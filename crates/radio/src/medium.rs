//! Radio channel: frames on the air, their reception, and medium access.
//!
//! # Model
//!
//! A frame is on the air for [`Settings::airtime`]. Positions are evaluated when the frame starts. A station
//! that senses the frame, by the carrier sense threshold, considers the medium busy. A station in reach, by
//! the reception threshold, receives the frame unless the station sends during the frame, or another sensed
//! frame overlaps it and is not weaker by [`Settings::capture`]. Overlapping frames are compared in pairs:
//! noise does not accumulate, and there is no bit error rate. Propagation delay is zero and carrier sense is
//! immediate, so only stations with equal access times, or stations hidden from each other, collide.
//!
//! Medium access is the distributed coordination function of IEEE 802.11 without RTS/CTS: DIFS, slotted
//! backoff also after a success, acknowledgement after SIFS, binary exponential contention windows,
//! retransmissions. A station that receives a frame addressed to another station, or senses a corrupted frame
//! in reach, defers for the acknowledgement that may follow (NAV and EIFS).

mod account;

use crate::contention::{Incoming, Spoilt, State, Station};
use crate::vicinity::Vicinity;
use crate::{Positions, Settings, StationCounters, Track};
use account::Flow;
use belljar_base::{Map, Seed, Set, SimTime};
use belljar_net::Packet;
use belljar_wire::ethernet::{Address, Frame as EthernetFrame};
use std::collections::VecDeque;

/// Shared radio channel. See the [module](self).
///
/// After each of [`send`](Self::send), [`on_timeout`](Self::on_timeout) and
/// [`set_carrier`](Self::set_carrier), drain [`poll`](Self::poll). Call [`on_timeout`](Self::on_timeout) at
/// [`next_timeout`](Self::next_timeout).
#[derive(Debug)]
pub struct Medium {
    settings: Settings,
    positions: Positions,
    vicinity: Vicinity,
    stations: Vec<Station>,
    /// Station of each hardware address.
    addresses: Map<Address, usize>,
    /// Squares of the reception range and the carrier sense range.
    reach: [f64; 2],
    on_air: Map<u64, Frame>,
    /// Number of the latest frame or agenda entry.
    frames: u64,
    /// Scheduled events, by time, then by kind.
    agenda: Map<(SimTime, Due, u64), Pending>,
    /// Access times of stations.
    accesses: Set<(SimTime, usize)>,
    /// Scheduled access time of each station.
    planned: Vec<Option<SimTime>>,
    outputs: VecDeque<Output>,
    flow: Flow,
}

/// Order of simultaneous events. Transmissions that begin at the same time do not sense each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    End,
    Timeout,
    Begin,
}

#[derive(Debug)]
enum Pending {
    /// End of a frame.
    End(u64),
    /// Acknowledgement timeout.
    Timeout { station: usize, attempt: u64 },
    /// Start of an acknowledgement.
    Acknowledge { from: usize, to: usize, attempt: u64 },
}

/// Frame on the air.
#[derive(Debug)]
struct Frame {
    from: usize,
    content: Content,
    /// Stations that sense the frame.
    audience: Vec<usize>,
}

#[derive(Debug)]
enum Content {
    Data {
        packet: Packet,
        to: Receiver,
        attempt: u64,
        /// True if an earlier attempt delivered the frame.
        delivered: bool,
    },
    Acknowledgement {
        to: usize,
        attempt: u64,
    },
}

/// Addressee of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    All,
    Station(usize),
    /// A hardware address without a station.
    Nobody,
}

/// Output of the channel.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// A station has received a frame.
    Received {
        /// Receiving station.
        station: usize,
        /// Received frame.
        packet: Packet,
    },
    /// A station has dropped a frame after the last retransmission without an acknowledgement.
    Failed {
        /// Sending station.
        station: usize,
        /// Dropped frame.
        packet: Packet,
    },
}

/// Frame about to be transmitted.
enum Start {
    Data(usize),
    Acknowledgement { from: usize, to: usize, attempt: u64 },
}

impl Medium {
    /// Creates a channel with one station per track. `stations` gives the names of the stations, which label
    /// their random streams, and their hardware addresses; further addresses are learnt from sent frames.
    pub fn new(
        settings: Settings,
        tracks: Vec<Track>,
        stations: &[(String, Address)],
        seed: Seed,
        name: &str,
    ) -> Medium {
        let station = |(own, _): &(String, Address)| {
            let stream = |what: &str| seed.stream(&["radio", name, own, what]);
            Station::new(&settings, stream("backoff"), stream("loss"))
        };
        let (range, sense) = settings.propagation.reach();
        Medium {
            stations: stations.iter().map(station).collect(),
            addresses: stations.iter().enumerate().map(|(n, (_, address))| (*address, n)).collect(),
            planned: vec![None; stations.len()],
            reach: [range * range, sense * sense],
            vicinity: Vicinity::new(sense.max(range), &tracks),
            positions: Positions::new(tracks),
            settings,
            on_air: Map::new(),
            frames: 0,
            agenda: Map::new(),
            accesses: Set::new(),
            outputs: VecDeque::new(),
            flow: Flow::default(),
        }
    }

    /// Queues a frame at a station. Returns false if the frame is dropped because the station has no carrier.
    pub fn send(&mut self, now: SimTime, station: usize, packet: Packet) -> bool {
        self.flow.received += 1;
        let source = EthernetFrame::new_checked(packet.open_bytes()).map(|frame| frame.src());
        if let Ok(source) = source
            && !source.is_multicast()
        {
            self.addresses.insert(source, station);
        }
        if self.stations[station].down {
            self.flow.link_down += 1;
            return false;
        }
        self.stations[station].enqueue(now, packet, &self.settings);
        self.plan(station);
        true
    }

    /// Sets the carrier of a station. Without carrier a station drops its frames; returns their number.
    pub fn set_carrier(&mut self, station: usize, carrier: bool) -> u64 {
        if !carrier {
            // The end of a frame on the air decides on that frame.
            self.flow.link_down += self.stations[station].undelivered();
        }
        let lost = self.stations[station].set_down(!carrier);
        self.plan(station);
        lost
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front()?;
        self.flow.sent += 1;
        Some(output)
    }

    /// Time at which [`on_timeout`](Self::on_timeout) must be called next.
    pub fn next_timeout(&self) -> Option<SimTime> {
        let due = self.agenda.first_key_value().map(|((at, ..), _)| *at);
        let access = self.accesses.first().map(|(at, _)| *at);
        due.into_iter().chain(access).min()
    }

    /// Processes all events due by `now`.
    pub fn on_timeout(&mut self, now: SimTime) {
        while let Some(at) = self.next_timeout().filter(|at| *at <= now) {
            self.step(at);
        }
    }

    /// Counters of a station.
    pub fn counters(&self, station: usize) -> &StationCounters {
        &self.stations[station].counters
    }
    /// Number of frames queued at a station.
    pub fn queue_len(&self, station: usize) -> usize {
        self.stations[station].queue_len()
    }

    fn step(&mut self, now: SimTime) {
        let mut starts = Vec::new();
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 == now) {
            match entry.remove() {
                Pending::End(frame) => self.end(now, frame),
                Pending::Timeout { station, attempt } => self.time_out(now, station, attempt),
                Pending::Acknowledge { from, to, attempt } => {
                    starts.push(Start::Acknowledgement { from, to, attempt });
                }
            }
        }
        while let Some((_, station)) = self.accesses.first().copied().filter(|(at, _)| *at == now) {
            self.accesses.pop_first();
            self.planned[station] = None;
            starts.push(Start::Data(station));
        }
        // All stations become senders before any of their frames is sensed.
        let starts = starts.into_iter().filter_map(|start| self.prepare(start)).collect::<Vec<_>>();
        for (from, content) in starts {
            self.begin(now, from, content);
        }
    }

    /// Updates the scheduled access time of a station.
    fn plan(&mut self, station: usize) {
        let (access, planned) = (self.stations[station].access, &mut self.planned[station]);
        if *planned == access {
            return;
        }
        if let Some(at) = planned.take() {
            self.accesses.remove(&(at, station));
        }
        if let Some(at) = access {
            self.accesses.insert((at, station));
        }
        *planned = access;
    }

    /// Marks a station as sending; `None` if it is sending already or down.
    fn prepare(&mut self, start: Start) -> Option<(usize, Content)> {
        let (Start::Data(from) | Start::Acknowledgement { from, .. }) = start;
        let station = &mut self.stations[from];
        if station.sending || station.down {
            return None;
        }
        let content = match start {
            Start::Acknowledgement { to, attempt, .. } => Content::Acknowledgement { to, attempt },
            Start::Data(_) => {
                let first = station.is_first_attempt();
                let packet = station.begin()?;
                let to = match EthernetFrame::new_checked(packet.open_bytes()).map(|frame| frame.dst()) {
                    Ok(address) if !address.is_multicast() => {
                        self.addresses.get(&address).map_or(Receiver::Nobody, |n| Receiver::Station(*n))
                    }
                    _ => Receiver::All,
                };
                if first {
                    let counters = &mut station.counters;
                    counters.bytes += packet.len() as u64;
                    match to {
                        Receiver::All => counters.broadcasts += 1,
                        _ => counters.unicasts += 1,
                    }
                }
                Content::Data { packet, to, attempt: station.attempt, delivered: station.delivered }
            }
        };
        station.sending = true;
        Some((from, content))
    }

    /// Puts a frame on the air.
    fn begin(&mut self, now: SimTime, from: usize, content: Content) {
        let settings = &self.settings;
        let airtime = match &content {
            Content::Data { packet, to, .. } => settings.airtime(packet.len(), *to != Receiver::All),
            Content::Acknowledgement { .. } => settings.ack_airtime(),
        };
        self.frames += 1;
        let frame = self.frames;
        let sender = &mut self.stations[from];
        sender.counters.airtime += airtime;
        sender.hears(now, settings);
        for incoming in &mut sender.incoming {
            incoming.spoilt = Some(Spoilt::Deaf);
        }
        self.plan(from);
        let here = self.positions.at(from, now);
        let [range, sense] = self.reach;
        let mut audience = Vec::new();
        let near = self.vicinity.of(from, now, &mut self.positions);
        for n in near.iter().map(|n| *n as usize) {
            if n == from || self.stations[n].down {
                continue;
            }
            let distance = here.distance_squared(self.positions.at(n, now));
            if distance > sense {
                continue;
            }
            let power = self.settings.propagation.power(distance.sqrt());
            let station = &mut self.stations[n];
            let mut incoming = Incoming {
                frame,
                power,
                in_reach: distance <= range,
                spoilt: station.sending.then_some(Spoilt::Deaf),
            };
            for other in &mut station.incoming {
                let stronger = |a: f64, b: f64| self.settings.capture.is_some_and(|margin| a >= b + margin);
                if !stronger(other.power, power) {
                    other.spoilt.get_or_insert(Spoilt::Collided);
                }
                if !stronger(power, other.power) {
                    incoming.spoilt.get_or_insert(Spoilt::Collided);
                }
            }
            station.incoming.push(incoming);
            station.hears(now, &self.settings);
            self.plan(n);
            audience.push(n);
        }
        self.vicinity.put_back(from, near);
        self.on_air.insert(frame, Frame { from, content, audience });
        self.agenda.insert((now + airtime, Due::End, frame), Pending::End(frame));
    }

    /// Ends a frame and determines its receivers.
    fn end(&mut self, now: SimTime, number: u64) {
        let Some(Frame { from, content, audience }) = self.on_air.remove(&number) else { return };
        let acknowledged_by = now + self.settings.sifs + self.settings.ack_airtime();
        let for_whom = match &content {
            Content::Data { to, .. } => *to,
            Content::Acknowledgement { to, .. } => Receiver::Station(*to),
        };
        let is_data = matches!(content, Content::Data { .. });
        let is_broadcast = is_data && for_whom == Receiver::All;
        let mut copies = 0;
        let mut receivers = Vec::new();
        for n in &audience {
            let station = &mut self.stations[*n];
            let Some(at) = station.incoming.iter().position(|incoming| incoming.frame == number) else {
                continue;
            };
            let incoming = station.incoming.remove(at);
            let is_mine = for_whom == Receiver::All || for_whom == Receiver::Station(*n);
            if incoming.in_reach {
                let by_chance = incoming.spoilt.is_none() && station.chance.chance(self.settings.loss);
                let counters = is_data && is_mine;
                let copy = u64::from(is_broadcast);
                copies += copy;
                match incoming.spoilt {
                    Some(Spoilt::Deaf) => {
                        station.counters.deaf += u64::from(counters);
                        self.flow.deaf += copy;
                    }
                    Some(Spoilt::Collided) => {
                        station.counters.collided += u64::from(counters);
                        self.flow.collided += copy;
                        station.reserve(acknowledged_by);
                    }
                    None if by_chance => {
                        station.counters.lost += u64::from(counters);
                        self.flow.lost += copy;
                        station.reserve(acknowledged_by);
                    }
                    None if is_mine => receivers.push(*n),
                    None if is_data => station.reserve(acknowledged_by),
                    None => {}
                }
            }
            station.hears_no_more(now, &self.settings);
            self.plan(*n);
        }
        let sender = &mut self.stations[from];
        sender.sending = false;
        sender.hears_no_more(now, &self.settings);
        match content {
            Content::Acknowledgement { to, attempt } => {
                let station = &mut self.stations[to];
                if receivers == [to] && station.state == State::Awaiting && station.attempt == attempt {
                    station.counters.acknowledged += 1;
                    station.finish(now, &self.settings);
                    self.plan(to);
                }
            }
            Content::Data { packet, to, attempt, delivered } => {
                match to {
                    Receiver::All => self.count_broadcast(copies),
                    _ => self.count_unicast(from, attempt, delivered, &receivers),
                }
                self.sent(now, from, packet, to, attempt, &receivers);
            }
        }
        self.plan(from);
    }

    /// Handles the end of a data frame: delivers it to `receivers` and schedules the acknowledgement and its
    /// timeout.
    fn sent(
        &mut self,
        now: SimTime,
        from: usize,
        packet: Packet,
        to: Receiver,
        attempt: u64,
        receivers: &[usize],
    ) {
        let is_current = self.stations[from].attempt == attempt;
        let is_new = !(is_current && self.stations[from].delivered);
        for n in receivers {
            let counters = &mut self.stations[*n].counters;
            match is_new {
                true => {
                    counters.received += 1;
                    self.outputs.push_back(Output::Received { station: *n, packet: packet.clone() });
                }
                false => counters.duplicates += 1,
            }
        }
        if let ([receiver], Receiver::Station(_)) = (receivers, to) {
            let at = now + self.settings.sifs;
            let pending = Pending::Acknowledge { from: *receiver, to: from, attempt };
            self.frames += 1;
            self.agenda.insert((at, Due::Begin, self.frames), pending);
        }
        let sender = &mut self.stations[from];
        if !is_current {
            return;
        }
        if to == Receiver::All {
            sender.finish(now, &self.settings);
            return;
        }
        sender.state = State::Awaiting;
        sender.frame = Some(packet);
        sender.delivered |= !receivers.is_empty();
        let at = now + self.settings.sifs + self.settings.ack_airtime();
        self.frames += 1;
        self.agenda.insert((at, Due::Timeout, self.frames), Pending::Timeout { station: from, attempt });
    }

    fn time_out(&mut self, now: SimTime, station: usize, attempt: u64) {
        let sender = &mut self.stations[station];
        if sender.attempt != attempt || sender.state != State::Awaiting {
            return;
        }
        let delivered = sender.delivered;
        if let Some(packet) = sender.fail(now, &self.settings) {
            self.count_given_up(&packet, delivered);
            self.outputs.push_back(Output::Failed { station, packet });
        }
        self.plan(station);
    }
}
