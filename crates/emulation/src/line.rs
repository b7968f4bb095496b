//! One direction of an emulated link: a queue at a rate, then delay and impairments, of real frames.
//!
//! The machine's kernel may lack the disciplines that make delay and loss (netem and most queues), and its timers know
//! one clock alone. So the line is here, of the parts that links are simulated with: [`Nic`] is the queue and the
//! serialisation, [`Impairments`] decides loss, order, copies and wrong bits, [`Flow`] the delay. The same description
//! and the same seed give the same decisions for the same frames as in a simulation.
//!
//! The line is sans-IO: frames and the time go in, frames come out when they are due. The time is of any clock, real
//! or dilated, as long as it does not go back. Everything happens at its exact time, however late the line is polled;
//! how late frames were handed out is measured ([`Lateness`]).

use crate::Lateness;
use crate::adapt::Late;
use belljar_base::{Seed, SimDuration, SimTime, Stream};
use belljar_net::nic::{DropReason, Nic, NicChange, NicConfig, NicEvent, QueueConfig, TokenBucket};
use belljar_net::{Flow, Impairments, Loss, Packet, Path, Reordering};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Frames under way unless told otherwise: 1 Gbit/s of full frames over 0.8 s.
const IN_FLIGHT: usize = 1 << 16;
/// Buffers that are kept for frames to come.
const SPARE: usize = 1 << 10;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LineConfig {
    /// Time from the last bit's departure to its arrival.
    pub latency: SimDuration,
    /// The delay is uniform in `latency` ± this; frames do not overtake each other by it.
    pub jitter: SimDuration,
    /// Loss of frames on the way.
    pub loss: Loss,
    /// Frames that later ones overtake.
    pub reordering: Option<Reordering>,
    /// Probability that a frame arrives twice.
    pub duplication: f64,
    /// Probability that a bit of a frame arrives wrong.
    pub corruption: f64,
    /// Bits per second, not 0; infinite if none.
    pub rate: Option<u64>,
    /// Bytes that a frame takes on the wire besides its own.
    pub overhead: u64,
    /// The queue before the line.
    pub queue: QueueConfig,
    /// A limit of what leaves in the long run, besides the rate.
    pub token_bucket: Option<TokenBucket>,
    /// Longest frame, with its Ethernet header.
    pub max_frame: usize,
    /// Most frames under way: further ones are dropped. It bounds the memory of a line without a rate.
    pub in_flight: usize,
}

impl Default for LineConfig {
    fn default() -> LineConfig {
        LineConfig {
            latency: SimDuration::ZERO,
            jitter: SimDuration::ZERO,
            loss: Loss::Independent(0.0),
            reordering: None,
            duplication: 0.0,
            corruption: 0.0,
            rate: None,
            overhead: 0,
            queue: QueueConfig::default(),
            token_bucket: None,
            max_frame: 1_514,
            in_flight: IN_FLIGHT,
        }
    }
}

impl LineConfig {
    fn path(&self) -> Path {
        let least_latency = self.latency.saturating_sub(self.jitter);
        Path { latency: self.latency, jitter: self.jitter, loss: 0.0, least_latency }
    }

    fn nic(&self, seed: u64) -> NicConfig {
        NicConfig {
            bandwidth_up: self.rate,
            overhead: self.overhead,
            queue: self.queue.clone(),
            token_bucket: self.token_bucket,
            framed: true,
            mtu: self.max_frame,
            seed,
            ..NicConfig::default()
        }
    }

    fn impair(&self, impairments: &mut Impairments) {
        impairments.loss = self.loss;
        impairments.reordering = self.reordering;
        impairments.duplication = self.duplication;
        impairments.corruption = self.corruption;
    }
}

/// Frames that a line counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Frames offered to the queue.
    pub offered: u64,
    /// Frames that the queue dropped.
    pub dropped: u64,
    /// Frames that were lost on the way.
    pub lost: u64,
    /// Frames that were dropped because too many were under way.
    pub overflowed: u64,
    /// Frames that came while nothing passed.
    pub blocked: u64,
    /// Frames that were held back, for later ones to overtake.
    pub reordered: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames with a wrong bit.
    pub corrupted: u64,
    /// Frames handed out, copies included.
    pub delivered: u64,
    /// Bytes of frames that left the queue.
    pub bytes: u64,
    /// Bytes of frames handed out, copies included.
    pub delivered_bytes: u64,
}

