//! Event loop of a node: a stack, and an owner with timers and work of its own. A host with a kernel, a host
//! of traffic models and a bare stack run by the same loop.
//!
//! At one time, arrivals precede timers, and timers of stack and owner expire in the order of their creation.
//! Events precede the owner's work, and work precedes the next advance of the clock.

use crate::{Stack, TimerId, Turn};
use belljar_base::SimTime;

/// Node that the event loop runs.
pub trait EventLoop {
    /// Stack, which holds the node's clock.
    fn stack(&self) -> &Stack;
    /// Mutable stack.
    fn stack_mut(&mut self) -> &mut Stack;
    /// Identifier of the owner's next timer.
    fn next_own_timer(&self) -> Option<TimerId>;
    /// Fires the owner's next timer if it is due.
    fn fire_own_timer(&mut self);
    /// Performs one piece of the owner's work, which may move the clock. Returns false if there is none.
    /// Events at or after `limit` are not known yet.
    fn work(&mut self, limit: SimTime) -> bool;
    /// True if the loop must return before the limit.
    fn is_interrupted(&self) -> bool;
    /// Notifies the owner that an event begins.
    fn begin_event(&mut self, turn: Turn);
    /// Applies the stack's pending effects after an event.
    fn carry_out_effects(&mut self);

    /// Time of the next due event, not considering the owner's work.
    #[inline]
    fn next_due(&self) -> Option<SimTime> {
        let own = self.next_own_timer().map(TimerId::at);
        match (self.stack().next_due(), own) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Handles the earliest event, which is due.
    #[inline]
    fn fire_next(&mut self) {
        let turn = self.stack().next_turn(self.next_own_timer());
        self.begin_event(turn);
        match turn {
            Turn::Arrival => self.stack_mut().receive_arrival(),
            Turn::Timer => self.stack_mut().fire_timer(),
            Turn::Owner => self.fire_own_timer(),
        }
        self.carry_out_effects();
    }

    /// Handles all events strictly before `limit`, and the work between them.
    #[inline]
    fn run_events(&mut self, limit: SimTime) {
        while !self.is_interrupted() {
            let now = self.stack().clock.now();
            match self.next_due() {
                // Work may have moved the clock past the limit; later events cannot run yet, since messages
                // may be missing.
                Some(at) if at <= now && at < limit => self.fire_next(),
                _ if now >= limit => return,
                due => {
                    if self.work(limit) {
                        continue;
                    }
                    let clock = &mut self.stack_mut().clock;
                    match due {
                        _ if clock.is_yielding() => clock.stop_yielding(),
                        Some(at) if at < limit => clock.advance(at),
                        _ => return,
                    }
                }
            }
        }
    }
}

/// Stack without an owner.
impl EventLoop for Stack {
    fn stack(&self) -> &Stack {
        self
    }
    fn stack_mut(&mut self) -> &mut Stack {
        self
    }
    fn next_own_timer(&self) -> Option<TimerId> {
        None
    }
    fn fire_own_timer(&mut self) {}
    fn work(&mut self, _: SimTime) -> bool {
        false
    }
    fn is_interrupted(&self) -> bool {
        false
    }
    fn begin_event(&mut self, _: Turn) {}
    /// Effects stay queued: the device that holds the stack takes them.
    fn carry_out_effects(&mut self) {}
}
