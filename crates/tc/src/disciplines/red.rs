//! `red`: random early detection (Floyd and Jacobson, 1993; `net/sched/sch_red.c`, `include/net/red.h`, tc-red(8)).

use super::Fifo;
use super::one_class::OneClass;
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::Buffer;
use crate::error::{TcError, error};
use crate::node::{Classful, Context, Discipline, Node, Own, Setup, Verdict};
use belljar_base::{SimTime, Stream};
use belljar_linux_abi::Errno;

const PARMS: u16 = 1;
const STAB: u16 = 2;
const MAX_P: u16 = 3;
const FLAGS: u16 = 4;
/// `TC_RED_*`.
const ECN: u8 = 1;
const HARD_DROP: u8 = 2;
const ADAPTIVE: u8 = 4;
const NO_DROP: u8 = 8;

/// Queue under RED.
#[derive(Debug)]
pub(super) struct Red {
    limit: u32,
    min: u32,
    max: u32,
    wlog: u8,
    plog: u8,
    cell_log: u8,
    flags: u8,
    table: Vec<u8>,
    max_p: u32,
    /// Average of the backlog, shifted by `wlog`.
    average: u64,
    /// Packets since the last random number; `None` below the minimum.
    count: Option<u64>,
    random: u64,
    idle_since: Option<SimTime>,
    early: u32,
    full: u32,
    marked: u32,
    child: Node,
    stream: Stream,
}

impl Red {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Red, TcError> {
        options.ok_or(Errno::EINVAL)?;
        let mut red = Red {
            limit: 0,
            min: 0,
            max: 0,
            wlog: 0,
            plog: 0,
            cell_log: 0,
            flags: 0,
            table: Vec::new(),
            max_p: 0,
            average: 0,
            count: None,
            random: 0,
            idle_since: Some(setup.now),
            early: 0,
            full: 0,
            marked: 0,
            child: Node::hidden(setup.handle | 1, Box::new(Fifo::bytes(0))),
            stream: setup.seed.stream(&["red"]),
        };
        red.change(options, setup)?;
        Ok(red)
    }
    /// `red_calc_qavg`.
    fn update(&mut self, now: SimTime) {
        let Some(since) = self.idle_since.take() else {
            let backlog = u64::from(self.child.own.queue.backlog);
            self.average = (self.average + backlog).saturating_sub(self.average >> self.wlog);
            return;
        };
        let idle = now.since(since).as_micros().min(255u64 << self.cell_log);
        let shift = self.table.get((idle >> self.cell_log) as usize & 0xff).copied().unwrap_or(0);
        if shift != 0 {
            self.average = self.average.checked_shr(u32::from(shift)).unwrap_or(0);
            return;
        }
        let faded = ((u128::from(self.average) * u128::from(idle)) >> self.cell_log) as u64;
        self.average -= if faded < self.average >> 1 { faded } else { self.average - (self.average >> 1) };
    }
    fn draw(&mut self) -> u64 {
        let divisor = (self.max_p / self.max.saturating_sub(self.min).max(1)).max(1);
        u64::from(self.stream.next_u32() / divisor)
    }
    /// Decision about a packet: `None` to pass it, else true for one above the maximum (`red_action`).
    fn decide(&mut self) -> Option<bool> {
        let (min, max) = (u64::from(self.min) << self.wlog, u64::from(self.max) << self.wlog);
        if self.average < min {
            self.count = None;
            return None;
        }
        if self.average >= max {
            self.count = None;
            return Some(true);
        }
        let Some(count) = self.count else {
            self.count = Some(0);
            self.random = self.draw();
            return None;
        };
        self.count = Some(count + 1);
        if ((self.average - min) >> self.wlog) * (count + 1) < self.random {
            return None;
        }
        self.count = Some(0);
        self.random = self.draw();
        Some(false)
    }
}

impl Discipline for Red {
    fn kind(&self) -> &'static str {
        "red"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        self.update(context.now);
        if let Some(above) = self.decide() {
            own.queue.overlimits += 1;
            let marks = self.flags & ECN != 0 && !(above && self.flags & HARD_DROP != 0);
            if marks && buffer.mark_congestion() {
                self.marked += 1;
            } else if !marks || self.flags & NO_DROP == 0 {
                self.early += 1;
                context.drop(buffer);
                return Verdict::Vanished;
            }
        }
        let verdict = self.child.enqueue(buffer, context);
        self.full += u32::from(verdict == Verdict::Dropped);
        verdict
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        let taken = self.child.dequeue(context);
        if taken.is_none() && self.idle_since.is_none() {
            self.idle_since = Some(context.now);
        }
        taken
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let options = options.ok_or(Errno::EINVAL)?;
        let parms = options.array::<16>(PARMS)?.ok_or(Errno::EINVAL)?;
        let table = options.array::<256>(STAB)?.ok_or(Errno::EINVAL)?;
        let (limit, min, max) = (word(&parms, 0), word(&parms, 4), word(&parms, 8));
        let [wlog, plog, cell_log, old_flags] = [12, 13, 14, 15].map(|at| parms[at]);
        let given = options.array::<8>(FLAGS)?.map_or(0, |given| (word(&given, 0) & word(&given, 4)) as u8);
        let flags = old_flags & (ECN | HARD_DROP | ADAPTIVE) | given & NO_DROP;
        let fits = |threshold: u32| 32 - threshold.leading_zeros() + u32::from(wlog) < 32;
        if !fits(min)
            || !fits(max)
            || cell_log >= 32
            || plog > 32
            || max < min
            || table.iter().any(|shift| *shift >= 32)
        {
            return Err(Errno::EINVAL.into());
        }
        if flags & ADAPTIVE != 0 {
            return Err(error(Errno::EOPNOTSUPP, "adaptive RED is not supported"));
        }
        if flags & (NO_DROP | ECN) == NO_DROP {
            return Err(error(Errno::EINVAL, "nodrop mode is only meaningful with ECN"));
        }
        if limit > 0 {
            self.child.clear(setup.purged);
            self.child = Node::hidden(setup.handle | 1, Box::new(Fifo::bytes(limit)));
        }
        let delta = max.saturating_sub(min).max(1);
        let derived =
            (1u64 << (32 - u32::from(plog))).saturating_mul(u64::from(delta)).min(u64::from(u32::MAX));
        self.max_p = options.u32(MAX_P)?.filter(|max_p| *max_p != 0).unwrap_or(derived as u32);
        (self.limit, self.min, self.max) = (limit, min, max);
        (self.wlog, self.plog, self.cell_log, self.flags) = (wlog, plog, cell_log, flags);
        self.table = table.to_vec();
        (self.average, self.count) = (0, None);
        if self.child.len() == 0 {
            self.idle_since = Some(setup.now);
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.nest(2, |out| {
            let mut parms = words([self.limit, self.min, self.max]);
            parms.extend([self.wlog, self.plog, self.cell_log, self.flags & (ECN | HARD_DROP | ADAPTIVE)]);
            out.put(PARMS, &parms);
            out.u32(MAX_P, self.max_p);
            let supported = ECN | HARD_DROP | ADAPTIVE | NO_DROP;
            out.put(FLAGS, &words([u32::from(self.flags), u32::from(supported)]));
        });
    }
    fn statistics(&self, _: &Own, _: SimTime) -> Option<Vec<u8>> {
        Some(words([self.early, self.full, 0, self.marked]))
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        self.child.clear(out);
        (self.average, self.count) = (0, None);
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl OneClass for Red {
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
