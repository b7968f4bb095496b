//! What running a unit costs, by which it is known whether it pays to wake another worker for some.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// Before anything was measured, and without a clock: hosts that pass on messages take so long.
const AT_FIRST_NS: u64 = 1_000;
/// A run that took longer was one of those that start programs, and counts as this.
const MOST_NS: u64 = 1_000_000;
/// One run in so many is measured.
pub const MEASURED: u32 = 64;
/// Part of a new measurement in the average.
const PART: u64 = 16;

/// Running average of what a run of a unit takes, in nanoseconds.
pub struct Cost(AtomicU64);

impl Cost {
    /// A microsecond.
    pub fn new() -> Cost {
        Cost(AtomicU64::new(AT_FIRST_NS))
    }
    /// One run took so long.
    pub fn learn(&self, ns: u64) {
        let old = self.0.load(Relaxed);
        // Of two workers that do this at once, one may be lost.
        self.0.store((old * (PART - 1) + ns.min(MOST_NS)) / PART, Relaxed);
    }
    /// What so many runs will take.
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
