//! `--tdf auto`: adaptation of the time dilation factor to the load of the machine. The factor is raised
//! when the machine runs short of processor time, and lowered when there is slack.
//!
//! The machine is short when one of these holds:
//!
//! - A P4 switch or a line is busy almost all of the time, or all of them together use almost all
//!   processors. (Programs of hosts do not count: they may use every processor at every factor.) This
//!   criterion preserves the rates of experiments whose flows adapt to the available capacity: TCP slows
//!   down before any frame is late.
//! - Lines deliver frames late: their mean lateness, or the share of late frames, is more than is harmless.
//! - A node waited for a processor that it would have had on a machine of its own.
//!
//! The latter two quantify the shortage, whether the experiment or another user of the machine causes the
//! load.
//!
//! Slack is the absence of all three, with a margin. A flow increases its demand by one round trip at a
//! time, so slack must last for some time of the experiment, of which little passes per window at high
//! factors. Below the last factor that was too low, each step down waits for some windows; their number
//! doubles when the step was too low and halves when it was not, because programs that a shortage has
//! slowed, such as TCP after a loss, take time to demand their share again. Without frames the factor is
//! lowered slowly: most idle networks have not started yet.

use belljar_base::SimDuration;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Least number of frames in a window for its lateness to count.
const FEW: u64 = 20;
/// Highest factor, in thousandths.
const MOST: u64 = 500_000;
/// Shares of its time for which a node may lack a processor: above the first the factor is raised, below
/// the second it may be lowered.
const SHORT: f64 = 0.10;
const HARDLY_SHORT: f64 = 0.04;
/// Share of frames that may be later than is harmless: half of the share that makes a run doubtful.
const HARMED: f64 = 0.005;
/// Fraction of the harmless lateness below which there is slack.
const MARGIN: f64 = 0.5;
/// Busy shares of a switch or a line: above the first the factor is raised so as to reach the third, below
/// the second it may be lowered.
const BUSY: f64 = 0.85;
const HARDLY_BUSY: f64 = 0.5;
const WELL_BUSY: f64 = 0.7;
/// Bounds of the ratio of a step up, and of a step down; a step down has its first bound when hardly
/// anything is busy.
const STEP_UP: (f64, f64) = (1.25, 2.0);
const STEP_DOWN: (f64, f64) = (0.5, 0.8);
/// Windows with slack before a step down, with frames and without.
const PATIENCE: u32 = 4;
const IDLE_PATIENCE: u32 = 20;
/// Experiment time with slack before a step down: at least this duration, and this number of longest round
/// trips.
const SLACK: SimDuration = SimDuration::from_millis(100);
const SLACK_TRIPS: u64 = 2;
/// Consecutive windows with late frames, or with a node short of a processor, before that criterion alone
/// raises the factor; a single disturbance of the machine does not.
const LATE_PATIENCE: u32 = 2;
/// Windows that are ignored after the machine stalled, and the least number of windows between two such
/// stalls: a machine that stalls more often is short.
const HELD: u32 = 2;
const HELD_APART: u32 = 20;
/// Weight of the latest window in the moving average.
const WEIGHT: f64 = 0.4;
/// Windows before a step down to a factor that was too low: initially, and at most.
const MEMORY: (u32, u32) = (40, 1_000);

/// Number of frames, sum of their lateness in nanoseconds, and number of frames later than is harmless.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    frames: u64,
    ns: u64,
    harmed: u64,
}

impl Late {
    /// Counts a frame; a lateness up to `harmless` is harmless.
    pub fn add(&mut self, late: SimDuration, harmless: SimDuration) {
        self.frames += 1;
        self.ns = self.ns.saturating_add(late.as_nanos());
        self.harmed += u64::from(late > harmless);
    }

    /// Sum of both counts.
    pub fn with(self, other: Late) -> Late {
        let Late { frames, ns, harmed } = other;
        Late { frames: self.frames + frames, ns: self.ns.saturating_add(ns), harmed: self.harmed + harmed }
    }

    /// Counts of `frames` frames with a mean lateness of `mean` nanoseconds, `harmed` of them later than is
    /// harmless.
    #[cfg(test)]
    pub fn of(frames: u64, mean: f64, harmed: u64) -> Late {
        Late { frames, ns: (frames as f64 * mean) as u64, harmed }
    }

    /// Mean lateness in nanoseconds.
    fn mean(self) -> f64 {
        self.ns as f64 / self.frames.max(1) as f64
    }
}

