//! Signals: those that are pending and what a process does with each, and the timers that send them.

mod state;
mod timers;

pub use state::*;
pub use timers::*;
