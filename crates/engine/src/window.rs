//! Windows: opening and closing.
//!
//! A window is closed by the worker that completes the last of its work rather than by a barrier of all
//! workers, so a worker that sleeps or is not scheduled delays no other once its work has been taken over.
//! `outstanding` counts the work of a window: its partitions, until their due units are determined, and these
//! units, until they have run and their messages are posted.

use crate::cells::{Cell, CellStatus};
use crate::cost::Cost;
use crate::footprints::Footprints;
use crate::idle::Idle;
use crate::partition::{Apart, Mail, Partition, lock};
use crate::plan::Plan;
use crate::profile::{Profile, Recorder};
use crate::unit::Unit;
use crate::{Ending, LINGER, Node, Options, Outgoing, Verdict};
use belljar_base::{SimDuration, SimTime};
use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};

/// Amount of work, in units and messages, from which other workers are notified, and for each multiple of
/// which one more is woken. A wake-up takes about 50 us.
const WORTH_TELLING: usize = 8;
const WORTH_WAKING: usize = 64;
/// Thresholds of notification and of each further wake-up, as the estimated duration of the due units in
/// nanoseconds.
const DUE_WORTH_TELLING: u64 = 8_000;
const DUE_WORTH_WAKING: u64 = 64_000;

/// Minimum of times, updated by several workers.
pub struct Earliest(AtomicU64);

impl Earliest {
    pub fn lower(&self, at: SimTime) {
        if at.as_picos() < self.0.load(Relaxed) {
            self.0.fetch_min(at.as_picos(), Relaxed);
        }
    }
    fn take(&self) -> SimTime {
        SimTime::from_picos(self.0.swap(u64::MAX, Relaxed))
    }
    fn never() -> Earliest {
        Earliest(AtomicU64::new(u64::MAX))
    }
}

/// Result of a run.
pub struct Done {
    pub ending: Ending,
    pub committed: SimTime,
    pub profile: Option<Profile>,
}

/// State shared by the workers of a run.
pub struct Shared<'a, N: Node> {
    pub units: &'a [Mutex<Unit<N>>],
    pub plan: &'a Plan,
    pub partitions: Vec<Partition<N::Message>>,
    pub options: Options<'a>,
    pub idle: Idle,
    /// For the next window: the earliest event, and the lower bound on the timestamps of future messages
    /// (LBTS).
    pub first: Apart<Earliest>,
    pub lbts: Apart<Earliest>,
    /// Limits of the window by lookahead class.
    limits: Apart<Vec<AtomicU64>>,
    outstanding: Apart<AtomicUsize>,
    /// Units run and messages sent in this window.
    work: Apart<AtomicUsize>,
    /// Cost of running a unit.
    pub cost: Apart<Cost>,
    unfinished: AtomicUsize,
    last_finish: AtomicU64,
    pub over: AtomicBool,
    done: Mutex<(Ending, SimTime)>,
    pub panic: Mutex<Option<Box<dyn Any + Send>>>,
    pub recorder: Option<Recorder>,
    pub footprints: Option<Footprints>,
    cell: Option<Cell<'a, N::Message>>,
    /// Time up to which the observer was last asked.
    observed: AtomicU64,
    stop: SimTime,
    observe: &'a (dyn Fn(SimTime) -> Verdict + Sync),
}

