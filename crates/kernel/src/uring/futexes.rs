//! `IORING_OP_FUTEX_WAIT`, `IORING_OP_FUTEX_WAITV` and `IORING_OP_FUTEX_WAKE`: the futex2 calls without a
//! sleeping thread.

use super::Step;
use crate::futex::wait::ANY;
use crate::host::Host;
use crate::outcome::{Block, CallState};
use belljar_linux_abi::Errno;
use belljar_tasks::futexes::{FutexKey, FutexVector, FutexWait, Sleeper};
use belljar_uring::entry::{FUTEX_WAITV, SubmissionEntry};
use belljar_uring::futexes::{PRIVATE, SIZE_32};

impl Host {
    /// Reads the futexes of a vector: address, expected value, and true if private.
    pub(super) fn futexes_of(&self, entry: &SubmissionEntry) -> Result<Vec<(u64, u64, bool)>, Errno> {
        let mut futexes = Vec::new();
        for at in 0..u64::from(entry.len) {
            let mut bytes = [0; 24];
            self.read_submitted(entry, entry.addr + 24 * at, &mut bytes)?;
            let [value, addr, flags] =
                [0, 8, 16].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes")));
            if flags >> 32 != 0 || flags as u32 & !PRIVATE != SIZE_32 || value > u64::from(u32::MAX) {
                return Err(Errno::EINVAL);
            }
            futexes.push((addr, value, flags as u32 & PRIVATE != 0));
        }
        Ok(futexes)
    }

    pub(super) fn start_futex_wait(&mut self, entry: &SubmissionEntry) -> Step {
        self.futex_wait_state(entry)
            .map_or_else(Step::failed, |state| Step::Waits(Block::until(None).with_state(state)))
    }
    fn futex_wait_state(&self, entry: &SubmissionEntry) -> Result<CallState, Errno> {
        let process = entry.by.process;
        if entry.op != FUTEX_WAITV {
            if entry.addr3 == 0 {
                return Err(Errno::EINVAL);
            }
            let key = self.futex_key(process, entry.addr, entry.fd as u32 & PRIVATE != 0)?;
            if u64::from(self.read_futex_word(process, entry.addr)?) != entry.off {
                return Err(Errno::EAGAIN);
            }
            return Ok(CallState::Futex(FutexWait { key, woken: false, deadline: None }));
        }
        let futexes = self.futexes_of(entry)?;
        let keys = futexes.iter().map(|(addr, _, private)| self.futex_key(process, *addr, *private));
        let keys: Vec<FutexKey> = keys.collect::<Result<_, _>>()?;
        for (addr, value, _) in futexes {
            if u64::from(self.read_futex_word(process, addr)?) != value {
                return Err(Errno::EAGAIN);
            }
        }
        Ok(CallState::FutexVector(Box::new(FutexVector { keys, woken: None, deadline: None })))
    }

    /// `IORING_OP_FUTEX_WAKE`: returns the number of waiters woken.
    pub(super) fn wake_by_request(&mut self, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let key = self.futex_key(entry.by.process, entry.addr, entry.fd as u32 & PRIVATE != 0)?;
        if entry.addr3 == 0 {
            return Err(Errno::EINVAL);
        }
        Ok(self.wake_futex(key, entry.off as u32, entry.addr3 as u32) as i32)
    }

    /// Enters a request into the queues of the futexes that it waits for.
    pub(super) fn enter_futexes(&mut self, n: usize, number: usize) {
        let request = &self.urings.instances[n].requests[number];
        let sleeper = Sleeper::Request { instance: n, request: number };
        match &request.state {
            CallState::Futex(wait) => {
                let (key, bits) = (wait.key, request.entry.addr3 as u32);
                self.futexes.enter(key, sleeper, bits);
            }
            CallState::FutexVector(wait) => {
                for key in wait.keys.clone() {
                    self.futexes.enter(key, sleeper, ANY);
                }
            }
            _ => {}
        }
    }
    /// Removes a request from the futex queues in which it still waits.
    pub(super) fn leave_futexes(&mut self, n: usize, number: usize) {
        let sleeper = Sleeper::Request { instance: n, request: number };
        let state = std::mem::take(&mut self.urings.instances[n].requests[number].state);
        self.futexes.leave(sleeper, &state);
        self.urings.instances[n].requests[number].state = state;
    }
}

/// Ends a futex wait, which is resumed only by a wake-up.
pub(super) fn resume_futex_wait(state: CallState) -> Step {
    let which = match state {
        CallState::FutexVector(wait) => wait.woken.unwrap_or(0),
        _ => 0,
    };
    Step::Ended(which as i32, 0)
}
