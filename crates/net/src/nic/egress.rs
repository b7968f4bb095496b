use super::queue::{Queue, QueueConfig};
use super::{Counters, DropReason, NicEvent};
use crate::Packet;
use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;

/// The way out: a queue before a sender that serialises one packet after another.
#[derive(Debug)]
pub(super) struct Egress {
    bandwidth: Option<u64>,
    /// Bytes that each packet takes on the wire besides its own.
    overhead: u64,
    queue: Queue,
    /// When the sender is (or became) free for the next packet.
    free_at: SimTime,
    /// Packets with a cookie whose last bit has not been reported: (when, cookie, bytes). More than
    /// one only where the bandwidth is infinite or polls come late.
    leaving: VecDeque<(SimTime, u64, usize)>,
    /// Nothing can be sent without.
    carrier: bool,
    /// What CoDel has just dropped.
    dropped: Vec<Packet>,
}

impl Egress {
    pub(super) fn new(bandwidth: Option<u64>, overhead: u64, queue: QueueConfig) -> Egress {
        Egress {
            bandwidth,
            overhead,
            queue: Queue::new(queue),
            free_at: SimTime::ZERO,
            leaving: VecDeque::new(),
            carrier: true,
            dropped: Vec::new(),
        }
    }

    pub(super) fn enqueue(&mut self, now: SimTime, packet: Packet) -> Result<(), (DropReason, Packet)> {
        if !self.carrier {
            return Err((DropReason::LinkDown, packet));
        }
        let wire_is_free = self.queue.is_empty() && self.free_at <= now;
        self.queue.push(now, packet, wire_is_free).map_err(|packet| (DropReason::EgressFull, packet))
    }

    pub(super) fn next_event(&self) -> Option<SimTime> {
        let start = self.next_start();
        let left = self.leaving.front().map(|(at, ..)| *at);
        match (start, left) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn next_start(&self) -> Option<SimTime> {
        self.queue.first_queued().map(|queued| self.free_at.max(queued))
    }

    /// Does what [`next_event`](Self::next_event) announced; nothing may come of it where CoDel drops.
    pub(super) fn step(&mut self, counters: &mut Counters) -> Option<NicEvent> {
        let start = self.next_start();
        // That bytes have left is told before the next packet starts: its sender may want to follow.
        if let Some(&(at, cookie, bytes)) = self.leaving.front()
            && start.is_none_or(|start| at <= start)
        {
            self.leaving.pop_front();
            return Some(NicEvent::Sent { cookie, bytes });
        }
        let start = start?;
        let packet = self.queue.pop(start, &mut self.dropped);
        for lost in self.dropped.drain(..) {
            counters.drop_one(DropReason::Codel);
            if lost.cookie() != 0 {
                self.leaving.push_back((start, lost.cookie(), lost.len()));
            }
        }
        let packet = packet?;
        let departs = start + self.serialisation(&packet);
        self.free_at = departs;
        if packet.cookie() != 0 {
            self.leaving.push_back((departs, packet.cookie(), packet.len()));
        }
        counters.packets_out += 1;
        counters.bytes_out += packet.len() as u64;
        Some(NicEvent::Transmit { packet, departs })
    }

    fn serialisation(&self, packet: &Packet) -> SimDuration {
        let bytes = packet.len() as u64 + self.overhead;
        self.bandwidth.map_or(SimDuration::ZERO, |rate| SimDuration::serialisation(bytes, rate.max(1)))
    }

    pub(super) fn set_bandwidth(&mut self, bandwidth: Option<u64>) {
        self.bandwidth = bandwidth;
    }

    /// Without a carrier everything that waits, and what comes, is lost.
    pub(super) fn set_carrier(&mut self, now: SimTime, carrier: bool, counters: &mut Counters) {
        self.carrier = carrier;
        if carrier {
            return;
        }
        for lost in self.queue.clear() {
            counters.drop_one(DropReason::LinkDown);
            if lost.cookie() != 0 {
                let at = self.leaving.back().map_or(now, |(at, ..)| *at);
                self.leaving.push_back((at, lost.cookie(), lost.len()));
            }
        }
    }

    pub(super) fn has_carrier(&self) -> bool {
        self.carrier
    }

    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }
}
