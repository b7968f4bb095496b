//! Where the time of a run goes, window by window, and what more workers would make of it.

use crate::partition::{Apart, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The numbers of workers that [`Profile::estimates`] is for.
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Costs of the windows of a run. Times are CPU time in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Windows.
    pub windows: u64,
    /// Number of times that a unit was run.
    pub runs: u64,
    /// Messages handed over.
    pub messages: u64,
    /// Time in which units ran.
    pub run_ns: u64,
    /// Time in which messages were handed over and due units were found.
    pub prepare_ns: u64,
    /// The critical path: the sum over all windows of the unit that took longest.
    pub longest_ns: u64,
    /// The sum over all windows of the time that so many workers need at least.
    bounds_ns: [u64; WORKERS.len()],
}

/// Estimate of a run by a number of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of workers.
    pub workers: usize,
    /// No schedule is faster: in each window the longest unit, or an even share of all work.
    pub at_least_ns: u64,
    /// The greedy schedule that the engine uses is never slower.
    pub at_most_ns: u64,
}

impl Profile {
    /// Estimates for different numbers of workers, without what it costs to meet: see
    /// [`Profile::windows`].
    pub fn estimates(&self) -> impl Iterator<Item = Estimate> + '_ {
        let total = self.run_ns + self.prepare_ns;
        WORKERS.iter().zip(self.bounds_ns).map(move |(&workers, at_least_ns)| {
            // Graham: an even share of everything, and the rest of the longest unit after it.
            let rest = self.longest_ns - self.longest_ns / workers as u64;
            Estimate { workers, at_least_ns, at_most_ns: total / workers as u64 + rest }
        })
    }
}

/// Collects a [`Profile`].
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
    /// A unit has run.
    pub fn ran(&self, ns: u64) {
        self.run_ns.0.fetch_add(ns, Relaxed);
        self.runs.fetch_add(1, Relaxed);
        self.longest_ns.fetch_max(ns, Relaxed);
    }
    /// A partition was prepared.
    pub fn prepared(&self, ns: u64, messages: usize) {
        self.prepare_ns.fetch_add(ns, Relaxed);
        self.messages.fetch_add(messages as u64, Relaxed);
    }
    /// All of a window has been reported.
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