/// Lateness of all lines since the last [`take`](Pressure::take).
#[derive(Debug, Default)]
pub struct Pressure {
    late_ns: AtomicU64,
    harmed: AtomicU64,
    frames: AtomicU64,
}

impl Pressure {
    /// Adds the growth of a line's counts since `seen`, which is updated.
    pub fn grow(&self, seen: &mut Late, now: Late) {
        if now.frames > seen.frames {
            self.frames.fetch_add(now.frames - seen.frames, Relaxed);
            self.late_ns.fetch_add(now.ns - seen.ns, Relaxed);
            self.harmed.fetch_add(now.harmed - seen.harmed, Relaxed);
            *seen = now;
        }
    }

    /// Takes the counts since the last call.
    pub fn take(&self) -> Late {
        let taken = |count: &AtomicU64| count.swap(0, Relaxed);
        Late { frames: taken(&self.frames), ns: taken(&self.late_ns), harmed: taken(&self.harmed) }
    }
}

/// Measurements of one window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Frames and their lateness.
    pub late: Late,
    /// Largest share of its time for which a node lacked a processor.
    pub short: f64,
    /// Busy share: the largest of any switch or line, or their joint share of all processors, whichever is
    /// greater.
    pub busy: f64,
    /// Experiment time that has passed.
    pub passed: SimDuration,
    /// True if the window was much longer than planned: the machine gave this process no processor.
    pub is_held: bool,
}

/// Adapter of the factor of a run. *After each window* call [`decide`](Adapter::decide).
#[derive(Debug)]
pub struct Adapter {
    tdf_milli: u64,
    /// Harmless mean lateness, in nanoseconds.
    limit: f64,
    /// Consecutive windows with slack, and the experiment time in them.
    slack: u32,
    slack_time: SimDuration,
    /// Shortest slack that counts.
    least_slack: SimDuration,
    /// Consecutive windows with late frames, and with a node short of a processor.
    late: u32,
    short: u32,
    /// Windows since the machine last stalled.
    calm: u32,
    /// Moving average of the busy share.
    busy: f64,
    /// Last factor that was too low, in thousandths.
    too_low: u64,
    /// Windows until a factor near or below `too_low` may be tried.
    wait: u32,
    /// Windows that the next such trial waits for.
    memory: u32,
    /// True if the last step down was such a trial.
    tried: bool,
}

impl Adapter {
    /// Returns an adapter that starts with a factor; `limit` is the harmless mean lateness in nanoseconds,
    /// `trip` the longest round trip.
    pub fn new(tdf_milli: u64, limit: f64, trip: SimDuration) -> Adapter {
        Adapter {
            tdf_milli,
            limit,
            slack: 0,
            slack_time: SimDuration::ZERO,
            least_slack: SLACK.max(trip.saturating_mul(SLACK_TRIPS)),
            late: 0,
            short: 0,
            calm: HELD_APART,
            busy: 0.0,
            too_low: 0,
            wait: 0,
            memory: MEMORY.0,
            tried: false,
        }
    }

    /// Highest factor that counts as near the one that was too low.
    fn low(&self) -> u64 {
        (self.too_low as f64 * STEP_UP.0) as u64
    }

