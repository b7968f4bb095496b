//! Points on the caller's time line, in nanoseconds.

use belljar_base::SimTime;
use std::ops::Add;
use std::time::Duration;

/// A point in time: nanoseconds since an epoch chosen by the caller. In a daemon that is its start, in a
/// simulation the simulation's start; a `u64` of nanoseconds covers 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Time = Time(0);
    /// A time later than every event.
    pub const MAX: Time = Time(u64::MAX);

    /// The point `ns` nanoseconds after the epoch.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }
    /// The point `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Time {
        Time(ms.saturating_mul(1_000_000))
    }
    /// The point `s` seconds after the epoch.
    pub const fn from_secs(s: u64) -> Time {
        Time(s.saturating_mul(1_000_000_000))
    }
    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The duration since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl From<SimTime> for Time {
    fn from(time: SimTime) -> Time {
        Time(time.as_nanos())
    }
}
