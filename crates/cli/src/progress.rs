//! The progress line on standard error: simulated time, speed and the time left.

use belljar_base::SimTime;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Mode of the display on standard error during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// Progress line and notes.
    Line,
    /// Notes only.
    Notes,
    /// Nothing: the live view displays both.
    Elsewhere,
}

/// Progress line, or a stand-in that displays only notes or nothing.
pub struct Progress {
    has_notes: bool,
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Progress {
    /// Creates a progress line that is full at `stop`.
    pub fn new(display: Display, stop: SimTime) -> Progress {
        let bar = (display == Display::Line).then(|| {
            let style = ProgressStyle::with_template("{wide_bar} {msg}, {eta} left");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(stop.as_nanos() / 1_000).with_style(style)
        });
        Progress { has_notes: display != Display::Elsewhere, bar, start: now() }
    }
    /// Updates the line with the committed time, and with the simulator that the experiment waits for most,
    /// with its share of the recent time.
    pub fn show(&self, committed: SimTime, waiting: Option<(&str, f64)>) {
        let Some(bar) = &self.bar else { return };
        let speed = committed.as_secs_f64() / self.start.elapsed().as_secs_f64().max(1e-9);
        bar.set_position(committed.as_nanos() / 1_000);
        let waiting = waiting.map_or_else(String::new, |(name, share)| {
            format!(", waiting for {name} ({:.0} %)", 100.0 * share)
        });
        bar.set_message(format!("{:.3} s simulated, {speed:.1}x{waiting}", committed.as_secs_f64()));
    }
    /// Prints a note above the line.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{}", crate::paint::message(&format!("note: {text}")))),
            None if self.has_notes => eprintln!("{}", crate::paint::message(&format!("note: {text}"))),
            None => {}
        }
    }
    /// Removes the line.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Reads the real clock. Only the command line may do so.
#[expect(clippy::disallowed_methods, reason = "progress and speed are shown in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Reads `CLOCK_MONOTONIC`, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
