//! Waiting, waking and requeueing.

use super::{FutexKey, FutexWait, Waiter};
use crate::call::{CallState, Wake};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::thread::{Blocked, ThreadState};
use belljar_linux_abi::{Errno, c};

/// Meets every waiter: `FUTEX_BITSET_MATCH_ANY`.
pub(crate) const ANY: u32 = u32::MAX;

impl Host {
    /// Puts the thread in line for `key`; its call must then block with the state
    /// [`CallState::Futex`].
    pub(crate) fn enqueue_futex_waiter(&mut self, key: FutexKey, thread: ThreadKey, bitset: u32) {
        self.futexes.push(key, Waiter { thread, bitset });
    }

    /// Wakes up to `count` waiters that `bitset` meets; gives how many.
    pub(crate) fn wake_futex(&mut self, key: FutexKey, count: u32, bitset: u32) -> u64 {
        let mut woken = 0;
        while woken < u64::from(count) {
            let Some(waiter) = self.futexes.pop(key, bitset) else { break };
            self.wake_futex_waiter(waiter.thread);
            woken += 1;
        }
        woken
    }

    /// Wakes waiters on the word at `addr` as the kernel itself does when a thread ends.
    pub(crate) fn wake_futex_word(&mut self, process: ProcessKey, addr: u64, count: u32) {
        if let Ok(key) = self.futex_key(process, addr, false) {
            self.wake_futex(key, count, ANY);
        }
    }

    pub(super) fn wake_futex_waiter(&mut self, thread: ThreadKey) {
        if let ThreadState::Blocked(Blocked { state: CallState::Futex(wait), .. }) =
            &mut self.thread(thread).state
        {
            wait.woken = true;
        }
        self.continue_call(thread, Wake::Notified);
    }

    /// Moves up to `count` waiters from one futex to the end of another; gives how many.
    pub(crate) fn requeue_futex(&mut self, from: FutexKey, to: FutexKey, count: u32) -> u64 {
        let mut moved = 0;
        while moved < u64::from(count) && from != to {
            let Some(waiter) = self.futexes.pop(from, ANY) else { break };
            if let ThreadState::Blocked(Blocked { state: CallState::Futex(wait), .. }) =
                &mut self.thread(waiter.thread).state
            {
                wait.key = to;
            }
            self.futexes.push(to, waiter);
            moved += 1;
        }
        moved
    }

    /// Takes a thread whose wait has ended without a wake out of the line.
    pub(crate) fn futex_wait_ended(&mut self, thread: ThreadKey, state: &CallState) {
        if let CallState::Futex(FutexWait { key, woken: false, .. }) = state {
            self.futexes.remove(*key, thread);
        }
    }

    /// `FUTEX_WAKE_OP`: changes the word at `addr` and says whether its old value passes the
    /// comparison that `encoded` holds.
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
