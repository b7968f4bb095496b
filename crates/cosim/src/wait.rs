//! Waiting for a peer: with a processor of its own, it answers within a microsecond; without one, it needs ours.

use std::hint;
use std::thread;
use std::time::Duration;

/// Turns of spinning, some 3 us.
const SPINS: u32 = 100;
/// Then so many times a processor is offered to others.
const YIELDS: u32 = 200;
/// Then sleeps, from the first length up to the last.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const LAST_SLEEP: Duration = Duration::from_millis(1);

/// Sleeps for as long as something is to happen in another program that takes milliseconds; how long that is.
pub fn moment() -> Duration {
    const MOMENT: Duration = Duration::from_millis(5);
    thread::sleep(MOMENT);
    MOMENT
}

/// Back-off of a wait: the longer it has lasted, the longer each turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    turns: u32,
}

impl Backoff {
    /// There was progress.
    pub fn reset(&mut self) {
        self.turns = 0;
    }

    /// Waits a little, the longer the more often it is called without progress: spins first, then yields the processor,
    /// then sleeps. True if it is time to see whether the peer is still there.
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
