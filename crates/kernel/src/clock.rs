//! A host's clock and the rule that time must not stand still.
//!
//! Computation is free by default, so a program that waits for time to pass by asking for it would
//! wait for ever. Therefore the first [`FREE_CALLS`] calls and wake-ups since the clock last moved
//! are free and each further one costs [`PENALTY`].

use belljar_base::{SimDuration, SimTime};

/// Calls and wake-ups that are free since the clock last moved.
pub const FREE_CALLS: u32 = 1_000;
/// What each further one costs.
pub const PENALTY: SimDuration = SimDuration::from_micros(1);

/// What a program that never calls pays each time it is preempted.
const PREEMPTION_TICK: SimDuration = SimDuration::from_millis(10);

/// 2000-01-01 00:00:00 UTC in seconds since 1970: where Shadow's clock starts, and ours.
pub const DEFAULT_EPOCH_SECS: u64 = 946_684_800;

/// One host's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    now: SimTime,
    calls_since_moved: u32,
    epoch_ns: u64,
}

impl Clock {
    /// A clock at the start of the simulation, which is `epoch_secs` after 1970.
    pub fn new(epoch_secs: u64) -> Clock {
        Clock { now: SimTime::ZERO, calls_since_moved: 0, epoch_ns: epoch_secs * 1_000_000_000 }
    }
    /// The time since the simulation's start.
    pub fn now(&self) -> SimTime {
        self.now
    }
    /// `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME`: a host boots one hour before the simulation starts,
    /// since programs take a clock near zero for one that was never set.
    pub fn monotonic_ns(&self) -> u64 {
        BOOT_BEFORE_START_NS + self.now.as_nanos()
    }
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub fn realtime_ns(&self) -> u64 {
        self.epoch_ns + self.now.as_nanos()
    }
    /// The simulated time at which `CLOCK_MONOTONIC` shows `ns`.
    pub fn at_monotonic(&self, ns: u64) -> SimTime {
        SimTime::from_nanos(ns.saturating_sub(BOOT_BEFORE_START_NS))
    }
    /// The simulated time at which `CLOCK_REALTIME` shows `ns`.
    pub fn at_realtime(&self, ns: u64) -> SimTime {
        SimTime::from_nanos(ns.saturating_sub(self.epoch_ns))
    }
    /// Moves on to `to`; an earlier point is ignored.
    pub fn advance(&mut self, to: SimTime) {
        if to > self.now {
            self.now = to;
            self.calls_since_moved = 0;
        }
    }
    /// Accounts for a whole tick of native time that a program spent without a call: what an
    /// unmodified clock would have shown it.
    pub fn charge_preemption(&mut self) {
        self.now += PREEMPTION_TICK;
    }
    /// Accounts for one call or wake-up.
    pub fn charge(&mut self) {
        if self.calls_since_moved < FREE_CALLS {
            self.calls_since_moved += 1;
        } else {
            // The count stays: only an event that moves the clock makes calls free again.
            self.now += PENALTY;
        }
    }
}

const BOOT_BEFORE_START_NS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_costs_time_after_the_free_calls() {
        let mut clock = Clock::new(DEFAULT_EPOCH_SECS);
        (0..FREE_CALLS).for_each(|_| clock.charge());
        assert_eq!(clock.now(), SimTime::ZERO);
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 1_000);
        clock.advance(SimTime::from_nanos(5_000));
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 5_000);
    }
}
