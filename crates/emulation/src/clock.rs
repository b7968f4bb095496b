//! Clock of an emulation: the machine's clock since the beginning of the experiment, or a dilated one.

use crate::Clock;
use belljar_base::{SimDuration, SimTime};
use belljar_packetio::{TimeSource, Timestamp};
use belljar_platform::dilate::clock::{FULL_RATE, Pace};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Number of pieces of a clock that are kept: packets queued in the kernel carry time stamps of earlier
/// pieces.
const KEPT: usize = 256;

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Reads the wall clock, in nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Reads `CLOCK_BOOTTIME`: nanoseconds since the machine booted.
pub fn boot_ns() -> u64 {
    nanos(clock_gettime(ClockId::Boottime))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Clock of the time since the beginning of an experiment; it shows zero before the beginning. Clones share
/// their pieces.
#[derive(Clone, Debug)]
pub struct ExperimentClock {
    /// Pieces of constant rate, the current one last; never empty.
    pieces: Arc<RwLock<VecDeque<Pace>>>,
    /// Virtual time at which the experiment begins.
    begin: u64,
    /// Difference of wall-clock time and `CLOCK_MONOTONIC`, for the machine and the hosts.
    wall: u64,
}

impl ExperimentClock {
    /// Creates a clock at the machine's rate, or slower by the factor `tdf_milli` / 1000.
    pub fn new(tdf_milli: Option<u64>) -> ExperimentClock {
        let real = monotonic_ns();
        let rate = tdf_milli.map_or(FULL_RATE, Pace::rate_of);
        let pace = Pace { real, start: real, rate, limit: u64::MAX };
        ExperimentClock {
            pieces: Arc::new(RwLock::new(VecDeque::from([pace]))),
            begin: u64::MAX,
            wall: wall_ns() - monotonic_ns(),
        }
    }

    /// Returns this clock with a beginning: when `CLOCK_MONOTONIC` shows `real`.
    pub fn beginning_at(&self, real: u64) -> ExperimentClock {
        ExperimentClock { begin: self.pace().at(real), ..self.clone() }
    }

    /// Returns an independent clock with the current pace of this one.
    pub fn fork(&self) -> ExperimentClock {
        ExperimentClock { pieces: Arc::new(RwLock::new(VecDeque::from([self.pace()]))), ..self.clone() }
    }

    /// Returns this clock with the beginning of another one: all clocks of an experiment count from the
    /// same moment.
    pub fn beginning_with(&self, other: &ExperimentClock) -> ExperimentClock {
        ExperimentClock { begin: other.begin, ..self.clone() }
    }

    /// Current pace.
    pub fn pace(&self) -> Pace {
        self.piece(u64::MAX)
    }

    /// Piece in effect when `CLOCK_MONOTONIC` shows `real`; the oldest piece if that is earlier.
    fn piece(&self, real: u64) -> Pace {
        let pieces = self.pieces.read().unwrap_or_else(PoisonError::into_inner);
        *pieces.iter().rev().find(|pace| pace.real <= real).unwrap_or(&pieces[0])
    }

    /// Continues the clock with a new piece, which starts at the value that the clock has then.
    pub fn go_on(&self, pace: Pace) {
        let mut pieces = self.pieces.write().unwrap_or_else(PoisonError::into_inner);
        if pieces.len() >= KEPT {
            pieces.pop_front();
        }
        pieces.push_back(pace);
    }

    /// Virtual `CLOCK_MONOTONIC` at which the experiment begins.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Difference of wall-clock time and `CLOCK_MONOTONIC`.
    pub fn wall(&self) -> u64 {
        self.wall
    }

    /// Wall-clock time of the hosts at the beginning, in nanoseconds since 1970.
    pub fn wall_at_beginning(&self) -> u64 {
        self.begin + self.wall
    }

    /// Current experiment time.
    pub fn time(&self) -> SimTime {
        self.at(monotonic_ns())
    }

    /// Experiment time when `CLOCK_MONOTONIC` shows `ns`.
    pub fn at(&self, ns: u64) -> SimTime {
        SimTime::from_nanos(self.piece(ns).at(ns).saturating_sub(self.begin))
    }

    /// Experiment time when the machine's wall clock shows `ns`.
    pub fn at_wall(&self, ns: u64) -> SimTime {
        self.at(ns.saturating_sub(self.wall))
    }

    /// Real time that a span of experiment time takes.
    pub fn span(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(self.pace().real_span(span.as_nanos()))
    }
}

impl Clock for ExperimentClock {
    fn now(&self) -> SimTime {
        self.time()
    }
    fn real(&self, span: SimDuration) -> Duration {
        let pace = self.pace();
        // The clock stops at its limit before then, until the controller continues it.
        let stands = pace.limit != u64::MAX
            && !span.is_zero()
            && pace.at(monotonic_ns()).saturating_add(span.as_nanos()) > pace.limit;
        if stands { Duration::MAX } else { Duration::from_nanos(pace.real_span(span.as_nanos())) }
    }
    fn real_while_going(&self, span: SimDuration) -> Duration {
        self.span(span)
    }
    fn shown_at(&self, stamp: Timestamp) -> Option<SimTime> {
        // The machine's wall clock may have been adjusted since the beginning.
        let ago = wall_ns().saturating_sub(stamp.nanos);
        (stamp.source == TimeSource::Kernel).then(|| self.at(monotonic_ns().saturating_sub(ago)))
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

    #[test]
    fn a_clock_that_stood_has_the_times_of_all_its_pieces() {
        let clock = ExperimentClock::new(Some(1_000));
        let own = clock.fork();
        let first = clock.pace();
        let begin = first.real + 100;
        let own = own.beginning_with(&clock.beginning_at(begin));
        // The clock runs for 1 us, is stopped for 9, and continues at half the rate.
        own.go_on(Pace { limit: begin + 1_000, ..first });
        let second =
            Pace { real: begin + 10_000, start: begin + 1_000, rate: Pace::rate_of(2_000), limit: u64::MAX };
        own.go_on(second);
        let at = |real: u64| own.at(begin + real).as_nanos();
        assert_eq!(
            [at(0), at(500), at(1_000), at(5_000), at(10_000), at(12_000)],
            [0, 500, 1_000, 1_000, 1_000, 2_000]
        );
        assert_eq!(clock.pace(), first, "a fork is a clock of its own");
    }

    #[test]
    fn nobody_waits_by_a_clock_that_stands() {
        let clock = ExperimentClock::new(Some(1_000));
        clock.go_on(Pace { limit: clock.pace().start + 10_000_000_000, ..clock.pace() });
        assert_eq!(Clock::real(&clock, SimDuration::from_secs(5)), Duration::from_secs(5));
        assert_eq!(Clock::real(&clock, SimDuration::from_secs(11)), Duration::MAX);
        assert_eq!(clock.real_while_going(SimDuration::from_secs(11)), Duration::from_secs(11));
        assert_eq!(Clock::real(&clock, SimDuration::ZERO), Duration::ZERO);
    }
}
