//! Random early detection (Floyd and Jacobson, 1993), following Linux's `sch_red`: the average is in bytes,
//! drops are spread evenly, and ECN-capable packets can be marked instead.

use super::DropReason;
use super::codel::Source;
use super::fifo::Waiting;
use super::queue::QueueActions;
use crate::Packet;
use belljar_base::{SimDuration, SimTime, Stream};

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Maximum queue length in bytes.
    pub limit: usize,
    /// Average queue length in bytes below which no packet is dropped or marked.
    pub min: usize,
    /// Average queue length in bytes from which on every packet is dropped or marked.
    pub max: usize,
    /// Share of packets that are dropped or marked just below `max`.
    pub probability: f64,
    /// Weight of a packet's sample of the queue length in the average.
    pub weight: f64,
    /// Mean packet length in bytes, by which the average decays while the link is idle.
    pub average_packet: usize,
    /// True if ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

/// Queue under RED.
#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    waiting: Waiting,
    average: f64,
    /// Number of packets since the last drop or mark; `None` while the average is below `min`.
    count: Option<u64>,
    /// Threshold of `count` times the probability for the next drop or mark.
    next: f64,
    stream: Stream,
}

impl Red {
    pub(super) fn new(config: RedConfig, stream: Stream) -> Red {
        Red { config, waiting: Waiting::default(), average: 0.0, count: None, next: 0.0, stream }
    }

    /// Queues a packet. `idle_since` is the time at which the sender became idle, if it is; `rate` its rate
    /// in bit/s.
    pub(super) fn push(
        &mut self,
        now: SimTime,
        mut packet: Packet,
        idle_since: Option<SimTime>,
        rate: Option<u64>,
        dealings: &mut QueueActions,
    ) -> Result<(), (DropReason, Packet)> {
        self.average = match idle_since {
            Some(since) => self.average * self.faded(now.since(since), rate),
            None => self.average + (self.waiting.bytes() as f64 - self.average) * self.config.weight,
        };
        if self.chooses() && !(self.config.ecn && dealings.mark(&mut packet)) {
            return Err((DropReason::Red, packet));
        }
        if idle_since.is_none() && self.waiting.bytes() + packet.len() > self.config.limit {
            return Err((DropReason::EgressFull, packet));
        }
        self.waiting.push(now, packet);
        Ok(())
    }

    /// Factor by which the average decays during an idle time: `(1 - weight) ^ packets`.
    fn faded(&self, idle: SimDuration, rate: Option<u64>) -> f64 {
        let Some(rate) = rate else { return 0.0 };
        let each = SimDuration::serialisation(self.config.average_packet as u64, rate.max(1)).as_picos();
        let mut packets = idle.as_picos() / each.max(1);
        // IEEE 754 defines products exactly, whereas a power function may differ between machines.
        let (mut left, mut factor) = (1.0, 1.0 - self.config.weight);
        while packets > 0 && left > 0.0 {
            if packets & 1 == 1 {
                left *= factor;
            }
            factor *= factor;
            packets >>= 1;
        }
        left
    }

    /// Decides whether to drop or mark, as Linux's `red_action`.
    fn chooses(&mut self) -> bool {
        let (min, max) = (self.config.min as f64, self.config.max as f64);
        if self.average < min {
            self.count = None;
            return false;
        }
        if self.average >= max {
            self.count = None;
            return true;
        }
        let Some(count) = &mut self.count else {
            (self.count, self.next) = (Some(0), self.stream.unit());
            return false;
        };
        *count += 1;
        let probability = self.config.probability * (self.average - min) / (max - min);
        if *count as f64 * probability < self.next {
            return false;
        }
        (*count, self.next) = (0, self.stream.unit());
        true
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }
    pub(super) fn waiting_mut(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}
