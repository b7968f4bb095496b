//! `netem`: delay, loss, duplication, reordering, corruption and a rate (`net/sched/sch_netem.c`, tc-netem(8)).
//!
//! Each packet gets a time before which it stays. Packets leave in the order of their times, those of one time in
//! the order of arrival. A packet that reordering selects precedes all others.

use super::netem_loss::Loss;
use super::prng::{Correlation, Prng};
use crate::attributes::{Attributes, Out, long, word, words};
use crate::buffer::Buffer;
use crate::error::TcError;
use crate::node::{ClassShown, Classful, Context, Discipline, Node, Own, Setup, TcDrop, Verdict};
use crate::rate::{ns_to_ticks, ticks_to_ns};
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

const CORR: u16 = 1;
const DELAY_DIST: u16 = 2;
const REORDER: u16 = 3;
const CORRUPT: u16 = 4;
const LOSS: u16 = 5;
const RATE: u16 = 6;
const ECN: u16 = 7;
const RATE64: u16 = 8;
const LATENCY64: u16 = 10;
const JITTER64: u16 = 11;
const SLOT: u16 = 12;
const SLOT_DIST: u16 = 13;
const PRNG_SEED: u16 = 14;
/// Length of `struct tc_netem_qopt` in bytes.
const QOPT: usize = 24;
/// `NETEM_DIST_SCALE` and `NETEM_DIST_MAX`.
const DIST_SCALE: i64 = 8_192;
const DIST_MAX: usize = 16_384;

/// Settings that requests set and listings show.
#[derive(Clone, Debug, Default)]
struct Settings {
    limit: u32,
    latency: i64,
    jitter: i64,
    loss: u32,
    gap: u32,
    duplicate: u32,
    reorder: u32,
    corrupt: u32,
    ecn: bool,
    /// Rate in bytes per second, 0 for none, with overhead and cells.
    rate: u64,
    packet_overhead: i32,
    cell_size: u32,
    cell_overhead: i32,
    seed: u64,
}

/// Slots in which packets are delivered.
#[derive(Clone, Debug, Default)]
struct Slots {
    min_delay: i64,
    max_delay: i64,
    max_packets: i32,
    max_bytes: i32,
    dist_delay: i64,
    dist_jitter: i64,
    /// Begin of the next slot in nanoseconds, 0 without slots.
    next: i64,
    packets_left: i32,
    bytes_left: i32,
}

/// Network emulator.
#[derive(Debug)]
pub(super) struct Netem {
    settings: Settings,
    prng: Prng,
    delay_source: Correlation,
    loss_source: Correlation,
    duplicate_source: Correlation,
    reorder_source: Correlation,
    corrupt_source: Correlation,
    loss: Loss,
    distribution: Option<Vec<i16>>,
    slots: Slots,
    slot_distribution: Option<Vec<i16>>,
    counter: u32,
    /// Packets that reordering has selected.
    front: VecDeque<Buffer>,
    /// Delayed packets by time and order.
    delayed: Map<(SimTime, u64), Buffer>,
    order: u64,
    child: Option<Node>,
    /// Random bytes for positions of corrupted bits and initial states.
    stream: belljar_base::Stream,
}

/// Table of a distribution (`get_dist_table`).
fn table(bytes: &[u8]) -> Result<Vec<i16>, TcError> {
    let table: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_ne_bytes([pair[0], pair[1]])).collect();
    if table.is_empty() || table.len() > DIST_MAX { Err(Errno::EINVAL.into()) } else { Ok(table) }
}

/// Number of a distribution with this mean and deviation (`tabledist`).
fn draw(mean: i64, deviation: i64, drawn: impl FnOnce() -> u32, table: Option<&[i16]>) -> i64 {
    if deviation == 0 {
        return mean;
    }
    let drawn = drawn();
    let Some(table) = table else {
        let span = 2u32.wrapping_mul(deviation as u32).max(1);
        return i64::from(drawn % span) + mean - deviation;
    };
    let entry = i64::from(table[drawn as usize % table.len()]);
    let part = (deviation % DIST_SCALE) * entry;
    let rounded = if part >= 0 { part + DIST_SCALE / 2 } else { part - DIST_SCALE / 2 };
    rounded / DIST_SCALE + (deviation / DIST_SCALE) * entry + mean
}

