//! Partition: the units of one worker, their next due times and their incoming messages. Any worker can
//! process a partition; only one does at a time.

use crate::agenda::Agenda;
use crate::pending::PendingUnits;
use crate::plan::Plan;
use crate::unit::Unit;
use crate::{Node, Outgoing};
use belljar_base::SimTime;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment to two cache lines, which CPUs fetch in pairs, to avoid false sharing between workers.
#[repr(align(128))]
#[derive(Default)]
pub struct Apart<T>(pub T);

/// Locks a mutex, ignoring poison: a panic ends the whole run anyway.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages of a worker to a partition at the end of its part of a window.
pub struct Mail<M> {
    pub messages: Vec<Outgoing<M>>,
    /// Units that were run, with their next event times.
    pub looked_at: Vec<(u32, SimTime)>,
    /// Units that have events of requests from outside, with their times.
    pub requested: Vec<(u32, SimTime)>,
}

impl<M> Default for Mail<M> {
    fn default() -> Mail<M> {
        Mail { messages: Vec::new(), looked_at: Vec::new(), requested: Vec::new() }
    }
}

impl<M> Mail<M> {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.looked_at.is_empty() && self.requested.is_empty()
    }
}

/// Mailbox from one worker to one partition.
struct Mailbox<M> {
    full: AtomicBool,
    mail: Mutex<Mail<M>>,
}

/// Partition, see the [module](self).
pub struct Partition<M> {
    inner: Mutex<Inner<M>>,
    boxes: Vec<Apart<Mailbox<M>>>,
    /// True if the window's due units have not been determined.
    pub pending: Apart<AtomicBool>,
    /// Due units of the window; those from `cursor` on are unclaimed.
    due: Vec<AtomicU32>,
    /// `cursor << 32 | end`. A compare-and-swap against the equal state of an earlier window is valid: the
    /// claim holds in the current one.
    claims: Apart<AtomicU64>,
    /// Units that have run in this window without reaching its end.
    pub waiting: PendingUnits,
}

struct Inner<M> {
    agenda: Agenda,
    incoming: Vec<Mail<M>>,
}

/// Result of [`Partition::prepare`].
pub struct Prepared {
    /// Number of due units.
    pub due: usize,
    /// Number of messages delivered.
    pub messages: usize,
    /// Earliest event of the units that are not due.
    pub first: SimTime,
    /// Lower bound on the timestamps of messages that these units send (LBTS).
    pub lbts: SimTime,
}

impl<M: Send> Partition<M> {
    /// Creates a partition of `units` units, one in `workers` of all, with a mailbox for each worker.
    pub fn new(units: usize, workers: usize, classes: usize) -> Partition<M> {
        let boxes = (0..workers)
            .map(|_| Apart(Mailbox { full: AtomicBool::new(false), mail: Mutex::new(Mail::default()) }));
        Partition {
            inner: Mutex::new(Inner {
                agenda: Agenda::new(units, workers, classes),
                incoming: (0..workers).map(|_| Mail::default()).collect(),
            }),
            boxes: boxes.collect(),
            pending: Apart(AtomicBool::new(false)),
            due: (0..units).map(|_| AtomicU32::new(0)).collect(),
            claims: Apart(AtomicU64::new(0)),
            waiting: PendingUnits::default(),
        }
    }

