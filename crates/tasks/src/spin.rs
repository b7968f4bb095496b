//! Busy-wait loops without system calls, and computation until an alarm, as detected by the kernel.

use belljar_base::{SimDuration, SimTime};
use belljar_machine::Regs;

/// Native time between two preemption ticks of a thread that makes no call.
pub const TICK: SimDuration = SimDuration::from_millis(50);
/// Preemption ticks without a call after which a thread is assumed to wait for other threads or for time.
/// From then on the thread is preempted at each tick until its next call. The first such preemption divides
/// the patience of the host by four: the run is no longer deterministic anyway.
const PATIENCE: u32 = 60;
/// Ticks of computation before the first alarm that a process is assumed to compute for.
const LEAST: u32 = 10;

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
    /// For a thread that computes until an alarm: when it was left, and the time of the alarm.
    alarm: Option<(SimTime, SimTime)>,
}

/// Computation of a host's threads without calls, in preemption ticks.
#[derive(Clone, Debug)]
pub struct Computing {
    since: SimTime,
    ticks: u32,
    patience: u32,
}

impl Default for Computing {
    fn default() -> Computing {
        Computing { since: SimTime::ZERO, ticks: 0, patience: PATIENCE }
    }
}

impl Computing {
    /// Counts a tick at `now`; the count begins anew when simulated time has passed.
    pub fn count(&mut self, now: SimTime) {
        if self.since != now {
            (self.since, self.ticks) = (now, 0);
        }
        self.ticks += 1;
    }
    /// True if a thread that has computed for `tick` ticks has reached an alarm of its process at `alarm`: the
    /// threads of the host have computed natively for as long as the alarm is away. `awaited` is the number of
    /// earlier alarms that the process computed for.
    pub fn reaches(&self, alarm: SimTime, tick: u32, awaited: u32) -> bool {
        let least = (LEAST >> (2 * awaited).min(31)).max(1);
        tick >= least && TICK.saturating_mul(u64::from(self.ticks)) >= alarm.since(self.since)
    }
    /// Ticks for which a thread may compute before it is preempted.
    pub fn patience(&self) -> u32 {
        self.patience
    }
    /// Shortens the patience after a preemption.
    pub fn lose_patience(&mut self) {
        self.patience /= 4;
    }
}

impl Spin {
    /// Computation until an alarm, left in `state` at `now`.
    pub fn until(alarm: SimTime, now: SimTime, state: Regs, progress: u64) -> Spin {
        Spin { alarm: Some((now, alarm)), ..Spin::new(state, 0, progress) }
    }
    /// For a thread that computes until an alarm: when it was left, and the time of the alarm.
    pub fn alarm(&self) -> Option<(SimTime, SimTime)> {
        self.alarm
    }
    /// Loop detected at `progress`: the smallest state of an iteration, and its length in instructions.
    pub fn new(state: Regs, period: u32, progress: u64) -> Spin {
        Spin { state, period, seen: progress, backoff: BACKOFF, alarm: None }
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
