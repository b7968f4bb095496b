//! Waiting, waking and requeueing.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::outcome::{CallState, Wake};
use crate::thread::{Blocked, ThreadState};
use belljar_linux_abi::{Errno, c};
use belljar_tasks::futexes::{FutexKey, Sleeper};

/// Bitset that matches every waiter: `FUTEX_BITSET_MATCH_ANY`.
pub(crate) const ANY: u32 = u32::MAX;

impl Host {
    /// Wakes up to `count` waiters whose bitset intersects `bitset`; returns their number.
    pub(crate) fn wake_futex(&mut self, key: FutexKey, count: u32, bitset: u32) -> u64 {
        let mut woken = 0;
        while woken < u64::from(count) {
            let Some(waiter) = self.futexes.pop(key, bitset, &mut self.scheduler) else { break };
            self.wake_futex_waiter(waiter.sleeper, key);
            woken += 1;
        }
        woken
    }

    /// Wakes waiters on the word at `addr` as the kernel does when a thread ends.
    pub(crate) fn wake_futex_word(&mut self, process: ProcessKey, addr: u64, count: u32) {
        if let Ok(key) = self.futex_key(process, addr, false) {
            self.wake_futex(key, count, ANY);
        }
    }

    /// Continuation state of a sleeper's wait.
    fn sleeper_state(&mut self, sleeper: Sleeper) -> Option<&mut CallState> {
        match sleeper {
            Sleeper::Thread(thread) => match &mut self.thread(thread).state {
                ThreadState::Blocked(Blocked { state, .. }) => Some(state),
                _ => None,
            },
            Sleeper::Request { instance, request } => self.urings.futex_state_of_request(instance, request),
        }
    }
    pub(super) fn wake_futex_waiter(&mut self, sleeper: Sleeper, key: FutexKey) {
        match self.sleeper_state(sleeper) {
            Some(CallState::Futex(wait)) => wait.woken = true,
            Some(CallState::FutexVector(wait)) => {
                // Only the first wake-up counts.
                let found = wait.keys.iter().position(|k| *k == key);
                wait.woken = wait.woken.or(found);
            }
            _ => {}
        }
        match sleeper {
            Sleeper::Thread(thread) => self.continue_call(thread, Wake::Notified),
            Sleeper::Request { instance, request } => self.request_changed(instance, request),
        }
    }

    /// Moves up to `count` waiters to the end of another futex's queue; returns their number.
    pub(crate) fn requeue_futex(&mut self, from: FutexKey, to: FutexKey, count: u32) -> u64 {
        let mut moved = 0;
        while moved < u64::from(count) && from != to {
            let Some(waiter) = self.futexes.pop(from, ANY, &mut self.scheduler) else { break };
            match self.sleeper_state(waiter.sleeper) {
                Some(CallState::Futex(wait)) => wait.key = to,
                Some(CallState::FutexVector(wait)) => {
                    wait.keys.iter_mut().filter(|key| **key == from).take(1).for_each(|key| *key = to);
                }
                _ => {}
            }
            self.futexes.push(to, waiter);
            moved += 1;
        }
        moved
    }

    /// `FUTEX_CMP_REQUEUE_PI`: if the lock at `addr` is free, the first waiter gets it and is woken; up to
    /// `count` others are moved to the lock's queue. Returns the number of waiters woken or moved.
    pub(crate) fn requeue_to_lock(
        &mut self,
        process: ProcessKey,
        from: FutexKey,
        to: FutexKey,
        addr: u64,
        count: u32,
    ) -> Result<u64, Errno> {
        let word = self.read_futex_word(process, addr)?;
        let mut woken = 0;
        if word & c::FUTEX_TID_MASK == 0 {
            let Some(first) = self.futexes.pop(from, ANY, &mut self.scheduler) else { return Ok(0) };
            let waiters = if self.futexes.has_waiters(from) { c::FUTEX_WAITERS } else { 0 };
            let owner = self.threads.lock_owner(&self.processes, first.sleeper);
            self.write_futex_word(process, addr, owner | waiters | (word & c::FUTEX_OWNER_DIED))?;
            self.wake_futex_waiter(first.sleeper, from);
            woken = 1;
        } else if self.futexes.has_waiters(from) {
            self.write_futex_word(process, addr, word | c::FUTEX_WAITERS)?;
        }
        // If the lock is not free, the waiter to be woken is moved too.
        let moved = self.requeue_futex(from, to, count.saturating_add(1 - woken));
        Ok(u64::from(woken) + moved)
    }

    /// `FUTEX_WAKE_OP`: changes the word at `addr`; returns true if its old value passes the comparison in
    /// `encoded`.
    pub(crate) fn futex_operate(
        &mut self,
        process: ProcessKey,
        addr: u64,
        encoded: u32,
    ) -> Result<bool, Errno> {
        let signed_12 = |value: u32| ((value << 20) as i32) >> 20;
        let operand = signed_12(encoded >> 12) as u32;
        let compared = signed_12(encoded) as u32;
        let operation = (encoded >> 28) as i32 & 0xf;
        let operand = if operation & c::FUTEX_OP_OPARG_SHIFT != 0 { 1 << (operand & 31) } else { operand };
        let old = self.read_futex_word(process, addr)?;
        let new = match operation & 7 {
            c::FUTEX_OP_SET => operand,
            c::FUTEX_OP_ADD => old.wrapping_add(operand),
            c::FUTEX_OP_OR => old | operand,
            c::FUTEX_OP_ANDN => old & !operand,
            c::FUTEX_OP_XOR => old ^ operand,
            _ => return Err(Errno::ENOSYS),
        };
        self.write_futex_word(process, addr, new)?;
        let (old, compared) = (old as i32, compared as i32);
        Ok(match (encoded >> 24) as i32 & 0xf {
            c::FUTEX_OP_CMP_EQ => old == compared,
            c::FUTEX_OP_CMP_NE => old != compared,
            c::FUTEX_OP_CMP_LT => old < compared,
            c::FUTEX_OP_CMP_GE => old >= compared,
            c::FUTEX_OP_CMP_LE => old <= compared,
            c::FUTEX_OP_CMP_GT => old > compared,
            _ => return Err(Errno::ENOSYS),
        })
    }
}
