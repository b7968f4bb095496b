//! Pace of a client: the times of its actions.

use crate::{Draw, Network};
use belljar_base::SimTime;

/// Pace of a client: the number and times of its actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Number of actions; `None` for unlimited.
    pub count: Option<u64>,
    /// Time between actions, drawn in picoseconds.
    pub spacing: Spacing,
}

/// Reference point of the time between two actions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// From the end of an action to the start of the next: one action at a time.
    Pause(Draw),
    /// From start to start, independent of their duration: actions may overlap.
    Interval(Draw),
}

/// Token of the wake-up for the next action.
pub(crate) const NEXT: u64 = u64::MAX;

/// Counter of started and active actions.
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
    /// Records the start of an action.
    pub(crate) fn begin(&mut self, net: &mut dyn Network) {
        self.begun += 1;
        self.active += 1;
        if let Spacing::Interval(interval) = self.pace.spacing {
            self.schedule(interval, net);
        }
    }
    /// Records the end of an action.
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
