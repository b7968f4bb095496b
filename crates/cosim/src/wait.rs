//! Waiting for a peer: one with a processor of its own responds within a microsecond; otherwise it needs this
//! process's.

use std::hint;
use std::thread;
use std::time::Duration;

/// Number of spins, some 3 us.
const SPINS: u32 = 100;
/// Number of yields after the spins.
const YIELDS: u32 = 200;
/// Sleeps after the yields, from the first duration up to the last.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const LAST_SLEEP: Duration = Duration::from_millis(1);

/// Sleeps for a few milliseconds, the time that an action of another program may take; returns the duration.
pub fn moment() -> Duration {
    const MOMENT: Duration = Duration::from_millis(5);
    thread::sleep(MOMENT);
    MOMENT
}

/// Back-off of a wait: each step takes longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    turns: u32,
}

impl Backoff {
    /// Records progress: the next wait is short again.
    pub fn reset(&mut self) {
        self.turns = 0;
    }

    /// Waits, longer with each call without progress: spins first, then yields the processor, then sleeps.
    /// True if it is time to check that the peer still exists.
    pub fn wait(&mut self) -> bool {
        self.turns = self.turns.saturating_add(1);
        match self.turns {
            ..=SPINS => hint::spin_loop(),
            turn if turn <= SPINS + YIELDS => thread::yield_now(),
            turn => {
                let doublings = (turn - SPINS - YIELDS).min(10) / 2;
                thread::sleep((FIRST_SLEEP * 2_u32.pow(doublings)).min(LAST_SLEEP));
                return true;
            }
        }
        self.turns == SPINS + YIELDS
    }
}