    /// Posts a worker's mail and leaves it an empty one.
    pub fn post(&self, worker: usize, mail: &mut Mail<M>) {
        if mail.is_empty() {
            return;
        }
        let target = &self.boxes[worker].0;
        let mut waiting = lock(&target.mail);
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, mail);
        } else {
            waiting.messages.append(&mut mail.messages);
            waiting.looked_at.append(&mut mail.looked_at);
            waiting.requested.append(&mut mail.requested);
        }
        drop(waiting);
        target.full.store(true, Release);
    }

    /// Delivers the mail and determines the units that are due before their class's limit, for
    /// [`claim`](Self::claim). `published` gets their number before any can be claimed. To be called only by
    /// the worker that has cleared `pending`.
    pub fn prepare<N: Node<Message = M>>(
        &self,
        units: &[Mutex<Unit<N>>],
        plan: &Plan,
        limit: impl Fn(usize) -> SimTime,
        published: impl FnOnce(usize),
    ) -> Prepared {
        let inner = &mut *lock(&self.inner);
        let mut due = 0;
        let mut is_due = |unit: u32| {
            self.due[due].store(unit, Relaxed);
            due += 1;
        };
        let messages = inner.collect(&self.boxes, units, plan, &limit, &mut is_due);
        let mut first = SimTime::MAX;
        let mut lbts = SimTime::MAX;
        for (class, lookahead) in plan.classes().iter().enumerate() {
            let at = inner.agenda.reach(class, limit(class), &mut is_due);
            first = first.min(at);
            lbts = lbts.min(at + *lookahead);
        }
        published(due);
        self.claims.0.store(due as u64, Release);
        Prepared { due, messages, first, lbts }
    }

    /// Delivers the remaining mail after the run.
    pub fn deliver_rest<N: Node<Message = M>>(&self, units: &[Mutex<Unit<N>>], plan: &Plan) {
        for from in &self.boxes {
            for message in lock(&from.0.mail).messages.drain(..) {
                lock(&units[plan.place(message.to).unit as usize]).deliver_now(message);
            }
        }
    }

    /// Claims a due unit, which the caller runs in this window.
    pub fn claim(&self) -> Option<u32> {
        let mut state = self.claims.0.load(Acquire);
        loop {
            let (cursor, end) = (state >> 32, state & 0xffff_ffff);
            if cursor >= end {
                return None;
            }
            match self.claims.0.compare_exchange_weak(state, state + (1 << 32), AcqRel, Acquire) {
                Ok(_) => return Some(self.due[cursor as usize].load(Relaxed)),
                Err(now) => state = now,
            }
        }
    }

    /// Unit that is claimed after `ahead` others, unless another worker claims meanwhile.
    pub fn upcoming(&self, ahead: u64) -> Option<u32> {
        let state = self.claims.0.load(Relaxed);
        let (cursor, end) = ((state >> 32) + ahead, state & 0xffff_ffff);
        (cursor < end).then(|| self.due[cursor as usize].load(Relaxed))
    }
}

impl<M: Send> Inner<M> {
    /// Empties the mailboxes. Run results are recorded before messages, which may be for the same unit.
    fn collect<N: Node<Message = M>>(
        &mut self,
        boxes: &[Apart<Mailbox<M>>],
        units: &[Mutex<Unit<N>>],
        plan: &Plan,
        limit: &impl Fn(usize) -> SimTime,
        is_due: &mut impl FnMut(u32),
    ) -> usize {
        let Inner { agenda, incoming } = self;
        for (from, mail) in boxes.iter().zip(&mut *incoming) {
            if from.0.full.swap(false, Acquire) {
                std::mem::swap(&mut *lock(&from.0.mail), mail);
            }
        }
        for mail in &mut *incoming {
            for (unit, at) in mail.looked_at.drain(..) {
                let class = plan.class_of(unit);
                if agenda.has_run(unit, class, at, limit(class)) {
                    is_due(unit);
                }
            }
        }
        let mut messages = 0;
        for mail in incoming {
            messages += mail.messages.len();
            for (unit, at) in mail.requested.drain(..) {
                let class = plan.class_of(unit);
                if agenda.happens(unit, class, at, limit(class)) {
                    is_due(unit);
                }
            }
            for message in mail.messages.drain(..) {
                let (place, at) = (plan.place(message.to), message.key.time);
                lock(&units[place.unit as usize]).deliver(message);
                let class = usize::from(place.class);
                if agenda.happens(place.unit, class, at, limit(class)) {
                    is_due(place.unit);
                }
            }
        }
        messages
    }
}