impl<'a, N: Node> Shared<'a, N> {
    pub fn new(
        units: &'a mut [Mutex<Unit<N>>],
        plan: &'a Plan,
        cell: Option<Cell<'a, N::Message>>,
        stop: SimTime,
        options: &Options<'a>,
        observe: &'a (dyn Fn(SimTime) -> Verdict + Sync),
    ) -> Shared<'a, N> {
        let workers = options.workers.max(1);
        let share = |n: usize| units.len() / workers + usize::from(n < units.len() % workers);
        let classes = plan.classes().len();
        let partitions = (0..workers).map(|n| Partition::new(share(n), workers, classes)).collect();
        let here = match &cell {
            Some(cell) => cell.of_group.iter().filter(|of| **of == cell.me).count(),
            None => units.len(),
        };
        Shared {
            unfinished: AtomicUsize::new(here),
            units,
            plan,
            partitions,
            options: Options { workers, ..*options },
            idle: Idle::new(workers),
            first: Apart(Earliest::never()),
            lbts: Apart(Earliest::never()),
            limits: Apart((0..classes).map(|_| AtomicU64::new(0)).collect()),
            outstanding: Apart(AtomicUsize::new(0)),
            work: Apart(AtomicUsize::new(0)),
            cost: Apart(Cost::new()),
            last_finish: AtomicU64::new(0),
            over: AtomicBool::new(false),
            done: Mutex::new((Ending::Stopped, SimTime::ZERO)),
            panic: Mutex::new(None),
            footprints: options.fetch.and_then(|fetch| Footprints::new(units.len(), here, workers, fetch)),
            recorder: options.profiled.then(Recorder::default),
            cell,
            observed: AtomicU64::new(0),
            stop,
            observe,
        }
    }

    /// Partition of a unit. Units with successive numbers are often similar, so they are distributed
    /// round-robin.
    pub fn partition_of(&self, unit: u32) -> usize {
        unit as usize % self.partitions.len()
    }

    /// Cell of a unit, if it is not this one.
    pub fn other_cell(&self, unit: u32) -> Option<u32> {
        let cell = self.cell.as_ref()?;
        Some(cell.of_group[unit as usize]).filter(|of| *of != cell.me)
    }

    /// Time that no unit has run beyond.
    fn reached(&self) -> SimTime {
        (0..self.limits.0.len()).map(|class| self.limit(class)).max().unwrap_or(SimTime::ZERO)
    }

    /// Limit of a class's units in this window.
    pub fn limit(&self, class: usize) -> SimTime {
        SimTime::from_picos(self.limits.0[class].load(Relaxed))
    }

    /// Records that a unit has finished.
    pub fn finished(&self, at: SimTime) {
        self.last_finish.fetch_max(at.as_picos(), Relaxed);
        self.unfinished.fetch_sub(1, Relaxed);
    }

    /// Adds work to this window.
    pub fn add_work(&self, units: usize) {
        self.outstanding.0.fetch_add(units, Relaxed);
    }

    /// Records work that a worker has completed and posted, which sent `sent` messages. True if it was the
    /// last: the window is closed, and the caller opens the next.
    pub fn work_done(&self, parts: usize, sent: usize) -> bool {
        self.work.0.fetch_add(parts + sent, Relaxed);
        self.outstanding.0.fetch_sub(parts, AcqRel) == parts
    }

    /// State of the closed window in this cell.
    fn status(&self) -> CellStatus {
        CellStatus {
            first: self.first.0.take(),
            lbts: self.lbts.0.take(),
            unfinished: self.unfinished.load(Relaxed) as u64,
            last_finish: SimTime::from_picos(self.last_finish.load(Relaxed)),
            stop: false,
        }
    }

    /// Asks the observer, and lets nodes serve requests from outside, which may add events to `state`. Returns
    /// the latest end of the next window, or `None` to stop the run.
    fn ask_observer(&self, me: usize, state: &mut CellStatus) -> Option<SimTime> {
        loop {
            match (self.observe)(state.first) {
                Verdict::Continue => return Some(SimTime::MAX),
                // Otherwise this and all further windows would be empty.
                Verdict::Until(at) => return Some(at.max(state.first + SimDuration::from_picos(1))),
                Verdict::Attend => self.attend(me, state),
                Verdict::Stop => return None,
            }
        }
    }

    /// Lets all units serve requests from outside the simulation, as worker `me`. All work of the last window is
    /// complete: no unit is locked.
    fn attend(&self, me: usize, state: &mut CellStatus) {
        let since = self.reached();
        for (number, unit) in (0..).zip(self.units) {
            let mut unit = lock(unit);
            let before = unit.next_event();
            unit.attend(since);
            let next = unit.next_event();
            if next < before {
                let lookahead = self.plan.classes()[self.plan.class_of(number)];
                state.first = state.first.min(next);
                state.lbts = state.lbts.min(next + lookahead);
                let mut mail = Mail { requested: vec![(number, next)], ..Mail::default() };
                self.partitions[self.partition_of(number)].post(me, &mut mail);
            }
        }
    }

    /// Sends messages to other cells.
    pub fn send_away(&self, away: &mut Vec<(u32, Outgoing<N::Message>)>) {
        if let Some(cell) = &self.cell {
            cell.exchange.send(away);
        }
    }

    /// Synchronizes with the other cells and posts their messages as worker `me`. `None` if a peer has
    /// exited.
    fn synchronize(&self, me: usize, cell: &Cell<'_, N::Message>, mine: CellStatus) -> Option<CellStatus> {
        let observed = SimTime::from_picos(self.observed.load(Relaxed));
        let mut seen = CellStatus { first: observed, ..mine };
        let mine = CellStatus { stop: self.ask_observer(me, &mut seen).is_none(), ..mine };
        let mut received = Vec::new();
        let all = cell.exchange.synchronize(mine, &mut received).ok()?;
        let mut mail: Vec<Mail<N::Message>> = self.partitions.iter().map(|_| Mail::default()).collect();
        for message in received {
            mail[self.partition_of(self.plan.place(message.to).unit)].messages.push(message);
        }
        for (partition, mut mail) in self.partitions.iter().zip(mail) {
            partition.post(me, &mut mail);
        }
        self.observed.store(all.first.as_picos(), Relaxed);
        Some(all)
    }

    /// Opens the next window, or ends the run. Called only between windows, by worker `me`.
    pub fn open(&self, me: usize) {
        let mut all = self.status();
        if let Some(cell) = &self.cell {
            match self.synchronize(me, cell, all) {
                Some(met) => all = met,
                None => return self.end(Ending::Stopped, SimTime::from_picos(self.observed.load(Relaxed))),
            }
        }
        let (end, ending) = match all.unfinished {
            0 => (self.stop.min(all.last_finish + LINGER), Ending::AllFinished),
            _ => (self.stop, Ending::StopTime),
        };
        if all.first >= end {
            return self.end(ending, end);
        }
        let until = match self.cell {
            Some(_) => (!all.stop).then_some(SimTime::MAX),
            None => self.ask_observer(me, &mut all),
        };
        let CellStatus { first, lbts, .. } = all;
        let Some(until) = until else { return self.end(Ending::Stopped, first.min(self.reached())) };
        let end = end.min(first + LINGER).min(until);
        for (limit, lookahead) in self.limits.0.iter().zip(self.plan.classes()) {
            limit.store(lbts.max(first + *lookahead).min(end).as_picos(), Relaxed);
        }
        let expected = self.work.0.swap(0, Relaxed);
        if let Some(recorder) = &self.recorder {
            recorder.window_closed();
        }
        self.outstanding.0.store(self.partitions.len(), Relaxed);
        for partition in &self.partitions {
            partition.pending.0.store(true, Release);
        }
        self.tell(expected);
    }

    /// Notifies other workers of due units, if those that the caller leaves to them are worth it.
    pub fn tell_of_due(&self, due: usize, messages: usize) {
        let cost = self.cost.0.of(due.saturating_sub(1));
        if self.options.workers == 1 || !self.options.stealing || cost < DUE_WORTH_TELLING {
            return self.tell(due + messages);
        }
        self.idle.announce((cost / DUE_WORTH_WAKING) as usize);
    }

    /// Notifies other workers of work, if it is worth it.
    fn tell(&self, work: usize) {
        if self.options.workers == 1 {
            return;
        }
        if !self.options.stealing {
            self.idle.announce(usize::MAX);
        } else if work >= WORTH_TELLING {
            self.idle.announce(work / WORTH_WAKING);
        }
    }

    fn end(&self, ending: Ending, committed: SimTime) {
        *lock(&self.done) = (ending, committed);
        self.leave();
    }

    /// Makes all workers return.
    pub fn leave(&self) {
        self.over.store(true, Release);
        self.idle.announce(usize::MAX);
    }

    /// Result of the run. Messages that arrive after its end have been delivered to their nodes, which can
    /// count them.
    pub fn into_done(self) -> Done {
        self.partitions.iter().for_each(|partition| partition.deliver_rest(self.units, self.plan));
        let (ending, committed) = *lock(&self.done);
        Done { ending, committed, profile: self.recorder.map(Recorder::into_profile) }
    }
}
