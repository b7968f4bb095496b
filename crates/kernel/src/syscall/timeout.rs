//! Shared parts of calls that wait for readiness: time-outs, the remaining time, and a temporary signal mask.

use crate::call::Call;
use crate::host::Host;
use crate::ids::{ThreadKey, WaitQueueId};
use crate::outcome::{Block, CallState, IfInterrupted, RemainingTime, SysResult};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::{Timespec, Timeval};
use smallvec::SmallVec;

/// Time-out of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeout {
    /// Maximum wait; `None` means unlimited.
    pub limit: Option<SimDuration>,
    /// Guest location that receives the remaining time.
    pub remaining: Option<RemainingTime>,
}

impl Timeout {
    /// Time-out of `poll` in milliseconds; negative means unlimited.
    pub fn from_millis(ms: i32) -> Timeout {
        let limit = u64::try_from(ms).ok().map(SimDuration::from_millis);
        Timeout { limit, remaining: None }
    }
    /// Reads a `struct timespec` at `addr`; a null address means unlimited. `EINVAL` if it is not a valid
    /// time.
    pub fn from_timespec(call: &Call<'_>, addr: u64) -> Result<Timeout, Errno> {
        if addr == 0 {
            return Ok(Timeout::default());
        }
        let nanos = call.read::<Timespec>(addr)?.to_nanos().ok_or(Errno::EINVAL)?;
        let remaining = Some(RemainingTime { addr, micros: false });
        Ok(Timeout { limit: Some(SimDuration::from_nanos(nanos)), remaining })
    }
    /// Reads a `struct timeval`, whose microseconds may exceed a second.
    pub fn from_timeval(call: &Call<'_>, addr: u64) -> Result<Timeout, Errno> {
        if addr == 0 {
            return Ok(Timeout::default());
        }
        let Timeval { sec, usec } = call.read(addr)?;
        let spec = Timespec { sec: sec.saturating_add(usec / 1_000_000), nsec: usec % 1_000_000 * 1_000 };
        let nanos = spec.to_nanos().ok_or(Errno::EINVAL)?;
        let remaining = Some(RemainingTime { addr, micros: true });
        Ok(Timeout { limit: Some(SimDuration::from_nanos(nanos)), remaining })
    }
}

/// Wait with a deadline, new or resumed.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedWait {
    deadline: Option<SimTime>,
    remaining: Option<RemainingTime>,
    /// True if the call must return now, ready or not.
    pub last: bool,
}

impl TimedWait {
    /// Starts or resumes a wait.
    pub fn of(call: &mut Call<'_>, timeout: Timeout) -> TimedWait {
        let last = call.deadline_passed() || timeout.limit.is_some_and(SimDuration::is_zero);
        match call.take_state() {
            CallState::Timed { deadline, remaining } => TimedWait { deadline, remaining, last },
            _ => {
                // A deadline beyond the end of simulated time never expires.
                let end = timeout.limit.map(|limit| call.after(limit)).filter(|end| *end < SimTime::MAX);
                let remaining = timeout.remaining.filter(|_| !last);
                TimedWait { deadline: end, remaining, last }
            }
        }
    }
    /// Blocks the call until one of the queues `on` is notified.
    pub fn wait(self, on: SmallVec<[WaitQueueId; 2]>, interrupted: IfInterrupted) -> SysResult {
        let state = CallState::Timed { deadline: self.deadline, remaining: self.remaining };
        Block { on, deadline: self.deadline, state, if_interrupted: interrupted }.into()
    }
    /// Stores the remaining time; a fault is ignored, as on Linux.
    pub fn store_remaining(self, call: &mut Call<'_>) {
        let state = CallState::Timed { deadline: self.deadline, remaining: self.remaining };
        let _ = call.host.store_remaining_time(call.thread, &state);
    }
}

impl Host {
    /// Stores the remaining time of a wait at the address in its state.
    pub(crate) fn store_remaining_time(&mut self, thread: ThreadKey, state: &CallState) -> Result<(), Errno> {
        let CallState::Timed { deadline: Some(deadline), remaining: Some(remaining) } = state else {
            return Ok(());
        };
        let left = deadline.since(self.net.clock.now()).as_nanos();
        let process = self.threads[thread.0].process;
        let words = if remaining.micros {
            let Timeval { sec, usec } = Timeval::from_nanos(left);
            [sec, usec]
        } else {
            let Timespec { sec, nsec } = Timespec::from_nanos(left);
            [sec, nsec]
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        self.write_guest(process, remaining.addr, &bytes)
    }
}

/// Runs `attempt` of a waiting call with the signal mask at `addr` (unless null), as `ppoll(2)` does. The
/// mask remains in force until the call has ended and the signal that interrupted it has been delivered; the
/// run loop then restores the previous mask.
pub(super) fn with_mask(
    call: &mut Call<'_>,
    addr: u64,
    size: u64,
    attempt: impl FnOnce(&mut Call<'_>) -> SysResult,
) -> SysResult {
    if call.resumed.is_none() && addr != 0 {
        if size != 8 {
            return Err(Errno::EINVAL);
        }
        let mask = call.read::<u64>(addr)?;
        call.host.set_temporary_mask(call.thread, mask);
    }
    attempt(call)
}
