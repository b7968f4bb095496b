//! CoDel, the controlled-delay queue of RFC 8289 (names and structure follow the pseudocode of section 5),
//! with the ECN marks of Linux's `sch_codel`.

use super::queue::QueueActions;
use super::{DropReason, fifo::Waiting};
use crate::Packet;
use belljar_base::{SimDuration, SimTime};

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Acceptable standing queue delay.
    pub target: SimDuration,
    /// Time for which the delay must exceed the target before packets are dropped, a worst-case round-trip
    /// time.
    pub interval: SimDuration,
    /// True if ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// Sojourn time above which ECN-capable packets are marked in any case.
    pub ce_threshold: Option<SimDuration>,
}

impl Default for CodelConfig {
    /// Defaults of RFC 8289 section 4.2 and 4.3: 5 ms and 100 ms.
    fn default() -> CodelConfig {
        CodelConfig {
            target: SimDuration::from_millis(5),
            interval: SimDuration::from_millis(100),
            ecn: false,
            ce_threshold: None,
        }
    }
}

/// Queue that supplies a controller's packets.
pub(super) trait Source {
    /// Takes the next packet, with the time at which it was queued.
    fn take(&mut self) -> Option<(SimTime, Packet)>;
    /// Number of bytes queued.
    fn bytes(&self) -> usize;
}

/// CoDel state of one queue.
#[derive(Debug, Default)]
pub(super) struct Controller {
    /// Time at which the sojourn time will have exceeded the target for a whole interval; `None` while it
    /// is below.
    first_above_time: Option<SimTime>,
    dropping: bool,
    drop_next: SimTime,
    count: u32,
    last_count: u32,
}

impl Controller {
    /// Takes the packet to send at `now`. A queue of at most `mtu` bytes is never cut (RFC 8289 section
    /// 4.4).
    pub(super) fn serve(
        &mut self,
        config: &CodelConfig,
        mtu: usize,
        now: SimTime,
        source: &mut impl Source,
        dealings: &mut QueueActions,
    ) -> Option<Packet> {
        let mut head = self.take(config, mtu, now, source);
        if self.dropping {
            if !head.1 {
                // The sojourn time is below target: leave the dropping state.
                self.dropping = false;
            }
            // "It is time for the next drop. Drop the current packet and dequeue the next. [...] A
            // large amount of packets in the queue might [...] result in a burst of drops."
            while self.dropping && now >= self.drop_next && head.0.is_some() {
                self.count = self.count.saturating_add(1);
                head = match self.cut(config, head, dealings) {
                    (marked, true) => {
                        self.drop_next = self.control_law(config, self.drop_next);
                        head = marked;
                        break;
                    }
                    (_, false) => self.take(config, mtu, now, source),
                };
                if head.1 {
                    self.drop_next = self.control_law(config, self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if head.1 {
            head = match self.cut(config, head, dealings) {
                (marked, true) => marked,
                (_, false) => self.take(config, mtu, now, source),
            };
            self.dropping = true;
            // "If min went above target close to when it last went below, assume that the drop rate
            // that controlled the queue on the last cycle is a good starting point."
            let delta = self.count - self.last_count;
            let recently = now.since(self.drop_next) < config.interval.saturating_mul(16);
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = self.control_law(config, now);
            self.last_count = self.count;
        }
        let (queued, mut packet) = head.0?;
        if config.ce_threshold.is_some_and(|threshold| now.since(queued) > threshold) {
            dealings.mark(&mut packet);
        }
        Some(packet)
    }

    /// Notes that the queue has overflowed by some packets, which makes the controller drop sooner.
    pub(super) fn overflowed(&mut self, packets: u32) {
        self.count = self.count.saturating_add(packets);
    }

    /// Marks a packet and returns it with true, or drops it.
    fn cut(&self, config: &CodelConfig, head: Head, dealings: &mut QueueActions) -> (Head, bool) {
        let Some((queued, mut packet)) = head.0 else { return ((None, false), false) };
        if config.ecn && dealings.mark(&mut packet) {
            return ((Some((queued, packet)), head.1), true);
        }
        dealings.lost.push((DropReason::Codel, packet));
        ((None, false), false)
    }

    /// RFC 8289's `dodequeue`: takes the head; the flag is true if it may be dropped.
    fn take(&mut self, config: &CodelConfig, mtu: usize, now: SimTime, source: &mut impl Source) -> Head {
        let Some((arrived, packet)) = source.take() else {
            self.first_above_time = None;
            return (None, false);
        };
        let mut ok_to_drop = false;
        if now.since(arrived) < config.target || source.bytes() <= mtu {
            // Went below: stay below for at least an interval.
            self.first_above_time = None;
        } else {
            match self.first_above_time {
                None => self.first_above_time = Some(now + config.interval),
                Some(since) => ok_to_drop = now >= since,
            }
        }
        (Some((arrived, packet)), ok_to_drop)
    }

    /// RFC 8289 section 3.2: the next drop comes `interval / sqrt(count)` after the last. IEEE 754
    /// defines square root and division exactly, so every machine computes the same.
    fn control_law(&self, config: &CodelConfig, t: SimTime) -> SimTime {
        let step = config.interval.as_picos() as f64 / f64::from(self.count).sqrt();
        t + SimDuration::from_picos(step as u64)
    }
}

/// Packet with the time at which it was queued; the flag is true if it may be dropped.
type Head = (Option<(SimTime, Packet)>, bool);

/// Queue under CoDel.
#[derive(Debug)]
pub(super) struct Codel {
    config: CodelConfig,
    limit: usize,
    mtu: usize,
    waiting: Waiting,
    controller: Controller,
}

impl Codel {
    pub(super) fn new(config: CodelConfig, limit: usize, mtu: usize) -> Codel {
        Codel { config, limit, mtu, waiting: Waiting::default(), controller: Controller::default() }
    }

    pub(super) fn push(&mut self, now: SimTime, packet: Packet, idle: bool) -> Result<(), Packet> {
        if !idle && self.waiting.len() >= self.limit {
            return Err(packet);
        }
        self.waiting.push(now, packet);
        Ok(())
    }

    pub(super) fn pop(&mut self, now: SimTime, dealings: &mut QueueActions) -> Option<Packet> {
        self.controller.serve(&self.config, self.mtu, now, &mut self.waiting, dealings)
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }
    pub(super) fn waiting_mut(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}
