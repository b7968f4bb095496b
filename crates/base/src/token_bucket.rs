//! Token bucket like Linux's `tbf`: packets leave immediately while there are tokens, then at the token rate.

use crate::{SimDuration, SimTime};

/// Rate and size of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Bits per second, not 0.
    pub rate: u64,
    /// Bucket size in bytes. A longer packet needs a full bucket.
    pub burst: u64,
}

/// Token bucket with its level, measured as the time to fill it: exact to a picosecond.
#[derive(Clone, Debug)]
pub struct Bucket {
    config: TokenBucket,
    level: SimDuration,
    /// Time at which `level` was valid. It is in the future while tokens are owed, and the level is 0 then.
    at: SimTime,
}

impl Bucket {
    /// A full bucket.
    pub fn new(config: TokenBucket, now: SimTime) -> Bucket {
        Bucket { config, level: full(config), at: now }
    }

    /// The bucket's rate and size.
    pub fn config(&self) -> TokenBucket {
        self.config
    }

    /// Earliest time from `at` on at which there are tokens for `bytes` bytes.
    pub fn ready(&self, at: SimTime, bytes: u64) -> SimTime {
        at.max(self.at) + self.need(bytes).saturating_sub(self.level_at(at))
    }

    /// Takes tokens for `bytes` bytes; missing tokens are owed.
    pub fn take(&mut self, at: SimTime, bytes: u64) {
        let (level, need) = (self.level_at(at), self.need(bytes));
        self.level = level.saturating_sub(need);
        self.at = at.max(self.at) + need.saturating_sub(level);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owed_tokens_come_first() {
        let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
        // One byte per microsecond.
        let mut bucket = Bucket::new(TokenBucket { rate: 8_000_000, burst: 100 }, at(0));
        bucket.take(at(0), 60);
        assert_eq!(bucket.ready(at(0), 60), at(20));
        bucket.take(at(0), 60);
        assert_eq!((bucket.ready(at(0), 10), bucket.ready(at(25), 10)), (at(30), at(30)));
        bucket.take(at(10), 10);
        assert_eq!((bucket.ready(at(0), 10), bucket.ready(at(200), 500)), (at(40), at(200)));
    }
}
