//! Units that wait for the clock of another simulator, and the back-off of workers that wait with them.

use crate::partition::{Apart, lock};
use belljar_base::SimTime;
use std::collections::VecDeque;
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

/// Unit with its next event time after the last run.
pub type Waiting = (u32, SimTime);

/// Pending units of a partition.
#[derive(Default)]
pub struct PendingUnits {
    count: Apart<AtomicUsize>,
    units: Mutex<VecDeque<Waiting>>,
}

impl PendingUnits {
    /// Queues a unit for any worker; returns the new number of units.
    pub fn leave(&self, waiting: Waiting) -> usize {
        let mut units = lock(&self.units);
        units.push_back(waiting);
        self.count.0.store(units.len(), Release);
        units.len()
    }

    /// Takes the unit that has waited longest, which the caller runs.
    pub fn take(&self) -> Option<Waiting> {
        if self.count.0.load(Acquire) == 0 {
            return None;
        }
        let mut units = lock(&self.units);
        let first = units.pop_front();
        self.count.0.store(units.len(), Release);
        first
    }
}

/// Turns in which a worker spins, some tens of microseconds in total: within that time, a simulator with its
/// own processor responds.
const SPINS: u32 = 200;
/// Subsequent turns with a short sleep. Yielding instead could give the processor away for a whole time slice
/// of some milliseconds if a spinning simulator shares it.
const NAPS: u32 = 400;
const NAP: Duration = Duration::from_micros(1);
/// Subsequent turns with a longer sleep, which leaves the processor alone, and the maximum length.
const SLEEPS: u32 = 30;
const LONGEST: Duration = Duration::from_micros(500);
/// First sleep of a worker that never spins; after each one without progress the length doubles. The other
/// simulators need some tens of microseconds, and each wake-up of the worker costs one of them its processor.
const FIRST_SLEEP: Duration = Duration::from_micros(30);

/// Minimum cost of a turn, in units of some tens of nanoseconds: a turn that runs a unit, that spins, with a
/// short sleep, with a longer sleep.
const RUN_COST: u32 = 20;
const SPIN_COST: u32 = 1;
const NAP_COST: u32 = 1_000;
const SLEEP_COST: u32 = 5_000;
/// Cost of turns, some tens of milliseconds, after which a window is closed although units make progress:
/// simulators that share few processors would extend a window to minutes.
const LONG: u32 = 1_000_000;

/// Back-off of a worker whose pending units make no progress.
#[derive(Default)]
pub struct PendingBackoff {
    turns: u32,
    /// Cost of all turns since no unit was pending.
    cost: u32,
    /// True if the worker never spins.
    sleeping: bool,
}

impl PendingBackoff {
    /// Creates a back-off that spins first, unless it is `sleeping`.
    pub fn new(sleeping: bool) -> PendingBackoff {
        PendingBackoff { sleeping, ..PendingBackoff::default() }
    }

    /// Restarts the back-off because a unit has advanced.
    pub fn renew(&mut self) {
        self.turns = 0;
        self.cost = self.cost.saturating_add(RUN_COST);
    }

    /// True if the cost since no unit was pending exceeds the limit.
    pub fn is_long(&self) -> bool {
        self.cost >= LONG
    }

    /// Resets the cost because no unit is pending.
    pub fn end(&mut self) {
        self.cost = 0;
    }

    /// Waits for a turn. False after about 10 ms of waiting, and again after each further 10 ms.
    pub fn wait(&mut self) -> bool {
        self.turns += 1;
        match self.turns {
            turn if self.sleeping => {
                self.cost = self.cost.saturating_add(SLEEP_COST);
                if turn > SLEEPS {
                    self.turns = 0;
                    return false;
                }
                thread::park_timeout(LONGEST.min(FIRST_SLEEP * 2_u32.pow(turn.min(10) - 1)));
            }
            ..=SPINS => {
                self.cost = self.cost.saturating_add(SPIN_COST);
                hint::spin_loop();
            }
            turn if turn <= SPINS + NAPS => {
                self.cost = self.cost.saturating_add(NAP_COST);
                thread::park_timeout(NAP);
            }
            turn => {
                self.cost = self.cost.saturating_add(SLEEP_COST);
                let slept = turn - SPINS - NAPS;
                if slept > SLEEPS {
                    self.turns = SPINS + NAPS;
                    return false;
                }
                thread::park_timeout(LONGEST.min(Duration::from_micros(20) * slept));
            }
        }
        true
    }
}
