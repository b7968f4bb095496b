//! Locks whose word holds the owner's thread id (`FUTEX_LOCK_PI` and related operations). A host runs one
//! thread at a time, so there are no priorities to inherit: ownership passes to waiters first in, first out.

use super::wait::ANY;
use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::{Errno, c};
use belljar_tasks::futexes::{FutexKey, Sleeper};

const TID_MASK: u32 = c::FUTEX_TID_MASK;
const WAITERS: u32 = c::FUTEX_WAITERS;
const OWNER_DIED: u32 = c::FUTEX_OWNER_DIED;

/// Result of an attempt to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockAttempt {
    /// The caller owns the lock.
    Locked,
    /// Another thread owns it.
    Owned,
}

impl Host {
    /// Takes the lock at `addr` if it is free; otherwise sets `FUTEX_WAITERS` if `waits`. `EDEADLK` if the
    /// caller owns the lock, `ESRCH` if its owner has ended.
    pub(crate) fn try_lock_futex(
        &mut self,
        thread: ThreadKey,
        addr: u64,
        key: FutexKey,
        waits: bool,
    ) -> Result<LockAttempt, Errno> {
        let (process, tid) = (
            self.threads[thread.0].process,
            self.threads.lock_owner(&self.processes, Sleeper::Thread(thread)),
        );
        let word = self.read_futex_word(process, addr)?;
        let owner = word & TID_MASK;
        if owner == tid {
            return Err(Errno::EDEADLK);
        }
        if owner == 0 {
            let waiters = if self.futexes.has_waiters(key) { WAITERS } else { 0 };
            self.write_futex_word(process, addr, tid | (word & OWNER_DIED) | waiters)?;
            return Ok(LockAttempt::Locked);
        }
        if !self.threads.by_tid.contains_key(&self.processes.meant_pid(process, owner as i32)) {
            return Err(Errno::ESRCH);
        }
        if waits {
            self.write_futex_word(process, addr, word | WAITERS)?;
        }
        Ok(LockAttempt::Owned)
    }

    /// `FUTEX_UNLOCK_PI`: hands the lock to the first waiter. `EPERM` if the caller does not own it.
    pub(crate) fn unlock_futex(&mut self, thread: ThreadKey, addr: u64, key: FutexKey) -> Result<(), Errno> {
        let (process, tid) = (
            self.threads[thread.0].process,
            self.threads.lock_owner(&self.processes, Sleeper::Thread(thread)),
        );
        let word = self.read_futex_word(process, addr)?;
        if word & TID_MASK != tid {
            return Err(Errno::EPERM);
        }
        self.hand_over_futex(thread, addr, key, 0)
    }

    /// Makes the first waiter the owner, with `mark` in the word; frees the lock if there is no waiter.
    pub(super) fn hand_over_futex(
        &mut self,
        from: ThreadKey,
        addr: u64,
        key: FutexKey,
        mark: u32,
    ) -> Result<(), Errno> {
        let process = self.threads[from.0].process;
        let Some(next) = self.futexes.pop(key, ANY, &mut self.scheduler) else {
            return self.write_futex_word(process, addr, mark);
        };
        let waiters = if self.futexes.has_waiters(key) { WAITERS } else { 0 };
        let owner = self.threads.lock_owner(&self.processes, next.sleeper);
        self.write_futex_word(process, addr, owner | waiters | mark)?;
        self.wake_futex_waiter(next.sleeper, key);
        Ok(())
    }
}
