//! Scheduler: the threads of a host that can run, which of them runs next and for how long, and the order in
//! which waiters are woken.
//!
//! A host has one processor. The thread that has it keeps it for one *turn*: until it blocks, yields, waits in a
//! loop or has made the calls of its *slice*; then it goes to the end of the run queue. A limit of simulated time
//! or a debugger pauses a turn and does not end it, so where such limits lie makes no difference to the order.
//!
//! Every decision is a choice among candidates that stand in order of arrival, and a [`Strategy`] makes it. The
//! mechanism around it, which threads are candidates at all and what becomes of a turn, is the same for all. The
//! strategy is a type parameter, so its calls are inlined and first in, first out costs nothing.
//!
//! Nothing outside this file sees the run queue. The life of a thread's turn:
//!
//! * [`Scheduler::ready`] when a thread is created, woken, or gives the processor up;
//! * [`Scheduler::start_turn`] and then [`Scheduler::take_call`] before each of its calls;
//! * [`Scheduler::pause_turn`] where time or a debugger comes between, and [`Scheduler::end_turn`] if an event
//!   comes first then;
//! * [`Scheduler::remove`] when a thread ends.

use crate::thread::Thread;
use belljar_base::Footprint;
use belljar_objects::ids::ThreadKey;
use slab::Slab;
use std::collections::VecDeque;

/// Strategy: the choices of a scheduler. Candidates are given by their positions, in order of arrival.
pub trait Strategy {
    /// The thread to run next; `None` only without candidates.
    fn choose_thread(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize>;
    /// The calls that a thread may make in the turn that begins, at least one.
    fn slice(&mut self) -> u32;
    /// The waiter to wake next where not all of them are woken; `None` only without candidates.
    fn choose_waiter(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize>;
    /// Puts waiters that are all woken into the order in which that happens.
    fn order_waiters<T>(&mut self, waiters: &mut [T]);
}

/// First in, first out, with slices of the same length.
#[derive(Debug, Default)]
pub struct FifoStrategy;

impl FifoStrategy {
    /// Calls of a slice.
    pub const SLICE: u32 = 200;
}

impl Strategy for FifoStrategy {
    #[inline]
    fn choose_thread(&mut self, mut candidates: impl Iterator<Item = usize>) -> Option<usize> {
        candidates.next()
    }
    #[inline]
    fn slice(&mut self) -> u32 {
        FifoStrategy::SLICE
    }
    #[inline]
    fn choose_waiter(&mut self, mut candidates: impl Iterator<Item = usize>) -> Option<usize> {
        candidates.next()
    }
    #[inline]
    fn order_waiters<T>(&mut self, _: &mut [T]) {}
}

/// The run queue of a host and the turn of the thread that has its processor.
#[derive(Debug, Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Scheduler<S = FifoStrategy> {
    /// Threads that can run and have no turn, in order of arrival.
    run_queue: VecDeque<ThreadKey>,
    /// The thread whose turn is paused, and the calls that are left of its slice.
    paused: Option<(ThreadKey, u32)>,
    /// Calls and events so far, which are all that a thread waiting in a loop may wait for.
    progress: u64,
    /// Calls that are left of the slice of the thread that runs.
    calls_left: u32,
    strategy: S,
}

impl<S: Strategy> Scheduler<S> {
    /// Appends a thread that can run to the run queue.
    #[inline]
    pub fn ready(&mut self, thread: ThreadKey) {
        self.run_queue.push_back(thread);
    }

    /// Puts threads that were kept from their turn back to the head of the run queue, in their order.
    pub fn ready_first(&mut self, threads: Vec<ThreadKey>) {
        for thread in threads.into_iter().rev() {
            self.run_queue.push_front(thread);
        }
    }

    /// Removes a thread from the run queue, if it is there.
    pub fn remove(&mut self, thread: ThreadKey) {
        self.run_queue.retain(|queued| *queued != thread);
    }

    /// Removes all threads, as in a crash.
    pub fn clear(&mut self) {
        self.run_queue.clear();
        self.paused = None;
    }

    /// Threads in the run queue.
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

    /// Gives the processor to the thread whose turn was paused, or to the next one of the run queue.
    #[inline]
    pub fn start_turn(&mut self, threads: &Slab<Thread>) -> Option<ThreadKey> {
        let (thread, calls) = match self.paused.take() {
            Some(paused) => paused,
            None => (self.take_next(threads)?, self.strategy.slice()),
        };
        self.calls_left = calls;
        Some(thread)
    }

    /// Takes a call from the slice of the thread that runs; false if none is left.
    #[inline]
    pub fn take_call(&mut self) -> bool {
        let is_left = self.calls_left > 0;
        self.calls_left -= u32::from(is_left);
        is_left
    }

    /// Calls that are left of the slice of the thread that runs.
    pub fn calls_left(&self) -> u32 {
        self.calls_left
    }

    /// Accounts for calls that the thread that runs has answered itself.
    pub fn calls_answered(&mut self, calls: u32) {
        self.calls_left = self.calls_left.saturating_sub(calls);
        self.progress += u64::from(calls);
    }

    /// Keeps the rest of a thread's turn for it.
    pub fn pause_turn(&mut self, thread: ThreadKey) {
        self.paused = Some((thread, self.calls_left));
    }

    /// Keeps the rest of a thread's turn for it, and the call that it has taken and not made.
    pub fn pause_turn_before_call(&mut self, thread: ThreadKey) {
        self.paused = Some((thread, self.calls_left + 1));
    }

    /// Ends a paused turn, because an event comes first.
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

    /// Calls and events so far.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// The position of the waiter to wake next among those of `waiters` that `may_be_woken`.
    #[inline]
    pub fn choose_waiter<T>(
        &mut self,
        waiters: &VecDeque<T>,
        may_be_woken: impl Fn(&T) -> bool,
    ) -> Option<usize> {
        let candidates = waiters.iter().enumerate().filter(|(_, waiter)| may_be_woken(waiter));
        self.strategy.choose_waiter(candidates.map(|(at, _)| at))
    }

    /// Puts waiters that are all woken into the order in which that happens.
    #[inline]
    pub fn order_waiters<T>(&mut self, waiters: &mut [T]) {
        self.strategy.order_waiters(waiters);
    }

    /// Tells what is read when the host runs next.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(self);
        footprint.start(self.run_queue.as_slices().0.as_ptr(), 1);
    }

    /// Takes the next thread out of the run queue: one that is due or else, if all wait in loops, one that may
    /// find something new.
    #[inline]
    fn take_next(&mut self, threads: &Slab<Thread>) -> Option<ThreadKey> {
        let Scheduler { run_queue, strategy, progress, .. } = self;
        // The only one that can run is the choice of every strategy.
        if run_queue.len() == 1 && run_queue.front().is_some_and(|key| threads[key.0].spin.is_none()) {
            return run_queue.pop_front();
        }
        let at = strategy
            .choose_thread(due(run_queue, threads, *progress))
            .or_else(|| strategy.choose_thread(with_something_new(run_queue, threads, *progress)))?;
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

/// The positions of threads that do not wait in a loop, or whose loop is due to be looked at.
#[inline]
fn due(queue: &VecDeque<ThreadKey>, threads: &Slab<Thread>, progress: u64) -> impl Iterator<Item = usize> {
    let is_due = move |key: &ThreadKey| threads[key.0].spin.as_ref().is_none_or(|spin| spin.is_due(progress));
    queue.iter().enumerate().filter(move |(_, key)| is_due(key)).map(|(at, _)| at)
}

/// The positions of threads that wait in a loop since before the last call or event.
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