impl Netem {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Netem, TcError> {
        options.ok_or(Errno::EINVAL)?;
        let mut netem = Netem {
            settings: Settings::default(),
            prng: Prng::new(0),
            delay_source: Correlation::default(),
            loss_source: Correlation::default(),
            duplicate_source: Correlation::default(),
            reorder_source: Correlation::default(),
            corrupt_source: Correlation::default(),
            loss: Loss::Random,
            distribution: None,
            slots: Slots::default(),
            slot_distribution: None,
            counter: 0,
            front: VecDeque::new(),
            delayed: Map::new(),
            order: 0,
            child: None,
            stream: setup.seed.stream(&["netem"]),
        };
        netem.change(options, setup)?;
        Ok(netem)
    }
    fn set_slots(&mut self, bytes: &[u8], now: i64) {
        let or_unlimited = |count: i32| if count == 0 { i32::MAX } else { count };
        let (max_packets, max_bytes) = (word(bytes, 16) as i32, word(bytes, 20) as i32);
        self.slots = Slots {
            min_delay: long(bytes, 0) as i64,
            max_delay: long(bytes, 8) as i64,
            max_packets: or_unlimited(max_packets),
            max_bytes: or_unlimited(max_bytes),
            dist_delay: long(bytes, 24) as i64,
            dist_jitter: (long(bytes, 32) as i64).saturating_abs().min(i64::from(i32::MAX)),
            next: 0,
            packets_left: or_unlimited(max_packets),
            bytes_left: or_unlimited(max_bytes),
        };
        let Slots { min_delay, max_delay, dist_jitter, .. } = self.slots;
        if min_delay | max_delay | dist_jitter != 0 {
            self.slots.next = now.max(1);
        }
    }
    /// Begins the next slot (`get_slot_next`).
    fn next_slot(&mut self, now: i64) {
        let Slots { min_delay, max_delay, dist_delay, dist_jitter, .. } = self.slots;
        let delay = match &self.slot_distribution {
            None => {
                let span = max_delay.saturating_sub(min_delay);
                let drawn = self.stream.next_u32();
                min_delay.saturating_add(((i128::from(drawn) * i128::from(span)) >> 32) as i64)
            }
            Some(table) => draw(dist_delay, dist_jitter, || self.prng.next(), Some(table)),
        };
        self.slots.next = now.saturating_add(delay).max(1);
        (self.slots.packets_left, self.slots.bytes_left) = (self.slots.max_packets, self.slots.max_bytes);
    }
    /// Transmission time at the rate in nanoseconds (`packet_time_ns`).
    fn transmission(&self, len: u32) -> i64 {
        let mut len = i128::from(len) + i128::from(self.settings.packet_overhead);
        if self.settings.cell_size > 0 {
            let size = i128::from(self.settings.cell_size);
            let cells = len.max(0).div_euclid(size) + i128::from(len.max(0) % size != 0);
            len = cells * (size + i128::from(self.settings.cell_overhead));
        }
        (len.max(0) * 1_000_000_000 / i128::from(self.settings.rate)).min(i128::from(i64::MAX) / 2) as i64
    }
    /// Latest time of a queued packet.
    fn last(&self) -> Option<SimTime> {
        let delayed = self.delayed.last_key_value().map(|((at, _), _)| *at);
        self.front.back().map(|buffer| buffer.due).max(delayed)
    }
    /// Time before which a packet stays.
    fn departure(&mut self, len: u32, now: SimTime) -> SimTime {
        let Settings { latency, jitter, rate, .. } = self.settings;
        let (source, prng) = (&mut self.delay_source, &mut self.prng);
        let mut delay = draw(latency, jitter, || source.next(prng), self.distribution.as_deref());
        let mut from = now.as_nanos() as i64;
        if rate > 0 {
            if let Some(last) = self.last() {
                let last = last.as_nanos() as i64;
                delay = (delay - (last - from)).max(0);
                from = last;
            }
            delay = delay.saturating_add(self.transmission(len));
        }
        // A delay that is not positive is none: the packet keeps the exact present time.
        match from.saturating_add(delay) {
            at if at <= now.as_nanos() as i64 => now,
            at => SimTime::from_nanos((at as u64).min(1 << 53)),
        }
    }
    /// Changes a random bit.
    fn corrupt(&mut self, buffer: &mut Buffer) {
        let len = buffer.packet.len() as u64;
        let (at, bit) = (self.stream.below(len) as usize, self.stream.below(8));
        if let Some(byte) = buffer.packet.bytes_mut().get_mut(at) {
            *byte ^= 1 << bit;
        }
    }
    fn dequeue_child(&mut self, context: &mut Context<'_>) -> Option<Buffer> {
        self.child.as_mut()?.dequeue(context)
    }
}

