//! Line: one direction of an emulated link for real frames, consisting of a queue with a rate, a delay and
//! impairments.
//!
//! The machine's kernel may lack the queueing disciplines for delay and loss (netem and most queues), and
//! its timers only use real time. A line is therefore built of the components of simulated links: [`Nic`]
//! is the queue and the serialisation, [`LinkDirection`] decides on loss and arrival times. The same
//! description and seed give the same decisions for the same frames as in a simulation.
//!
//! The line is sans-IO: frames and the time go in, due frames come out. The time may be that of any clock,
//! real or dilated, that does not decrease. Every operation takes effect at its exact time, however late
//! the line is polled; the lateness of deliveries is measured ([`Lateness`]).

use crate::Lateness;
use crate::adapt::Late;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_net::Packet;
use belljar_net::link::{ImpairmentCounts, LinkDirection};
use belljar_net::nic::{DropReason, Nic, NicChange, NicConfig, NicEvent};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of frames in flight, which bounds the memory of a line without a rate: 0.8 s of full-size
/// frames at 1 Gbit/s.
const IN_FLIGHT: usize = 1 << 16;
/// Maximum number of buffers kept for reuse.
const SPARE: usize = 1 << 10;

/// Counters of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Frames offered to the queue.
    pub offered: u64,
    /// Frames that left the queue.
    pub frames: u64,
    /// Bytes of frames that left the queue.
    pub bytes: u64,
    /// Frames that the queue marked by ECN.
    pub ecn_marked: u64,
    /// Frames dropped by the queue or lost on the link, by reason.
    pub drops: Map<DropReason, u64>,
    /// Frames dropped because too many were in flight, copies included.
    pub overflowed: u64,
    /// Frames impaired, other than lost.
    pub impaired: ImpairmentCounts,
    /// Frames delivered, copies included.
    pub delivered: u64,
    /// Bytes of frames delivered, copies included.
    pub delivered_bytes: u64,
}

/// Frame in flight.
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
/// *When a frame arrives*, [`offer`](Line::offer) it. *At [`next_event`](Line::next_event)*, or earlier,
/// call [`deliver`](Line::deliver), which delivers the frames that are due.
#[derive(Debug)]
pub struct Line {
    nic: Nic,
    direction: LinkDirection,
    under_way: BinaryHeap<Reverse<InFlight>>,
    limit: usize,
    is_limited: bool,
    sequence: u64,
    /// Spare buffers.
    spare: Vec<Vec<u8>>,
    now: SimTime,
    counters: LineCounters,
    lateness: Lateness,
    late: Late,
    /// Harmless lateness.
    harmless: SimDuration,
}

impl Line {
    /// Creates a line without frames: a queue with these settings before a direction of a link.
    pub fn new(nic: &NicConfig, direction: LinkDirection) -> Line {
        Line {
            nic: Nic::new(nic),
            direction,
            under_way: BinaryHeap::new(),
            limit: IN_FLIGHT,
            is_limited: nic.bandwidth_up.is_some(),
            sequence: 0,
            spare: Vec::new(),
            now: SimTime::ZERO,
            counters: LineCounters::default(),
            lateness: Lateness::default(),
            late: Late::default(),
            harmless: SimDuration::MAX,
        }
    }

    /// Queues a frame that arrives at the near end at `now`.
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

    /// Passes the frames that are due by `now` to `each`, with their due times. Returns their number.
    pub fn deliver(&mut self, now: SimTime, each: impl FnMut(&[u8], SimTime)) -> usize {
        self.advance(now);
        self.deliver_by(now, self.now, each)
    }

    /// Delivers frames like [`deliver`](Self::deliver), where the far end has a clock of its own that shows
    /// `far`.
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

    /// Time of the next call of [`deliver`](Line::deliver), if no frame is offered before.
    pub fn next_event(&self) -> Option<SimTime> {
        self.next_departure().into_iter().chain(self.next_arrival()).min()
    }

    /// Time of the near end at which the queue must be processed.
    pub fn next_departure(&self) -> Option<SimTime> {
        self.nic.next_event()
    }

    /// Time of the far end at which the next frame is due.
    pub fn next_arrival(&self) -> Option<SimTime> {
        self.under_way.peek().map(|Reverse(next)| next.due)
    }

    /// Number of frames in the queue and in flight, copies included.
    pub fn pending(&self) -> usize {
        self.nic.egress_queue_len() + self.under_way.len()
    }

    /// True if the line has a rate.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Lower bound of the time from a frame's departure to its arrival, over the whole run.
    pub fn least_latency(&self) -> SimDuration {
        self.direction.least_latency()
    }

    /// Changes queue or rate from `now` on.
    pub fn change_nic(&mut self, now: SimTime, change: &NicChange) {
        self.advance(now);
        if let NicChange::Rate(rate) = change {
            self.is_limited = rate.is_some();
        }
        self.nic.change(self.now, change);
    }

    /// Counters so far.
    pub fn counters(&self) -> LineCounters {
        let queue = self.nic.counters();
        let drops = DropReason::ALL
            .iter()
            .map(|reason| (*reason, queue.dropped(*reason) + self.direction.dropped(*reason)));
        LineCounters {
            frames: queue.packets_out,
            bytes: queue.bytes_out,
            ecn_marked: queue.ecn_marked,
            drops: drops.filter(|(_, count)| *count > 0).collect(),
            impaired: *self.direction.impairment_counts(),
            ..self.counters.clone()
        }
    }

    /// Lateness of delivered frames.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Sets the lateness up to which [`late`](Self::late) counts frames as being on time.
    pub fn set_harmless(&mut self, harmless: SimDuration) {
        self.harmless = harmless;
    }

    /// Number of delivered frames, sum of their lateness, and number of frames later than is harmless.
    pub fn late(&self) -> Late {
        self.late
    }

    /// Advances the queue to `now`; a time before the last one is ignored.
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

    /// Sends a frame whose last bit leaves at `departs` over the link: schedules its arrival or drops it.
    fn carry(&mut self, mut packet: Packet, departs: SimTime) {
        let Ok(arrival) = self.direction.carry(departs, &mut packet) else {
            return self.recycle(packet.into_bytes());
        };
        let bytes = packet.into_bytes();
        if self.under_way.len() >= self.limit {
            self.counters.overflowed += 1 + u64::from(arrival.duplicated);
            return self.recycle(bytes);
        }
        if arrival.duplicated {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.extend_from_slice(&bytes);
            self.put(arrival.at, copy);
        }
        self.put(arrival.at, bytes);
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
