//! `codel`: controlled delay (RFC 8289; `net/sched/sch_codel.c`, `include/net/codel_impl.h`, tc-codel(8)).
//!
//! Times are those of Linux: a unit is 1,024 ns, and the square root is approximated by Newton's method in 16 bits,
//! so that packets are dropped at the same times.

use crate::attributes::{Attributes, Out, words};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::node::{Context, Discipline, Own, Setup, TcDrop, Verdict};
use belljar_base::SimTime;
use std::collections::VecDeque;

const TARGET: u16 = 1;
const LIMIT: u16 = 2;
const INTERVAL: u16 = 3;
const ECN: u16 = 4;
const CE_THRESHOLD: u16 = 5;
/// `CODEL_SHIFT`: a unit of time is 1,024 ns.
const SHIFT: u32 = 10;
/// `DEFAULT_CODEL_LIMIT`.
const DEFAULT_LIMIT: u32 = 1_000;
/// `CODEL_DISABLED_THRESHOLD`.
pub(super) const DISABLED: u32 = i32::MAX as u32;

/// Time in CoDel's units.
pub(super) fn units(time: SimTime) -> u32 {
    (time.as_nanos() >> SHIFT) as u32
}
/// Units in a number of microseconds.
pub(super) fn from_micros(us: u32) -> u32 {
    ((u64::from(us) * 1_000) >> SHIFT) as u32
}
/// Microseconds in a number of units.
pub(super) fn to_micros(units: u32) -> u32 {
    ((u64::from(units) << SHIFT) / 1_000) as u32
}
fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Parameters (`struct codel_params`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) target: u32,
    pub(super) interval: u32,
    pub(super) ce_threshold: u32,
    pub(super) mtu: u32,
    pub(super) ecn: bool,
}

impl Parameters {
    /// Defaults: 5 ms and 100 ms.
    pub(super) fn new(mtu: u32, ecn: bool) -> Parameters {
        let (target, interval) = (from_micros(5_000), from_micros(100_000));
        Parameters { target, interval, ce_threshold: DISABLED, mtu, ecn }
    }
    /// Changes the times that options give; `ce_threshold` is the attribute of that threshold.
    pub(super) fn change(&mut self, options: Attributes<'_>, ce_threshold: u16) -> Result<(), TcError> {
        for (attribute, time) in [
            (TARGET, &mut self.target),
            (ce_threshold, &mut self.ce_threshold),
            (INTERVAL, &mut self.interval),
        ] {
            if let Some(us) = options.u32(attribute)? {
                *time = from_micros(us);
            }
        }
        Ok(())
    }
}

/// State of a queue (`struct codel_vars`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) count: u32,
    pub(super) last_count: u32,
    pub(super) dropping: bool,
    root: u16,
    first_above: u32,
    pub(super) drop_next: u32,
    pub(super) delay: u32,
}

/// Counters (`struct codel_stats`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) max_packet: u32,
    pub(super) marks: u32,
    pub(super) ce_marks: u32,
}

/// Queue that CoDel controls: takes a packet, and gives the number of bytes that remain.
pub(super) trait Queue {
    fn take(&mut self) -> Option<Buffer>;
    fn backlog(&self) -> u32;
}

