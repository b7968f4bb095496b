//! Futexes: the table of those who sleep on words of memory, `futex(2)`.
//!
//! A word of private memory is named by address space and address, a word of a shared mapping by
//! what is mapped, so that processes meet that map it at different addresses. Waiters are woken
//! first in, first out, unless the scheduler's strategy has another order.

use crate::outcome::CallState;
use crate::scheduler::Scheduler;
use belljar_base::{Map, SimTime};
use belljar_objects::ids::{MmKey, ThreadKey};
use std::collections::VecDeque;

/// The identity of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FutexKey {
    /// A word of an address space.
    Private(MmKey, u64),
    /// A word of a shared object: device, inode and offset.
    Shared(u64, u64, u64),
}

/// A sleeper on a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// A thread.
    Thread(ThreadKey),
    /// A request of an io_uring instance.
    Request {
        /// The instance.
        instance: usize,
        /// The request within it.
        request: usize,
    },
}

/// One who sleeps on a futex.
#[derive(Clone, Copy, Debug)]
pub struct FutexWaiter {
    /// Who.
    pub sleeper: Sleeper,
    bitset: u32,
}

/// The table of all futexes of a host.
#[derive(Debug, Default)]
pub struct FutexTable {
    waiters: Map<FutexKey, VecDeque<FutexWaiter>>,
}

/// A futex wait under way.
#[derive(Clone, Copy, Debug)]
pub struct FutexWait {
    /// The futex; a requeue changes it.
    pub key: FutexKey,
    /// True if a wake has ended the wait (and taken the waiter out of the table).
    pub woken: bool,
    /// When the wait ends at the latest.
    pub deadline: Option<SimTime>,
}

/// A wait for one of several futexes under way.
#[derive(Clone, Debug)]
pub struct FutexVector {
    /// The futexes; a requeue changes them.
    pub keys: Vec<FutexKey>,
    /// The one of them that was woken.
    pub woken: Option<usize>,
    /// When the wait ends at the latest.
    pub deadline: Option<SimTime>,
}

impl FutexTable {
    /// Puts somebody in line who has stood in another one.
    pub fn push(&mut self, key: FutexKey, waiter: FutexWaiter) {
        self.waiters.entry(key).or_default().push_back(waiter);
    }
    /// Removes the waiter to wake next of those that `bitset` meets.
    pub fn pop(&mut self, key: FutexKey, bitset: u32, scheduler: &mut Scheduler) -> Option<FutexWaiter> {
        let queue = self.waiters.get_mut(&key)?;
        let at = scheduler.choose_waiter(queue, |waiter| waiter.bitset & bitset != 0)?;
        let waiter = queue.remove(at);
        if queue.is_empty() {
            self.waiters.remove(&key);
        }
        waiter
    }
    /// Puts somebody in line.
    pub fn enter(&mut self, key: FutexKey, sleeper: Sleeper, bitset: u32) {
        self.push(key, FutexWaiter { sleeper, bitset });
    }
    /// Takes somebody whose wait `state` tells of out of the lines in which no wake has found him.
    #[inline]
    pub fn leave(&mut self, sleeper: Sleeper, state: &CallState) {
        match state {
            CallState::Futex(FutexWait { key, woken: false, .. }) => self.remove(*key, sleeper),
            // A wake takes it out of one line; it leaves all others too.
            CallState::FutexVector(wait) => wait.keys.iter().for_each(|key| self.remove(*key, sleeper)),
            _ => {}
        }
    }
    fn remove(&mut self, key: FutexKey, sleeper: Sleeper) {
        if let Some(queue) = self.waiters.get_mut(&key) {
            queue.retain(|waiter| waiter.sleeper != sleeper);
            if queue.is_empty() {
                self.waiters.remove(&key);
            }
        }
    }
    /// True if nobody sleeps on any.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
    /// True if anybody sleeps on a futex.
    pub fn has_waiters(&self, key: FutexKey) -> bool {
        self.waiters.contains_key(&key)
    }

    /// Puts the thread in line for `key`; its call must then block with the state
    /// [`CallState::Futex`].
    pub fn enqueue_futex_waiter(&mut self, key: FutexKey, thread: ThreadKey, bitset: u32) {
        self.enter(key, Sleeper::Thread(thread), bitset);
    }

    /// Takes a thread whose wait has ended without a wake out of the line.
    #[inline]
    pub fn futex_wait_ended(&mut self, thread: ThreadKey, state: &CallState) {
        self.leave(Sleeper::Thread(thread), state);
    }
}
