//! Spin: the loop without calls in which a thread waits. The kernel finds such loops and says how.

use belljar_machine::Regs;

/// Calls and events of the host before a loop is looked at for the first time.
const BACKOFF: u64 = 200;
/// Calls and events of the host between two looks, at most.
const LONGEST_BACKOFF: u64 = 12_800;

/// Spin: the loop in which a thread waits.
#[derive(Clone, Debug)]
pub struct Spin {
    /// The least state of a round, in which the thread has been left.
    state: Regs,
    /// Instructions in a round.
    period: u32,
    /// [`Scheduler::progress`](crate::scheduler::Scheduler::progress) when it was last seen to go round.
    seen: u64,
    backoff: u64,
}

impl Spin {
    /// A loop that was seen to go round at `progress`: the least state of its rounds and the instructions of one.
    pub fn new(state: Regs, period: u32, progress: u64) -> Spin {
        Spin { state, period, seen: progress, backoff: BACKOFF }
    }
    /// The least state of a round, in which the thread has been left.
    pub fn state(&self) -> &Regs {
        &self.state
    }
    /// Instructions in a round.
    pub fn period(&self) -> u32 {
        self.period
    }
    /// It was seen to go round again: the next look comes later.
    pub fn went_round(&mut self, progress: u64) {
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        self.seen = progress;
    }
    /// True if enough has happened since it was last seen to go round for another look.
    #[inline]
    pub fn is_due(&self, progress: u64) -> bool {
        progress - self.seen >= self.backoff
    }
    /// True if anything has happened since it was last seen to go round.
    pub fn may_find_something_new(&self, progress: u64) -> bool {
        progress > self.seen
    }
}
