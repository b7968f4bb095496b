//! Cost of running a unit, by which workers decide whether to wake another one.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// Estimate before the first measurement and without a clock, in nanoseconds: that of hosts that forward
/// messages.
const AT_FIRST_NS: u64 = 1_000;
/// Upper bound of a measurement in nanoseconds; longer runs mostly start programs.
const MOST_NS: u64 = 1_000_000;
/// One run in this number is measured.
pub const MEASURED: u32 = 64;
/// Reciprocal of the weight of a new measurement in the average.
const PART: u64 = 16;

/// Moving average of the duration of a unit's run, in nanoseconds.
pub struct Cost(AtomicU64);

impl Cost {
    /// Creates the initial estimate.
    pub fn new() -> Cost {
        Cost(AtomicU64::new(AT_FIRST_NS))
    }
    /// Adds a measurement in nanoseconds.
    pub fn learn(&self, ns: u64) {
        let old = self.0.load(Relaxed);
        // An update may be lost between two workers.
        self.0.store((old * (PART - 1) + ns.min(MOST_NS)) / PART, Relaxed);
    }
    /// Estimated duration of `runs` runs in nanoseconds.
    pub fn of(&self, runs: usize) -> u64 {
        self.0.load(Relaxed).saturating_mul(runs as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_measured_but_for_outliers() {
        let cost = Cost::new();
        assert_eq!(cost.of(8), 8_000);
        (0..100).for_each(|_| cost.learn(50_000));
        assert!((49_000..=50_000).contains(&cost.of(1)));
        cost.learn(3_000_000_000);
        assert!(cost.of(1) < 120_000);
        (0..200).for_each(|_| cost.learn(0));
        assert!(cost.of(1) < 100);
    }
}
