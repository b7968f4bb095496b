//! The clock of an emulation: this machine's, from the moment at which the experiment begins.

use crate::Clock;
use belljar_base::{SimDuration, SimTime};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Real time since a beginning, which may lie ahead: until then it is zero.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    begin_ns: u64,
}

impl RealClock {
    /// A clock that begins when `CLOCK_MONOTONIC` shows `begin_ns`.
    pub fn from(begin_ns: u64) -> RealClock {
        RealClock { begin_ns }
    }

    /// The time of the experiment.
    pub fn time(&self) -> SimTime {
        self.at(monotonic_ns())
    }

    /// The time of the experiment when `CLOCK_MONOTONIC` shows `ns`.
    pub fn at(&self, ns: u64) -> SimTime {
        SimTime::from_nanos(ns.saturating_sub(self.begin_ns))
    }
}

impl Clock for RealClock {
    fn now(&mut self) -> SimTime {
        self.time()
    }
    fn real(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(span.as_nanos())
    }
}
