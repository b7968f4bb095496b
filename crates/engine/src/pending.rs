//! Units that wait for the clock of another simulator, and how workers wait with them.

use crate::partition::{Apart, lock};
use belljar_base::SimTime;
use std::collections::VecDeque;
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::thread;
use std::time::Duration;

/// A unit, and its next event when it was run last.
pub type Waiting = (u32, SimTime);

/// The pending units of a partition.
#[derive(Default)]
pub struct PendingUnits {
    count: Apart<AtomicUsize>,
    units: Mutex<VecDeque<Waiting>>,
}

impl PendingUnits {
    /// Leaves a unit for whoever has time; how many there are now.
    pub fn leave(&self, waiting: Waiting) -> usize {
        let mut units = lock(&self.units);
        units.push_back(waiting);
        self.count.0.store(units.len(), Release);
        units.len()
    }

    /// Takes the unit that has been waiting longest: it is the caller's to run.
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

/// Turns in which a worker spins, some tens of microseconds: a simulator with a processor of its own answers within them.
const SPINS: u32 = 200;
/// Then turns in which it sleeps for a moment. To yield would be to give the processor away for all of a time slice, some milliseconds,
/// if it is shared with a simulator that spins.
const NAPS: u32 = 400;
const NAP: Duration = Duration::from_micros(1);
/// Then turns in which it sleeps for longer, so that it leaves the processor alone; the longest of them.
const SLEEPS: u32 = 30;
const LONGEST: Duration = Duration::from_micros(500);
/// The first sleep of a worker that never spins; each in vain is followed by one of twice the length. Those that it waits for need some
/// tens of microseconds, and each time that it wakes one of them loses its processor.
const FIRST_SLEEP: Duration = Duration::from_micros(30);

/// What a turn costs at least, in some tens of nanoseconds: one in which a unit runs, one that spins, one that sleeps for a moment or longer.
const RUN_COST: u32 = 20;
const SPIN_COST: u32 = 1;
const NAP_COST: u32 = 1_000;
const SLEEP_COST: u32 = 5_000;
/// The cost of turns, some tens of milliseconds, after which a window is closed although units move on: simulators that take turns on few
/// processors make a window last for minutes.
const LONG: u32 = 1_000_000;

/// Back-off of a worker whose pending units make no progress.
#[derive(Default)]
pub struct PendingBackoff {
    turns: u32,
    /// The cost of all turns since no unit was pending.
    cost: u32,
    /// True if it never spins.
    sleeping: bool,
}

impl PendingBackoff {
    /// A back-off that spins first, unless it is `sleeping`.
    pub fn new(sleeping: bool) -> PendingBackoff {
        PendingBackoff { sleeping, ..PendingBackoff::default() }
    }

    /// One of them has moved.
    pub fn renew(&mut self) {
        self.turns = 0;
        self.cost = self.cost.saturating_add(RUN_COST);
    }

    /// True if turns have gone on for long without a time at which no unit was pending.
    pub fn is_long(&self) -> bool {
        self.cost >= LONG
    }

    /// No unit is pending.
    pub fn end(&mut self) {
        self.cost = 0;
    }

    /// Waits for a turn. False if that has been going on for some 10 ms, and when it has gone on as long again.
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
