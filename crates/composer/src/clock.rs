//! Clock of the host: the only module that reads it, and waits.

use std::time::{Duration, Instant};

/// Interval at which the ends of commands are noticed.
pub const NOTICE: Duration = Duration::from_millis(10);

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

    /// Prints a line with the time.
    pub fn log(self, text: &str) {
        println!("{:.3} s: {text}", self.now().as_secs_f64());
    }

    /// Waits until a time.
    pub fn until(self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.now()));
    }
}
