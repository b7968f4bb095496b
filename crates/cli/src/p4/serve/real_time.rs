//! The real clock, which the switch takes for its own.

use belljar_base::{SimDuration, SimTime};
use std::time::{Duration, Instant, SystemTime};

/// Time since the switch was started.
pub struct Clock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the switch runs in real time, between real interfaces")]
impl Clock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The present time.
    pub fn now(&self) -> SimTime {
        SimTime::ZERO + duration(self.start.elapsed())
    }

    /// Nanoseconds since 1970.
    pub fn epoch_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    }

    /// The time from now until a time.
    pub fn until(&self, time: SimTime) -> Duration {
        let picos = time.as_picos().saturating_sub(self.now().as_picos());
        // Rounded up: to wake early is to wake twice.
        Duration::from_nanos(picos.div_ceil(1_000))
    }
}

/// A real duration as the switch counts it.
pub fn duration(real: Duration) -> SimDuration {
    SimDuration::from_nanos(real.as_nanos() as u64)
}
