//! Profile of a run by windows, and estimates for other numbers of workers.

use crate::partition::{Apart, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Numbers of workers for [`Profile::estimates`].
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Costs of a run's windows. Times are CPU time in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Number of windows.
    pub windows: u64,
    /// Number of runs of units.
    pub runs: u64,
    /// Number of messages delivered.
    pub messages: u64,
    /// Time spent running units.
    pub run_ns: u64,
    /// Time spent delivering messages and determining due units.
    pub prepare_ns: u64,
    /// Critical path: the sum over all windows of the longest run of a unit.
    pub longest_ns: u64,
    /// Lower bounds by number of workers, summed over all windows.
    bounds_ns: [u64; WORKERS.len()],
}

/// Estimated duration of a run with a number of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of workers.
    pub workers: usize,
    /// Lower bound of any schedule: in each window the longest unit, or an even share of all work.
    pub at_least_ns: u64,
    /// Upper bound of the greedy schedule that the engine uses.
    pub at_most_ns: u64,
}

impl Profile {
    /// Estimates by number of workers, without the cost of synchronization, which depends on
    /// [`Profile::windows`].
    pub fn estimates(&self) -> impl Iterator<Item = Estimate> + '_ {
        let total = self.run_ns + self.prepare_ns;
        WORKERS.iter().zip(self.bounds_ns).map(move |(&workers, at_least_ns)| {
            // Graham's bound: an even share of everything, followed by the rest of the longest unit.
            let rest = self.longest_ns - self.longest_ns / workers as u64;
            Estimate { workers, at_least_ns, at_most_ns: total / workers as u64 + rest }
        })
    }
}

/// Recorder of a [`Profile`].
#[derive(Default)]
pub struct Recorder {
    run_ns: Apart<AtomicU64>,
    runs: AtomicU64,
    longest_ns: AtomicU64,
    prepare_ns: AtomicU64,
    messages: AtomicU64,
    total: Mutex<Profile>,
}

impl Recorder {
    /// Records the run of a unit.
    pub fn ran(&self, ns: u64) {
        self.run_ns.0.fetch_add(ns, Relaxed);
        self.runs.fetch_add(1, Relaxed);
        self.longest_ns.fetch_max(ns, Relaxed);
    }
    /// Records the preparation of a partition.
    pub fn prepared(&self, ns: u64, messages: usize) {
        self.prepare_ns.fetch_add(ns, Relaxed);
        self.messages.fetch_add(messages as u64, Relaxed);
    }
    /// Ends the record of a window.
    pub fn window_closed(&self) {
        let run = self.run_ns.0.swap(0, Relaxed);
        let prepare = self.prepare_ns.swap(0, Relaxed);
        let longest = self.longest_ns.swap(0, Relaxed);
        let total = &mut *lock(&self.total);
        total.windows += 1;
        total.runs += self.runs.swap(0, Relaxed);
        total.messages += self.messages.swap(0, Relaxed);
        total.run_ns += run;
        total.prepare_ns += prepare;
        total.longest_ns += longest;
        for (bound, workers) in total.bounds_ns.iter_mut().zip(WORKERS) {
            *bound += longest.max((run + prepare) / workers as u64);
        }
    }
    pub fn into_profile(self) -> Profile {
        self.window_closed();
        self.total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
