use super::queue::{Queue, QueueActions, QueueConfig, QueueContext};
use super::{Counters, DropReason, NicConfig, NicEvent, Pace};
use crate::Packet;
use belljar_base::{Bucket, SimDuration, SimTime, TokenBucket};
use std::collections::VecDeque;

/// Egress: a queue, an optional token bucket, and a sender that serialises one packet after another.
#[derive(Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub(super) struct Egress {
    /// Next packet and its start time; the packet has left the queue. It is present whenever the sender is
    /// idle and the queue is not empty.
    next: Option<(SimTime, Packet)>,
    /// Time at which the sender becomes (or became) idle.
    free_at: SimTime,
    /// Overhead of each packet on the wire in bytes, in addition to its length.
    overhead: u64,
    /// True if there is a carrier, without which no packet can be sent.
    carrier: bool,
    pace: Pace,
    queue: Queue,
    bucket: Option<Bucket>,
    /// Packets with a cookie whose departure has not been reported: (time, cookie, bytes). There is more
    /// than one only if the bandwidth is infinite or polls are late.
    leaving: VecDeque<(SimTime, u64, usize)>,
    around: QueueContext,
    /// Recent drops and marks of the queue.
    dealings: QueueActions,
}

impl Egress {
    pub(super) fn new(config: &NicConfig) -> Egress {
        let (framed, mtu) = (config.framed, config.mtu);
        let rate = slower(config.bandwidth_up, config.token_bucket);
        let around = QueueContext { framed, mtu, rate, seed: config.seed };
        Egress {
            pace: Pace::new(config.bandwidth_up),
            overhead: config.overhead,
            around,
            queue: Queue::new(&config.queue, &around),
            bucket: config.token_bucket.map(|bucket| Bucket::new(bucket, SimTime::ZERO)),
            next: None,
            free_at: SimTime::ZERO,
            leaving: VecDeque::new(),
            carrier: true,
            dealings: QueueActions::new(framed),
        }
    }

    pub(super) fn enqueue(
        &mut self,
        now: SimTime,
        packet: Packet,
        counters: &mut Counters,
    ) -> Result<(), (DropReason, Packet)> {
        if !self.carrier {
            return Err((DropReason::LinkDown, packet));
        }
        let idle = self.next.is_none() && self.free_at <= now;
        if idle && self.queue.is_transparent() {
            self.next = Some(self.ready(now, packet));
            return Ok(());
        }
        let pushed = self.queue.push(now, packet, idle.then_some(self.free_at), &mut self.dealings);
        self.settle(now, counters);
        if idle {
            self.fetch(now, counters);
        }
        pushed
    }

    /// Takes the next packet from the queue.
    fn fetch(&mut self, at: SimTime, counters: &mut Counters) {
        let packet = self.queue.pop(at, &mut self.dealings);
        self.settle(at, counters);
        self.next = packet.map(|packet| self.ready(at, packet));
    }

    /// Computes the start time of a packet that may be sent from `at` on.
    fn ready(&self, at: SimTime, packet: Packet) -> (SimTime, Packet) {
        let bytes = packet.len() as u64 + self.overhead;
        (self.bucket.as_ref().map_or(at, |bucket| bucket.ready(at, bytes)), packet)
    }

    /// Counts the drops and marks of the queue.
    fn settle(&mut self, at: SimTime, counters: &mut Counters) {
        counters.ecn_marked += std::mem::take(&mut self.dealings.marked);
        if self.dealings.lost.is_empty() {
            return;
        }
        let mut lost = std::mem::take(&mut self.dealings.lost);
        for (reason, packet) in lost.drain(..) {
            counters.drop_one(reason);
            self.gone(at, &packet);
        }
        self.dealings.lost = lost;
    }

    /// Reports the departure of a dropped packet, because its sender waits for it.
    fn gone(&mut self, at: SimTime, packet: &Packet) {
        if packet.cookie() != 0 {
            let at = self.leaving.back().map_or(at, |(last, ..)| at.max(*last));
            self.leaving.push_back((at, packet.cookie(), packet.len()));
        }
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
        match &self.next {
            Some((at, _)) => Some(*at),
            None => (!self.queue.is_empty()).then_some(self.free_at),
        }
    }

