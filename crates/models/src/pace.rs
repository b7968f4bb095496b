//! Pace: the times of a client's actions.

use crate::{Draw, Network};
use belljar_base::SimTime;

/// Pace: number and times of a client's actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Number of actions; `None`: without end.
    pub count: Option<u64>,
    /// The time between them, in picoseconds.
    pub spacing: Spacing,
}

/// Origin of the time between two actions of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// From the end of one to the beginning of the next: there is one at a time.
    Pause(Draw),
    /// From beginning to beginning, however long they take: several may be under way.
    Interval(Draw),
}

/// The token of the wake-up at which the next one begins.
pub(crate) const NEXT: u64 = u64::MAX;

/// Counts what has been begun and what is under way.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    begun: u64,
    active: u64,
}

impl Pacer {
    pub(crate) fn new(pace: Pace) -> Pacer {
        Pacer { pace, begun: 0, active: 0 }
    }
    fn more(&self) -> bool {
        self.pace.count.is_none_or(|count| self.begun < count)
    }
    /// One begins.
    pub(crate) fn begin(&mut self, net: &mut dyn Network) {
        self.begun += 1;
        self.active += 1;
        if let Spacing::Interval(interval) = self.pace.spacing {
            self.schedule(interval, net);
        }
    }
    /// One has ended.
    pub(crate) fn end(&mut self, net: &mut dyn Network) {
        self.active -= 1;
        if let Spacing::Pause(pause) = self.pace.spacing {
            self.schedule(pause, net);
        }
    }
    fn schedule(&self, draw: Draw, net: &mut dyn Network) {
        if self.more() {
            let time = draw.next_time(net.random());
            let at: SimTime = net.now().saturating_add(time);
            net.wake_at(at, NEXT);
        }
    }
    pub(crate) fn is_finished(&self) -> bool {
        !self.more() && self.active == 0
    }
}
