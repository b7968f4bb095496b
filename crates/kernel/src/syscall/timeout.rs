//! Parts shared by the calls that wait for readiness: time-outs, the time not slept, and a signal mask for the duration
//! of the call.

use crate::call::Call;
use crate::host::Host;
use crate::ids::{ThreadKey, WaitQueueId};
use crate::outcome::{Block, CallState, IfInterrupted, RemainingTime, SysResult};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::{Timespec, Timeval};
use smallvec::SmallVec;

/// The time-out of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeout {
    /// The longest wait; `None` for ever.
    pub limit: Option<SimDuration>,
    /// Where the rest is stored.
    pub remaining: Option<RemainingTime>,
}

impl Timeout {
    /// Milliseconds as `poll` takes them: a negative number waits for ever.
    pub fn from_millis(ms: i32) -> Timeout {
        let limit = u64::try_from(ms).ok().map(SimDuration::from_millis);
        Timeout { limit, remaining: None }
    }
    /// A `struct timespec` at `addr`, none if that is null. `EINVAL` if it is not a valid time.
    pub fn from_timespec(call: &Call<'_>, addr: u64) -> Result<Timeout, Errno> {
        if addr == 0 {
            return Ok(Timeout::default());
        }
        let nanos = call.read::<Timespec>(addr)?.to_nanos().ok_or(Errno::EINVAL)?;
        let remaining = Some(RemainingTime { addr, micros: false });
        Ok(Timeout { limit: Some(SimDuration::from_nanos(nanos)), remaining })
    }
    /// The same for a `struct timeval`, whose microseconds may exceed a second.
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

/// A wait with a deadline, at its start or continued.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedWait {
    deadline: Option<SimTime>,
    remaining: Option<RemainingTime>,
    /// True if the call must answer now, ready or not.
    pub last: bool,
}

impl TimedWait {
    /// Begins a wait or goes on with it.
    pub fn of(call: &mut Call<'_>, timeout: Timeout) -> TimedWait {
        let last = call.deadline_passed() || timeout.limit.is_some_and(SimDuration::is_zero);
        match call.take_state() {
            CallState::Timed { deadline, remaining } => TimedWait { deadline, remaining, last },
            _ => {
                // What lies beyond the end of simulated time is never.
                let end = timeout.limit.map(|limit| call.after(limit)).filter(|end| *end < SimTime::MAX);
                let remaining = timeout.remaining.filter(|_| !last);
                TimedWait { deadline: end, remaining, last }
            }
        }
    }
    /// The answer that goes on waiting for `queues`.
    pub fn wait(self, on: SmallVec<[WaitQueueId; 2]>, interrupted: IfInterrupted) -> SysResult {
        let state = CallState::Timed { deadline: self.deadline, remaining: self.remaining };
        Block { on, deadline: self.deadline, state, if_interrupted: interrupted }.into()
    }
    /// Stores the time not slept; a fault is of no consequence, as in Linux.
    pub fn store_remaining(self, call: &mut Call<'_>) {
        let state = CallState::Timed { deadline: self.deadline, remaining: self.remaining };
        let _ = call.host.store_remaining_time(call.thread, &state);
    }
}

impl Host {
    /// Stores how much of a wait was left, where its call says.
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

/// Runs `attempt` of a call that waits with the signal mask at `addr` (unless null), as `ppoll(2)`
/// says: the mask is in force until the call has ended and a signal that ended it has been
/// delivered; the run loop goes back to the old one.
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