impl State {
    /// Newton's step for the inverse of the square root of the count.
    fn step(&mut self) {
        let root = u32::from(self.root) << 16;
        let square = ((u64::from(root) * u64::from(root)) >> 32) as u32;
        let value = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(u64::from(square)));
        self.root = (((value >> 2).wrapping_mul(u64::from(root)) >> (32 - 2 + 1)) >> 16) as u16;
    }
    /// Time of the next drop (`codel_control_law`).
    fn law(&self, time: u32, interval: u32) -> u32 {
        time.wrapping_add(crate::buffer::scale(interval, u32::from(self.root) << 16))
    }
    fn should_drop(
        &mut self,
        packet: Option<&Buffer>,
        parameters: &Parameters,
        counts: &mut Counts,
        backlog: u32,
        now: u32,
    ) -> bool {
        let Some(packet) = packet else {
            self.first_above = 0;
            return false;
        };
        self.delay = now.wrapping_sub(units(packet.queued));
        counts.max_packet = counts.max_packet.max(packet.len);
        if after(parameters.target, self.delay) || backlog <= parameters.mtu {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.wrapping_add(parameters.interval);
            return false;
        }
        after(now, self.first_above)
    }
    /// Takes the packet to send (`codel_dequeue`).
    pub(super) fn dequeue(
        &mut self,
        parameters: &Parameters,
        counts: &mut Counts,
        queue: &mut impl Queue,
        context: &mut Context<'_>,
    ) -> Option<Buffer> {
        let mut packet = queue.take();
        if packet.is_none() {
            self.first_above = 0;
            return None;
        }
        let now = units(context.now);
        let drop = self.should_drop(packet.as_ref(), parameters, counts, queue.backlog(), now);
        if self.dropping {
            if !drop {
                self.dropping = false;
            }
            while self.dropping && !after(self.drop_next, now) {
                self.count = self.count.wrapping_add(1);
                self.step();
                let marked = parameters.ecn && packet.as_mut().is_some_and(Buffer::mark_congestion);
                if marked {
                    counts.marks += 1;
                    self.drop_next = self.law(self.drop_next, parameters.interval);
                    break;
                }
                context.lost.extend(packet.take().map(|packet| (TcDrop::Queue, packet)));
                packet = queue.take();
                if self.should_drop(packet.as_ref(), parameters, counts, queue.backlog(), now) {
                    self.drop_next = self.law(self.drop_next, parameters.interval);
                } else {
                    self.dropping = false;
                }
            }
        } else if drop {
            if parameters.ecn && packet.as_mut().is_some_and(Buffer::mark_congestion) {
                counts.marks += 1;
            } else {
                context.lost.extend(packet.take().map(|packet| (TcDrop::Queue, packet)));
                packet = queue.take();
                self.should_drop(packet.as_ref(), parameters, counts, queue.backlog(), now);
            }
            self.dropping = true;
            let delta = self.count.wrapping_sub(self.last_count);
            let recent = after(parameters.interval.wrapping_mul(16), now.wrapping_sub(self.drop_next));
            if delta > 1 && recent {
                self.count = delta;
                self.step();
            } else {
                self.count = 1;
                self.root = u16::MAX;
            }
            self.last_count = self.count;
            self.drop_next = self.law(now, parameters.interval);
        }
        if let Some(packet) = &mut packet
            && after(self.delay, parameters.ce_threshold)
            && packet.mark_congestion()
        {
            counts.ce_marks += 1;
        }
        packet
    }
    /// Time to the next drop in microseconds, for listings.
    pub(super) fn to_next_drop(self, now: SimTime) -> u32 {
        if !self.dropping {
            return 0;
        }
        let delta = self.drop_next.wrapping_sub(units(now)) as i32;
        if delta >= 0 {
            to_micros(delta as u32)
        } else {
            (to_micros(delta.unsigned_abs()) as i32).wrapping_neg() as u32
        }
    }
}

/// Queue under CoDel.
#[derive(Debug)]
pub(super) struct Codel {
    limit: u32,
    parameters: Parameters,
    state: State,
    counts: Counts,
    over_limit: u32,
    packets: Packets,
}

#[derive(Debug, Default)]
struct Packets {
    queue: VecDeque<Buffer>,
    bytes: u32,
}

impl Queue for Packets {
    fn take(&mut self) -> Option<Buffer> {
        let packet = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(packet.len);
        Some(packet)
    }
    fn backlog(&self) -> u32 {
        self.bytes
    }
}

impl Codel {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Codel, TcError> {
        let parameters = Parameters::new(setup.device.mtu + setup.device.header, false);
        let mut codel = Codel {
            limit: DEFAULT_LIMIT,
            parameters,
            state: State::default(),
            counts: Counts::default(),
            over_limit: 0,
            packets: Packets::default(),
        };
        if options.is_some() {
            codel.change(options, setup)?;
        }
        Ok(codel)
    }
}

impl Discipline for Codel {
    fn kind(&self) -> &'static str {
        "codel"
    }
    fn enqueue(&mut self, mut buffer: Buffer, _: &mut Own, context: &mut Context<'_>) -> Verdict {
        if self.packets.queue.len() >= self.limit as usize {
            self.over_limit += 1;
            context.drop(buffer);
            return Verdict::Dropped;
        }
        buffer.queued = context.now;
        self.packets.bytes += buffer.len;
        self.packets.queue.push_back(buffer);
        Verdict::Queued
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        self.state.dequeue(&self.parameters, &mut self.counts, &mut self.packets, context)
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let Some(options) = options else { return Ok(()) };
        self.parameters.change(options, CE_THRESHOLD)?;
        if let Some(limit) = options.u32(LIMIT)? {
            self.limit = limit;
        }
        if let Some(ecn) = options.u32(ECN)? {
            self.parameters.ecn = ecn != 0;
        }
        while self.packets.queue.len() > self.limit as usize {
            setup.purged.extend(self.packets.take());
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.nest(2, |out| {
            out.u32(TARGET, to_micros(self.parameters.target));
            out.u32(LIMIT, self.limit);
            out.u32(INTERVAL, to_micros(self.parameters.interval));
            out.u32(ECN, u32::from(self.parameters.ecn));
            if self.parameters.ce_threshold != DISABLED {
                out.u32(CE_THRESHOLD, to_micros(self.parameters.ce_threshold));
            }
        });
    }
    fn statistics(&self, _: &Own, now: SimTime) -> Option<Vec<u8>> {
        let State { count, last_count, delay, dropping, .. } = self.state;
        let Counts { max_packet, marks, ce_marks } = self.counts;
        let next = self.state.to_next_drop(now);
        let delay = to_micros(delay);
        let dropping = u32::from(dropping);
        Some(words([max_packet, count, last_count, delay, next, self.over_limit, marks, dropping, ce_marks]))
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        out.extend(self.packets.queue.drain(..));
        self.packets.bytes = 0;
        self.state = State::default();
    }
}
