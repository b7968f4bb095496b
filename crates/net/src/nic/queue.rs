//! The queue before a sender: a FIFO bounded by packets or by bytes, or CoDel.

use super::codel::{Codel, CodelConfig};
use crate::Packet;
use belljar_base::SimTime;
use std::collections::VecDeque;

/// Which packets wait before a sender, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueConfig {
    /// A FIFO that drops what comes when so many packets wait: Linux's `pfifo`.
    Packets(usize),
    /// A FIFO that drops what would make more than so many bytes wait: Linux's `bfifo`.
    Bytes(usize),
    /// CoDel, with at most so many packets.
    Codel {
        /// The most packets.
        packets: usize,
        /// Its constants.
        codel: CodelConfig,
    },
}

impl Default for QueueConfig {
    /// Linux's `txqueuelen`.
    fn default() -> QueueConfig {
        QueueConfig::Packets(1_000)
    }
}

/// Packets that wait, each with the time at which it was queued.
#[derive(Debug)]
pub(super) enum Queue {
    Fifo { waiting: VecDeque<(SimTime, Packet)>, held: usize, packets: usize, bytes: usize },
    Codel(Box<Codel>),
}

impl Queue {
    pub(super) fn new(config: QueueConfig) -> Queue {
        let fifo = |packets, bytes| Queue::Fifo { waiting: VecDeque::new(), held: 0, packets, bytes };
        match config {
            QueueConfig::Packets(packets) => fifo(packets, usize::MAX),
            QueueConfig::Bytes(bytes) => fifo(usize::MAX, bytes),
            QueueConfig::Codel { packets, codel } => Queue::Codel(Box::new(Codel::new(codel, packets))),
        }
    }
    /// Takes a packet, or gives it back if there is no room; one that need not wait always has room.
    pub(super) fn push(&mut self, now: SimTime, packet: Packet, wire_is_free: bool) -> Result<(), Packet> {
        match self {
            Queue::Fifo { waiting, held, packets, bytes } => {
                if !wire_is_free && (waiting.len() >= *packets || *held + packet.len() > *bytes) {
                    return Err(packet);
                }
                *held += packet.len();
                waiting.push_back((now, packet));
                Ok(())
            }
            Queue::Codel(codel) => codel.push(now, packet),
        }
    }
    /// When the first packet was queued.
    pub(super) fn first_queued(&self) -> Option<SimTime> {
        match self {
            Queue::Fifo { waiting, .. } => waiting.front().map(|(queued, _)| *queued),
            Queue::Codel(codel) => codel.first_queued(),
        }
    }
    /// The packet to send at `now`, after what CoDel drops at its sight goes to `dropped`.
    pub(super) fn pop(&mut self, now: SimTime, dropped: &mut Vec<Packet>) -> Option<Packet> {
        match self {
            Queue::Fifo { waiting, held, .. } => {
                let (_, packet) = waiting.pop_front()?;
                *held -= packet.len();
                Some(packet)
            }
            Queue::Codel(codel) => {
                codel.pop_into(now, |packet| dropped.push(packet)).map(|(_, packet)| packet)
            }
        }
    }
    /// Everything that waits, in order.
    pub(super) fn clear(&mut self) -> Vec<Packet> {
        match self {
            Queue::Fifo { waiting, held, .. } => {
                *held = 0;
                waiting.drain(..).map(|(_, packet)| packet).collect()
            }
            Queue::Codel(codel) => codel.clear(),
        }
    }
    pub(super) fn len(&self) -> usize {
        match self {
            Queue::Fifo { waiting, .. } => waiting.len(),
            Queue::Codel(codel) => codel.len(),
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
