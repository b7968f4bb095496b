//! Queue before a sender, which determines the order of packets, drops and ECN marks.

use super::DropReason;
use super::codel::{Codel, CodelConfig, Source};
use super::fifo::Fifo;
use super::fq_codel::{FqCodel, FqCodelConfig};
use super::priority::{Priority, PriorityConfig};
use super::red::{Red, RedConfig};
use crate::{Packet, ecn};
use belljar_base::{Seed, SimTime};

/// Limit of a queue's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Number of packets.
    Packets(usize),
    /// Number of bytes.
    Bytes(usize),
}

/// Discipline of a queue, with its limits.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueConfig {
    /// Tail-drop FIFO: Linux's `pfifo` and `bfifo`.
    Fifo {
        /// Maximum length.
        limit: Limit,
        /// Length above which arriving ECN-capable packets are marked: the marking of DCTCP (RFC 8257,
        /// section 3.1).
        ecn_threshold: Option<Limit>,
    },
    /// CoDel.
    Codel {
        /// Maximum number of packets.
        packets: usize,
        /// Parameters of CoDel.
        codel: CodelConfig,
    },
    /// FQ-CoDel.
    FqCodel(FqCodelConfig),
    /// Random early detection.
    Red(RedConfig),
    /// Strict priority bands.
    Priority(PriorityConfig),
}

impl QueueConfig {
    /// FIFO with a limit in packets.
    pub fn packets(packets: usize) -> QueueConfig {
        QueueConfig::Fifo { limit: Limit::Packets(packets), ecn_threshold: None }
    }
    /// FIFO with a limit in bytes.
    pub fn bytes(bytes: usize) -> QueueConfig {
        QueueConfig::Fifo { limit: Limit::Bytes(bytes), ecn_threshold: None }
    }
}

impl Default for QueueConfig {
    /// FIFO with Linux's default `txqueuelen`.
    fn default() -> QueueConfig {
        QueueConfig::packets(1_000)
    }
}

/// Properties of the interface to which a queue belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueContext {
    /// True if packets have an Ethernet header.
    pub(super) framed: bool,
    /// Maximum length of a packet, including that header.
    pub(super) mtu: usize,
    /// Rate of the sender in bit/s.
    pub(super) rate: Option<u64>,
    /// Random seed.
    pub(super) seed: u64,
}

impl QueueContext {
    /// Context of a band's queue.
    pub(super) fn of_band(&self, band: usize) -> QueueContext {
        let seed = Seed(self.seed).stream(&["band", &band.to_string()]).next_u64();
        QueueContext { seed, ..*self }
    }
}

/// Drops and ECN marks of a queue since they were last taken.
#[derive(Debug, Default)]
pub(super) struct QueueActions {
    pub(super) lost: Vec<(DropReason, Packet)>,
    pub(super) marked: u64,
    framed: bool,
}

impl QueueActions {
    pub(super) fn new(framed: bool) -> QueueActions {
        QueueActions { framed, ..QueueActions::default() }
    }
    /// Marks a packet, if it is ECN-capable. Returns true if it was marked.
    pub(super) fn mark(&mut self, packet: &mut Packet) -> bool {
        let marked = ecn::mark(packet.bytes_mut(), self.framed);
        self.marked += u64::from(marked);
        marked
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    kind: Kind,
    rate: Option<u64>,
}

#[derive(Debug)]
enum Kind {
    Fifo(Fifo),
    Codel(Box<Codel>),
    FqCodel(Box<FqCodel>),
    Red(Box<Red>),
    Priority(Box<Priority>),
}

impl Queue {
    pub(super) fn new(config: &QueueConfig, around: &QueueContext) -> Queue {
        let draws = |what| Seed(around.seed).stream(&[what]);
        let kind = match config {
            QueueConfig::Fifo { limit, ecn_threshold } => Kind::Fifo(Fifo::new(*limit, *ecn_threshold)),
            QueueConfig::Codel { packets, codel } => {
                Kind::Codel(Box::new(Codel::new(*codel, *packets, around.mtu)))
            }
            QueueConfig::FqCodel(config) => {
                let key = draws("fq_codel").next_u64();
                Kind::FqCodel(Box::new(FqCodel::new(*config, around.mtu, around.framed, key)))
            }
            QueueConfig::Red(config) => Kind::Red(Box::new(Red::new(*config, draws("red")))),
            QueueConfig::Priority(config) => Kind::Priority(Box::new(Priority::new(config, around))),
        };
        Queue { kind, rate: around.rate }
    }

    /// Queues a packet, or returns it. A packet that need not wait, because the sender has been idle for
    /// some time, is always accepted. Other packets dropped because of it are added to `dealings`.
    pub(super) fn push(
        &mut self,
        now: SimTime,
        packet: Packet,
        idle_since: Option<SimTime>,
        dealings: &mut QueueActions,
    ) -> Result<(), (DropReason, Packet)> {
        let (full, idle) = (|packet| (DropReason::EgressFull, packet), idle_since.is_some());
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.push(now, packet, idle, dealings).map_err(full),
            Kind::Codel(codel) => codel.push(now, packet, idle).map_err(full),
            Kind::FqCodel(queues) => {
                queues.push(now, packet, dealings);
                Ok(())
            }
            Kind::Red(red) => red.push(now, packet, idle_since, self.rate, dealings),
            Kind::Priority(bands) => bands.push(now, packet, idle_since, dealings),
        }
    }

    /// Takes the packet to send at `now`; packets dropped on dequeue are added to `dealings`.
    pub(super) fn pop(&mut self, now: SimTime, dealings: &mut QueueActions) -> Option<Packet> {
        let next = |(_, packet)| packet;
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.waiting_mut().take().map(next),
            Kind::Codel(codel) => codel.pop(now, dealings),
            Kind::FqCodel(queues) => queues.pop(now, dealings),
            Kind::Red(red) => red.waiting_mut().take().map(next),
            Kind::Priority(bands) => bands.pop(now, dealings),
        }
    }

    /// Sets the rate of the sender.
    pub(super) fn set_rate(&mut self, rate: Option<u64>) {
        self.rate = rate;
        if let Kind::Priority(bands) = &mut self.kind {
            bands.set_rate(rate);
        }
    }

    /// Removes all packets, and returns them in the order of arrival.
    pub(super) fn clear(&mut self) -> Vec<(SimTime, Packet)> {
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.waiting_mut().clear(),
            Kind::Codel(codel) => codel.waiting_mut().clear(),
            Kind::FqCodel(queues) => queues.clear(),
            Kind::Red(red) => red.waiting_mut().clear(),
            Kind::Priority(bands) => bands.clear(),
        }
    }
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.waiting().len(),
            Kind::Codel(codel) => codel.waiting().len(),
            Kind::FqCodel(queues) => queues.len(),
            Kind::Red(red) => red.waiting().len(),
            Kind::Priority(bands) => bands.len(),
        }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// True if a packet that need not wait passes unchanged: the queue is empty, and keeps no state about
    /// passing packets.
    pub(super) fn is_transparent(&self) -> bool {
        matches!(&self.kind, Kind::Fifo(fifo) if fifo.waiting().len() == 0)
    }
}
