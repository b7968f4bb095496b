//! The progress line on standard error: simulated time, speed and the time left.

use belljar_base::SimTime;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;

/// Ways in which a run is shown on standard error while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// A progress line, and notes.
    Line,
    /// Notes alone.
    Notes,
    /// Nothing: something else shows both.
    Elsewhere,
}

/// A progress line, or nothing where it is not wanted.
pub struct Progress {
    has_notes: bool,
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Progress {
    /// A line that is full at `stop`.
    pub fn new(display: Display, stop: SimTime) -> Progress {
        let bar = (display == Display::Line).then(|| {
            let style = ProgressStyle::with_template("{wide_bar} {msg}, {eta} left");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(stop.as_nanos() / 1_000).with_style(style)
        });
        Progress { has_notes: display != Display::Elsewhere, bar, start: now() }
    }
    /// Shows how far the simulation has come, and the simulator that it has waited for in this share of the last seconds.
    pub fn show(&self, committed: SimTime, waiting: Option<(&str, f64)>) {
        let Some(bar) = &self.bar else { return };
        let speed = committed.as_secs_f64() / self.start.elapsed().as_secs_f64().max(1e-9);
        bar.set_position(committed.as_nanos() / 1_000);
        let waiting = waiting.map_or_else(String::new, |(name, share)| {
            format!(", waiting for {name} ({:.0} %)", 100.0 * share)
        });
        bar.set_message(format!("{:.3} s simulated, {speed:.1}x{waiting}", committed.as_secs_f64()));
    }
    /// Says something that stays.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("note: {text}")),
            None if self.has_notes => eprintln!("note: {text}"),
            None => {}
        }
    }
    /// Takes the line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The real clock, which only the command line may read.
#[expect(clippy::disallowed_methods, reason = "progress and speed are shown in real time")]
pub fn now() -> Instant {
    Instant::now()
}
