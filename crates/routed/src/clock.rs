//! Clock of the daemon: the only module that reads a real clock.

use belljar_routing::Time;
use std::time::{Duration, Instant};

/// Time since the start of the daemon.
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
    /// The duration until `time`; zero if it has passed.
    pub fn until(self, time: Time) -> Duration {
        time.since(self.now())
    }
}
