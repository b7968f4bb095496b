//! A port's egress queues: strict priorities, limits in packets and bytes, rates in bits and in packets per second.

use crate::packet::Packet;
use belljar_base::{Bucket, SimDuration, SimTime};
use std::collections::VecDeque;

/// Limits of one egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most packets.
    pub packets: u32,
    /// Most bytes.
    pub bytes: Option<u64>,
    /// Packets per second at which it is served, besides the port's rate.
    pub packets_per_second: Option<u64>,
}

/// Packets and bytes of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets that came in.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets that found their queue full.
    pub queue_full: u64,
    /// Packets that were lost because the port has no carrier.
    pub link_down: u64,
    /// The most packets that have waited in its queues together.
    pub most_queued: u64,
}

/// Busy: ports whose packets wait, and the times at which their next ones can be taken. Few are, so they stand in a row: the
/// next one last, and of one time the lowest.
#[derive(Debug, Default)]
pub(super) struct Busy(Vec<(SimTime, u16)>);

impl Busy {
    /// The earliest of the times.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.0.last().map(|(at, _)| *at)
    }
    /// Takes the next port out, if its time is `at`.
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
    /// Bits per second, `None` is infinite.
    pub rate: Option<u64>,
    /// Bytes that a packet takes on the wire besides its own.
    pub overhead: u64,
    pub carrier: bool,
    /// The last bit of the packet that leaves goes then.
    pub free_at: SimTime,
    pub counters: PortCounters,
    /// It stands among the busy ports under this time.
    pub due: Option<SimTime>,
    /// Limits the rate in the long run, besides the port's own.
    pub bucket: Option<Bucket>,
    queues: Vec<Queue>,
    /// Packets that wait in all queues.
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
    /// Packets that wait in a queue.
    pub fn depth(&self, queue: usize) -> usize {
        self.queues[queue].packets.len()
    }
    /// Packets that wait in all queues.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
    /// Sets the limits of all its queues. What waits stays.
    pub fn set_limits(&mut self, limits: QueueLimits) {
        self.queues.iter_mut().for_each(|queue| queue.limits = limits);
    }
    /// Takes over what another program's port has counted and sends.
    pub fn continue_from(&mut self, other: &Port) {
        (self.counters, self.free_at, self.carrier) = (other.counters, other.free_at, other.carrier);
        self.bucket.clone_from(&other.bucket);
    }
    pub fn limits_mut(&mut self, queue: usize) -> Option<&mut QueueLimits> {
        self.queues.get_mut(queue).map(|queue| &mut queue.limits)
    }

    /// Queues a packet, or gives it back if there is no room.
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

    /// The time from `now` on at which a packet can be taken, if one waits and none of a higher priority comes.
    pub fn ready(&self, now: SimTime) -> Option<SimTime> {
        let waiting = self.queues.iter().filter(|queue| !queue.packets.is_empty());
        let at = waiting.map(|queue| queue.next).min()?.max(self.free_at).max(now);
        let Some(bucket) = &self.bucket else { return Some(at) };
        let packet = self.queues[self.turn(at)?].packets.front()?;
        Some(bucket.ready(at, u64::from(packet.len) + self.overhead))
    }
    /// The queue whose turn it is.
    fn turn(&self, now: SimTime) -> Option<usize> {
        self.queues.iter().rposition(|queue| !queue.packets.is_empty() && queue.next <= now)
    }
    /// The packet whose turn it is, and its queue.
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
    /// Takes away all that waits.
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
    /// A packet of so many bytes begins to leave; gives the time at which its last bit does.
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
