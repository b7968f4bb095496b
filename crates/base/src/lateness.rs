//! Statistics of how late things were done.

use crate::SimDuration;

/// A histogram of lateness, by powers of two of a nanosecond.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Number `i` counts values below 2^i ns that no earlier one does.
    buckets: [u64; 64],
    count: u64,
    sum: u128,
    max: SimDuration,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { buckets: [0; 64], count: 0, sum: 0, max: SimDuration::ZERO }
    }
}

impl Lateness {
    /// Counts a value.
    pub fn add(&mut self, late: SimDuration) {
        let bits = u64::BITS - late.as_nanos().leading_zeros();
        self.buckets[(bits as usize).min(63)] += 1;
        self.count += 1;
        self.sum += u128::from(late.as_nanos());
        self.max = self.max.max(late);
    }

    /// Counts the values of another histogram.
    pub fn merge(&mut self, other: &Lateness) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, part)| *sum += part);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest value.
    pub fn max(&self) -> SimDuration {
        self.max
    }

    /// The mean; zero of no values.
    pub fn mean(&self) -> SimDuration {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        SimDuration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// A bound that a share of `q` (0 to 1) of the values does not exceed: at most twice the least such bound, and
    /// never more than the greatest value.
    pub fn quantile(&self, q: f64) -> SimDuration {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return SimDuration::from_nanos((1u64 << i) - 1)
                    .max(SimDuration::from_picos(999))
                    .min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_bound_their_share_within_a_factor_of_two() {
        let mut lateness = Lateness::default();
        assert_eq!(
            (lateness.mean(), lateness.quantile(0.5), lateness.count()),
            (SimDuration::ZERO, SimDuration::ZERO, 0)
        );
        for ns in 1..=1000 {
            lateness.add(SimDuration::from_nanos(ns));
        }
        for (q, least) in [(0.5, 500), (0.9, 900), (0.01, 10)] {
            let bound = lateness.quantile(q).as_nanos();
            assert!((least..2 * least).contains(&bound), "{q}: {bound}");
        }
        assert_eq!(lateness.quantile(1.0), SimDuration::from_nanos(1000));
        assert_eq!(
            (lateness.max().as_nanos(), lateness.mean().as_nanos(), lateness.count()),
            (1000, 500, 1000)
        );
    }

    #[test]
    fn extremes_are_counted() {
        let mut lateness = Lateness::default();
        lateness.add(SimDuration::ZERO);
        assert_eq!(lateness.quantile(1.0), SimDuration::ZERO);
        lateness.add(SimDuration::MAX);
        assert_eq!(lateness.max(), SimDuration::MAX);
        assert_eq!(lateness.quantile(0.5), SimDuration::from_picos(999));
    }
}
