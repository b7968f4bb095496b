//! A token bucket as of Linux's `tbf`: packets leave at once as long as there are tokens, then at its rate.

use belljar_base::{SimDuration, SimTime};

/// Rate and size of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Bits per second, not 0.
    pub rate: u64,
    /// Bytes that may leave at once after a pause. A packet that is longer needs a full bucket.
    pub burst: u64,
}

/// Its level, counted in the time that it takes to fill: exact to a picosecond.
#[derive(Debug)]
pub(super) struct Bucket {
    config: TokenBucket,
    level: SimDuration,
    at: SimTime,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(config: TokenBucket, now: SimTime) -> Bucket {
        Bucket { config, level: full(config), at: now }
    }

    /// Its rate and size.
    pub(super) fn config(&self) -> TokenBucket {
        self.config
    }

    /// When, from `at` on, there are tokens for so many bytes.
    pub(super) fn ready(&self, at: SimTime, bytes: u64) -> SimTime {
        at + self.need(bytes).saturating_sub(self.level_at(at))
    }

    /// Takes the tokens for so many bytes, when they are there.
    pub(super) fn take(&mut self, at: SimTime, bytes: u64) {
        self.level = self.level_at(at).saturating_sub(self.need(bytes));
        self.at = at;
    }

    fn need(&self, bytes: u64) -> SimDuration {
        SimDuration::serialisation(bytes, self.config.rate).min(full(self.config))
    }

    fn level_at(&self, at: SimTime) -> SimDuration {
        (self.level + at.since(self.at)).min(full(self.config))
    }
}

fn full(config: TokenBucket) -> SimDuration {
    SimDuration::serialisation(config.burst, config.rate)
}
