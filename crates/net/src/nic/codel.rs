//! CoDel, the controlled-delay queue of RFC 8289 (section 5 has the pseudocode that names and
//! structure follow).

use crate::Packet;
use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;

/// CoDel's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// How long a packet may wait for good.
    pub target: SimDuration,
    /// For how long it must have been too long before packets are dropped: a worst round trip.
    pub interval: SimDuration,
    /// A queue of at most this many bytes is never cut (RFC 8289 section 4.4: one full packet).
    pub mtu: usize,
}

impl Default for CodelConfig {
    /// RFC 8289 section 4.2 and 4.3: 5 ms and 100 ms.
    fn default() -> CodelConfig {
        CodelConfig {
            target: SimDuration::from_millis(5),
            interval: SimDuration::from_millis(100),
            mtu: 1_500,
        }
    }
}

#[derive(Debug)]
pub(super) struct Codel {
    config: CodelConfig,
    limit: usize,
    queue: VecDeque<(SimTime, Packet)>,
    bytes: usize,
    /// When the sojourn time will have been above target for a whole interval, if it is above.
    first_above_time: Option<SimTime>,
    dropping: bool,
    drop_next: SimTime,
    count: u32,
    last_count: u32,
}

impl Codel {
    pub(super) fn new(config: CodelConfig, limit: usize) -> Codel {
        Codel {
            config,
            limit,
            queue: VecDeque::new(),
            bytes: 0,
            first_above_time: None,
            dropping: false,
            drop_next: SimTime::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    pub(super) fn push(&mut self, now: SimTime, packet: Packet) -> Result<(), Packet> {
        if self.queue.len() >= self.limit {
            return Err(packet);
        }
        self.bytes += packet.len();
        self.queue.push_back((now, packet));
        Ok(())
    }

    /// The packet to serve at `now` with its arrival time, and how many were dropped before it.
    pub(super) fn pop(&mut self, now: SimTime) -> (Option<(SimTime, Packet)>, u64) {
        let mut dropped = 0;
        let packet = self.pop_into(now, |_| dropped += 1);
        (packet, dropped)
    }

    /// The same; gives away what was dropped.
    pub(super) fn pop_into(
        &mut self,
        now: SimTime,
        mut dropped: impl FnMut(Packet),
    ) -> Option<(SimTime, Packet)> {
        let (mut packet, mut ok_to_drop) = self.take(now);
        if self.dropping {
            if !ok_to_drop {
                // The sojourn time is below target: leave the dropping state.
                self.dropping = false;
            }
            // "It is time for the next drop. Drop the current packet and dequeue the next. [...] A
            // large amount of packets in the queue might [...] result in a burst of drops."
            while self.dropping && now >= self.drop_next && packet.is_some() {
                packet.take().into_iter().for_each(|(_, packet)| dropped(packet));
                self.count += 1;
                (packet, ok_to_drop) = self.take(now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            packet.take().into_iter().for_each(|(_, packet)| dropped(packet));
            (packet, _) = self.take(now);
            self.dropping = true;
            // "If min went above target close to when it last went below, assume that the drop rate
            // that controlled the queue on the last cycle is a good starting point."
            let delta = self.count - self.last_count;
            let recently = now.since(self.drop_next) < self.config.interval.saturating_mul(16);
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.drop_next = self.control_law(now);
            self.last_count = self.count;
        }
        packet
    }

    /// When the first packet was queued.
    pub(super) fn first_queued(&self) -> Option<SimTime> {
        self.queue.front().map(|(queued, _)| *queued)
    }
    /// Everything that waits, in order.
    pub(super) fn clear(&mut self) -> Vec<Packet> {
        self.bytes = 0;
        self.queue.drain(..).map(|(_, packet)| packet).collect()
    }
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// RFC 8289's `dodequeue`: the head and whether it may be dropped.
    fn take(&mut self, now: SimTime) -> (Option<(SimTime, Packet)>, bool) {
        let Some((arrived, packet)) = self.queue.pop_front() else {
            self.first_above_time = None;
            return (None, false);
        };
        self.bytes -= packet.len();
        let mut ok_to_drop = false;
        if now.since(arrived) < self.config.target || self.bytes <= self.config.mtu {
            // Went below: stay below for at least an interval.
            self.first_above_time = None;
        } else {
            match self.first_above_time {
                None => self.first_above_time = Some(now + self.config.interval),
                Some(since) => ok_to_drop = now >= since,
            }
        }
        (Some((arrived, packet)), ok_to_drop)
    }

    /// RFC 8289 section 3.2: the next drop comes `interval / sqrt(count)` after the last. IEEE 754
    /// defines square root and division exactly, so every machine computes the same.
    fn control_law(&self, t: SimTime) -> SimTime {
        let step = self.config.interval.as_picos() as f64 / f64::from(self.count).sqrt();
        t + SimDuration::from_picos(step as u64)
    }
}
