//! Worker: the loop of one thread.

use crate::cost::MEASURED;
use crate::idle::Patience;
use crate::partition::{Mail, Partition, lock};
use crate::pending::{self, Waiting};
use crate::unit::assert_ahead;
use crate::window::{Done, Shared};
use crate::{Node, Outgoing};
use belljar_base::SimTime;
use belljar_base::activity::{Activity, Board, Phase};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::*;
use std::thread;

/// Runs windows until the end of the run, on the calling thread and the threads of the other workers.
pub fn run_all<N: Node>(shared: Shared<'_, N>) -> Done {
    let worker = |me: usize| {
        let run = || Worker::new(&shared, me).run();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            lock(&shared.panic).get_or_insert(panic);
            shared.leave();
        }
    };
    thread::scope(|scope| {
        for me in 1..shared.options.workers {
            let thread = thread::Builder::new().name(format!("worker-{me}"));
            if let Err(error) = thread.spawn_scoped(scope, move || worker(me)) {
                shared.leave();
                panic!("worker thread {me} cannot be started: {error}");
            }
        }
        worker(0);
    });
    if let Some(panic) = lock(&shared.panic).take() {
        resume_unwind(panic);
    }
    shared.into_done()
}

struct Worker<'s, 'a, N: Node> {
    shared: &'s Shared<'a, N>,
    me: usize,
    patience: Patience,
    /// Mail to be posted, by partition.
    outbox: Vec<Mail<N::Message>>,
    /// Messages to other cells.
    away: Vec<(u32, Outgoing<N::Message>)>,
    sent: Vec<Outgoing<N::Message>>,
    /// Results not yet posted: completed parts of the window, the number of messages sent, and their
    /// contribution to the next window.
    parts: usize,
    messages: usize,
    first: SimTime,
    lbts: SimTime,
    /// Number of units run.
    runs: u32,
    /// Back-off for units that wait for another simulator.
    pending: pending::PendingBackoff,
}

impl<'s, 'a, N: Node> Worker<'s, 'a, N> {
    fn new(shared: &'s Shared<'a, N>, me: usize) -> Worker<'s, 'a, N> {
        Worker {
            shared,
            me,
            patience: Patience::new(shared.options.spinning),
            outbox: shared.partitions.iter().map(|_| Mail::default()).collect(),
            away: Vec::new(),
            sent: Vec::new(),
            parts: 0,
            messages: 0,
            first: SimTime::MAX,
            lbts: SimTime::MAX,
            runs: 0,
            pending: pending::PendingBackoff::new(shared.options.sleeping),
        }
    }

    fn run(mut self) {
        if let Some(start) = self.shared.options.on_start {
            start(self.me);
        }
        Board::sit(self.me);
        self.doing(Phase::Engine);
        self.shared.idle.enter(self.me);
        if self.me == 0 {
            self.look_at_all();
        }
        loop {
            let seen = self.shared.idle.version();
            while self.work() {}
            if self.shared.over.load(Acquire) {
                self.doing(Phase::Waiting);
                return;
            }
            if let Some(waiting) = self.waiting() {
                self.run_again(waiting);
                continue;
            }
            self.pending.end();
            if self.parts == 0 {
                self.doing(Phase::Waiting);
                self.shared.idle.wait(self.me, seen, &mut self.patience);
                self.doing(Phase::Engine);
            } else if self.post() {
                self.shared.open(self.me);
            }
        }
    }

    /// Determines when each unit is first due, and opens the first window.
    fn look_at_all(&mut self) {
        for unit in 0..self.shared.units.len() as u32 {
            if self.shared.other_cell(unit).is_some() {
                continue;
            }
            let mut running = lock(&self.shared.units[unit as usize]);
            let (next, finished) = (running.next_event(), running.just_finished());
            drop(running);
            self.looked_at(unit, next, finished);
        }
        self.post();
        self.shared.open(self.me);
    }

    /// Does some of the window's work; false if no unclaimed work is left.
    fn work(&mut self) -> bool {
        let count = self.shared.partitions.len();
        let reach = if self.shared.options.stealing { count } else { 1 };
        for p in (self.me..self.me + reach).map(|p| p % count) {
            let partition = &self.shared.partitions[p];
            if partition.pending.0.load(Relaxed) && partition.pending.0.swap(false, Acquire) {
                self.prepare(p);
                return true;
            }
            let mut found = false;
            while let Some(unit) = partition.claim() {
                self.fetch_ahead(partition);
                self.run_unit(unit);
                found = true;
                if self.shared.over.load(Relaxed) {
                    return false;
                }
            }
            if found {
                return true;
            }
        }
        false
    }

