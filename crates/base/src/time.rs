//! Simulated time in picoseconds, fine enough to represent the serialisation time of a packet at 100 Gbit/s
//! exactly. A `u64` covers 213 days.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

const PS_PER_NS: u64 = 1_000;
/// Ticks of Linux's clock per second (`CONFIG_HZ`), the resolution of times that Linux counts in jiffies.
pub const HZ: u64 = 250;
const NS_PER_JIFFY: u64 = 1_000_000_000 / HZ;
const PS_PER_SEC: u64 = 1_000_000_000_000;

/// Point in simulated time: picoseconds since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(u64);

/// Duration in simulated time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimDuration(u64);

impl SimTime {
    /// The start of the simulation.
    pub const ZERO: SimTime = SimTime(0);
    /// Maximum time, later than every event.
    pub const MAX: SimTime = SimTime(u64::MAX);

    /// The point `ps` picoseconds after the start.
    pub const fn from_picos(ps: u64) -> SimTime {
        SimTime(ps)
    }
    /// The point `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> SimTime {
        SimTime(ns.saturating_mul(PS_PER_NS))
    }
    /// The point `s` seconds after the start.
    pub const fn from_secs(s: u64) -> SimTime {
        SimTime(s.saturating_mul(PS_PER_SEC))
    }
    /// Picoseconds since the start.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds since the start, rounded down: what a guest sees.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// Whole ticks of Linux's clock since the start, [`HZ`] per second.
    pub const fn jiffies(self) -> u64 {
        self.as_nanos() / NS_PER_JIFFY
    }
    /// Seconds since the start, for display and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_SEC as f64
    }
    /// Duration since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: SimTime) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }
    /// `self + d`, or [`SimTime::MAX`].
    pub const fn saturating_add(self, d: SimDuration) -> SimTime {
        SimTime(self.0.saturating_add(d.0))
    }
}

impl SimDuration {
    /// Duration of zero.
    pub const ZERO: SimDuration = SimDuration(0);
    /// Maximum duration.
    pub const MAX: SimDuration = SimDuration(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_picos(ps: u64) -> SimDuration {
        SimDuration(ps)
    }
    /// `ns` nanoseconds.
    pub const fn from_nanos(ns: u64) -> SimDuration {
        SimDuration(ns.saturating_mul(PS_PER_NS))
    }
    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> SimDuration {
        SimDuration::from_nanos(us.saturating_mul(1_000))
    }
    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> SimDuration {
        SimDuration::from_nanos(ms.saturating_mul(1_000_000))
    }
    /// `s` seconds.
    pub const fn from_secs(s: u64) -> SimDuration {
        SimDuration(s.saturating_mul(PS_PER_SEC))
    }
    /// Time to transmit `bytes` at `bits_per_second` (not 0), rounded up.
    pub fn serialisation(bytes: u64, bits_per_second: u64) -> SimDuration {
        // A 128-bit division is a loop; up to 2 MB, 64 bits suffice.
        if let Some(product) = bytes.checked_mul(8 * PS_PER_SEC) {
            return SimDuration(product.div_ceil(bits_per_second));
        }
        let ps = (u128::from(bytes) * 8 * u128::from(PS_PER_SEC)).div_ceil(u128::from(bits_per_second));
        SimDuration(u64::try_from(ps).unwrap_or(u64::MAX))
    }
    /// Picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / (PS_PER_NS * 1_000)
    }
    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / (PS_PER_NS * 1_000_000)
    }
    /// Seconds, for display, statistics and congestion control's floating point.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_SEC as f64
    }
    /// `self * n`, or the maximum duration.
    pub const fn saturating_mul(self, n: u64) -> SimDuration {
        SimDuration(self.0.saturating_mul(n))
    }
    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: SimDuration) -> SimDuration {
        SimDuration(self.0.saturating_sub(other.0))
    }
    /// `self / n` for a non-zero `n`, rounded down.
    pub const fn div(self, n: u64) -> SimDuration {
        SimDuration(self.0 / n)
    }
    /// True if the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<SimDuration> for SimTime {
    type Output = SimTime;
    fn add(self, d: SimDuration) -> SimTime {
        self.saturating_add(d)
    }
}
impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, d: SimDuration) {
        *self = self.saturating_add(d);
    }
}
impl Sub<SimTime> for SimTime {
    type Output = SimDuration;
    fn sub(self, earlier: SimTime) -> SimDuration {
        self.since(earlier)
    }
}
impl Add for SimDuration {
    type Output = SimDuration;
    fn add(self, other: SimDuration) -> SimDuration {
        SimDuration(self.0.saturating_add(other.0))
    }
}
impl AddAssign for SimDuration {
    fn add_assign(&mut self, other: SimDuration) {
        *self = *self + other;
    }
}

/// Formats seconds with nine decimals, as in log lines and captures.
impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_nanos();
        write!(f, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}
impl fmt::Display for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_nanos();
        match ns {
            0..1_000 => write!(f, "{ns} ns"),
            1_000..1_000_000 => write!(f, "{} us", ns as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{} ms", ns as f64 / 1e6),
            _ => write!(f, "{} s", ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_does_not_round_at_100_gbit() {
        assert_eq!(SimDuration::serialisation(1, 100_000_000_000).as_picos(), 80);
        assert_eq!(SimDuration::serialisation(1500, 1_000_000_000).as_nanos(), 12_000);
        assert_eq!(SimDuration::serialisation(1, 3).as_picos(), 2_666_666_666_667);
    }

    #[test]
    fn display_is_seconds_with_nanoseconds() {
        assert_eq!(SimTime::from_picos(1_500_000_000_999).to_string(), "1.500000000");
        assert_eq!(SimDuration::from_millis(50).to_string(), "50 ms");
    }
}
