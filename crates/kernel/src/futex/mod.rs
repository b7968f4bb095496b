//! Futexes: the threads and requests that sleep on words of memory, `futex(2)`.
//!
//! A word of private memory is named by address space and address, a word of a shared mapping by
//! what is mapped, so that processes meet that map it at different addresses. Waiters are woken
//! first in, first out, unless the scheduler's strategy has another order.

pub(crate) mod priority;
pub(crate) mod robust;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

use crate::host::Host;
use crate::ids::{MmKey, ProcessKey, ThreadKey};
use crate::mm::{Access, VmaKind};
use crate::outcome::CallState;
use crate::scheduler::Scheduler;
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;
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
pub(crate) enum Sleeper {
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

#[derive(Clone, Copy, Debug)]
struct Waiter {
    sleeper: Sleeper,
    bitset: u32,
}

/// The table of all futexes of a host.
#[derive(Debug, Default)]
pub struct FutexTable {
    waiters: Map<FutexKey, VecDeque<Waiter>>,
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
    fn push(&mut self, key: FutexKey, waiter: Waiter) {
        self.waiters.entry(key).or_default().push_back(waiter);
    }
    /// Removes the waiter to wake next of those that `bitset` meets.
    fn pop(&mut self, key: FutexKey, bitset: u32, scheduler: &mut Scheduler) -> Option<Waiter> {
        let queue = self.waiters.get_mut(&key)?;
        let at = scheduler.choose_waiter(queue, |waiter| waiter.bitset & bitset != 0)?;
        let waiter = queue.remove(at);
        if queue.is_empty() {
            self.waiters.remove(&key);
        }
        waiter
    }
    /// Puts somebody in line.
    pub(crate) fn enter(&mut self, key: FutexKey, sleeper: Sleeper, bitset: u32) {
        self.push(key, Waiter { sleeper, bitset });
    }
    /// Takes somebody whose wait `state` tells of out of the lines in which no wake has found him.
    pub(crate) fn leave(&mut self, sleeper: Sleeper, state: &CallState) {
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
    fn has_waiters(&self, key: FutexKey) -> bool {
        self.waiters.contains_key(&key)
    }
}

impl Host {
    /// The name of the word at `addr`. `EINVAL` if it is not aligned, `EFAULT` if it is not mapped.
    pub(crate) fn futex_key(
        &self,
        process: ProcessKey,
        addr: u64,
        is_private: bool,
    ) -> Result<FutexKey, Errno> {
        if !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        let key = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let mm = &self.spaces[key.0];
        mm.check(addr, 4, Access::Read)?;
        if !is_private
            && let Some(vma) = mm.find(addr).filter(|vma| vma.shared)
            && let VmaKind::File { identity: (device, inode), offset, .. } = vma.kind
        {
            return Ok(FutexKey::Shared(device, inode, offset + (addr - vma.start)));
        }
        Ok(FutexKey::Private(key, addr))
    }

    pub(crate) fn read_futex_word(&self, process: ProcessKey, addr: u64) -> Result<u32, Errno> {
        let mut word = [0; 4];
        self.read_guest(process, addr, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    pub(crate) fn write_futex_word(
        &mut self,
        process: ProcessKey,
        addr: u64,
        word: u32,
    ) -> Result<(), Errno> {
        self.write_guest(process, addr, &word.to_le_bytes())
    }
}