/// A frame under way.
#[derive(Debug)]
struct InFlight {
    due: SimTime,
    sequence: u64,
    bytes: Vec<u8>,
}

impl InFlight {
    fn key(&self) -> (SimTime, u64) {
        (self.due, self.sequence)
    }
}
impl PartialEq for InFlight {
    fn eq(&self, other: &InFlight) -> bool {
        self.key() == other.key()
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &InFlight) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// One direction of an emulated link. See the [module](self).
///
/// *When a frame arrives*, [`offer`](Line::offer) it. *At [`next_event`](Line::next_event)*, and before, if one
/// likes, call [`deliver`](Line::deliver), which hands out the frames that are due.
#[derive(Debug)]
pub struct Line {
    nic: Nic,
    impairments: Impairments,
    flow: Flow,
    jitter: Stream,
    under_way: BinaryHeap<Reverse<InFlight>>,
    limit: usize,
    is_limited: bool,
    sequence: u64,
    /// Buffers without a frame.
    spare: Vec<Vec<u8>>,
    blocked: bool,
    now: SimTime,
    counters: LineCounters,
    lateness: Lateness,
    late: Late,
    /// A lateness that does no harm.
    harmless: SimDuration,
}

impl Line {
    /// A line without frames. Its draws follow from `seed` and the names of the ends: those of the simulator's link
    /// between them.
    pub fn new(config: &LineConfig, seed: Seed, from: &str, to: &str) -> Line {
        let jitter = seed.stream(&["line", from, to, "jitter"]);
        Line::with_streams(config, seed, ["line", from, to], jitter)
    }

    /// The direction of an experiment's link `link` that begins at `node`. It draws as the simulator's does.
    pub fn of_link(config: &LineConfig, seed: Seed, link: &str, node: &str) -> Line {
        let owner = ["link", link, node];
        Line::with_streams(config, seed, owner, seed.stream(&owner))
    }

    fn with_streams(config: &LineConfig, seed: Seed, owner: [&str; 3], jitter: Stream) -> Line {
        let mut impairments = Impairments::new(config.loss, seed, owner);
        config.impair(&mut impairments);
        let mut queue = seed.stream(&[owner[0], owner[1], owner[2], "queue"]);
        Line {
            nic: Nic::new(&config.nic(queue.next_u64())),
            impairments,
            flow: Flow::new(config.path()),
            jitter,
            blocked: false,
            under_way: BinaryHeap::new(),
            limit: config.in_flight,
            is_limited: config.rate.is_some(),
            sequence: 0,
            spare: Vec::new(),
            now: SimTime::ZERO,
            counters: LineCounters::default(),
            lateness: Lateness::default(),
            late: Late::default(),
            harmless: SimDuration::MAX,
        }
    }

    /// Takes a frame that arrives at the near end at `now`.
    pub fn offer(&mut self, now: SimTime, frame: &[u8]) {
        self.advance(now);
        self.counters.offered += 1;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(frame);
        if let Err(packet) = self.nic.send(self.now, Packet::new(bytes)) {
            self.recycle(packet.into_bytes());
        }
        self.transmit();
    }

    /// Hands the frames that are due by `now` to `each`, with the time at which they were due. Returns their number.
    pub fn deliver(&mut self, now: SimTime, each: impl FnMut(&[u8], SimTime)) -> usize {
        self.advance(now);
        self.deliver_by(now, self.now, each)
    }

    /// Like [`deliver`](Self::deliver), where the far end goes by a clock of its own, which shows `far`.
    pub fn deliver_by(&mut self, now: SimTime, far: SimTime, mut each: impl FnMut(&[u8], SimTime)) -> usize {
        self.advance(now);
        let mut delivered = 0;
        while self.under_way.peek().is_some_and(|Reverse(next)| next.due <= far) {
            let Some(Reverse(frame)) = self.under_way.pop() else { break };
            let late = far.since(frame.due);
            self.lateness.add(late);
            self.late.add(late, self.harmless);
            each(&frame.bytes, frame.due);
            self.counters.delivered_bytes += frame.bytes.len() as u64;
            self.recycle(frame.bytes);
            delivered += 1;
        }
        self.counters.delivered += delivered as u64;
        delivered
    }

