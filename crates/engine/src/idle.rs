//! Idle workers: they spin briefly if they have cores to themselves, then sleep.

use crate::partition::{Apart, lock};
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::{self, Thread};

/// Maximum and minimum of spin iterations before a worker sleeps, about 20 us and 1 us. The number adapts to
/// the success of spinning.
const MOST_TURNS: u32 = 2_000;
const FEWEST_TURNS: u32 = 100;

/// State of the idle workers.
pub struct Idle {
    /// Incremented by each announcement. Idle workers look for work only after a change.
    version: Apart<AtomicU64>,
    asleep: Apart<AtomicUsize>,
    beds: Vec<Apart<Bed>>,
}

#[derive(Default)]
struct Bed {
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// Wait state of one worker.
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

    /// Registers the calling thread as worker `me`.
    pub fn enter(&self, me: usize) {
        *lock(&self.beds[me].0.thread) = Some(thread::current());
    }

    /// Version to pass to [`wait`](Self::wait), read before looking for work.
    pub fn version(&self) -> u64 {
        self.version.0.load(Acquire)
    }

    /// Makes awake workers look for work and wakes up to `wake` sleeping ones.
    pub fn announce(&self, wake: usize) {
        // Sequentially consistent with the two steps of a worker going to sleep: otherwise each could miss
        // the other's store.
        self.version.0.fetch_add(1, SeqCst);
        if self.asleep.0.load(SeqCst) == 0 {
            return;
        }
        // The sleeper count is no upper bound: it may not include a worker that has just marked its bed.
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

    /// Waits until the version differs from `seen`; spurious returns are possible.
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
