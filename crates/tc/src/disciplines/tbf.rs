//! `tbf`: the token bucket filter (`net/sched/sch_tbf.c`, tc-tbf(8)).

use super::Fifo;
use super::one_class::OneClass;
use crate::attributes::{Attributes, Out, word};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::node::{Classful, Context, Discipline, Node, Own, Setup, Verdict};
use crate::rate::{Rate, ns_to_ticks, ticks_to_ns};
use belljar_linux_abi::Errno;

const PARMS: u16 = 1;
const RATE64: u16 = 4;
const PRATE64: u16 = 5;
const BURST: u16 = 6;
const PBURST: u16 = 7;
/// Length of `struct tc_tbf_qopt` in bytes.
const QOPT: usize = 36;

/// Token bucket with a queue below.
#[derive(Debug)]
pub(super) struct Tbf {
    limit: u32,
    /// Length of the longest packet that can be sent, in bytes.
    max_size: u64,
    /// Depths of the buckets in nanoseconds.
    buffer: i64,
    mtu: i64,
    rate: Rate,
    peak: Option<Rate>,
    tokens: i64,
    peak_tokens: i64,
    /// Time of the last update in nanoseconds.
    updated: i64,
    child: Node,
}

impl Tbf {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Tbf, TcError> {
        let child = Node::hidden(setup.handle | 1, Box::new(Fifo::bytes(0)));
        let mut tbf = Tbf {
            limit: 0,
            max_size: 0,
            buffer: 0,
            mtu: 0,
            rate: Rate::default(),
            peak: None,
            tokens: 0,
            peak_tokens: 0,
            updated: setup.now.as_nanos() as i64,
            child,
        };
        options.ok_or(Errno::EINVAL)?;
        tbf.change(options, setup)?;
        Ok(tbf)
    }
}

impl Discipline for Tbf {
    fn kind(&self) -> &'static str {
        "tbf"
    }
    fn enqueue(&mut self, buffer: Buffer, _: &mut Own, context: &mut Context<'_>) -> Verdict {
        if u64::from(buffer.len) > self.max_size {
            context.drop(buffer);
            return Verdict::Dropped;
        }
        self.child.enqueue(buffer, context)
    }
    fn dequeue(&mut self, own: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        let len = self.child.peek(context)?.len;
        let now = context.ns();
        let gained = (now - self.updated).min(self.buffer);
        let mut peak_tokens = 0;
        if let Some(peak) = &self.peak {
            peak_tokens = (gained + self.peak_tokens).min(self.mtu) - peak.time(len);
        }
        let tokens = (gained + self.tokens).min(self.buffer) - self.rate.time(len);
        if tokens >= 0 && peak_tokens >= 0 {
            (self.updated, self.tokens, self.peak_tokens) = (now, tokens, peak_tokens);
            return self.child.dequeue(context);
        }
        context.watch_ns(now + (-tokens).max(-peak_tokens));
        own.queue.overlimits += 1;
        None
    }
    fn change(&mut self, options: Option<Attributes<'_>>, _: &mut Setup<'_>) -> Result<(), TcError> {
        let options = options.ok_or(Errno::EINVAL)?;
        let parms = options.array::<QOPT>(PARMS)?.ok_or(Errno::EINVAL)?;
        let rate = Rate::new(&parms[..12], options.u64(RATE64)?);
        let (limit, mut mtu) = (word(&parms, 24), ticks_to_ns(word(&parms, 32)));
        let mut buffer = ticks_to_ns(word(&parms, 28));
        let mut max_size = rate.length(buffer.min(i64::from(u32::MAX)));
        if let Some(burst) = options.u32(BURST)? {
            max_size = u64::from(burst);
            buffer = rate.time(burst);
        }
        let mut peak = None;
        if word(&parms, 20) != 0 {
            let given = Rate::new(&parms[12..24], options.u64(PRATE64)?);
            if given.bytes <= rate.bytes {
                return Err(Errno::EINVAL.into());
            }
            max_size = match options.u32(PBURST)? {
                Some(burst) => {
                    mtu = given.time(burst);
                    max_size.min(u64::from(burst))
                }
                None => max_size.min(given.length(mtu.min(i64::from(u32::MAX)))),
            };
            peak = Some(given);
        }
        if max_size == 0 {
            return Err(Errno::EINVAL.into());
        }
        // `fifo_set_limit`: other kinds keep their limits.
        if ["pfifo", "bfifo"].contains(&self.child.discipline.kind()) {
            let fifo = match self.child.discipline.kind() {
                "bfifo" => Fifo::bytes(limit),
                _ => Fifo::packets(limit),
            };
            let mut queued = Vec::new();
            self.child.discipline.clear(&mut queued);
            self.child.discipline = Box::new(fifo.with(queued));
        }
        *self = Tbf {
            limit,
            max_size,
            buffer,
            mtu,
            rate,
            peak,
            tokens: buffer,
            peak_tokens: mtu,
            updated: self.updated,
            child: std::mem::replace(&mut self.child, Node::hidden(0, Box::new(Fifo::bytes(0)))),
        };
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        let mut parms = self.rate.spec();
        parms.extend(self.peak.map_or(vec![0; 12], |peak| peak.spec()));
        parms.extend(self.limit.to_ne_bytes());
        parms.extend(ns_to_ticks(self.buffer).to_ne_bytes());
        parms.extend(ns_to_ticks(self.mtu).to_ne_bytes());
        out.nest(2, |out| {
            out.put(PARMS, &parms);
            if let Some(bytes) = self.rate.large() {
                out.u64(RATE64, bytes);
            }
            if let Some(bytes) = self.peak.and_then(|peak| peak.large()) {
                out.u64(PRATE64, bytes);
            }
        });
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        self.child.clear(out);
        (self.tokens, self.peak_tokens) = (self.buffer, self.mtu);
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl OneClass for Tbf {
    fn below(&self) -> &Node {
        &self.child
    }
    fn below_mut(&mut self) -> &mut Node {
        &mut self.child
    }
    fn limit(&self) -> u32 {
        self.limit
    }
}
