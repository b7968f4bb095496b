//! Scheduler of a host: the runnable threads, the choice of the next one, its time slice, and the order in
//! which waiters are woken.
//!
//! A host has one processor. A thread runs for one *turn*: until it blocks, yields, waits in a busy loop or
//! has made the system calls of its *slice*; then it goes to the tail of the run queue. A limit of simulated
//! time or a debugger pauses a turn without ending it, so such limits do not affect the order.
//!
//! Every decision is a choice among candidates in order of arrival, made by a [`Strategy`]. The mechanism
//! around it (the set of candidates, the course of a turn) is common to all strategies.
//!
//! The run queue is private to this file. The calls for a thread's turn:
//!
//! * [`Scheduler::ready`] when a thread is created, woken, or gives up the processor;
//! * [`Scheduler::start_turn`] and then [`Scheduler::take_call`] before each of its calls;
//! * [`Scheduler::pause_turn`] at a time limit or for a debugger, and [`Scheduler::end_turn`] if an event
//!   comes first then;
//! * [`Scheduler::remove`] when a thread ends.

use crate::priorities::PriorityStrategy;
use crate::spin::Computing;
use crate::strategy::{HostStrategy, Strategy};
use crate::thread::Thread;
use belljar_base::Footprint;
use belljar_objects::ids::ThreadKey;
use slab::Slab;
use std::collections::VecDeque;

/// Run queue of a host and the state of the current turn.
#[derive(Debug, Default)]
#[repr(C)] // Frequently read fields first: see `belljar_base::Footprint`.
pub struct Scheduler<S = HostStrategy> {
    /// Runnable threads without a turn, in order of arrival.
    run_queue: VecDeque<ThreadKey>,
    /// Thread whose turn is paused, and the calls left in its slice.
    paused: Option<(ThreadKey, u32)>,
    /// Number of calls and events so far; a thread in a busy loop can only wait for one of these.
    progress: u64,
    /// Calls left in the slice of the running thread.
    calls_left: u32,
    /// True if threads may be preempted within their own code.
    preempts: bool,
    /// True if a thread whose turn has come may have to wait: see [`suspension`](crate::suspension).
    pub selects: bool,
    strategy: S,
    /// Computation without calls.
    pub computing: Computing,
}

impl<S: Strategy> Scheduler<S> {
    /// Creates a scheduler with a strategy.
    pub fn new(strategy: S) -> Scheduler<S> {
        Scheduler {
            run_queue: VecDeque::new(),
            paused: None,
            progress: 0,
            calls_left: 0,
            preempts: false,
            selects: false,
            strategy,
            computing: Computing::default(),
        }
    }

    /// Appends a runnable thread to the run queue.
    #[inline]
    pub fn ready(&mut self, thread: ThreadKey) {
        self.run_queue.push_back(thread);
    }

    /// Returns threads that were skipped to the head of the run queue, in their order.
    pub fn ready_first(&mut self, threads: Vec<ThreadKey>) {
        for thread in threads.into_iter().rev() {
            self.run_queue.push_front(thread);
        }
    }

    /// Removes a thread from the run queue, if it is there.
    pub fn remove(&mut self, thread: ThreadKey) {
        self.run_queue.retain(|queued| *queued != thread);
    }

    /// Removes all threads, for a crash of the host.
    pub fn clear(&mut self) {
        self.run_queue.clear();
        self.paused = None;
    }

    /// Number of threads in the run queue.
    pub fn ready_count(&self) -> usize {
        self.run_queue.len()
    }

    /// True if a thread can run now.
    #[inline]
    pub fn is_runnable(&self, threads: &Slab<Thread>) -> bool {
        let Some(first) = self.run_queue.front() else { return self.paused.is_some() };
        self.paused.is_some()
            || threads[first.0].spin.is_none()
            || self.due(threads).next().is_some()
            || self.with_something_new(threads).next().is_some()
    }

    /// Starts the paused turn, or that of the next thread in the run queue.
    #[inline]
    pub fn start_turn(&mut self, threads: &Slab<Thread>) -> Option<ThreadKey> {
        let (thread, calls) = match self.paused.take() {
            Some(paused) => paused,
            None => (self.take_next(threads)?, self.strategy.slice()),
        };
        self.calls_left = calls;
        Some(thread)
    }

    /// Takes a call from the running thread's slice; false if none is left.
    #[inline]
    pub fn take_call(&mut self) -> bool {
        let is_left = self.calls_left > 0;
        self.calls_left -= u32::from(is_left);
        is_left
    }

    /// Calls left in the slice of the running thread.
    pub fn calls_left(&self) -> u32 {
        self.calls_left
    }

    /// Accounts for calls that the running thread has answered without the kernel.
    pub fn calls_answered(&mut self, calls: u32) {
        self.calls_left = self.calls_left.saturating_sub(calls);
        self.progress += u64::from(calls);
    }

    /// Pauses the turn of a thread.
    pub fn pause_turn(&mut self, thread: ThreadKey) {
        self.paused = Some((thread, self.calls_left));
    }

    /// Pauses the turn of a thread and returns to its slice the call that was taken and not made.
    pub fn pause_turn_before_call(&mut self, thread: ThreadKey) {
        self.paused = Some((thread, self.calls_left + 1));
    }

