//! A host's clock and the rule that time must not stand still.
//!
//! Computation is free by default, so a program that waits for time to pass by asking for it would
//! wait for ever. Therefore the first [`FREE_CALLS`] calls and wake-ups since the clock last moved
//! are free and each further one costs [`PENALTY`].

use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::c;

/// Calls and wake-ups that are free since the clock last moved.
pub const FREE_CALLS: u32 = 1_000;
/// What each further one costs.
pub const PENALTY: SimDuration = SimDuration::from_micros(1);

/// What simulated time computation takes besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// What each call and wake-up takes, if it takes anything.
    pub calls: Option<CallLatency>,
    /// What a program that never calls pays each time it is preempted.
    pub preemption: SimDuration,
}

impl Default for CpuModel {
    fn default() -> CpuModel {
        CpuModel { calls: None, preemption: SimDuration::from_millis(10) }
    }
}

/// Shadow's `model_unblocked_syscall_latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLatency {
    /// A system call.
    pub syscall: SimDuration,
    /// One that Linux answers in the vDSO.
    pub vdso: SimDuration,
    /// The clock stands still until more than this has added up.
    pub max_unapplied: SimDuration,
}

/// 2000-01-01 00:00:00 UTC in seconds since 1970: where Shadow's clock starts, and ours.
pub const DEFAULT_EPOCH_SECS: u64 = 946_684_800;

/// One host's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    now: SimTime,
    calls_since_moved: u32,
    epoch_ns: u64,
    cpu: CpuModel,
    unapplied: SimDuration,
}

impl Clock {
    /// A clock at the start of the simulation, which is `epoch_secs` after 1970.
    pub fn new(epoch_secs: u64, cpu: CpuModel) -> Clock {
        let epoch_ns = epoch_secs * 1_000_000_000;
        Clock { now: SimTime::ZERO, calls_since_moved: 0, epoch_ns, cpu, unapplied: SimDuration::ZERO }
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
        self.now += self.cpu.preemption;
    }
    /// Accounts for a system call, or for continuing it.
    pub fn charge_call(&mut self, number: u32) {
        let Some(latency) = self.cpu.calls else { return self.charge() };
        let in_vdso = [c::SYS_clock_gettime, c::SYS_gettimeofday, c::SYS_time, c::SYS_getcpu];
        let in_vdso = in_vdso.contains(&i64::from(number));
        self.unapplied += if in_vdso { latency.vdso } else { latency.syscall };
        if self.unapplied > latency.max_unapplied {
            self.now += std::mem::take(&mut self.unapplied);
        }
        // Were all latencies zero, time could stand still after all.
        if latency.syscall.is_zero() || (in_vdso && latency.vdso.is_zero()) {
            self.charge();
        }
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
        let mut clock = Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default());
        (0..FREE_CALLS).for_each(|_| clock.charge());
        assert_eq!(clock.now(), SimTime::ZERO);
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 1_000);
        clock.advance(SimTime::from_nanos(5_000));
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 5_000);
    }

    #[test]
    fn modelled_calls_take_their_latency_once_enough_has_added_up() {
        let calls = Some(CallLatency {
            syscall: SimDuration::from_nanos(400),
            vdso: SimDuration::from_nanos(10),
            max_unapplied: SimDuration::from_micros(1),
        });
        let mut clock = Clock::new(DEFAULT_EPOCH_SECS, CpuModel { calls, ..CpuModel::default() });
        let mut after = |number: i64| {
            clock.charge_call(number as u32);
            clock.now().as_nanos()
        };
        assert_eq!([after(c::SYS_read), after(c::SYS_read)], [0, 0]);
        assert_eq!(after(c::SYS_clock_gettime), 0);
        assert_eq!(after(c::SYS_read), 1_210);
        assert_eq!((0..100).map(|_| after(c::SYS_clock_gettime)).last(), Some(1_210));
        assert_eq!(after(c::SYS_clock_gettime), 2_220);
    }
}
