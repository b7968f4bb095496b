//! Clock of the host: the only module that reads it.

use std::time::{Duration, Instant};

/// Time since the start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is a program of Linux, not simulation code")]
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    pub fn now(self) -> Duration {
        self.0.elapsed()
    }
}
