//! Random early detection (Floyd and Jacobson, 1993) as Linux's `sch_red` does it: the average is that of
//! bytes, drops are spread evenly, and senders that understand marks get those instead.

use super::DropReason;
use super::codel::Source;
use super::fifo::Waiting;
use super::queue::QueueActions;
use crate::Packet;
use belljar_base::{SimDuration, SimTime, Stream};

/// RED's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// The most bytes that wait.
    pub limit: usize,
    /// Below this average, in bytes, nothing happens to packets.
    pub min: usize,
    /// From this average on every packet is dropped or marked.
    pub max: usize,
    /// The share of packets that this happens to just below `max`.
    pub probability: f64,
    /// Weight of one more packet's view of the queue in the average.
    pub weight: f64,
    /// Mean length of packets: an idle link is thought to have sent so many of them.
    pub average_packet: usize,
    /// Packets whose senders understand that are marked instead of dropped.
    pub ecn: bool,
}

/// A queue under RED.
#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    waiting: Waiting,
    average: f64,
    /// Packets since the last one that was dropped or marked; `None` while the average is below `min`.
    count: Option<u64>,
    /// Value that `count` times the probability must come to for the next one.
    next: f64,
    stream: Stream,
}

impl Red {
    pub(super) fn new(config: RedConfig, stream: Stream) -> Red {
        Red { config, waiting: Waiting::default(), average: 0.0, count: None, next: 0.0, stream }
    }

    /// `idle_since` is when the sender fell idle, if it is; `rate` how fast it would have sent.
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

    /// Remainder of the average after so long without a packet: `(1 - weight) ^ packets`.
    fn faded(&self, idle: SimDuration, rate: Option<u64>) -> f64 {
        let Some(rate) = rate else { return 0.0 };
        let each = SimDuration::serialisation(self.config.average_packet as u64, rate.max(1)).as_picos();
        let mut packets = idle.as_picos() / each.max(1);
        // Products are the same on every machine, where a power function need not be.
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

    /// `red_action`.
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