impl Discipline for Netem {
    fn kind(&self) -> &'static str {
        "netem"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        let settings = &self.settings;
        let (duplicate, corrupt) = (settings.duplicate, settings.corrupt);
        // A duplicate is not duplicated again.
        let again = context.duplicating;
        let twice = !again && duplicate != 0 && duplicate >= self.duplicate_source.next(&mut self.prng);
        let mut lost = self.loss.next(settings.loss, &mut self.loss_source, &mut self.prng);
        if lost && settings.ecn && buffer.mark_congestion() {
            own.queue.drops += 1;
            lost = false;
        }
        if lost && !twice {
            context.lost.push((TcDrop::Loss, buffer));
            return Verdict::Vanished;
        }
        let copy = (twice && !lost).then(|| buffer.copy());
        if corrupt != 0 && corrupt >= self.corrupt_source.next(&mut self.prng) {
            self.corrupt(&mut buffer);
        }
        if self.delayed.len() >= self.settings.limit as usize {
            context.drop(buffer);
            return Verdict::Dropped;
        }
        context.duplicates.extend(copy);
        if self.settings.latency != 0 || self.settings.jitter != 0 || self.settings.rate != 0 {
            context.orphaned.extend(buffer.orphan());
        }
        let Settings { gap, reorder, .. } = self.settings;
        let ordered =
            gap == 0 || self.counter < gap - 1 || reorder < self.reorder_source.next(&mut self.prng);
        if ordered {
            buffer.due = self.departure(buffer.len, context.now);
            self.counter = self.counter.wrapping_add(1);
            self.order += 1;
            self.delayed.insert((buffer.due, self.order), buffer);
        } else {
            buffer.due = context.now;
            self.counter = 0;
            own.queue.requeues += 1;
            self.front.push_front(buffer);
        }
        Verdict::Queued
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        loop {
            if let Some(buffer) = self.front.pop_front() {
                return Some(buffer);
            }
            let Some((&(due, order), _)) = self.delayed.first_key_value() else {
                return self.dequeue_child(context);
            };
            let now = context.ns();
            if self.slots.next != 0 && self.slots.next < due.as_nanos() as i64 {
                self.next_slot(now);
            }
            if due > context.now || self.slots.next > now {
                if let Some(buffer) = self.dequeue_child(context) {
                    return Some(buffer);
                }
                context.watch(due.max(SimTime::from_nanos(self.slots.next.max(0) as u64)));
                return None;
            }
            let buffer = self.delayed.remove(&(due, order))?;
            if self.slots.next != 0 {
                self.slots.packets_left = self.slots.packets_left.saturating_sub(1);
                self.slots.bytes_left = self.slots.bytes_left.saturating_sub(buffer.len as i32);
                if self.slots.packets_left <= 0 || self.slots.bytes_left <= 0 {
                    self.next_slot(now);
                }
            }
            match &mut self.child {
                None => return Some(buffer),
                Some(child) => {
                    child.enqueue(buffer, context);
                }
            }
        }
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let bytes = options.filter(|options| options.0.len() >= QOPT).ok_or(Errno::EINVAL)?.0;
        let options = Attributes(&bytes[QOPT..]);
        let distribution = options.get(DELAY_DIST).map(table).transpose()?;
        let slot_distribution = options.get(SLOT_DIST).map(table).transpose()?;
        let loss = options.nested(LOSS).map(Loss::read).transpose()?;
        let corr = options.array::<12>(CORR)?;
        let reorder = options.array::<8>(REORDER)?;
        let corrupt = options.array::<8>(CORRUPT)?;
        let rate = options.array::<16>(RATE)?;
        let slot = options.array::<40>(SLOT)?;
        let former = self.settings.clone();
        let mut settings = Settings {
            latency: ticks_to_ns(word(bytes, 0)),
            limit: word(bytes, 4),
            loss: word(bytes, 8),
            gap: word(bytes, 12),
            duplicate: word(bytes, 16),
            jitter: ticks_to_ns(word(bytes, 20)),
            ..former
        };
        self.counter = 0;
        if settings.gap != 0 {
            settings.reorder = u32::MAX;
        }
        let mut source = |share: u32| Correlation::new(share, self.stream.next_u32());
        if let Some(corr) = corr {
            self.delay_source = source(word(&corr, 0));
            self.loss_source = source(word(&corr, 4));
            self.duplicate_source = source(word(&corr, 8));
        }
        if let Some(reorder) = reorder {
            settings.reorder = word(&reorder, 0);
            self.reorder_source = source(word(&reorder, 4));
        }
        if let Some(corrupt) = corrupt {
            settings.corrupt = word(&corrupt, 0);
            self.corrupt_source = source(word(&corrupt, 4));
        }
        if let Some(rate) = rate {
            settings.rate = u64::from(word(&rate, 0));
            settings.packet_overhead = word(&rate, 4) as i32;
            settings.cell_size = word(&rate, 8);
            settings.cell_overhead = word(&rate, 12) as i32;
        }
        if let Some(rate) = options.u64(RATE64)? {
            settings.rate = settings.rate.max(rate);
        }
        if let Some(latency) = options.u64(LATENCY64)? {
            settings.latency = latency as i64;
        }
        if let Some(jitter) = options.u64(JITTER64)? {
            settings.jitter = jitter as i64;
        }
        settings.jitter = settings.jitter.saturating_abs().min(i64::from(i32::MAX));
        if let Some(ecn) = options.u32(ECN)? {
            settings.ecn = ecn != 0;
        }
        settings.seed = match options.u64(PRNG_SEED)? {
            Some(seed) => seed,
            None => self.stream.next_u64(),
        };
        self.prng = Prng::new(settings.seed);
        self.loss = loss.unwrap_or(Loss::Random);
        self.distribution = distribution.or(self.distribution.take());
        self.slot_distribution = slot_distribution.or(self.slot_distribution.take());
        self.settings = settings;
        if let Some(slot) = slot {
            self.set_slots(&slot, setup.now.as_nanos() as i64);
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        let settings = &self.settings;
        let ticks = |ns: i64| if ns >> 6 > i64::from(u32::MAX) { u32::MAX } else { ns_to_ticks(ns) };
        let mut all = Out(words([
            ticks(settings.latency),
            settings.limit,
            settings.loss,
            settings.gap,
            settings.duplicate,
            ticks(settings.jitter),
        ]));
        all.u64(LATENCY64, settings.latency as u64);
        all.u64(JITTER64, settings.jitter as u64);
        let shares = [self.delay_source, self.loss_source, self.duplicate_source].map(|source| source.share);
        all.put(CORR, &words(shares));
        all.put(REORDER, &words([settings.reorder, self.reorder_source.share]));
        all.put(CORRUPT, &words([settings.corrupt, self.corrupt_source.share]));
        let rate = settings.rate.min(u64::from(u32::MAX)) as u32;
        if settings.rate > u64::from(u32::MAX) {
            all.u64(RATE64, settings.rate);
        }
        let Settings { packet_overhead, cell_size, cell_overhead, .. } = *settings;
        all.put(RATE, &words([rate, packet_overhead as u32, cell_size, cell_overhead as u32]));
        if settings.ecn {
            all.u32(ECN, 1);
        }
        self.loss.write(LOSS, &mut all);
        let slots = &self.slots;
        if slots.min_delay | slots.max_delay | slots.dist_jitter != 0 {
            let or_zero = |count: i32| if count == i32::MAX { 0 } else { count };
            let mut bytes = slots.min_delay.to_ne_bytes().to_vec();
            bytes.extend(slots.max_delay.to_ne_bytes());
            bytes.extend(or_zero(slots.max_packets).to_ne_bytes());
            bytes.extend(or_zero(slots.max_bytes).to_ne_bytes());
            bytes.extend(slots.dist_delay.to_ne_bytes());
            bytes.extend(slots.dist_jitter.to_ne_bytes());
            all.put(SLOT, &bytes);
        }
        all.u64(PRNG_SEED, settings.seed);
        out.put(2, &all.0);
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        out.extend(self.front.drain(..));
        out.extend(std::mem::take(&mut self.delayed).into_values());
        if let Some(child) = &mut self.child {
            child.clear(out);
        }
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for Netem {
    fn classes(&self) -> Vec<u16> {
        self.child.iter().map(|_| 1).collect()
    }
    fn has(&self, _: u16) -> bool {
        true
    }
    fn child(&self, _: u16) -> Option<&Node> {
        self.child.as_ref()
    }
    fn children(&self) -> Vec<&Node> {
        self.child.iter().collect()
    }
    fn children_mut(&mut self) -> Vec<&mut Node> {
        self.child.iter_mut().collect()
    }
    fn graft(&mut self, _: u16, node: Option<Node>, _: &mut Setup<'_>) -> Result<Option<Node>, TcError> {
        Ok(std::mem::replace(&mut self.child, node))
    }
    fn show(&self, _: u16, handle: u32, _: SimTime) -> ClassShown {
        let leaf = self.child.as_ref().map_or(0, Node::handle);
        ClassShown { parent: handle, leaf, ..ClassShown::default() }
    }
    fn has_filters(&self) -> bool {
        false
    }
}
