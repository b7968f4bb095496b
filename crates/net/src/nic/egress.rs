use super::{Counters, NicEvent, serialisation};
use crate::Packet;
use belljar_base::SimTime;
use std::collections::VecDeque;

/// The way out: a FIFO before a sender that serialises one packet after another.
#[derive(Debug)]
pub(super) struct Egress {
    bandwidth: Option<u64>,
    limit: usize,
    /// Packets that wait, each with the time at which it was queued.
    queue: VecDeque<(SimTime, Packet)>,
    /// When the sender is (or became) free for the next packet.
    free_at: SimTime,
    /// Packets with a cookie whose last bit has not been reported: (when, cookie, bytes). More than
    /// one only where the bandwidth is infinite or polls come late.
    leaving: VecDeque<(SimTime, u64, usize)>,
}

impl Egress {
    pub(super) fn new(bandwidth: Option<u64>, limit: usize) -> Egress {
        Egress { bandwidth, limit, queue: VecDeque::new(), free_at: SimTime::ZERO, leaving: VecDeque::new() }
    }

    pub(super) fn enqueue(&mut self, now: SimTime, packet: Packet) -> Result<(), Packet> {
        let wire_is_free = self.queue.is_empty() && self.free_at <= now;
        if !wire_is_free && self.queue.len() >= self.limit {
            return Err(packet);
        }
        self.queue.push_back((now, packet));
        Ok(())
    }

    pub(super) fn next_event(&self) -> Option<SimTime> {
        let start = self.queue.front().map(|(queued, _)| self.free_at.max(*queued));
        let left = self.leaving.front().map(|(at, ..)| *at);
        match (start, left) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Does what [`next_event`](Self::next_event) announced.
    pub(super) fn step(&mut self, counters: &mut Counters) -> Option<NicEvent> {
        let start = self.queue.front().map(|(queued, _)| self.free_at.max(*queued));
        // That bytes have left is told before the next packet starts: its sender may want to follow.
        if let Some(&(at, cookie, bytes)) = self.leaving.front()
            && start.is_none_or(|start| at <= start)
        {
            self.leaving.pop_front();
            return Some(NicEvent::Sent { cookie, bytes });
        }
        let start = start?;
        let (_, packet) = self.queue.pop_front()?;
        let departs = start + serialisation(&packet, self.bandwidth);
        self.free_at = departs;
        if packet.cookie() != 0 {
            self.leaving.push_back((departs, packet.cookie(), packet.len()));
        }
        counters.packets_out += 1;
        counters.bytes_out += packet.len() as u64;
        Some(NicEvent::Transmit { packet, departs })
    }

    pub(super) fn set_bandwidth(&mut self, bandwidth: Option<u64>) {
        self.bandwidth = bandwidth;
    }

    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }
}