    /// Evaluates a window; returns the new factor in thousandths if it changes.
    pub fn decide(&mut self, window: Window) -> Option<u64> {
        let Window { late, short, busy, passed, is_held } = window;
        let frames = late.frames;
        self.calm = if is_held && self.calm >= HELD_APART { 0 } else { self.calm.saturating_add(1) };
        if self.calm < HELD {
            (self.late, self.short) = (0, 0);
            return None;
        }
        self.wait = self.wait.saturating_sub(1);
        // Doubling the factor quarters the share of such frames.
        let share = late.harmed as f64 / frames.max(1) as f64 / HARMED;
        let late = if frames >= FEW { (late.mean() / self.limit).max(share.sqrt()) } else { 0.0 };
        self.late = if late > 1.0 { self.late + 1 } else { 0 };
        self.short = if short > SHORT { self.short + 1 } else { 0 };
        // The kernel accounts a wait when it ends: it may have begun before the window, and exceed it.
        let busy = busy.min(1.0);
        self.busy = self.busy.mul_add(1.0 - WEIGHT, busy * WEIGHT);
        let (is_late, is_short) = (self.late >= LATE_PATIENCE, self.short >= LATE_PATIENCE);
        let old = self.tdf_milli;
        let new = if is_late || is_short || busy.min(self.busy) > BUSY {
            (self.slack, self.slack_time, self.late, self.short) = (0, SimDuration::ZERO, 0, 0);
            let tried = std::mem::take(&mut self.tried);
            self.memory = if tried { (self.memory * 2).min(MEMORY.1) } else { MEMORY.0.max(self.memory) };
            (self.too_low, self.wait) = (old, self.memory);
            let late = if is_late { late } else { 0.0 };
            let short = if is_short { short } else { 0.0 };
            let step = late.max(1.0 + short).max(busy / WELL_BUSY).clamp(STEP_UP.0, STEP_UP.1);
            ((old as f64 * step) as u64).min(MOST)
        } else if late < MARGIN && short < HARDLY_SHORT && self.busy < HARDLY_BUSY {
            self.slack += 1;
            self.slack_time += passed;
            let has_frames = frames >= FEW;
            if self.slack < if has_frames { PATIENCE } else { IDLE_PATIENCE }
                || has_frames && self.slack_time < self.least_slack
            {
                return None;
            }
            (self.slack, self.slack_time) = (0, SimDuration::ZERO);
            let step = if has_frames { self.busy / WELL_BUSY } else { STEP_DOWN.1 };
            let new = ((old as f64 * step.clamp(STEP_DOWN.0, STEP_DOWN.1)) as u64).max(1_000);
            if new <= self.low() {
                if self.wait > 0 {
                    return None;
                }
                if std::mem::replace(&mut self.tried, true) {
                    // The last trial sufficed: the load has fallen, and the next trial may come sooner.
                    self.too_low = (new as f64 / STEP_UP.0) as u64;
                    self.memory = (self.memory / 2).clamp(PATIENCE, MEMORY.0);
                }
                self.wait = self.memory;
            }
            new
        } else {
            (self.slack, self.slack_time) = (0, SimDuration::ZERO);
            return None;
        };
        self.busy *= old as f64 / new as f64;
        self.tdf_milli = new;
        (new != old).then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starting_at(tdf_milli: u64, limit: f64) -> Adapter {
        Adapter::new(tdf_milli, limit, SimDuration::ZERO)
    }

    /// Experiment time of a window of 100 ms.
    fn passed(tdf_milli: u64) -> SimDuration {
        SimDuration::from_nanos(100_000_000_000 / tdf_milli)
    }

    /// Window of a machine that just suffices at a factor of `need`.
    fn window(tdf_milli: u64, need: f64) -> Window {
        let load = need * 1e3 / tdf_milli as f64;
        let late = if load > 1.0 { 1e6 * load } else { 2e4 * load };
        let late = Late::of(1_000, late, 0);
        let short = (load - 1.0).clamp(0.0, 1.0);
        Window { late, short, busy: 0.0, passed: passed(tdf_milli), is_held: false }
    }

    fn run(adapter: &mut Adapter, need: f64, windows: usize) -> Vec<f64> {
        let step = |_| {
            let window = window(adapter.tdf_milli, need);
            adapter.decide(window);
            adapter.tdf_milli as f64 / 1e3
        };
        (0..windows).map(step).collect()
    }

    #[test]
    fn it_settles_above_what_is_needed_and_comes_down_again() {
        let mut adapter = starting_at(1_000, 1e5);
        let factors = run(&mut adapter, 7.0, 2_000);
        let enough = factors.iter().filter(|tdf| (7.0..14.0).contains(*tdf)).count();
        assert!(enough > 1_950, "{enough}");
        // The longer it runs, the more seldom a lower factor is tried.
        let tried = |part: &[f64]| part.windows(2).filter(|pair| pair[1] > pair[0]).count();
        assert!(tried(&factors[1_000..]) <= 5 && tried(&factors[..100]) <= 8);
        let low = run(&mut adapter, 0.3, 4_000);
        assert_eq!(low.last(), Some(&1.0));
    }

    #[test]
    fn the_same_windows_give_the_same_factors() {
        let factors = || run(&mut starting_at(2_500, 1e5), 5.5, 500);
        assert_eq!(factors(), factors());
    }

    #[test]
    fn a_machine_without_work_is_not_slowed() {
        let mut adapter = starting_at(1_000, 1e5);
        for _ in 0..100 {
            assert_eq!(
                adapter.decide(Window {
                    late: Late::of(3, 9e9, 3),
                    short: 0.05,
                    busy: 0.1,
                    passed: passed(1_000),
                    is_held: false,
                }),
                None
            );
        }
    }

    #[test]
    fn a_node_without_a_processor_raises_it_though_frames_are_in_time() {
        let mut adapter = starting_at(2_000, 1e5);
        let window = Window {
            late: Late::of(1_000, 0.0, 0),
            short: 0.5,
            busy: 0.0,
            passed: passed(2_000),
            is_held: false,
        };
        assert_eq!(adapter.decide(window), None, "it may have been a moment that was stolen");
        assert_eq!(adapter.decide(window), Some(3_000));
    }

    #[test]
    fn too_many_late_frames_raise_it_though_the_mean_is_small() {
        // Frames are late by 10 us, and some by a period in which other processes have the processors.
        let mut adapter = starting_at(1_000, 2.5e5);
        let mut step = || {
            let harmed = 30_000 / (adapter.tdf_milli * adapter.tdf_milli / 1_000_000);
            let (late, passed) = (Late::of(1_000_000, 1e4, harmed), passed(adapter.tdf_milli));
            adapter.decide(Window { late, short: 0.0, busy: 0.2, passed, is_held: false });
            adapter.tdf_milli as f64 / 1e3
        };
        let factors: Vec<f64> = (0..1_000).map(|_| step()).collect();
        assert!(factors[20..].iter().all(|tdf| (2.4..=5.0).contains(tdf)), "{factors:?}");
    }

    #[test]
    fn a_switch_without_a_moment_to_spare_raises_it_though_nothing_is_late() {
        // Flows that use the available capacity: no frame is late, and the switch is as busy as the factor
        // permits.
        let mut adapter = starting_at(8_000, 1e5);
        let mut step = |need: f64| {
            let busy = (need * 1e3 / adapter.tdf_milli as f64).min(1.0);
            let passed = passed(adapter.tdf_milli);
            adapter.decide(Window {
                late: Late::of(1_000, 1e3, 0),
                short: 0.0,
                busy,
                passed,
                is_held: false,
            });
            adapter.tdf_milli as f64 / 1e3
        };
        let factors: Vec<f64> = (0..1_000).map(|_| step(6.0)).collect();
        assert!(factors[20..].iter().all(|tdf| (6.0 / BUSY..6.0 / HARDLY_BUSY).contains(tdf)), "{factors:?}");
        let steps = factors[20..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(steps <= 2, "it stays: {factors:?}");
        let low: Vec<f64> = (0..1_000).map(|_| step(1.0)).collect();
        assert!((1.0 / BUSY..=1.0 / HARDLY_BUSY).contains(low.last().unwrap()), "it comes down: {low:?}");
    }

    #[test]
    fn slack_of_less_than_some_round_trips_is_none() {
        let mut adapter = starting_at(20_000, 1e5);
        let slack = Window {
            late: Late::of(1_000, 0.0, 0),
            short: 0.0,
            busy: 0.3,
            passed: passed(20_000),
            is_held: false,
        };
        assert!((0..19).all(|_| adapter.decide(slack).is_none()));
        assert_eq!(adapter.decide(slack), Some(10_000));
        let mut adapter = Adapter::new(20_000, 1e5, SimDuration::from_millis(500));
        assert!((0..199).all(|_| adapter.decide(slack).is_none()), "a second");
        assert_eq!(adapter.decide(slack), Some(10_000));
    }

    #[test]
    fn a_moment_that_was_stolen_and_a_network_that_is_idle_change_little() {
        let mut adapter = starting_at(8_000, 1e5);
        let passed = passed(8_000);
        let window = |mean, frames, busy| {
            let late = Late::of(frames, mean, 0);
            Window { late, short: 0.0, busy, passed, is_held: false }
        };
        assert_eq!(adapter.decide(window(1e7, 1_000, 0.6)), None);
        assert_eq!(adapter.decide(window(1e3, 1_000, 0.6)), None);
        for short in [0.9, 0.0, 0.7, 0.0] {
            assert_eq!(adapter.decide(Window { short, ..window(1e3, 1_000, 0.6) }), None);
        }
        // A single stall of the machine is ignored; frequent stalls count as shortage.
        let held = Window { short: 0.9, is_held: true, ..window(1e7, 1_000, 1.0) };
        assert_eq!([held, Window { is_held: false, ..held }].map(|window| adapter.decide(window)), [None; 2]);
        let mut always = starting_at(8_000, 1e5);
        assert!((0..5).any(|_| always.decide(held).is_some()));
        let idle = window(0.0, 0, 0.0);
        let changes = (0..60).filter(|_| adapter.decide(idle).is_some()).count();
        assert!(changes <= 3, "{changes}");
    }
}
