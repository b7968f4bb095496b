//! `pfifo`, `bfifo` and `pfifo_head_drop` (`net/sched/sch_fifo.c`), and `noqueue`.

use crate::attributes::{Attributes, Out, word};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::node::{Context, Discipline, Own, Setup, Verdict};
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

/// Policy of a full queue, and the unit of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Packets,
    Bytes,
    HeadDrop,
}

/// Bounded queue in the order of arrival.
#[derive(Debug)]
pub(crate) struct Fifo {
    kind: Kind,
    limit: u32,
    packets: VecDeque<Buffer>,
}

impl Fifo {
    pub(super) fn new(
        kind: &[u8],
        options: Option<Attributes<'_>>,
        setup: &mut Setup<'_>,
    ) -> Result<Fifo, TcError> {
        let kind = match kind {
            b"bfifo" => Kind::Bytes,
            b"pfifo_head_drop" => Kind::HeadDrop,
            _ => Kind::Packets,
        };
        let mut fifo = Fifo { kind, limit: 0, packets: VecDeque::new() };
        fifo.change(options, setup)?;
        Ok(fifo)
    }
    /// `pfifo` with a limit in packets.
    pub(crate) fn packets(limit: u32) -> Fifo {
        Fifo { kind: Kind::Packets, limit, packets: VecDeque::new() }
    }
    /// The queue with these packets in it.
    pub(super) fn with(self, packets: Vec<Buffer>) -> Fifo {
        Fifo { packets: packets.into(), ..self }
    }
    /// `bfifo` with a limit in bytes.
    pub(crate) fn bytes(limit: u32) -> Fifo {
        Fifo { kind: Kind::Bytes, limit, packets: VecDeque::new() }
    }
}

impl Discipline for Fifo {
    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Packets => "pfifo",
            Kind::Bytes => "bfifo",
            Kind::HeadDrop => "pfifo_head_drop",
        }
    }
    fn enqueue(&mut self, buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        let (len, bytes) = (self.packets.len() as u64, u64::from(own.queue.backlog) + u64::from(buffer.len));
        let fits = match self.kind {
            Kind::Bytes => bytes <= u64::from(self.limit),
            Kind::Packets | Kind::HeadDrop => len < u64::from(self.limit),
        };
        if fits {
            self.packets.push_back(buffer);
            return Verdict::Queued;
        }
        match (self.kind, self.packets.pop_front()) {
            (Kind::HeadDrop, Some(first)) => {
                context.drop(first);
                self.packets.push_back(buffer);
                Verdict::Congested
            }
            (_, first) => {
                if let Some(first) = first {
                    self.packets.push_front(first);
                }
                context.drop(buffer);
                Verdict::Dropped
            }
        }
    }
    fn dequeue(&mut self, _: &mut Own, _: &mut Context<'_>) -> Option<Buffer> {
        self.packets.pop_front()
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        self.limit = match options {
            None => match self.kind {
                Kind::Bytes => setup.device.queue_len.wrapping_mul(setup.device.mtu + setup.device.header),
                _ => setup.device.queue_len,
            },
            Some(options) if options.0.len() < 4 => return Err(Errno::EINVAL.into()),
            Some(options) => word(options.0, 0),
        };
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.u32(2, self.limit);
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        out.extend(self.packets.drain(..));
    }
}

/// `noqueue`: packets only wait while the medium is busy.
#[derive(Debug)]
pub(super) struct NoQueue(VecDeque<Buffer>);

impl NoQueue {
    pub(super) fn new(_: Option<Attributes<'_>>) -> Result<NoQueue, TcError> {
        Ok(NoQueue(VecDeque::new()))
    }
}

impl Discipline for NoQueue {
    fn kind(&self) -> &'static str {
        "noqueue"
    }
    fn enqueue(&mut self, buffer: Buffer, _: &mut Own, _: &mut Context<'_>) -> Verdict {
        self.0.push_back(buffer);
        Verdict::Queued
    }
    fn dequeue(&mut self, own: &mut Own, _: &mut Context<'_>) -> Option<Buffer> {
        // Linux passes packets around it, and counts none.
        let buffer = self.0.pop_front()?;
        own.traffic.bytes = own.traffic.bytes.wrapping_sub(u64::from(buffer.len));
        own.traffic.packets = own.traffic.packets.wrapping_sub(u64::from(buffer.segments));
        Some(buffer)
    }
    fn dump(&self, _: &mut Out) {}
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        out.extend(self.0.drain(..));
    }
}
