//! Busy-wait loops without system calls, as detected by the kernel.

use belljar_machine::Regs;

/// Calls and events of the host before the first recheck of a loop.
const BACKOFF: u64 = 200;
/// Maximum number of calls and events between two rechecks.
const LONGEST_BACKOFF: u64 = 12_800;

/// Busy-wait loop of a thread.
#[derive(Clone, Debug)]
pub struct Spin {
    /// Smallest register state of an iteration, in which the thread was left.
    state: Regs,
    /// Instructions in an iteration.
    period: u32,
    /// [`Scheduler::progress`](crate::scheduler::Scheduler::progress) at the last check.
    seen: u64,
    backoff: u64,
}

impl Spin {
    /// Loop detected at `progress`: the smallest state of an iteration, and its length in instructions.
    pub fn new(state: Regs, period: u32, progress: u64) -> Spin {
        Spin { state, period, seen: progress, backoff: BACKOFF }
    }
    /// Smallest register state of an iteration, in which the thread was left.
    pub fn state(&self) -> &Regs {
        &self.state
    }
    /// Instructions in an iteration.
    pub fn period(&self) -> u32 {
        self.period
    }
    /// Records a check that found the thread still looping, and doubles the interval to the next.
    pub fn went_round(&mut self, progress: u64) {
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        self.seen = progress;
    }
    /// True if enough calls and events have passed since the last check for another one.
    #[inline]
    pub fn is_due(&self, progress: u64) -> bool {
        progress - self.seen >= self.backoff
    }
    /// True if a call or event has passed since the last check.
    pub fn may_find_something_new(&self, progress: u64) -> bool {
        progress > self.seen
    }
}
