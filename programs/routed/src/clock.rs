//! The daemon's clock: the one place that reads a real one.

use belljar_routing::Time;
use std::time::{Duration, Instant};

/// Time since the daemon began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is a daemon of Linux, not simulation code")]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }
    pub fn now(self) -> Time {
        Time::ZERO + self.0.elapsed()
    }
    /// The span until `time`; zero if it is past.
    pub fn until(self, time: Time) -> Duration {
        time.since(self.now())
    }
}
