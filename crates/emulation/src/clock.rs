//! The clock of an emulation: this machine's, from the moment at which the experiment begins, or a slower one.

use crate::Clock;
use belljar_base::{SimDuration, SimTime};
use belljar_platform::dilate::clock::{FULL_RATE, Pace};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Nanoseconds since the machine started.
pub fn boot_ns() -> u64 {
    nanos(clock_gettime(ClockId::Boottime))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time since the beginning of an experiment, which may lie ahead: until then it is zero. All copies are one clock.
#[derive(Clone, Debug)]
pub struct ExperimentClock {
    pace: Arc<RwLock<Pace>>,
    /// The virtual time at which the experiment begins.
    begin: u64,
    /// Wall-clock time less `CLOCK_MONOTONIC`: of the machine, and of the hosts as well.
    wall: u64,
}

impl ExperimentClock {
    /// A clock that goes as the machine's, or `tdf_milli` thousandths as slowly.
    pub fn new(tdf_milli: Option<u64>) -> ExperimentClock {
        let real = monotonic_ns();
        let rate = tdf_milli.map_or(FULL_RATE, Pace::rate_of);
        let pace = Pace { real, start: real, rate, limit: u64::MAX };
        ExperimentClock {
            pace: Arc::new(RwLock::new(pace)),
            begin: u64::MAX,
            wall: wall_ns() - monotonic_ns(),
        }
    }

    /// The same clock with a beginning: when `CLOCK_MONOTONIC` shows `real`.
    pub fn beginning_at(&self, real: u64) -> ExperimentClock {
        ExperimentClock { begin: self.pace().at(real), ..self.clone() }
    }

    /// How it goes now.
    pub fn pace(&self) -> Pace {
        *self.pace.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wall-clock time less `CLOCK_MONOTONIC`.
    pub fn wall(&self) -> u64 {
        self.wall
    }

    /// The hosts' wall clock at the beginning, in nanoseconds since 1970.
    pub fn wall_at_beginning(&self) -> u64 {
        self.begin + self.wall
    }

    /// The time of the experiment.
    pub fn time(&self) -> SimTime {
        self.at(monotonic_ns())
    }

    /// The time of the experiment when `CLOCK_MONOTONIC` shows `ns`.
    pub fn at(&self, ns: u64) -> SimTime {
        SimTime::from_nanos(self.pace().at(ns).saturating_sub(self.begin))
    }

    /// The time of the experiment when the machine's wall clock shows `ns`.
    pub fn at_wall(&self, ns: u64) -> SimTime {
        self.at(ns.saturating_sub(self.wall))
    }

    /// The real time that a span of it takes.
    pub fn span(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(self.pace().real_span(span.as_nanos()))
    }
}

impl Clock for ExperimentClock {
    fn now(&mut self) -> SimTime {
        self.time()
    }
    fn real(&self, span: SimDuration) -> Duration {
        self.span(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_clock_shows_less_and_takes_longer() {
        let clock = ExperimentClock::new(Some(10_000));
        let begin = clock.pace().real + 1_000_000;
        let clock = clock.beginning_at(begin);
        assert_eq!(clock.at(begin - 500), SimTime::ZERO);
        assert_eq!(clock.at(begin + 50_000).as_nanos(), 5_000);
        assert_eq!(clock.at_wall(begin + clock.wall() + 50_000).as_nanos(), 5_000);
        assert_eq!(clock.span(SimDuration::from_micros(3)), Duration::from_micros(30));
    }
}