    fn prepare(&mut self, p: usize) {
        let shared = self.shared;
        let started = self.meter();
        let prepared = shared.partitions[p].prepare(
            shared.units,
            shared.plan,
            |class| shared.limit(class),
            |due| shared.add_work(due),
        );
        if let (Some(recorder), Some(started), Some(now)) = (&shared.recorder, started, self.meter()) {
            recorder.prepared(now - started, prepared.messages);
        }
        self.parts += 1;
        self.first = self.first.min(prepared.first);
        self.lbts = self.lbts.min(prepared.lbts);
        if prepared.due > 1 {
            shared.tell_of_due(prepared.due, prepared.messages);
        }
    }

    /// Prefetches the memory of the units that run next.
    fn fetch_ahead(&self, partition: &Partition<N::Message>) {
        let Some(footprints) = &self.shared.footprints else { return };
        if let Some(unit) = partition.upcoming(1) {
            footprints.comes_then(unit, self.runs);
        }
        if let Some(unit) = partition.upcoming(0) {
            footprints.is_next(unit, self.runs);
        }
    }

    /// True if this worker runs pending units.
    fn waits(&self) -> bool {
        let waiters = self.shared.options.waiters;
        waiters == 0 || self.me < waiters
    }

    /// Takes a pending unit.
    fn waiting(&self) -> Option<Waiting> {
        let count = self.shared.partitions.len();
        if !self.waits() {
            return None;
        }
        let reach = if self.shared.options.stealing || self.shared.options.waiters > 0 { count } else { 1 };
        (self.me..self.me + reach).find_map(|p| self.shared.partitions[p % count].waiting.take())
    }

    /// Runs a pending unit again. After a long time without progress, or of slow progress, the window is
    /// closed without it, so that the observer is asked and the cells synchronize.
    fn run_again(&mut self, (unit, before): Waiting) {
        let Err(next) = self.run_once(unit) else { return self.pending.renew() };
        let moves = next > before;
        if moves {
            self.pending.renew();
        }
        if self.pending.is_long() || !moves && !self.pending.wait() {
            let finished = lock(&self.shared.units[unit as usize]).just_finished();
            self.done_with(unit, next, finished);
        } else if self.leave((unit, next)) > 1 && moves && self.shared.options.stealing {
            self.shared.idle.announce(1);
        }
    }

    /// Queues a pending unit for any worker; returns the new number of pending units. The messages that it
    /// has sent are posted first: the worker that completes the unit may close the window at once.
    fn leave(&mut self, waiting: Waiting) -> usize {
        let closed = self.post();
        debug_assert!(!closed, "a window closed before its pending unit was complete");
        self.shared.partitions[self.shared.partition_of(waiting.0)].waiting.leave(waiting)
    }

    fn run_unit(&mut self, unit: u32) {
        let clock = self.shared.options.clock.filter(|_| self.runs.is_multiple_of(MEASURED));
        let timed = clock.map(|clock| (clock, clock()));
        let done = self.run_once(unit);
        if let Some((clock, started)) = timed {
            self.shared.cost.0.learn(clock().saturating_sub(started));
        }
        if let Err(next) = done {
            self.leave((unit, next));
            if !self.waits() {
                self.shared.idle.announce(usize::MAX);
            }
        }
    }

    /// Records that a unit is complete in this window.
    fn done_with(&mut self, unit: u32, next: SimTime, finished: Option<SimTime>) {
        self.parts += 1;
        self.looked_at(unit, next, finished);
    }

    /// Runs a unit. `Ok` if it has completed the window, `Err` with its next event if it is pending.
    fn run_once(&mut self, unit: u32) -> Result<(), SimTime> {
        let shared = self.shared;
        self.runs = self.runs.wrapping_add(1);
        let started = self.meter();
        let mut running = lock(&shared.units[unit as usize]);
        let limit = shared.limit(shared.plan.class_of(unit));
        running.run_until(limit, &mut self.sent);
        let next = running.next_event();
        let finished = if next < limit { None } else { running.just_finished() };
        let waited_for = if next < limit { running.first() } else { None };
        if let Some(footprints) = &shared.footprints {
            footprints.has_run(unit, self.runs, &shared.units[unit as usize], &running);
        }
        drop(running);
        match waited_for.zip(shared.options.watched) {
            Some((node, board)) => board.doing(Activity::of(Phase::Waiting, node.0)),
            None => self.doing(Phase::Engine),
        }
        if let (Some(recorder), Some(started), Some(now)) = (&shared.recorder, started, self.meter()) {
            recorder.ran(now - started);
        }
        self.messages += self.sent.len();
        for message in self.sent.drain(..) {
            let place = shared.plan.place(message.to);
            assert_ahead(&message, shared.limit(usize::from(place.class)));
            let at = message.key.time;
            self.first = self.first.min(at);
            self.lbts = self.lbts.min(shared.plan.lbts(place.unit, at));
            match shared.other_cell(place.unit) {
                Some(cell) => self.away.push((cell, message)),
                None => self.outbox[shared.partition_of(place.unit)].messages.push(message),
            }
        }
        if !self.away.is_empty() {
            shared.send_away(&mut self.away);
        }
        if next < limit {
            return Err(next);
        }
        self.done_with(unit, next, finished);
        Ok(())
    }