    /// The time at which [`deliver`](Line::deliver) is to be called next, if nothing is offered before.
    pub fn next_event(&self) -> Option<SimTime> {
        self.next_departure().into_iter().chain(self.next_arrival()).min()
    }

    /// The time of the near end at which the queue goes on.
    pub fn next_departure(&self) -> Option<SimTime> {
        self.nic.next_event()
    }

    /// The time of the far end at which the next frame is due.
    pub fn next_arrival(&self) -> Option<SimTime> {
        self.under_way.peek().map(|Reverse(next)| next.due)
    }

    /// Frames in the queue and under way, copies included.
    pub fn pending(&self) -> usize {
        self.nic.egress_queue_len() + self.under_way.len()
    }

    /// True if it has a rate.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// The least time from a frame's departure to its arrival.
    pub fn least_latency(&self) -> SimDuration {
        self.flow.path().least_latency
    }

    /// Changes delay and impairments from `now` on, and the rate for frames whose first bit has not left. Frames under
    /// way are not affected. `queue`, `token_bucket`, `overhead`, `max_frame` and `in_flight` stay as they are.
    pub fn change(&mut self, now: SimTime, config: &LineConfig) {
        self.advance(now);
        config.impair(&mut self.impairments);
        self.flow.set_path(config.path());
        self.is_limited = config.rate.is_some();
        self.nic.set_bandwidths(self.now, config.rate, None);
    }

    /// Changes the queue or the rate from `now` on.
    pub fn change_nic(&mut self, now: SimTime, change: &NicChange) {
        self.advance(now);
        if let NicChange::Rate(rate) = change {
            self.is_limited = rate.is_some();
        }
        self.nic.change(self.now, change);
    }

    /// Changes delay and impairments from `now` on, and nothing of the queue.
    pub fn change_path(&mut self, now: SimTime, config: &LineConfig) {
        self.advance(now);
        config.impair(&mut self.impairments);
        self.flow.set_path(config.path());
    }

    /// Lets nothing pass from `now` on, or everything again.
    pub fn set_blocked(&mut self, now: SimTime, blocked: bool) {
        self.advance(now);
        self.blocked = blocked;
    }

    /// The frames counted so far.
    pub fn counters(&self) -> LineCounters {
        let dropped = DropReason::ALL.iter().map(|reason| self.nic.counters().dropped(*reason)).sum();
        LineCounters { dropped, bytes: self.nic.counters().bytes_out, ..self.counters }
    }

    /// The lateness of frames handed out.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Sets the lateness up to which [`late`](Self::late) takes frames to be in time.
    pub fn set_harmless(&mut self, harmless: SimDuration) {
        self.harmless = harmless;
    }

    /// Their number, the sum of their lateness, and how many were too late.
    pub fn late(&self) -> Late {
        self.late
    }

    /// Lets the queue work until `now`; a time that went back counts as the last.
    fn advance(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        self.transmit();
    }

    fn transmit(&mut self) {
        while let Some((_, event)) = self.nic.poll(self.now) {
            if let NicEvent::Transmit { packet, departs } = event {
                self.carry(packet, departs);
            }
        }
    }

    /// Puts a frame whose last bit leaves at `departs` on its way.
    fn carry(&mut self, packet: Packet, departs: SimTime) {
        if self.blocked {
            self.counters.blocked += 1;
            self.flow.pass_over(&mut self.jitter);
            return self.recycle(packet.into_bytes());
        }
        let impairment = self.impairments.draw();
        if impairment.lost || self.under_way.len() >= self.limit {
            let counter =
                if impairment.lost { &mut self.counters.lost } else { &mut self.counters.overflowed };
            *counter += 1;
            self.flow.pass_over(&mut self.jitter);
            self.recycle(packet.into_bytes());
            return;
        }
        let mut due = self.flow.carry_without_loss(departs, &mut self.jitter);
        if let Some(delay) = impairment.reordered {
            due += delay;
            self.counters.reordered += 1;
        }
        let mut bytes = packet.into_bytes();
        if let Some(number) = impairment.corrupted_bit {
            let bit = number % (bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        if impairment.duplicated {
            self.counters.duplicated += 1;
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.extend_from_slice(&bytes);
            self.put(due, copy);
        }
        self.put(due, bytes);
    }

    fn put(&mut self, due: SimTime, bytes: Vec<u8>) {
        self.sequence += 1;
        self.under_way.push(Reverse(InFlight { due, sequence: self.sequence, bytes }));
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