    /// Ends the paused turn because an event comes first.
    pub fn end_turn(&mut self) {
        if let Some((thread, _)) = self.paused.take() {
            self.ready(thread);
        }
    }

    /// Counts a call or an event.
    #[inline]
    pub fn made_progress(&mut self) {
        self.progress += 1;
    }

    /// Number of calls and events so far.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Index of the waiter to wake next among those that satisfy `may_be_woken`.
    #[inline]
    pub fn choose_waiter<T>(
        &mut self,
        waiters: &VecDeque<T>,
        may_be_woken: impl Fn(&T) -> bool,
    ) -> Option<usize> {
        let candidates = waiters.iter().enumerate().filter(|(_, waiter)| may_be_woken(waiter));
        self.strategy.choose_waiter(candidates.map(|(at, _)| at))
    }

    /// Orders waiters that are woken together.
    #[inline]
    pub fn order_waiters<T>(&mut self, waiters: &mut [T]) {
        self.strategy.order_waiters(waiters);
    }

    /// Reports the memory read when the host next runs.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(self);
        footprint.start(self.run_queue.as_slices().0.as_ptr(), 1);
    }

    /// Removes the next thread from the run queue: one that is due or, if all wait in busy loops, one whose
    /// condition may have changed.
    #[inline]
    fn take_next(&mut self, threads: &Slab<Thread>) -> Option<ThreadKey> {
        let Scheduler { run_queue, strategy, progress, .. } = self;
        // A single candidate is the choice of every strategy.
        if run_queue.len() == 1 && run_queue.front().is_some_and(|key| threads[key.0].spin.is_none()) {
            return run_queue.pop_front();
        }
        let at =
            strategy.choose_thread(due(run_queue, threads, *progress), |at| run_queue[at]).or_else(|| {
                let new = with_something_new(run_queue, threads, *progress);
                strategy.choose_thread(new, |at| run_queue[at])
            })?;
        match at {
            0 => run_queue.pop_front(),
            at => run_queue.remove(at),
        }
    }

    fn due(&self, threads: &Slab<Thread>) -> impl Iterator<Item = usize> {
        due(&self.run_queue, threads, self.progress)
    }

    fn with_something_new(&self, threads: &Slab<Thread>) -> impl Iterator<Item = usize> {
        with_something_new(&self.run_queue, threads, self.progress)
    }
}

/// Preemption within a thread's own code, by drawn priorities.
impl Scheduler<HostStrategy> {
    /// Creates the scheduler of a host.
    pub fn of_host(mut strategy: HostStrategy) -> Scheduler<HostStrategy> {
        let preempts = strategy.priorities().is_some_and(|priorities| priorities.has_points());
        Scheduler { preempts, ..Scheduler::new(strategy) }
    }

    /// True if a thread may be preempted within its own code from now on: [`begin_run`](Self::begin_run) says where.
    #[inline]
    pub fn preempts(&self) -> bool {
        self.preempts
    }

    /// Begins or continues the run of a thread, up to its next call; gives the number of instructions after which it is
    /// preempted, if it is. Runs while no other thread is ready do not count.
    pub fn begin_run(&mut self, thread: ThreadKey) -> Option<u32> {
        let is_alone = self.run_queue.is_empty();
        let priorities = self.strategy.priorities()?;
        match is_alone {
            true => priorities.skip_run(thread),
            false => return priorities.begin_run(thread),
        }
        None
    }

    /// Preempts the running thread at the point that [`begin_run`](Self::begin_run) gave.
    pub fn preempt(&mut self, thread: ThreadKey) {
        // Others may wait in a loop for what it has written.
        self.progress += 1;
        self.with_priorities(|priorities| priorities.preempt(thread));
    }

    /// Ends a run of the running thread before its point.
    pub fn end_run(&mut self, thread: ThreadKey) {
        self.with_priorities(|priorities| priorities.end_run(thread));
    }

    /// Removes the priority of a thread that has ended.
    pub fn forget(&mut self, thread: ThreadKey) {
        self.with_priorities(|priorities| priorities.forget(thread));
    }

    fn with_priorities(&mut self, change: impl FnOnce(&mut PriorityStrategy)) {
        if let Some(priorities) = self.strategy.priorities() {
            change(priorities);
            self.preempts = priorities.has_points();
        }
    }
}

/// Indices of the threads that are not in a busy loop or whose loop is due for a check.
#[inline]
fn due(queue: &VecDeque<ThreadKey>, threads: &Slab<Thread>, progress: u64) -> impl Iterator<Item = usize> {
    let is_due = move |key: &ThreadKey| {
        let thread = &threads[key.0];
        // A signal, or a tracer, may end the loop or the wait for an alarm.
        thread.spin.as_ref().is_none_or(|spin| spin.is_due(progress)) || thread.signals.attention
    };
    queue.iter().enumerate().filter(move |(_, key)| is_due(key)).map(|(at, _)| at)
}

/// Indices of the threads whose busy loop was checked before the last call or event.
fn with_something_new(
    queue: &VecDeque<ThreadKey>,
    threads: &Slab<Thread>,
    progress: u64,
) -> impl Iterator<Item = usize> {
    let may_find = move |key: &ThreadKey| {
        threads[key.0].spin.as_ref().is_some_and(|spin| spin.may_find_something_new(progress))
    };
    queue.iter().enumerate().filter(move |(_, key)| may_find(key)).map(|(at, _)| at)
}
