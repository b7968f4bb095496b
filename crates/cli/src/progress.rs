//! The progress on standard error: simulated time, speed and the time left.
//!
//! Speed and the time left are those of the time in which the run goes on: during a pause neither changes. The time left
//! follows from the last [`RECENT`], since phases of a run differ.

use belljar_base::SimTime;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time that the run goes on from whose progress the time left is estimated.
const RECENT: Duration = Duration::from_secs(20);
/// Interval between the samples of that time.
const SAMPLED: Duration = Duration::from_millis(500);
/// Interval between lines of progress where there is no terminal.
const LINES: Duration = Duration::from_secs(10);

/// Mode of the display on standard error during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// Progress line and notes.
    Line,
    /// Lines of progress now and then, and notes.
    Lines,
    /// Notes only.
    Notes,
    /// Nothing: the live view displays both.
    Elsewhere,
}

/// Progress line, or a stand-in that displays only notes or nothing.
pub struct Progress {
    display: Display,
    bar: Option<ProgressBar>,
    stop: SimTime,
    pace: Mutex<Pace>,
}

impl Progress {
    /// Creates a progress line that is full at `stop`.
    pub fn new(display: Display, stop: SimTime) -> Progress {
        let bar = (display == Display::Line).then(|| {
            let style = ProgressStyle::with_template("{wide_bar} {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(stop.as_nanos() / 1_000).with_style(style)
        });
        Progress { display, bar, stop, pace: Mutex::new(Pace::new(now())) }
    }
    /// Updates the line with the committed time, and with the simulator that the experiment waits for most,
    /// with its share of the recent time.
    pub fn show(&self, committed: SimTime, is_paused: bool, waiting: Option<(&str, f64)>) {
        if !matches!(self.display, Display::Line | Display::Lines) {
            return;
        }
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.update(now(), committed, is_paused);
        if let Some(bar) = &self.bar {
            bar.set_position(committed.as_nanos() / 1_000);
            let waiting = waiting.map_or_else(String::new, |(name, share)| {
                format!(", waiting for {name} ({:.0} %)", 100.0 * share)
            });
            bar.set_message(format!("{}{waiting}", pace.text(self.stop)));
        } else if pace.last >= pace.next_line {
            pace.next_line = pace.last + LINES;
            crate::paint::info(&pace.text(self.stop));
        }
    }
    /// Prints a note above the line.
    pub fn note(&self, text: &str) {
        let print = || crate::paint::note(text);
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None if self.display != Display::Elsewhere => print(),
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

/// Speed of a run while it goes on.
struct Pace {
    last: Instant,
    /// Time of the next line where there is no terminal.
    next_line: Instant,
    /// Real time in which the run went on.
    running: Duration,
    committed: SimTime,
    is_paused: bool,
    /// Samples of the recent running and committed time, the oldest first.
    samples: VecDeque<(Duration, SimTime)>,
}

impl Pace {
    fn new(now: Instant) -> Pace {
        Pace {
            last: now,
            next_line: now + LINES,
            running: Duration::ZERO,
            committed: SimTime::ZERO,
            is_paused: false,
            samples: VecDeque::from([(Duration::ZERO, SimTime::ZERO)]),
        }
    }

    /// The run has reached `committed`. The time since the last call counts unless the run was paused then and is now.
    fn update(&mut self, now: Instant, committed: SimTime, is_paused: bool) {
        let passed = now.saturating_duration_since(self.last);
        self.last = now;
        if !(self.is_paused && is_paused) {
            self.running += passed;
        }
        (self.committed, self.is_paused) = (committed, is_paused);
        if self.samples.back().is_none_or(|(at, _)| self.running >= *at + SAMPLED) {
            self.samples.push_back((self.running, committed));
        }
        while self.samples.get(1).is_some_and(|(at, _)| *at + RECENT <= self.running) {
            self.samples.pop_front();
        }
    }

    /// Real time until the run reaches `stop`; `None` while nothing is committed.
    fn left(&self, stop: SimTime) -> Option<Duration> {
        let (since, from) = self.samples.front().copied().unwrap_or_default();
        let gained = self.committed.as_secs_f64() - from.as_secs_f64();
        let remaining = (stop.as_secs_f64() - self.committed.as_secs_f64()).max(0.0);
        let spent = self.running.saturating_sub(since).as_secs_f64();
        let seconds = remaining * spent / gained;
        (gained > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
    }

    fn text(&self, stop: SimTime) -> String {
        let committed = self.committed.as_secs_f64();
        if self.is_paused {
            return format!("paused at {committed:.3} s");
        }
        let speed = committed / self.running.as_secs_f64().max(1e-9);
        let left = self.left(stop).map_or(String::new(), |left| format!(", {} left", duration(left)));
        format!("{committed:.3} s of {} s simulated, {speed:.1}x{left}", stop.as_secs_f64())
    }
}

/// A duration in one or two units.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s} s"),
        (h, min, _) => format!("{h} h {min} min"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_changes_neither_speed_nor_the_time_left() {
        let (start, stop) = (now(), SimTime::from_secs(100));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(start);
        pace.update(at(10), SimTime::from_secs(20), false);
        assert_eq!(pace.text(stop), "20.000 s of 100 s simulated, 2.0x, 40 s left");
        // The run stops at 30 s and goes on an hour later.
        pace.update(at(15), SimTime::from_secs(30), true);
        pace.update(at(3_000), SimTime::from_secs(30), true);
        assert_eq!(pace.text(stop), "paused at 30.000 s");
        pace.update(at(3_615), SimTime::from_secs(30), true);
        pace.update(at(3_616), SimTime::from_secs(32), false);
        assert_eq!(pace.text(stop), "32.000 s of 100 s simulated, 2.0x, 34 s left");
    }

    #[test]
    fn the_time_left_follows_from_recent_progress() {
        let (start, stop) = (now(), SimTime::from_secs(1_000));
        let mut pace = Pace::new(start);
        assert_eq!(pace.text(stop), "0.000 s of 1000 s simulated, 0.0x");
        // A quick beginning is no promise for what follows.
        pace.update(start + Duration::from_secs(1), SimTime::from_secs(500), false);
        (2..40).for_each(|s| pace.update(start + Duration::from_secs(s), SimTime::from_secs(500 + s), false));
        assert_eq!(pace.left(stop), Some(Duration::from_secs(461)));
        assert_eq!(duration(Duration::from_secs(461)), "7 min 41 s");
        assert_eq!(duration(Duration::from_secs(7_300)), "2 h 1 min");
    }
}
