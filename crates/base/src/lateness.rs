//! Statistics of lateness.

use crate::SimDuration;

/// Buckets per octave.
const PARTS: u64 = 8;
/// Base-2 logarithm of the buckets per octave.
const PART_BITS: u32 = PARTS.ilog2();
/// Number of buckets: the index of the last one, plus one.
const BUCKETS: usize = bucket(u64::MAX) + 1;

/// Histogram of lateness in nanoseconds, with eight buckets per power of two.
#[derive(Clone, Debug)]
pub struct Lateness {
    /// Counts by [`bucket`].
    buckets: [u64; BUCKETS],
    count: u64,
    sum: u128,
    max: SimDuration,
}

/// Bucket of a value in nanoseconds. Values below [`PARTS`] have a bucket each.
const fn bucket(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let shift = ns.ilog2() - PART_BITS;
    ((shift as u64 + 1) * PARTS + (ns >> shift) - PARTS) as usize
}

/// Maximum value of a bucket in nanoseconds.
const fn greatest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (shift, part) = (bucket / PARTS - 1, bucket % PARTS);
    ((PARTS + part) << shift) + ((1 << shift) - 1)
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { buckets: [0; BUCKETS], count: 0, sum: 0, max: SimDuration::ZERO }
    }
}

impl Lateness {
    /// Adds a value.
    pub fn add(&mut self, late: SimDuration) {
        self.buckets[bucket(late.as_nanos())] += 1;
        self.count += 1;
        self.sum += u128::from(late.as_nanos());
        self.max = self.max.max(late);
    }

    /// Adds the values of another histogram.
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

    /// Maximum value.
    pub fn max(&self) -> SimDuration {
        self.max
    }

    /// Mean value; zero without values.
    pub fn mean(&self) -> SimDuration {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        SimDuration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Upper bound of the `q`-quantile (0 to 1): at most an eighth above it, and never above the maximum
    /// value.
    pub fn quantile(&self, q: f64) -> SimDuration {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return SimDuration::from_nanos(greatest(bucket))
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
    fn quantiles_bound_their_share_within_an_eighth() {
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
            assert!((least..=least * 9 / 8).contains(&bound), "{q}: {bound}");
        }
        assert_eq!(lateness.quantile(1.0), SimDuration::from_nanos(1000));
        assert_eq!(
            (lateness.max().as_nanos(), lateness.mean().as_nanos(), lateness.count()),
            (1000, 500, 1000)
        );
    }

    #[test]
    fn each_value_is_in_a_bucket_that_ends_an_eighth_above_it_at_most() {
        let values = (0..64)
            .flat_map(|bit| [0, 1, 3, 7].map(|more| (1u64 << bit).saturating_add((1 << bit) / 8 * more)));
        for ns in values.chain([u64::MAX]) {
            let end = greatest(bucket(ns));
            assert!((ns..=ns.saturating_add(ns / 8)).contains(&end), "{ns}: {end}");
            assert!(bucket(ns) == 0 || greatest(bucket(ns) - 1) < ns);
        }
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