    fn looked_at(&mut self, unit: u32, next: SimTime, finished: Option<SimTime>) {
        self.first = self.first.min(next);
        self.lbts = self.lbts.min(self.shared.plan.lbts(unit, next));
        self.outbox[self.shared.partition_of(unit)].looked_at.push((unit, next));
        if let Some(at) = finished {
            self.shared.finished(at);
        }
    }

    /// Posts the completed work; true if that closes the window.
    fn post(&mut self) -> bool {
        for (partition, mail) in self.shared.partitions.iter().zip(&mut self.outbox) {
            partition.post(self.me, mail);
        }
        self.shared.first.0.lower(std::mem::replace(&mut self.first, SimTime::MAX));
        self.shared.lbts.0.lower(std::mem::replace(&mut self.lbts, SimTime::MAX));
        let (parts, messages) = (std::mem::take(&mut self.parts), std::mem::take(&mut self.messages));
        parts > 0 && self.shared.work_done(parts, messages)
    }

    fn doing(&self, phase: Phase) {
        if let Some(board) = self.shared.options.watched {
            board.doing(Activity::of_all(phase));
        }
    }
    /// Clock reading at the start or end of a profiled run.
    fn meter(&self) -> Option<u64> {
        self.shared.recorder.as_ref().and(self.shared.options.clock).map(|clock| clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;
    use crate::{Plan, Verdict};
    use belljar_base::{EventClass, EventKey, HostId, SimDuration};
    use std::sync::Mutex;

    const FAR: SimDuration = SimDuration::from_micros(10);

    /// Node 1 sends a message to node 0 in its first run, which its external clock ends; node 0 counts.
    #[derive(Default)]
    struct Half {
        runs: u32,
        received: u32,
        next: Option<SimTime>,
        sends: bool,
    }

    impl Node for Half {
        type Message = ();

        fn deliver(&mut self, key: EventKey, (): ()) {
            self.next = Some(key.time);
        }
        fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<()>>) {
            self.runs += 1;
            match self.next {
                Some(at) if at >= limit => {}
                Some(at) if self.sends && self.runs == 1 => {
                    let key = EventKey {
                        time: at + FAR,
                        class: EventClass::Arrival,
                        source: HostId(1),
                        sequence: 1,
                    };
                    out.push(Outgoing { to: HostId(0), key, message: () });
                    self.next = Some(at + SimDuration::from_picos(1));
                }
                Some(_) => {
                    self.received += u32::from(!self.sends);
                    self.next = None;
                }
                None => {}
            }
        }
        fn next_event(&self) -> Option<SimTime> {
            self.next
        }
        fn finished_at(&self) -> Option<SimTime> {
            None
        }
    }

    #[test]
    fn messages_of_a_unit_that_another_worker_completes_arrive() {
        let plan = Plan::uniform(2, FAR);
        let sender = Half { next: Some(SimTime::ZERO), sends: true, ..Half::default() };
        let unit = |id, node| Mutex::new(Unit::new(vec![(HostId(id), node)], FAR));
        let mut units = [unit(0, Half::default()), unit(1, sender)];
        let options = crate::Options { workers: 2, stealing: true, ..Default::default() };
        let stop = SimTime::from_secs(1);
        let shared = Shared::new(&mut units, &plan, None, stop, &options, &|_| Verdict::Continue);
        let (mut first, mut second) = (Worker::new(&shared, 0), Worker::new(&shared, 1));
        first.look_at_all();
        // The first worker prepares both partitions, the second one runs the sender, which becomes pending.
        assert!(first.work() && first.work() && second.work());
        let waiting = first.waiting().expect("the sender is pending");
        assert!(second.parts == 0 && second.waiting().is_none());
        first.run_again(waiting);
        assert!(first.post(), "the window is closed without the second worker");
        shared.open(0);
        while !shared.over.load(Acquire) {
            while first.work() {}
            if first.post() {
                shared.open(0);
            }
        }
        assert_eq!(shared.into_done().committed, stop);
        let [receiver, _] = units.map(|unit| unit.into_inner().unwrap());
        let (_, receiver) = receiver.into_members().next().unwrap();
        assert_eq!(receiver.received, 1);
    }
}
