//! Egress queues of a port: strict priorities, limits in packets and bytes, rates in bits and packets per
//! second.

use crate::packet::Packet;
use belljar_base::{Bucket, SimDuration, SimTime};
use std::collections::VecDeque;

/// Limits of one egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of packets.
    pub packets: u32,
    /// Maximum number of bytes.
    pub bytes: Option<u64>,
    /// Service rate in packets per second, in addition to the port's rate.
    pub packets_per_second: Option<u64>,
}

/// Packet and byte counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets received.
    pub packets_in: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Packets transmitted.
    pub packets_out: u64,
    /// Bytes transmitted.
    pub bytes_out: u64,
    /// Packets dropped because their queue was full.
    pub queue_full: u64,
    /// Packets dropped because the port had no carrier.
    pub link_down: u64,
    /// Maximum number of packets queued at the same time in all queues of the port.
    pub most_queued: u64,
}

/// Schedule of ports with queued packets: time of the next dequeue and port. Only few ports are busy at once,
/// so the schedule is a sorted vector, the next one last; at equal times the lowest port is first.
#[derive(Debug, Default)]
pub(super) struct Busy(Vec<(SimTime, u16)>);

impl Busy {
    /// Earliest time in the schedule.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.0.last().map(|(at, _)| *at)
    }
    /// Removes the next port, if its time is `at`.
    pub fn take(&mut self, at: SimTime) -> Option<u16> {
        self.0.pop_if(|(next, _)| *next == at).map(|(_, port)| port)
    }
    pub fn insert(&mut self, at: SimTime, port: u16) {
        let place = self.0.partition_point(|other| *other > (at, port));
        self.0.insert(place, (at, port));
    }
    pub fn remove(&mut self, at: SimTime, port: u16) {
        self.0.retain(|other| *other != (at, port));
    }
}

#[derive(Debug)]
struct Queue {
    limits: QueueLimits,
    packets: VecDeque<Box<Packet>>,
    bytes: u64,
    next: SimTime,
}

#[derive(Debug)]
pub(super) struct Port {
    /// Rate in bits per second; `None` is infinite.
    pub rate: Option<u64>,
    /// Overhead of each packet on the wire in bytes.
    pub overhead: u64,
    pub carrier: bool,
    /// Time at which the last bit of the current transmission leaves.
    pub free_at: SimTime,
    pub counters: PortCounters,
    /// Time under which the port is scheduled in [`Busy`].
    pub due: Option<SimTime>,
    /// Token bucket that limits the long-term rate, in addition to the port's rate.
    pub bucket: Option<Bucket>,
    queues: Vec<Queue>,
    /// Number of packets in all queues.
    waiting: usize,
}

impl Port {
    pub fn new(rate: Option<u64>, overhead: u64, queues: usize, limits: QueueLimits) -> Port {
        let queue = || Queue { limits, packets: VecDeque::new(), bytes: 0, next: SimTime::ZERO };
        Port {
            rate,
            overhead,
            carrier: true,
            free_at: SimTime::ZERO,
            counters: PortCounters::default(),
            due: None,
            bucket: None,
            queues: (0..queues).map(|_| queue()).collect(),
            waiting: 0,
        }
    }
    /// Number of packets in a queue.
    pub fn depth(&self, queue: usize) -> usize {
        self.queues[queue].packets.len()
    }
    /// Number of packets in all queues.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
    /// Sets the limits of all queues. Queued packets remain.
    pub fn set_limits(&mut self, limits: QueueLimits) {
        self.queues.iter_mut().for_each(|queue| queue.limits = limits);
    }
    /// Takes over the counters, carrier and current transmission of another program's port.
    pub fn continue_from(&mut self, other: &Port) {
        (self.counters, self.free_at, self.carrier) = (other.counters, other.free_at, other.carrier);
        self.bucket.clone_from(&other.bucket);
    }
    pub fn limits_mut(&mut self, queue: usize) -> Option<&mut QueueLimits> {
        self.queues.get_mut(queue).map(|queue| &mut queue.limits)
    }

    /// Queues a packet; returns it if the queue is full.
    pub fn push(&mut self, queue: usize, packet: Box<Packet>) -> Result<(), Box<Packet>> {
        let queue = &mut self.queues[queue];
        let bytes = u64::from(packet.len);
        let room = queue.limits.bytes.is_none_or(|limit| queue.bytes + bytes <= limit);
        if queue.packets.len() >= queue.limits.packets as usize || !room {
            return Err(packet);
        }
        queue.bytes += bytes;
        queue.packets.push_back(packet);
        self.waiting += 1;
        self.counters.most_queued = self.counters.most_queued.max(self.waiting as u64);
        Ok(())
    }

    /// Earliest time, from `now` on, at which a packet can be dequeued; `None` if all queues are empty.
    pub fn ready(&self, now: SimTime) -> Option<SimTime> {
        let waiting = self.queues.iter().filter(|queue| !queue.packets.is_empty());
        let at = waiting.map(|queue| queue.next).min()?.max(self.free_at).max(now);
        let Some(bucket) = &self.bucket else { return Some(at) };
        let packet = self.queues[self.turn(at)?].packets.front()?;
        Some(bucket.ready(at, u64::from(packet.len) + self.overhead))
    }
    /// Index of the queue to be served next.
    fn turn(&self, now: SimTime) -> Option<usize> {
        self.queues.iter().rposition(|queue| !queue.packets.is_empty() && queue.next <= now)
    }
    /// Dequeues the next packet; returns it with its queue.
    pub fn pop(&mut self, now: SimTime) -> Option<(usize, Box<Packet>)> {
        let n = self.turn(now)?;
        let queue = &mut self.queues[n];
        let packet = queue.packets.pop_front()?;
        self.waiting -= 1;
        queue.bytes -= u64::from(packet.len);
        if let Some(rate) = queue.limits.packets_per_second {
            queue.next = now + SimDuration::from_picos(1_000_000_000_000u64.div_ceil(rate.max(1)));
        }
        Some((n, packet))
    }
    /// Removes all queued packets.
    #[expect(clippy::vec_box, reason = "packets move between queues as boxes")]
    pub fn drain(&mut self) -> Vec<Box<Packet>> {
        let mut all = Vec::new();
        for queue in &mut self.queues {
            all.extend(queue.packets.drain(..));
            queue.bytes = 0;
        }
        self.waiting = 0;
        all
    }
    /// Starts the transmission of a packet of `bytes` bytes; returns the time of its last bit.
    pub fn transmit(&mut self, now: SimTime, bytes: usize) -> SimTime {
        self.counters.packets_out += 1;
        self.counters.bytes_out += bytes as u64;
        let wire = bytes as u64 + self.overhead;
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now, wire);
        }
        let time = self.rate.map_or(SimDuration::ZERO, |rate| SimDuration::serialisation(wire, rate.max(1)));
        self.free_at = now + time;
        self.free_at
    }
}