    /// Processes the event of [`next_event`](Self::next_event); returns `None` if the queue drops its
    /// packets, or tokens are missing.
    pub(super) fn step(&mut self, counters: &mut Counters) -> Option<NicEvent> {
        let start = self.next_start();
        // Departures are reported before the next packet starts, because the sender may want to queue more.
        if let Some(&(at, cookie, bytes)) = self.leaving.front()
            && start.is_none_or(|start| at <= start)
        {
            self.leaving.pop_front();
            return Some(NicEvent::Sent { cookie, bytes });
        }
        let start = start?;
        if self.next.is_none() {
            self.fetch(start, counters);
        }
        let (_, packet) = self.next.take_if(|(at, _)| *at <= start)?;
        let bytes = packet.len() as u64 + self.overhead;
        if let Some(bucket) = &mut self.bucket {
            bucket.take(start, bytes);
        }
        let departs = start + self.pace.of(bytes);
        self.free_at = departs;
        if packet.cookie() != 0 {
            self.leaving.push_back((departs, packet.cookie(), packet.len()));
        }
        counters.packets_out += 1;
        counters.bytes_out += packet.len() as u64;
        Some(NicEvent::Transmit { packet, departs })
    }

    pub(super) fn set_bandwidth(&mut self, bandwidth: Option<u64>) {
        self.pace = Pace::new(bandwidth);
        self.rate_changed();
    }

    pub(super) fn serialisation(&mut self, bytes: usize) -> SimDuration {
        self.pace.of(bytes as u64 + self.overhead)
    }

    pub(super) fn rate(&self) -> Option<u64> {
        self.around.rate
    }

    fn rate_changed(&mut self) {
        self.around.rate = slower(self.pace.bandwidth, self.bucket.as_ref().map(Bucket::config));
        self.queue.set_rate(self.around.rate);
    }

    /// Replaces the token bucket by a full one, or removes it.
    pub(super) fn set_token_bucket(&mut self, now: SimTime, config: Option<TokenBucket>) {
        self.bucket = config.map(|config| Bucket::new(config, now));
        self.rate_changed();
        if let Some((at, packet)) = &mut self.next {
            let bytes = packet.len() as u64 + self.overhead;
            *at = self.bucket.as_ref().map_or(now, |bucket| bucket.ready(now, bytes));
        }
    }

    /// Replaces the queue. Queued packets are offered to the new queue in their order.
    pub(super) fn set_queue(&mut self, now: SimTime, config: &QueueConfig, counters: &mut Counters) {
        let waiting = self.queue.clear();
        self.queue = Queue::new(config, &self.around);
        for (_, packet) in waiting {
            if let Err((reason, packet)) = self.queue.push(now, packet, None, &mut self.dealings) {
                self.dealings.lost.push((reason, packet));
            }
        }
        self.settle(now, counters);
    }

    /// Lets no packet start before a time.
    pub(super) fn hold_until(&mut self, until: SimTime) {
        self.free_at = self.free_at.max(until);
        if let Some((start, _)) = &mut self.next {
            *start = until.max(*start);
        }
    }

    /// Sets the carrier. Without one all queued and new packets are lost.
    pub(super) fn set_carrier(&mut self, now: SimTime, carrier: bool, counters: &mut Counters) {
        self.carrier = carrier;
        if carrier {
            return;
        }
        let next = self.next.take().map(|(_, packet)| packet);
        for lost in next.into_iter().chain(self.queue.clear().into_iter().map(|(_, packet)| packet)) {
            counters.drop_one(DropReason::LinkDown);
            self.gone(now, &lost);
        }
    }

    pub(super) fn has_carrier(&self) -> bool {
        self.carrier
    }

    pub(super) fn queue_len(&self) -> usize {
        self.queue.len() + usize::from(self.next.is_some())
    }
}

/// Long-term rate in bit/s: the smaller of both limits.
fn slower(bandwidth: Option<u64>, bucket: Option<TokenBucket>) -> Option<u64> {
    match (bandwidth, bucket) {
        (Some(bandwidth), Some(bucket)) => Some(bandwidth.min(bucket.rate)),
        (bandwidth, bucket) => bandwidth.or(bucket.map(|bucket| bucket.rate)),
    }
}
