//! Futexes: the table of waiters on memory words, `futex(2)`.
//!
//! A word of private memory is identified by address space and address, a word of a shared mapping by the
//! mapped object and offset, so that processes which map it at different addresses share the futex. Waiters
//! are woken first in, first out, unless the scheduler's strategy chooses another order.

use crate::outcome::CallState;
use crate::scheduler::Scheduler;
use belljar_base::{Map, SimTime};
use belljar_objects::ids::{MmKey, ThreadKey};
use std::collections::VecDeque;

/// Identity of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FutexKey {
    /// Word of an address space.
    Private(MmKey, u64),
    /// Word of a shared object: device, inode and offset.
    Shared(u64, u64, u64),
}

/// Owner of a futex wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// Thread.
    Thread(ThreadKey),
    /// io_uring request.
    Request {
        /// Instance.
        instance: usize,
        /// Request within the instance.
        request: usize,
    },
}

/// Waiter on a futex.
#[derive(Clone, Copy, Debug)]
pub struct FutexWaiter {
    /// Owner of the wait.
    pub sleeper: Sleeper,
    bitset: u32,
}

/// Futex table of a host.
#[derive(Debug, Default)]
pub struct FutexTable {
    waiters: Map<FutexKey, VecDeque<FutexWaiter>>,
}

/// Futex wait in progress.
#[derive(Clone, Copy, Debug)]
pub struct FutexWait {
    /// Futex; a requeue changes it.
    pub key: FutexKey,
    /// True if a wake has ended the wait and removed the waiter from the table.
    pub woken: bool,
    /// Latest end of the wait.
    pub deadline: Option<SimTime>,
}

/// Wait for one of several futexes in progress.
#[derive(Clone, Debug)]
pub struct FutexVector {
    /// Futexes; a requeue changes them.
    pub keys: Vec<FutexKey>,
    /// Index of the futex that was woken.
    pub woken: Option<usize>,
    /// Latest end of the wait.
    pub deadline: Option<SimTime>,
}

impl FutexTable {
    /// Queues a waiter that has been removed from another futex.
    pub fn push(&mut self, key: FutexKey, waiter: FutexWaiter) {
        self.waiters.entry(key).or_default().push_back(waiter);
    }
    /// Removes the next waiter to wake among those whose bitset intersects `bitset`.
    pub fn pop(&mut self, key: FutexKey, bitset: u32, scheduler: &mut Scheduler) -> Option<FutexWaiter> {
        let queue = self.waiters.get_mut(&key)?;
        let at = scheduler.choose_waiter(queue, |waiter| waiter.bitset & bitset != 0)?;
        let waiter = queue.remove(at);
        if queue.is_empty() {
            self.waiters.remove(&key);
        }
        waiter
    }
    /// Queues a waiter.
    pub fn enter(&mut self, key: FutexKey, sleeper: Sleeper, bitset: u32) {
        self.push(key, FutexWaiter { sleeper, bitset });
    }
    /// Removes a waiter, whose wait is described by `state`, from the futexes at which it has not been woken.
    #[inline]
    pub fn leave(&mut self, sleeper: Sleeper, state: &CallState) {
        match state {
            CallState::Futex(FutexWait { key, woken: false, .. }) => self.remove(*key, sleeper),
            // A wake removes the waiter from one futex only.
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
    /// True if there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
    /// True if the futex has waiters.
    pub fn has_waiters(&self, key: FutexKey) -> bool {
        self.waiters.contains_key(&key)
    }

    /// Queues a thread on `key`; its call must then block with the state [`CallState::Futex`].
    pub fn enqueue_futex_waiter(&mut self, key: FutexKey, thread: ThreadKey, bitset: u32) {
        self.enter(key, Sleeper::Thread(thread), bitset);
    }

    /// Removes a thread whose wait has ended without a wake.
    #[inline]
    pub fn futex_wait_ended(&mut self, thread: ThreadKey, state: &CallState) {
        self.leave(Sleeper::Thread(thread), state);
    }
}
