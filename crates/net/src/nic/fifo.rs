//! FIFO queue.

use super::codel::Source;
use super::queue::{Limit, QueueActions};
use crate::Packet;
use belljar_base::SimTime;
use std::collections::VecDeque;

/// Queued packets with their times of arrival.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    packets: VecDeque<(SimTime, Packet)>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn push(&mut self, now: SimTime, packet: Packet) {
        self.bytes += packet.len();
        self.packets.push_back((now, packet));
    }
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
    pub(super) fn clear(&mut self) -> Vec<(SimTime, Packet)> {
        self.bytes = 0;
        self.packets.drain(..).collect()
    }
    /// True if another packet of this length would exceed a limit.
    pub(super) fn exceeds(&self, limit: Limit, len: usize) -> bool {
        match limit {
            Limit::Packets(packets) => self.packets.len() >= packets,
            Limit::Bytes(bytes) => self.bytes + len > bytes,
        }
    }
}

impl Source for Waiting {
    fn take(&mut self) -> Option<(SimTime, Packet)> {
        let (queued, packet) = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some((queued, packet))
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bounded tail-drop queue that marks packets when its length exceeds a threshold.
#[derive(Debug)]
pub(super) struct Fifo {
    limit: Limit,
    ecn_threshold: Option<Limit>,
    waiting: Waiting,
}

impl Fifo {
    pub(super) fn new(limit: Limit, ecn_threshold: Option<Limit>) -> Fifo {
        Fifo { limit, ecn_threshold, waiting: Waiting::default() }
    }

    pub(super) fn push(
        &mut self,
        now: SimTime,
        mut packet: Packet,
        idle: bool,
        dealings: &mut QueueActions,
    ) -> Result<(), Packet> {
        if !idle && self.waiting.exceeds(self.limit, packet.len()) {
            return Err(packet);
        }
        if !idle && self.ecn_threshold.is_some_and(|most| self.waiting.exceeds(most, packet.len())) {
            dealings.mark(&mut packet);
        }
        self.waiting.push(now, packet);
        Ok(())
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }
    pub(super) fn waiting_mut(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}
