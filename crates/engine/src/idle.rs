//! Idle workers: waiting for each other, a moment spinning if they have cores to themselves, then asleep.

use crate::partition::{Apart, lock};
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::{self, Thread};

/// The most and the fewest turns of spinning before a worker sleeps: some 20 us and 1 us. Which of
/// them depends on how well spinning has paid off.
const MOST_TURNS: u32 = 2_000;
const FEWEST_TURNS: u32 = 100;

/// Where workers without work are.
pub struct Idle {
    /// Changes with each announcement. Workers look for work only after one.
    version: Apart<AtomicU64>,
    asleep: Apart<AtomicUsize>,
    beds: Vec<Apart<Bed>>,
}

#[derive(Default)]
struct Bed {
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// State of one worker's waiting.
pub struct Patience {
    turns: u32,
    spinning: bool,
}

impl Patience {
    pub fn new(spinning: bool) -> Patience {
        Patience { turns: FEWEST_TURNS, spinning }
    }
}

impl Idle {
    pub fn new(workers: usize) -> Idle {
        let beds = (0..workers).map(|_| Apart::default()).collect();
        Idle { version: Apart::default(), asleep: Apart::default(), beds }
    }

    /// The calling thread is worker `me`.
    pub fn enter(&self, me: usize) {
        *lock(&self.beds[me].0.thread) = Some(thread::current());
    }

    /// Value that [`wait`](Self::wait) compares with; to be read before looking for work.
    pub fn version(&self) -> u64 {
        self.version.0.load(Acquire)
    }

    /// Makes workers that are awake look for work and wakes up to `wake` of the others.
    pub fn announce(&self, wake: usize) {
        // In one order with a sleeper's own two steps, or both could miss the other's.
        self.version.0.fetch_add(1, SeqCst);
        if self.asleep.0.load(SeqCst) == 0 {
            return;
        }
        // The number of sleepers is no bound: a bed may be taken whose worker is not counted yet.
        let mut left = wake;
        for bed in &self.beds {
            if left == 0 {
                return;
            }
            if bed.0.asleep.load(Relaxed) && bed.0.asleep.swap(false, AcqRel) {
                left -= 1;
                if let Some(thread) = &*lock(&bed.0.thread) {
                    thread.unpark();
                }
            }
        }
    }

    /// Returns once the version is no longer `seen`, or now and then before.
    pub fn wait(&self, me: usize, seen: u64, patience: &mut Patience) {
        if patience.spinning {
            for _ in 0..patience.turns {
                if self.version() != seen {
                    patience.turns = (patience.turns * 2).min(MOST_TURNS);
                    return;
                }
                hint::spin_loop();
            }
            patience.turns = (patience.turns / 2).max(FEWEST_TURNS);
        }
        let bed = &self.beds[me].0;
        bed.asleep.store(true, SeqCst);
        self.asleep.0.fetch_add(1, SeqCst);
        while bed.asleep.load(Acquire) && self.version.0.load(SeqCst) == seen {
            thread::park();
        }
        bed.asleep.store(false, Release);
        self.asleep.0.fetch_sub(1, SeqCst);
    }
}
